#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# speedscope, unmodified from npm, in Debian's Chromium opens what `ascribe export` writes, pprof
# and folded. Needs the network once; the package stays in build/others.
set -u
build=$(realpath "${BUILD:-build}")
modules=$build/others/speedscope
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$dir"' EXIT
command -v npm >/dev/null && command -v chromium >/dev/null || {
	echo "speedscope.sh: no npm or no chromium"
	exit 77
}
mkdir -p "$modules"
if [ ! -d "$modules/node_modules/speedscope" ]; then
	(cd "$modules" && npm install --no-audit --no-fund speedscope@1.25.0 >npm.log 2>&1) ||
		{ echo "speedscope.sh: npm cannot install the package"; exit 77; }
fi
cp -r "$modules/node_modules/speedscope/dist/release/." "$dir" && cd "$dir" || exit 1
"$build/tests/mkstore" store >truth.json || exit 1
"$build/ascribe" export store --format pprof -o cpu.pb.gz 2>/dev/null &&
	"$build/ascribe" export store --format folded -o cpu.txt 2>/dev/null || exit 1
head -c 2000 /dev/urandom >garbage.pb.gz
python3 -u -c 'import http.server as h
s = h.ThreadingHTTPServer(("127.0.0.1", 0), type("Quiet", (h.SimpleHTTPRequestHandler,), {"log_message": lambda *a: None}))
print(s.server_port, flush=True); s.serve_forever()' >port &
server=$!
within 30 [ -s port ]
failed=0
opened() { # file: what the page's toolbar says once a profile is shown
	local at
	at=http://127.0.0.1:$(cat port)
	timeout 90 chromium --headless=new --no-sandbox --disable-gpu \
		--user-data-dir="$dir/profile" --virtual-time-budget=10000 --dump-dom \
		"$at/index.html#profileURL=$at/$1" >dom 2>/dev/null
	grep -q "Sandwich</div></div>$1<" dom
}
for f in cpu.pb.gz cpu.txt; do
	if opened $f; then echo "ok    $f"; else echo "FAIL  $f"; failed=1; fi
done
if opened garbage.pb.gz; then echo "FAIL  garbage was opened, too"; failed=1; fi
exit $failed
