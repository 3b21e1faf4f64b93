/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * The identity of a label set: one 64-bit number that does not depend on the order of the labels,
 * nor on how often one is said.
 *
 *	hash of a label = ascribe_label_hash(seed, type, key, value)
 *	key of the set  = XOR of the hashes of its labels, ASCRIBE_SET_EMPTY where that is 0
 *
 * The same functions serve the application (label.h), the profiler (user/labels) and BPF. Nothing
 * is sorted or allocated. Freestanding C11, C++11, and C for BPF; docs/labels.md is the
 * specification.
 *
 * A key is a hash: two sets may have the same one by chance, or by intent where the seed is known.
 * Whoever interns by it compares the labels. Published ids have seed 0; who keeps sets of several
 * processes takes a random seed, and then nobody outside can make labels that collide.
 */
#ifndef ASCRIBE_LABEL_KEY_H
#define ASCRIBE_LABEL_KEY_H

#include "label_abi.h"

/*
 * Hidden, always: an inline function that the dynamic linker resolved to another module's copy
 * would use that module's slot with this module's key numbers.
 */
#ifdef __cplusplus
#define ASCRIBE_LINKAGE_ inline __attribute__((visibility("hidden")))
#define ASCRIBE_FN ASCRIBE_LINKAGE_
#define ASCRIBE_HOT ASCRIBE_LINKAGE_ __attribute__((always_inline))
#define ASCRIBE_COLD ASCRIBE_LINKAGE_ __attribute__((noinline))
#else
#define ASCRIBE_FN static inline __attribute__((unused))
#define ASCRIBE_HOT static inline __attribute__((unused, always_inline))
#define ASCRIBE_COLD static __attribute__((unused, noinline))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ASCRIBE_HASH_A 0x9e3779b97f4a7c15ull
#define ASCRIBE_HASH_B 0xbf58476d1ce4e5b9ull
#define ASCRIBE_HASH_C 0x94d049bb133111ebull
#define ASCRIBE_SEED_TRACE 2		 /* key names use their type, 0 or 1 */
#define ASCRIBE_SET_EMPTY ASCRIBE_HASH_C /* of the empty set: the XOR would be 0 */

/* ---- the hash of bytes ---- */

/* The 128-bit product of x and y: its lower half to x, its upper half to y. */
ASCRIBE_HOT void ascribe_mul(ascribe_u64 *x, ascribe_u64 *y)
{
#ifdef __bpf__
	/* There is no multiplication to 128 bits: four of 32. */
	ascribe_u64 x0 = *x & 0xffffffff, x1 = *x >> 32, y0 = *y & 0xffffffff, y1 = *y >> 32;
	ascribe_u64 mid = x1 * y0 + (x0 * y0 >> 32), low = x0 * y1 + (mid & 0xffffffff);
	*x *= *y;
	*y = x1 * y1 + (mid >> 32) + (low >> 32);
#else
	__extension__ typedef unsigned __int128 u128;
	u128 p = (u128)*x * *y;
	*x = (ascribe_u64)p;
	*y = (ascribe_u64)(p >> 64);
#endif
}

/* gcc 12 warns of words of short keys, which are never read as words. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Warray-bounds"
#endif

ASCRIBE_HOT ascribe_u64 ascribe_load8(const ascribe_u8 *p)
{
	ascribe_u64 v;
	__builtin_memcpy(&v, p, 8);
	return v;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

ASCRIBE_HOT ascribe_u64 ascribe_load4(const ascribe_u8 *p)
{
	ascribe_u32 v;
	__builtin_memcpy(&v, p, 4);
	return v;
}

/* The seed is in both factors of what comes: nobody who does not know it can make one of them 0. */
ASCRIBE_HOT void ascribe_hash_begin(ascribe_u64 seed, unsigned long len, ascribe_u64 *x,
				    ascribe_u64 *y)
{
	*x = (seed << 32 | seed >> 32) ^ ASCRIBE_HASH_A;
	*y = seed ^ ASCRIBE_HASH_B ^ (ascribe_u64)len;
}

ASCRIBE_HOT void ascribe_hash_16(const ascribe_u8 *p, ascribe_u64 *x, ascribe_u64 *y)
{
	*x ^= ascribe_load8(p);
	*y ^= ascribe_load8(p + 8);
}

ASCRIBE_HOT ascribe_u64 ascribe_hash_end(ascribe_u64 x, ascribe_u64 y)
{
	ascribe_mul(&x, &y);
	x ^= ASCRIBE_HASH_C;
	ascribe_mul(&x, &y);
	return x ^ y;
}

/*
 * Take in a text, 16 bytes per multiplication; the last ones overlap those before, or each other.
 * Of what is taken in one more multiplication is due.
 */
