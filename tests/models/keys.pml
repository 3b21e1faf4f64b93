/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key table: a thread registers keys, another one looks them up without the lock, and a sample
 * on a third CPU copies the table for user space.
 *
 * Stands for
 *   include/ascribe/label_module.h   ascribe_key, ascribe_key_register, ascribe_key_index
 *   bpf/labels.bpf.h                 send_keys
 *
 * The text of a key is one word, its number plus one. The copy with so many bytes is made once:
 * what it has of a key is what user space will call it.
 *
 * Proved: a copy has the text of each key that its `bytes` include; a key that is found by the
 * index has its text.
 *
 * The loads of the lookup keep their order, since the index is loaded with acquire order. The
 * sample loads `bytes` and then the text by two calls of a helper, which arm64 may turn round. So
 * the model loads in both orders, unless a full barrier stands between.
 */
#define CPUS 1 /* others only load */
#define KEYS 2
#define TEXT(k) (k)
#define INDEX(k) (KEYS + (k))
#define BYTES (2 * KEYS)
#define PLACES (2 * KEYS + 1)
#define ROOM 4
#include "memory.pml"

byte i_;

active proctype register()
{
	byte k;
	run drain_buffer(0);
	for (k : 0 .. KEYS - 1) {
		store(0, TEXT(k), k + 1);
#if BROKEN == 1 /* bytes without release order */
		store(0, BYTES, k + 1);
#else
		store_release(0, BYTES, k + 1);
#endif
#if BROKEN == 2 /* the index without release order */
		store(0, INDEX(k), 1)
#else
		store_release(0, INDEX(k), 1)
#endif
	}
}

active proctype look_up()
{
	byte k;
	select(k : 0 .. KEYS - 1);
	memory[INDEX(k)];
	assert(memory[TEXT(k)] == k + 1)
}

active proctype sample()
{
	byte k, bytes, text;
	select(k : 0 .. KEYS - 1);
	if
	:: bytes = memory[BYTES]; text = memory[TEXT(k)]
#if BROKEN == 3 /* no barrier between them */
	:: text = memory[TEXT(k)]; bytes = memory[BYTES]
#endif
	fi;
	assert(bytes <= k || text == k + 1)
}
