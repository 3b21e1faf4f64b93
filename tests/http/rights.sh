#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The rights of a daemon's processes: `ascribe check` against what python reads, and both against
# the table of docs/security.md. Processes with more rights than the table has are told. As root.
. "$(dirname "$0")/lib.bash"
needs_recording
command -v setpriv >/dev/null || skip "no setpriv"
cat >a.yaml <<Y
store: $dir/store
listen: [unix:$dir/sock]
debuginfod: [http://127.0.0.1:1]
debuginfod-cache: $dir/cache
push: [{url: "http://127.0.0.1:1"}]
postgres: "host=$dir user=nobody"
Y

# Print the processes below a daemon, in the words of `check`, and what the table lacks.
cat >read.py <<'PY'
import os, re, subprocess, sys, time
daemon, doc = int(sys.argv[1]), sys.argv[2]
names = [l.split()[1][4:] for l in open('/usr/include/linux/capability.h')
         if re.match(r'#define CAP_[A-Z_]+\s+\d+', l)]
rows = {}
for line in open(doc):
    cells = [c.strip() for c in line.strip().strip('|').split(' | ')]
    if line.startswith('| `ascribe'):
        rows.setdefault(line.split('`')[1][:15], cells)  # the first one is the daemon's
def status(pid): return dict(l.rstrip('\n').split(':', 1) for l in open(f'/proc/{pid}/status'))
def children(pid):
    for task in subprocess.run(['ps', '-o', 'pid=', '--ppid', str(pid)], capture_output=True, text=True).stdout.split():
        yield int(task)
        yield from children(int(task))
def caps(mask): return {n for i, n in enumerate(names) if int(mask, 16) >> i & 1}
def limit(pid, what):  # the hard one
    line = re.search(rf'^Max {what} +\S+ +(\S+)', open(f'/proc/{pid}/limits').read(), re.M)
    return float('inf') if line[1] == 'unlimited' else int(line[1])
kept = [p for p in children(daemon) if status(p)['Name'].strip() == 'ascribe-keeper']
has_setuid = 'SETUID' in caps(status(kept[0])['CapPrm'])
kinds = set()
def look(pid, tries=10):
    s = status(pid)
    name, users, have = s['Name'].strip(), set(s['Uid'].split()), caps(s['CapPrm'])
    row = rows[name]
    wrong = [have - set(row[2].split(', ')), users - {row[1].split(',')[0]} if row[1][0].isdigit() and has_setuid
             else users - {'0'}, s['NoNewPrivs'].strip() != '1', (row[3] != 'any') != (s['Seccomp'].strip() == '2')]
    for key in ('CapEff', 'CapInh', 'CapAmb'): wrong.append(caps(s[key]) - have)
    for text, what in (('core 0', 'core file size'), ('processes 0', 'processes'), ('file size 0', 'file size')):
        wrong.append(text in row[5] and limit(pid, what) != 0)
    m = re.search(r'descriptors (\d+)', row[5])
    wrong.append(bool(m) and limit(pid, 'open files') > int(m[1]))
    wrong.append('memory' in row[5] and limit(pid, 'data size') == float('inf'))
    if any(wrong) and tries:  # it gives its rights up in steps, and waits for a CPU between them
        time.sleep(.2)
        return look(pid, tries - 1)
    if any(wrong): print('WRONG', name, pid, wrong, row, file=sys.stderr)
    caps_text = ' '.join('CAP_' + n for n in names if n in have) or 'no capability'
    print(f"{name} {pid}: user {s['Uid'].split()[1]}, {caps_text}, bounding set {int(s['CapBnd'], 16):x}, "
          f"no_new_privs {s['NoNewPrivs'].strip()}, seccomp {s['Seccomp'].strip()}")
    kinds.add(name)
for pid in [daemon, *children(daemon)]:
    try: look(pid)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        if os.path.exists(f'/proc/{pid}'): raise  # else it has ended meanwhile
print(*sorted(kinds), file=open('kinds', 'w'))
PY
says() { "$ascribe" check 2>/dev/null | awk '$2 ~ /^ascribe/'; }
ok "no daemon, no processes" grep -q 'daemon .*none runs here' \
	<(unshare -pf --mount-proc "$ascribe" check 2>/dev/null)

# Some live for a question only: what both saw is compared.
agrees() { # pid of a daemon
	python3 read.py "$1" "$here/../../docs/security.md" >before 2>wrong
	says >said
	python3 read.py "$1" "$here/../../docs/security.md" >after 2>>wrong
	sort before after | uniq -d >both
	awk '{ name = $2; $1 = $2 = ""; sub(/^ */, ""); print name " " $0 }' said >rest
	[ ! -s wrong ] && [ -s both ] || { cat wrong; return 1; }
	while read -r line; do
		grep -F -- "$line" rest >found || { echo "check lacks: $line"; return 1; }
		! grep Differs found || return 1 # other daemons of the host may be older
	done <both
}

background "$ascribe" daemon -c a.yaml 2>log
daemon=$pid
ok "it serves" within 20 grep -q 'serving.*unix:' log
ok "check and the table agree with /proc" within 20 agrees "$daemon"
for name in ascribe ascribe-keeper ascribe-nursery ascribe-reader ascribe-web ascribe-debugin \
	ascribe-pushkee \
	ascribe-sql; do
	ok "$name was looked at" grep -qw -- "$name" kinds
done
ok "ascribe-parser was looked at" within 60 sh -c "python3 read.py $daemon '$here/../../docs/security.md' >/dev/null && grep -qw ascribe-parser kinds"
field() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; }
for set in CapInh CapPrm CapEff CapBnd CapAmb; do
	ok "the recorder has no capability: $set" test $((16#$(field "$daemon" $set))) = 0
done
keeper=$(ps --ppid "$daemon" -o pid=,comm= | awk '$2 == "ascribe-keeper" { print $1 }')
[ "$(cat /proc/sys/kernel/perf_event_paranoid)" -gt 2 ] ||
	ok "no CAP_SYS_ADMIN: perf_event_paranoid is 2 or less" \
		test $((16#$(field "$keeper" CapEff) >> 21 & 1)) = 0
kill "$daemon"
wait "$daemon"

# ---- with what the unit gives, less what the recorder gives up, and its own /tmp and /home ----
unit=$(sed -n 's/^CapabilityBoundingSet=//p' "$here/../../deploy/ascribe-keeper.service" |
	tr ' ' '\n' | sed 's/^CAP_/+/' | grep -v SYS_ADMIN | tr 'A-Z\n' 'a-z,' | sed 's/,$//')
rm -r cache
away=$(mktemp -d)
at_end='rm -rf $away'
cp "$build/tests/record/busy" "$away/busybody"
background "$away/busybody" spin 60 >/dev/null
load=$pid
cat >hide.sh <<'SH'
mount --bind "$1" /mnt && mount -t tmpfs none /tmp && mkdir -p "$1" && mount --bind /mnt "$1" &&
	mount -t tmpfs none /home && cd "$1" || exit 9
shift
exec "$@"
SH
cp "$ascribe" program
background unshare --mount sh hide.sh "$dir" setpriv --bounding-set "-all,$unit" --inh-caps -all \
	--no-new-privs ./program daemon -c a.yaml 2>log2
daemon=$pid
ok "it serves: $unit" within 20 grep -q 'serving.*unix:' log2
ok "the same rights" within 20 agrees "$daemon"
ok "a program in the host's /tmp has names" within 60 sh -c "'$ascribe' report store --by function \
	--where '{comm=\"busybody\"}' 2>/dev/null | grep -q 'spin_here *(busybody)'"
kill "$load"
ok "downloads have their cache" test "$(stat -c %u cache/files/* | sort -u)" = 4294836222
kill "$daemon"
wait "$daemon"

# ---- processes that have too much ----
cat >daemon <<'PY'
import os, sys, time
def be(name): open('/proc/self/comm', 'w').write(name)
if len(sys.argv) > 1:
    be(sys.argv[1])
    time.sleep(60)
be('ascribe')
table = '-all,+dac_read_search,+sys_ptrace,+checkpoint_restore,+setuid,+setgid,+kill'
for name, more in (('ascribe-keeper', ''), ('ascribe-nursery', '+sys_module'), ('ascribe-reader', ''), ('ascribe-web', '')):
    if not os.fork():
        os.execvp('setpriv', ['setpriv', '--bounding-set', table + (',' + more if more else ''), '--inh-caps', '-all',
                              '--no-new-privs', sys.executable, 'daemon', name])
if not os.fork():
    be('ascribe-other')
    time.sleep(60)
time.sleep(60)
PY
background python3 daemon
fake=$pid
within 10 sh -c "ps --ppid $fake -o comm= | grep -q ascribe-web"
says | grep -f <(ps --ppid "$fake" -o pid= | sed 's/ *\(.*\)/ \1:/'; echo " $fake:") >said
differs() { # name, text
	ok "$1: $2" sh -c "awk '\$2 == \"$1\"' said | grep -qF -- '$2'"
}
differs ascribe-nursery 'it should not have CAP_SYS_MODULE'
differs ascribe-reader 'it should not have CAP_KILL CAP_SETGID CAP_SETUID'
differs ascribe-web 'its user should be 4294836221'
differs ascribe-web 'its system calls are not limited to those of "web"'
differs ascribe-web 'its data size should be limited; its core file size should be at most 0'
differs ascribe-other 'the table has no such process'
differs ascribe 'no_new_privs is 0'
ok "the nursery has nothing else" grep -q 'Differs.*: it should not have CAP_SYS_MODULE$' \
	<(grep nursery said)
pkill -P "$fake"
finish
