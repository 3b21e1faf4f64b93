#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# JavaScript without options, for the Node that is here and, in make test-all, two more:
# interpreted, baseline and optimized code, closures, classes and async functions, against what the
# program says that it did.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"
[ "$(uname -m)" = x86_64 ] || skip "only x86-64 code is walked"

command -v node >/dev/null || skip "no node"
nodes() { realpath "$(command -v node)"; }
if [ -n "${ASCRIBE_TEST_ALL:-}" ]; then # Node 22 and 24 come from npm
	top=$here/../..
	NODE_MODULES=$top/build/npm/node/node_modules
	nodes() { realpath -qe "$(command -v node)" "$NODE_MODULES"/*/bin/node | sort -u; }
	if [ ! -f "$NODE_MODULES/.fetched" ] ||
		[ "$top/tests/tools/node/package-lock.json" -nt "$NODE_MODULES/.fetched" ]; then
		(cd "$top" && CI= tools/fetch-npm tests/tools/node build/npm/node "Node 22 and 24")
	fi
	[ "$(nodes | wc -l)" -gt 1 ] || bad "Node 22 and 24 of npm are not there"
fi

# The bodies are too long to be inlined: a function that is inlined has no frame.
body=$(for _ in $(seq 40); do echo 'x = (Math.imul(x, 1664525) + 1013904223) | 0; x ^= x >>> 7;'; done)
cat >truth.js <<JS
'use strict';
const clock = () => { const u = process.cpuUsage(); return u.user + u.system; };
const cpu = [0, 0];
let sink = 0, kept = [];
const makeThree = (factor) => function three(n) {
	let x = n | 0;
	for (let i = 0; i < factor * n; i++) {
$body
	}
	return x;
};
class Other {
	one(n) {
		let x = n | 0;
		for (let i = 0; i < n; i++) {
$body
		}
		return x;
	}
}
class Walk {
	down(depth, n, f) {
		if (n < 0) {
			let x = n | 0;
$body
			sink ^= x;
		}
		return depth ? this.down(depth - 1, n, f) + 1 : f(n);
	}
}
async function work(ms, depth, n) {
	const walk = new Walk(), other = new Other(), three = makeThree(3), one = other.one;
	for (const end = clock() + ms * 1000; clock() < end;) {
		const a = clock();
		sink += walk.down(depth, n, three);
		const b = clock();
		sink += walk.down(depth, n, one);
		cpu[1] += clock() - b;
		cpu[0] += b - a;
		kept.push({ a, b, text: String(a) }); // something for the garbage collector
		if (kept.length > 1000) kept = [];
		if (globalThis.gc) gc();
		await null;
	}
}
work(+process.argv[2], +process.argv[3], +process.argv[4]).then(() => console.log(cpu[0] / (cpu[0] + cpu[1])));
JS
three_at=$(grep -n 'function three' truth.js | cut -d: -f1)

# What a recording says: judge FOLDED DEPTH SHARE. All of its samples count.
cat >judge.py <<'PY'
least, tolerance = .8, .01

def sample_of(names):
    named = not any(f in ('[node]', '[anon]', '[unknown]') or
                    f.startswith('Builtins_Interpreter') for f in names)
    what = 'three' if 'three' in names else 'one' if 'one' in names else None
    return (named, what, names.count('down') == depth + 1 and names.count('work') == 1 and
            names.index('work') < names.index('down'))
PY
truth() { # what, iterations, command...
	local what=$1 n=$2
	shift 2
	rm -rf v8
	ok "$what: recorded" "$ascribe" record -q -F 499 -o v8 -- "$@" truth.js 6000 24 "$n"
	"$ascribe" export v8 --format folded >v8.folded 2>/dev/null
	ok "$what" judge v8.folded 24 "$(tail -1 ok.out)"
	ok "$what" rooted v8 97
}
has_option() { "$1" --v8-options | grep -q -- "^ *$2 "; }

for node in $(nodes); do
	version=$("$node" --version)
	slow=(--no-opt) # not the optimizing compilers
	! has_option "$node" --maglev || slow+=(--no-maglev)
	truth "$version" 20000 "$node"
	"$ascribe" export v8 --format pprof -o v8.pb.gz 2>/dev/null
	! command -v go >/dev/null ||
		ok "$version: where it stands" grep -q "three $dir/truth.js:$three_at" <(
			go tool pprof -raw v8.pb.gz 2>/dev/null)
	truth "$version, interpreted" 500 "$node" --jitless
	truth "$version, baseline" 2000 "$node" "${slow[@]}" --always-sparkplug
	! has_option "$node" --maglev || truth "$version, maglev" 20000 "$node" --maglev --no-opt
done

# ---- stripped; and of a version that is not known, by the name of one number ----
mkdir other
node=$(nodes | head -1)
if command -v strip >/dev/null && strip -o other/node "$node"; then
	truth "stripped" 20000 other/node
fi
sed 's/v8dbg_class_Script__name__/v8dbg_class_Script__nome__/' "$node" >other/node
chmod +x other/node
rm -rf v8
ok "unknown: recorded" "$ascribe" record -F 499 -o v8 -- other/node truth.js 1000 24 20000
cp ok.err said
ok "unknown: it is said" grep 'V8 of an unknown version.*Script__name__' said
ok "unknown: in stat" grep -x 'V8 without v8dbg_class_Script__name__  *1' <(
	"$ascribe" stat v8 2>/dev/null)
ok "unknown" rooted v8 97
background other/node -e 'setTimeout(() => 0, 60000)' >/dev/null
sleep 1
ok "unknown: in check" grep "^note  Node .*[( ]${pid}[,)].*Script__name__.*--perf-basic-prof" <(
	"$ascribe" check 2>&1)
kill "$pid" 2>/dev/null
finish
