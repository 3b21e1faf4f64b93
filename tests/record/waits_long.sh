#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Waits that are longer than a window, or than all of the recording.
. "$(dirname "$0")/lib.bash"

of() { # metric, key, selector
	"$ascribe" report long --metric "$1" --by "$2" --where "$3" -n 0 --json 2>/dev/null
}

background sleep 60
sleeper=$pid
background sleep 6
riser=$pid
record --wall -a -d 11s -o long
of off tgid '{comm="sleep"}' >off.json
of wall tgid '{tgid="0"}' >nobody.json
"$ascribe" stat long --json >stat.json
check "who slept all the time was blocked all the time" r=off.json s=stat.json -- \
	"abs(rows(r)['$sleeper']['seconds'] / (s['to'] - s['from']) - 1) < 0.03" "rows(r)['$sleeper']['seconds'], s['to'] - s['from']"
check "who was asleep before, and then not, has the part in between; nobody's waits are without a process" r=off.json n=nobody.json -- \
	"3 < rows(r)['$riser']['seconds'] <= 6.1 and not n['rows']" "rows(r)['$riser']['seconds'], n['rows']"
check "more than one window has it" r=off.json -- 'r["windows"] >= 2'
finish
