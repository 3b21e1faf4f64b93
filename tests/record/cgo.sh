#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# C called from Go has its Go callers, and Go called back from C has both.
. "$(dirname "$0")/lib.bash"
. "$here/unwind.bash"
command -v go >/dev/null || skip "no go here"
export GOCACHE=$build/gocache GOFLAGS=-mod=mod CGO_ENABLED=1
cp -r "$here/cgo" source
(cd source && go mod init cgo >/dev/null 2>&1 && go build -o ../cgoload .) || exit 1
record -F 499 -o cgo -- ./cgoload 2
"$ascribe" export cgo --format folded 2>/dev/null >all
grep -v main.called all >folded
go='runtime.goexit(.abi0)?;runtime.main;main.main'
# The first samples are copies, which hold the stack of C alone: more of them where the parsers have
# to wait for a CPU.
copied=$("$ascribe" stat cgo --json 2>/dev/null | jq .flagged.copied)
share=$(awk -v copied="$copied" 'BEGIN { s = 0.97 - copied / 100; print s < 0.5 ? 0.5 : s }')
ok "C that Go has called" python3 "$here/unwind.py" whole folded \
	"$go;main.outer;main.inner;main._Cfunc_c_outer(.abi0)?;(runtime.cgocall;)?runtime.asmcgocall(.abi0)?;_cgo_[0-9a-f]*_Cfunc_c_outer;c_outer;leaf" 15 "$share" leaf
ok "Go that C has called that Go has called" python3 "$here/unwind.py" whole folded \
	"$go;main.around;.*;runtime.asmcgocall(.abi0)?;_cgo_[0-9a-f]*_Cfunc_c_calls_back;c_calls_back;goBack;.*;main.spin" 50 0.85 main.spin
c='(runtime.cgocall;)?runtime.asmcgocall(.abi0)?;_cgo_[0-9a-f]*_Cfunc_c'
ok "both in a goroutine, and who made it" python3 "$here/unwind.py" whole all \
	"^created by main.start;runtime.goexit(.abi0)?;main.start.*;main.called;(main.outer;.*;${c}_outer;c_outer;leaf|main.around;.*;${c}_calls_back;c_calls_back;goBack;.*;main.spin)" 50 0.85 main.called
finish