ASCRIBE_HOT void ascribe_hash_text(const ascribe_u8 *p, unsigned long len, ascribe_u64 *x,
				   ascribe_u64 *y)
{
	const ascribe_u8 *end = p + len;
	if (len > 16) {
		for (; __builtin_expect(end - p > 32, 0); p += 16) {
			ascribe_hash_16(p, x, y);
			ascribe_mul(x, y);
		}
		ascribe_hash_16(p, x, y);
		ascribe_mul(x, y);
		ascribe_hash_16(end - 16, x, y);
	} else if (len >= 4) {
		/*
		 * Two words from the front and two from the back, the inner ones 4 bytes further
		 * from 8 on
		 */
		unsigned long inner = len / 8 * 4;
		*x ^= ascribe_load4(p) << 32 | ascribe_load4(p + inner);
		*y ^= ascribe_load4(end - 4) << 32 | ascribe_load4(end - 4 - inner);
	} else if (len) {
		*x ^= (ascribe_u64)p[0] << 16 | (ascribe_u64)p[len / 2] << 8 | end[-1];
	}
}

/* The hash of docs/labels.md. */
ASCRIBE_HOT ascribe_u64 ascribe_hash(ascribe_u64 seed, const void *data, unsigned long len)
{
	ascribe_u64 x, y;
	ascribe_hash_begin(seed, len, &x, &y);
	ascribe_hash_text((const ascribe_u8 *)data, len, &x, &y);
	return ascribe_hash_end(x, y);
}

#ifdef __bpf__
/*
 * The same for BPF, whose verifier wants to see every bound: `max` is a constant from 16 on,
 * data[max] may be read, and len is at most max. Each offset is checked in the register that is
 * added to the pointer.
 */
ASCRIBE_HOT const ascribe_u8 *ascribe_at(const void *data, ascribe_u64 at, ascribe_u64 most)
{
	__asm__ __volatile__("" : "+r"(at));
	return (const ascribe_u8 *)data + (at <= most ? at : 0);
}

ASCRIBE_HOT ascribe_u64 ascribe_hash_in(ascribe_u64 seed, const void *data, ascribe_u64 len,
					ascribe_u64 max)
{
	ascribe_u64 x, y, inner = len / 8 * 4;
	ascribe_hash_begin(seed, len, &x, &y);
	if (len > 16) {
		for (ascribe_u64 at = 0; at + 16 < max && at + 16 < len; at += 16) {
			ascribe_hash_16(ascribe_at(data, at, max - 16), &x, &y);
			ascribe_mul(&x, &y);
		}
		ascribe_hash_16(ascribe_at(data, len - 16, max - 16), &x, &y);
	} else if (len >= 4) {
		x ^= ascribe_load4((const ascribe_u8 *)data) << 32 |
		     ascribe_load4(ascribe_at(data, inner, 8));
		y ^= ascribe_load4(ascribe_at(data, len - 4, 12)) << 32 |
		     ascribe_load4(ascribe_at(data, len - 4 - inner, 12));
	} else if (len) {
		x ^= (ascribe_u64)*ascribe_at(data, 0, 0) << 16 |
		     (ascribe_u64)*ascribe_at(data, len / 2, 1) << 8 |
		     *ascribe_at(data, len - 1, 2);
	}
	return ascribe_hash_end(x, y);
}
#endif

/*
 * type: ASCRIBE_KEY_STRING, or ASCRIBE_KEY_INT with the value in decimal. The hash of a key may be
 * kept and serve for many values.
 */
ASCRIBE_HOT ascribe_u64 ascribe_key_hash(ascribe_u64 seed, int type, const void *key,
					 unsigned long key_len)
{
	return ascribe_hash(seed ^ (ascribe_u64)type, key, key_len);
}

ASCRIBE_HOT ascribe_u64 ascribe_label_hash(ascribe_u64 seed, int type, const void *key,
					   unsigned long key_len, const void *value,
					   unsigned long len)
{
	return ascribe_hash(ascribe_key_hash(seed, type, key, key_len), value, len);
}

/* ---- the key of a set ---- */

/* A key is never 0; the XOR behind it is 0 for the empty set. */
ASCRIBE_HOT ascribe_u64 ascribe_key_of_xor(ascribe_u64 x)
{
	return x ? x : ASCRIBE_SET_EMPTY;
}

ASCRIBE_HOT ascribe_u64 ascribe_xor_of_key(ascribe_u64 key)
{
	return key == ASCRIBE_SET_EMPTY ? 0 : key;
}

/*
 * For few labels, and for BPF with a constant bound: x with hash in it, unless that is among
 * seen[n]. Whether a label came before is told by all 64 bits, and equal hashes are one and the
 * same to an XOR: it does not matter which one counts.
 */
ASCRIBE_HOT ascribe_u64 ascribe_xor_unique(ascribe_u64 x, ascribe_u64 hash, const ascribe_u64 *seen,
					   unsigned long n)
{
	ascribe_u64 same = 0;
	for (unsigned long i = 0; i < n; i++)
		same |= (ascribe_u64)(seen[i] == hash);
	return x ^ (hash & (same - 1));
}

