#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The page in a real browser, over real servers: tests/e2e/page.mjs. With arguments: only the tests
# whose names have that in them. V=1: times.
. "$(dirname "$0")/lib.bash"
mk=$BUILD/tests/mkstore
"$mk" store >truth.json && "$mk" wide wide >/dev/null && ln -s "$BUILD/tests/long" . &&
	echo 'main;work 3' | "$BUILD/ascribe" import folded - -o others >/dev/null 2>&1 &&
	"$mk" names names >/dev/null && "$mk" incident incident >/dev/null || exit 1
echo "0123456789abcdef0123" >token
# A host without a lock that anybody waits for would leave the table of locks empty
"$BUILD/tests/record/waits" convoy 20 0 >convoy.json &
convoy=$!
"$BUILD/ascribe" record --wall --waker -d 1s -o real >/dev/null 2>&1
recorded=$?
kill $convoy
wait $convoy 2>/dev/null
if [ "$(id -u)" = 0 ] && [ $recorded = 0 ]; then
	export REAL=real
	"$BUILD/ascribe" record --tracks -d 4s -o tracked >/dev/null 2>&1 &&
		export TRACKED=tracked
	cat >valued.sh <<-END
		LD_PRELOAD=$BUILD/libascribe-heap.so $BUILD/tests/record/allocates 3 100 1 >held.json &
		$BUILD/tests/record/timed 3 100 2500 >clocks.json &
		$BUILD/tests/record/sized 1000 2500 >sum
		wait
	END
	"$BUILD/ascribe" record --tracks -o valued -e cpu-clock,heap \
		-e "uretprobe:$BUILD/tests/record/timed:spin" \
		-e "uprobe:$BUILD/tests/record/sized:take:arg2=bytes" \
		-e "uprobe:$BUILD/tests/record/sized:take:arg1=count" -- sh valued.sh >/dev/null 2>&1 &&
		export VALUED=valued
fi
timeout 300 node "$here/page.mjs" "$@"
