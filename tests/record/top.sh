#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ascribe top in a terminal (tmux), with real keys and a load that knows its CPU time.
. "$(dirname "$0")/lib.bash"
command -v tmux >/dev/null || skip "no tmux"
load=$loads/labelled
py() { python3 "$here/top.py" "$@"; }
sock=$dir/tmux
mux() { tmux -S "$sock" -f /dev/null "$@"; }
at_end() { mux kill-server 2>/dev/null; }
at_end=at_end
export LANG=C.UTF-8 LC_ALL=C.UTF-8
unset NO_COLOR TMUX

# A terminal with a shell script in it: name, size, command. What it prints on stderr goes to
# NAME.err, its exit status to NAME.status, the terminal's modes before and after it to NAME.before,
# NAME.after.
terminal() {
	cat >"$1.sh" <<-SCRIPT
		cd $dir
		stty -g >$1.before
		$3 2>$1.err
		echo \$? >$1.status.new
		stty -g >$1.after
		mv $1.status.new $1.status
		cat
	SCRIPT
	mux new-session -d -s "$1" -x "${2%x*}" -y "${2#*x}" "bash $1.sh"
}
shows() { mux capture-pane -p -t "$1" >"$1.screen"; }
keys() { # session, keys...
	local s=$1
	shift
	mux send-keys -t "$s" "$@"
}
# Until a pattern is on the screen (lines joined), at most 20 s.
sees() {
	for _ in $(seq ${patience:-200}); do
		shows "$1" 2>/dev/null
		tr '\n' '|' <"$1.screen" | grep -qE -- "$2" && return
		sleep 0.1
	done
	echo "not on the screen: $2"
	cat "$1.screen"
	return 1
}
ended() {
	for _ in $(seq 200); do
		[ -e "$1.status" ] && break
		sleep 0.1
	done
	[ "$(cat "$1.status")" = "$2" ] || {
		echo "exit $(cat "$1.status"), want $2: $(cat "$1.err")"
		return 1
	}
}
restored() { # modes, and the screen that was there before
	cmp "$1.before" "$1.after" &&
		[ "$(mux display-message -p -t "$1" '#{alternate_on} #{cursor_flag}')" = '0 1' ]
}
background "$load" ratio 3600 >main.json
main=$pid
# A name that would paint the screen red, move the cursor and turn the order of letters.
printf 'import ctypes\nctypes.CDLL(None).prctl(15, b"\\x1b[41mR\\xe2\\x80\\xaeL")\nwhile True: pass\n' >evil.py
background nice -n 19 python3 evil.py
top="$ascribe top --where '{tgid=\"$main\"}'"
terminal main 100x30 "$top --by tenant --span 60s -d 1s"
terminal blocked 100x24 "$top --metric off --by comm -d 1s"
terminal evil 90x24 "NO_COLOR=1 $ascribe top --by comm -d 1s --where '{comm!=\"labelled\"}'"

TERM=xterm script -qec "$ascribe record -d 3s -o progress.store -p $main" tty.log >tty.out 2>&1 </dev/null &
on_tty=$!
"$ascribe" record -d 6s -o plain.store -p "$main" 2>plain.err &
on_file=$!

# ---- once, as JSON, beside the clocks ----
background "$ascribe" top --once --seconds 60 -F 499 --by tenant --where "{comm=\"once$$\"}" \
	--json >top.json 2>once.err
once=$pid
for _ in $(seq 400); do
	grep -q '^ascribe: recording' once.err && break
	sleep 0.05
done
# A content of its own: one content has one module, by the path it was first seen at
objcopy --remove-section .note.gnu.build-id "$load" "once$$"
"./once$$" ratio 1.5 >truth.json
kill -INT "$once"
ok "once, until it is interrupted" wait "$once"
check "each label has the CPU time that the load's own clock says" t=top.json truth=truth.json -- \
	'all(abs(r["seconds"] - truth[k]) < 0.05 * truth[k] + 0.1 for k, r in rows(t).items() if k)' \
	'{k: (round(r["seconds"], 3), truth.get(k)) for k, r in rows(t).items()}'