#ifndef __bpf__
/* Sets of more different labels than this are read several times. A power of two from 64 on. */
#ifndef ASCRIBE_UNIQUE_MAX
#define ASCRIBE_UNIQUE_MAX 4096
#endif
#define ASCRIBE_UNIQUE_SLOTS (4 * ASCRIBE_UNIQUE_MAX)
#define ASCRIBE_UNIQUE_FEW 4

/*
 * A hash set to tell what came before, reused for set after set. All zero is its first state. A
 * slot is taken in the set of this turn only, so a turn begins without clearing.
 */
struct ascribe_unique {
	ascribe_u64 used; /* slots that were in use since turn 1 */
	ascribe_u8 turn;
	ascribe_u8 taken[ASCRIBE_UNIQUE_SLOTS]; /* in which turn; all that a new label looks at */
	ascribe_u64 slot[ASCRIBE_UNIQUE_SLOTS];
};

/* The hash of the label with this number, the same whenever it is asked for. */
typedef ascribe_u64 ascribe_hash_at(const void *ctx, unsigned long i);

ASCRIBE_HOT ascribe_u8 ascribe_unique_begin(struct ascribe_unique *u, ascribe_u64 slots)
{
	if (u->used < slots)
		u->used = slots;
	if (__builtin_expect(!++u->turn, 0)) {
		__builtin_memset(u->taken, 0, u->used);
		u->used = slots;
		u->turn = 1;
	}
	return u->turn;
}

/* Put hash where there is room, looking from slot `at` on. False: it was there. */
ASCRIBE_HOT int ascribe_unique_add(struct ascribe_unique *u, ascribe_u8 turn, ascribe_u64 slots,
				   ascribe_u64 at, ascribe_u64 hash)
{
	for (at &= slots - 1; __builtin_expect(u->taken[at] == turn, 0);
	     at = (at + 1) & (slots - 1))
		if (u->slot[at] == hash)
			return 0;
	u->taken[at] = turn;
	u->slot[at] = hash;
	return 1;
}

/*
 * The XOR of those whose lowest `bits` bits are `part`, in one reading; in two of one bit more when
 * they are too many for the table. Equal hashes are of one part always, so parts become small
 * enough.
 */
ASCRIBE_FN ascribe_u64 ascribe_unique_part(struct ascribe_unique *u, unsigned long n,
					   ascribe_hash_at *at, const void *ctx, unsigned int bits,
					   ascribe_u64 part)
{
	ascribe_u64 x = 0, mask = (1ull << bits) - 1;
	ascribe_u8 turn = ascribe_unique_begin(u, ASCRIBE_UNIQUE_SLOTS);
	unsigned long used = 0;
	for (unsigned long i = 0; i < n; i++) {
		ascribe_u64 hash = at(ctx, i);
		/* Placed by other bits than those that all of them have in common. */
		if ((hash & mask) != part ||
		    !ascribe_unique_add(u, turn, ASCRIBE_UNIQUE_SLOTS, hash >> bits, hash))
			continue;
		x ^= hash;
		if (++used > ASCRIBE_UNIQUE_MAX)
			return ascribe_unique_part(u, n, at, ctx, bits + 1, part) ^
			       ascribe_unique_part(u, n, at, ctx, bits + 1, part | 1ull << bits);
	}
	return x;
}

ASCRIBE_COLD ascribe_u64 ascribe_unique_many(struct ascribe_unique *u, unsigned long n,
					     ascribe_hash_at *at, const void *ctx)
{
	return ascribe_unique_part(u, n, at, ctx, 0, 0);
}

/*
 * The key of n labels, in any order, any of them any number of times. `at` should be inlined:
 * ASCRIBE_HOT. Some 2 ns per label up to ASCRIBE_UNIQUE_MAX different ones; beyond, each doubling
 * of them makes one reading two.
 */
ASCRIBE_HOT ascribe_u64 ascribe_set_key(struct ascribe_unique *u, unsigned long n,
					ascribe_hash_at *at, const void *ctx)
{
	ascribe_u64 x = 0, slots = ASCRIBE_UNIQUE_SLOTS;
	ascribe_u8 turn;
	if (n <= ASCRIBE_UNIQUE_FEW) {
		ascribe_u64 seen[ASCRIBE_UNIQUE_FEW];
		for (unsigned long i = 0; i < n; i++) {
			seen[i] = at(ctx, i);
			x = ascribe_xor_unique(x, seen[i], seen, i);
		}
		return ascribe_key_of_xor(x);
	}
	if (n > ASCRIBE_UNIQUE_MAX)
		return ascribe_key_of_xor(ascribe_unique_many(u, n, at, ctx));
	/*
	 * Rather empty, since a slot that is taken costs a misprediction; but few labels use little
	 * memory.
	 */
	if (n * 16 < slots)
		slots = 16ull << (64 - __builtin_clzll(n - 1));
	turn = ascribe_unique_begin(u, slots);
	for (unsigned long i = 0; i < n; i++) {
		ascribe_u64 hash = at(ctx, i);
		if (ascribe_unique_add(u, turn, slots, hash, hash))
			x ^= hash;
	}
	return ascribe_key_of_xor(x);
}
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
