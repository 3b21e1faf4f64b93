#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What only looks like HotSpot, and lies about where its code is. Words where return addresses
# should be that would be frames of HotSpot or V8.
. "$(dirname "$0")/lib.bash"
command -v cc >/dev/null || skip "no C compiler"

cat >lies.c <<'C'
#include "libjvm_tables.h"
#if LIE == 1 /* nowhere */
uint64_t gHotSpotVMStructs = 0x10000, gHotSpotVMTypes = 0x7fffffff0000, gHotSpotVMIntConstants = ~0ull;
#elif LIE == 2 /* without an end, each entry the same text */
static struct field fields[200000];
static struct type types[1];
static struct value values[1];
__attribute__((constructor)) static void fill(void)
{
	for (int i = 0; i < 200000; i++)
		fields[i] = (struct field){ "CodeBlob", "_name", "const char*", 0, 0xffffffffff, 0 };
}
#else /* the program's own code is its heap; blocks lead back for ever, frames have no bounds */
extern void spin(void);
static uint8_t segments[1 << 20];
static uint64_t heap[8], array[2], queue[4], *heaps = array, *code = queue;
static void *list[1] = { heap };
static int major = LIE == 4 ? 999 : 17;
#define F(t, f, k, o) { t, f, k, 0, o, 0 }
static struct field fields[] = {
	F("HeapBlock::Header", "_length", "size_t", 0), F("HeapBlock::Header", "_used", "bool", 8),
	F("CodeBlob", "_name", "const char*", 0), F("CodeBlob", "_frame_size", "int", 4),
	F("CodeBlob", "_frame_complete_offset", "int", 4), F("CodeBlob", "_code_begin", "address", 0),
	F("nmethod", "_method", "Method*", 0), F("nmethod", "_compile_id", "int", 0),
	F("nmethod", "_verified_entry_point", "address", 0), F("Method", "_constMethod", "ConstMethod*", 0),
	F("ConstMethod", "_constants", "ConstantPool*", 0), F("ConstMethod", "_constMethod_size", "int", 0),
	F("ConstMethod", "_name_index", "u2", 0), F("ConstMethod", "_signature_index", "u2", 0),
	F("ConstantPool", "_pool_holder", "InstanceKlass*", 0), F("ConstantPool", "_length", "int", 0),
	F("Klass", "_name", "Symbol*", 0), F("InstanceKlass", "_constants", "ConstantPool*", 0),
	F("Symbol", "_length", "u2", 0), F("Symbol", "_body", "u1", 2),
	F("GrowableArrayBase", "_len", "int", 0), F("GrowableArray<int>", "_data", "int*", 8),
	F("CodeHeap", "_memory", "VirtualSpace", 0), F("CodeHeap", "_segmap", "VirtualSpace", 24),
	F("CodeHeap", "_log2_segment_size", "int", 48), F("VirtualSpace", "_low", "char*", 0),
	F("VirtualSpace", "_low_boundary", "char*", 0), F("VirtualSpace", "_high_boundary", "char*", 8),
	F("StubQueue", "_stub_buffer", "address", 0), F("StubQueue", "_buffer_limit", "int", 8),
	{ "CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", 1, 0, &heaps },
	{ "AbstractInterpreter", "_code", "StubQueue*", 1, 0, &code },
	{ "Abstract_VM_Version", "_vm_major_version", "int", 1, 0, &major }, { 0 }
};
static struct type types[] = { { "HeapBlock", 16 }, { "ConstMethod", 48 }, { "ConstantPool", 72 }, { "PcDesc", 16 }, { 0 } };
static struct value values[] = { { "frame::interpreter_frame_sender_sp_offset", -1 }, { "frame::interpreter_frame_last_sp_offset", -2 }, { 0 } };
__attribute__((constructor)) static void fill(void)
{
	for (unsigned i = 0; i < sizeof(segments); i++)
		segments[i] = 1;
	segments[0] = LIE == 4 ? 0 : 0xff;
	heap[0] = ((uint64_t)&spin & ~4095ull) - 4096;
	heap[1] = heap[0] + (1 << 20);
	heap[3] = (uint64_t)segments;
	heap[6] = 7;
	array[0] = 1;
	array[1] = (uint64_t)list;
	queue[0] = LIE == 4 ? (uint64_t)&spin : 4096;
	queue[1] = 4096;
}
#endif
#if LIE != 1
struct field *gHotSpotVMStructs = fields;
struct type *gHotSpotVMTypes = types;
struct value *gHotSpotVMIntConstants = values;
#endif
C
cat >spin.c <<'C'
#include <time.h>
volatile unsigned x;
__attribute__((noinline)) void spin(void) { for (int i = 0; i < 1000000; i++) x += i; }
int main(void) { while (clock() < 2 * CLOCKS_PER_SEC) spin(); }
C
share() { # store, function
	"$ascribe" report "$1" --json -n 1000 2>/dev/null |
		jq -r --arg f "$2" '[.rows[] | select(.function == $f) | .share * 100] | add // 0 | floor'
}
for lie in 1 2 3 4; do
	if ! cc -I "$here" -shared -fPIC -w -DLIE=$lie -o libjvm.so lies.c 2>cc.err ||
		! cc -O1 -rdynamic -o spin spin.c \
			-Wl,--no-as-needed ./libjvm.so 2>cc.err; then
		bad "lie $lie: $(cat cc.err)"
		continue
	fi
	rm -rf lie
	ok "lie $lie: recorded" "$ascribe" record -F 499 -o lie -- ./spin
	cp ok.err said
	[ $lie -ne 2 ] || ok "lie $lie: it is said" grep 'JVMs of an unknown version' said
	"$ascribe" stat lie --json >lie.json 2>/dev/null
	ok "lie $lie: every sample is accounted for" \
		jq -e '.fired == .stored + ([.lost | .. | numbers] | add // 0)' lie.json
	got=$(share lie spin)
	[ $lie -gt 2 ] || ok "lie $lie: it stays native: $got%" test "$got" -ge 90
done

# A thread that waits while its frame pointer leads to such a word, before its rules are known.
cat >words.c <<'C'
#include <stdint.h>
#include <time.h>
static uint64_t frame[2] = { 0, WORD };
int main(void)
{
	static struct timespec t = { 0, 1000000 };
	for (int i = 0; i < 30; i++) {
		register const void *rdi __asm__("rdi") = &t;
		register uint64_t rsi __asm__("rsi") = 0;
		__asm__ volatile("push %%rbp; mov %0, %%rbp; mov $35, %%eax; syscall; pop %%rbp" /* nanosleep */
				 : : "r"(frame), "r"(rdi), "r"(rsi) : "rax", "rcx", "r11", "memory");
	}
}
C
if [ "$(uname -m)" = x86_64 ]; then
	for word in 8 a c e; do
		cc -O1 -DWORD=0x${word}000000000000001 -fomit-frame-pointer -o words words.c ||
			bad "words.c does not compile"
		rm -rf words.st
		ok "$word: recorded" "$ascribe" record -q --wall -o words.st -- \
			sh -c 'for i in 1 2 3 4 5 6 7 8; do cp words words$i && ./words$i; done'
		"$ascribe" export words.st --format folded --event off-cpu 2>/dev/null |
			grep '^words[0-9]' >words.folded
		ok "$word: waits were seen" test -s words.folded
		ok "$word: no frame of made code" awk '/\[(java|node)\]/ { print; n++ }
			END { exit n > 0 }' words.folded
	done
fi
finish