check "rates are samples over time; their intervals lie around them; everything is accounted for" t=top.json -- \
	'all(abs(r["rate"] - r["seconds"] / t["covered"]) < 1e-6 and r["self_rate_low"] <= r["rate"] <= r["self_rate_high"] for r in t["rows"])
	and t["fired"] == t["stored"] + sum(t["lost"].values()) and t["samples"] > 400' 't["covered"], t["samples"], t["cpus"]'

# ---- the same on the screen ----
ok "both labels are on the screen" sees main 'CPU%.*tenant.*[0-9] +█* *[▏▎▍▌▋▊▉]? +a *\|.*[0-9] +█* *[▏▎▍▌▋▊▉]? +b *\|'
ok "at the ratio of the load, 3 to 1" py ratio main.screen
ok "rate, losses, unlabelled share and our own cost stand above" \
	sees main 'CPU [0-9.]+% of [0-9]+%.* [0-9]+ samples  lost [0-9]+ \([0-9.]+%\)  unlabelled [0-9.]+%.*own [0-9.]+% CPU, [0-9]+ MiB'

# ---- down into a value, a function, its callers and callees, and back ----
keys main Enter
ok "a value: its functions" sees main '> tenant=a *\| *CPU%.*FUNCTION.*[0-9] burn +labelled'
# The share of all samples is SELF% in `ascribe report`; this is of a CPU, and is called so.
ok "its columns" sees main '\| *CPU%[▼ ]+95%[^|]* +TOTAL% +SAMPLES +FUNCTION  [0-9]+ +MODULE *\|'
ok "no SELF%" sh -c '! grep -q "SELF%" main.screen'
keys main / b u r n Enter
ok "searched for" sees main 'FUNCTION  /burn: [0-9]+ of [0-9]+.*[0-9] burn +labelled'
keys main Enter
ok "a function: its callers" sees main '> tenant=a > burn *\|.*CALLERS OF IT.*100.0%.* burn .*\|.* ratio '
keys main c
ok "its callees" sees main 'WHAT IT CALLS.*100.0%.* burn .*clock_gettime'
keys main Escape
ok "back at the function" sees main '> tenant=a *\|.*FUNCTION  /burn'
keys main Escape
ok "without the search" sees main '> tenant=a *\|.*FUNCTION  [0-9]+ '
keys main Escape
ok "back at the values" sees main 'CPU%.*tenant  [0-9]+.* a *\|'
keys main l t h r e Enter
ok "by another label" sees main 'CPU%.* thread  1.*labelled *\|'
keys main f
ok "by function" sees main 'FUNCTION  [0-9]+ '
keys main /
keys main z q z
ok "a text that nothing has" sees main '/zqz: 0 of [0-9]+.*no row has this text'
keys main Escape s
ok "sorted by the whole" sees main 'TOTAL%▼.*\| +0\.[0-9] .* (_start|main|ratio|burn) '
keys main '?'
ok "the keys explained" sees main 'freeze what is shown; recording goes on'
keys main x
keys main Space
ok "frozen" sees main 'FROZEN'
sleep 0.3
shows main && tail -n +5 main.screen >frozen
sleep 2.5 # two windows
shows main && tail -n +5 main.screen >later
ok "nothing moves" cmp frozen later
keys main Space
ok "and goes on" sees main 'last 1 min  up'
for size in 79x20 40x10 20x5 9x3 2x1 100x30; do
	mux resize-window -t main -x "${size%x*}" -y "${size#*x}"
	sleep 0.2
done
ok "after all sizes the screen is whole" sees main 'ascribe top  .*FUNCTION.*q quit'
mux resize-window -t main -x 40 -y 12
ok "a narrow one keeps names" sees main 'FUNCTION  [0-9]+.*main'
keys main q
ok "q ends it" ended main 0
ok "and leaves the terminal as it was" restored main
ok "without a word" test ! -s main.err

