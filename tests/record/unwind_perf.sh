#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# User stacks against perf's DWARF unwinding of the same process.
. "$(dirname "$0")/lib.bash"
. "$here/unwind.bash"
background python3 work.py 9
python=$pid
sleep 0.5
background perf record -q -F 97 -e cpu-clock --call-graph dwarf,32768 -p "$python" -o perf.data \
	>/dev/null 2>&1
perf=$pid
record -F 499 -p "$python" -d 20s -o both
wait "$perf"
stacks both
perf script --no-inline -i perf.data -F ip,sym,dso 2>/dev/null >perf.txt
report both -n 0 >report.json
ok "who calls whom, as perf has it" python3 "$here/unwind.py" edges folded perf.txt stat.json \
	report.json
finish
