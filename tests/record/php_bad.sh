#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What only looks like PHP: an honest one, and some that lie. PHP of a version that is not known.
. "$(dirname "$0")/lib.bash"
. "$here/runtime.bash"
command -v cc >/dev/null || skip "no C compiler"

cat >liar.c <<'C'
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
uint64_t executor_globals[1024];
#if LIE == 4
uint64_t executor_globals_offset = 1;
#endif
const char api[] = API;
uint64_t execute_ex(uint64_t n)
{
	for (int i = 0; i < 100000; i++)
		n = n * 31 + i;
	return n;
}
int main(int c, char **v)
{
	static uint64_t frame[16], function[32], text[8], class[4], op[8];
	uint64_t n = (uint64_t)api, *all = calloc(20000, 8);
	(void)c, (void)v;
	frame[0] = (uint64_t)op;
	frame[3] = (uint64_t)function;
	function[0] = 2; /* a user function */
	function[1] = (uint64_t)text;
	function[2] = (uint64_t)class;
	function[19] = function[21] = (uint64_t)text; /* its file, of 8.2 and 8.4 */
	class[1] = (uint64_t)text;
	text[1] = 1;
	text[2] = 6;
	memcpy(text + 3, "honest", 6);
	executor_globals[61] = (uint64_t)frame;
#if LIE == 1 /* a round, and a string without end */
	frame[6] = (uint64_t)frame;
	text[2] = UINT64_MAX - 8;
#elif LIE == 2 /* everything points into it, in circles */
	for (size_t i = 0; i < 20000; i++)
		all[i] = (uint64_t)all + 8 * (i * 7919 % 10000);
	executor_globals[61] = (uint64_t)all;
#elif LIE == 3 /* unreadable; a new function each time */
	frame[6] = 0xffff800000000000;
	class[1] = 8;
#endif
	for (uint64_t i = 1; clock() < CLOCKS_PER_SEC; i++) {
#if LIE == 1 || LIE == 3
		text[1] = i;
#endif
		n += execute_ex(n);
	}
	return n == 1;
}
C
for lie in 0 1 2 3 4 5; do
	for api in 20220829 20240924; do
		string="API$api,NTS"
		[ $lie != 4 ] || string="API$api,TS"
		[ $lie != 5 ] || string="API20991231,NTS,debug"
		if ! cc -O1 -w -rdynamic -DLIE=$lie -DAPI="\"$string\"" -o liar liar.c \
			2>cc.err; then
			bad "lie $lie: $(cat cc.err)"
			continue
		fi
		rm -rf liar.st
		ok "$api, lie $lie: recorded" "$ascribe" record -F 499 -o liar.st -- ./liar
		cp ok.err said
		"$ascribe" stat liar.st --json >liar.json 2>/dev/null
		check "$api, lie $lie: accounting" s=liar.json -- \
			'exact(s) and s["stored"] > 10'
		case $lie in
		0) ok "$api, an honest one" grep -q ';honest::honest ' <(
			"$ascribe" export liar.st --format folded 2>/dev/null) ;;
		4) ok "$api, with threads: it is said" \
			grep "PHP of an unknown version (API $api,TS)" said ;;
		5) ok "$api, unknown: it is said" \
			grep 'PHP of an unknown version (API 20991231,debug)' said
			ok "$api, unknown: in stat" grep -x 'PHP API 20991231,debug  *1' <(
				"$ascribe" stat liar.st 2>/dev/null) ;;
		esac
	done
done
mv liar php9.9 # the last one, by a name that check looks for
check_names php9.9 '^note  PHP .*API 20991231,debug.*ascribe knows PHP'
finish
