#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every metric in every reading command and question over HTTP, of one recording: all have the same
# sum, which for values and memory is the programs' own. As root.
. "$(dirname "$0")/lib.bash"
cp "$loads/sized" "$loads/timed" "$loads/allocates" .
cat >work.sh <<END
LD_PRELOAD=$build/libascribe-heap.so ./allocates 3 200 1 >own.json &
./timed 3 200 3000 >clocks.json &
./sized 1000 3000 >sum
wait
END
record -o all --wall --waker --latency index --tracks -e "cpu-clock,heap,uretprobe:$PWD/timed:spin" \
	-e "uprobe:$PWD/sized:take:arg2=bytes" -- sh work.sh
background "$ascribe" serve all --listen "unix:$PWD/http" 2>/dev/null
within 30 [ -S http ]
a='{comm=~"t.*|a.*|s.*"}'

# Where the sum of an answer stands, by the command; nothing: its exit status is all.
sum_of() {
	case $1 in
	report | step | labels | table | series | top) jq .samples out.json ;;
	by | by-http) jq '[.rows[].samples] | add' out.json ;;
	values | values-http) jq '[.values[].samples] | add' out.json ;;
	diff | diff-http) jq '.a.samples' out.json ;;
	folded) awk '{ n += $NF } END { printf "%d\n", n }' out.json ;;
	flame-http) jq .samples out.json ;;
	esac
}

ask() { # what is asked: over HTTP, with its parameters
	local what=$1
	shift
	curl -fgsS --unix-socket http -G "http://x/api/v1/$what" --data-urlencode "metric=$metric" \
		${event:+--data-urlencode "event=$event"} "$@"
}

answer() { # a command of the table: its answer of $metric in out.json
	local of=(all -m "$metric" ${event:+-e "$event"})
	case $1 in
	report) "$ascribe" report "${of[@]}" --json ;;
	by) "$ascribe" report "${of[@]}" --by comm -n 0 --json ;;
	step) "$ascribe" report "${of[@]}" --by comm --step 10s --json ;;
	top) "$ascribe" top --once --span 24h -s "${of[@]}" --json ;;
	labels) "$ascribe" labels "${of[@]}" --json ;;
	values) "$ascribe" labels "${of[@]}" comm --json ;;
	diff) "$ascribe" diff "${of[@]}" --against "$a" --json ;;
	folded) "$ascribe" export "${of[@]}" --format folded ;;
	pprof | otlp) "$ascribe" export "${of[@]}" --format "$1" ;;
	flame) "$ascribe" flame "${of[@]}" -o out.html ;;
	table) ask table ;;
	by-http) ask table -d by=comm -d limit=0 ;;
	series) ask series -d by=comm ;;
	values-http) ask values -d key=comm ;;
	diff-http) ask diff --data-urlencode "against=$a" ;;
	flame-http) ask flame ;;
	esac >out.json 2>err.txt
}

for metric in cpu off runq wall waker latency value heap inuse_space inuse_objects alloc_space \
	alloc_objects; do
	event=
	[ $metric = value ] && event=uprobe:$PWD/sized:take:arg2=bytes
	said=
	total=$(report all -m $metric ${event:+-e "$event"} | jq .samples)
	for what in report by step top labels values diff folded pprof otlp flame table by-http \
		series values-http diff-http flame-http; do
		if ! answer $what; then
			said+=" $what: $(head -c 200 err.txt)"
			continue
		fi
		sum=$(sum_of $what)
		[ "${sum:-$total}" = "$total" ] || said+=" $what: $sum"
		[ $what = flame ] || [ -s out.json ] || said+=" $what: empty"
	done
	ok "$metric: $total in all of them$said" test "${total:-0}" -gt 0 -a -z "$said"
	eval "total_$metric=$total"
done
# shellcheck disable=SC2154 # total_value: above
ok "the value is the program's sum" test "$total_value" = $((3 * $(cat sum)))
# shellcheck disable=SC2154
check "allocations are those of the program" o=own.json -- \
	"abs($total_alloc_space / sum(x['allocated'] for x in o.values()) - 1) < 0.1" \
	"$total_alloc_space, o"

"$ascribe" diff all -m alloc_space --against "$a" >text 2>/dev/null
ok "diff: bytes with their unit" grep -qE '^A: .*: [0-9.]+ [KMG]iB$' text
"$ascribe" labels all -m off comm >text 2>/dev/null
ok "labels: time alone" grep -qE '^   SECONDS   SHARE  ' text
exits 2 'leave --metric out' "$ascribe" labels all -m off event
ok "nor over HTTP" sh -c "curl -sS --unix-socket http 'http://x/api/v1/values?key=event&metric=off' |
	grep -q 'leave metric out'"
exits 2 'is none of' "$ascribe" diff all -m miles --against "$a"
exits 2 'exclude each other' "$ascribe" diff all -m off -e cpu-clock --against "$a"
finish