# ---- waits instead ----
ok "time that threads were blocked" sees blocked 'ascribe top  off-cpu .*% of one thread.s time .* s  lost .*TIME%.*SECONDS'
keys blocked q
ok "q ends it" ended blocked 0

# ---- names made to do harm ----
ok "a name of control characters is text" sees evil '\\x1b\[41mR\\xe2\\x80\\xaeL'
mux capture-pane -e -p -t evil >evil.colors
ok "and colours nothing; NO_COLOR is kept" sh -c "! grep -q '$(printf '\033')\\[[0-9;]*4[1-7]m' evil.colors && ! grep -q '$(printf '\033')\\[[0-9;]*3[1-7]m' evil.colors"

# ---- ends ----
p=$(pgrep -o -f "^$ascribe top --by comm")
kill -TERM "$p"
ok "SIGTERM ends it" ended evil 0
ok "and leaves the terminal as it was" restored evil
terminal interrupted 80x24 "env TERM=screen $ascribe top --by function"
terminal crashed 80x24 "env TERM=xterm $ascribe top -F 49"
terminal console 80x24 "env TERM=linux $ascribe top -F 48"
terminal dumb 80x24 "env TERM=dumb $ascribe top -F 47"
ok "up in a terminal of another kind" sees interrupted 'ascribe top .*f function'
keys interrupted C-c
ok "Ctrl-C ends it" ended interrupted 0
ok "and leaves the terminal as it was" restored interrupted
ok "it opens by process" sees crashed 'CPU%.* comm  [0-9]+.*'
ok "and in another" sees crashed 'ascribe top .*f function'
ok "a thread that crashes" py crash "$(pgrep -o -f "^$ascribe top -F 49")"
ok "ends it as a crash does" ended crashed 139
ok "and leaves the terminal as it was" restored crashed
ok "and in a Linux console" sees console 'ascribe top .*f function'
keys console q
ok "which it leaves" ended console 0
ok "a terminal that cannot place its cursor" ended dumb 1
ok "is told what can be done" grep -q 'cannot place its cursor: use --once' dumb.err

# ---- what record says meanwhile: one line on a terminal, lines elsewhere ----
wait "$on_tty" "$on_file"
tr '\r' '\n' <tty.log >tty.lines
ok "progress on a terminal: elapsed, samples, losses" \
	grep -qE 'ascribe: [1-9][0-9]* s, [0-9]+ samples, [0-9]+ lost' tty.lines
ok "in one line, that is written over" sh -c "! grep -aqE 'ascribe: [0-9]+ s, .*processes.?$' tty.log && grep -aq 'complete: .* samples' tty.log"
ok "elsewhere a line now and then, and nothing that moves a cursor" \
	sh -c "grep -qE '^ascribe: [56] s, [0-9]+ samples, [0-9]+ lost' plain.err && ! grep -q '$(printf '[\033\r]')' plain.err"

# ---- what is refused ----
exits 1 'no terminal: use --once' "$ascribe" top
exits 2 'json goes with --once' "$ascribe" top --json
exits 2 'whole seconds' "$ascribe" top -d 1500ms
exits 2 'span: at most' "$ascribe" top --span 1h
exits 2 'exclude each other' "$ascribe" top -p 1 -t 1
exits 2 'expected' "$ascribe" top --where '{a='
exits 1 'there is no store' "$ascribe" top --once --store nowhere
chmod 755 "$dir"
exits 1 'root|CAP_|perf_event_paranoid' setpriv --reuid 65534 --clear-groups "$ascribe" top --once
# ---- somebody's store, without any right but to read it ----
record -q -d 1s -o stored -p "$main"
chmod -R a+rX stored
ok "a store that is there" setpriv --reuid 65534 --clear-groups "$ascribe" top \
	--once --store stored --by tenant --json
cp ok.out stored.json
check "has its labels" t=stored.json -- 'set(samples(t)) >= {"a", "b"}' 'samples(t)'
finish
