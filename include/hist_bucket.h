/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Log-linear buckets: which bucket a value is counted in, and what a bucket holds. Included by
 * user/hist and by BPF programs (clang -target bpf), so it needs nothing but the types of
 * <linux/types.h> or vmlinux.h. It has neither divisions nor loops nor branches: the verifier sees
 * one path.
 *
 * With `bits` of precision every power of two is cut into unit = 1 << bits buckets of one width, as
 * a floating point number with `bits` of mantissa would:
 *
 *   value         0 .. 2*unit-1   2*unit .. 4*unit-1   4*unit .. 8*unit-1  ...  2^63 .. 2^64-1
 *   bucket width  1               2                    4                        2^(63-bits)
 *   shift         0               1                    2                        63-bits
 *
 *   index = (shift << bits) + (value >> shift)     rises by one from bucket to bucket, 0 ..
 *                                                  HIST_BUCKETS(bits) - 1
 *
 * Half the width of a bucket is at most 2^-(bits+1) of any value in it: 0.78% with 6 bits. Buckets
 * of fewer bits are unions of whole buckets of more bits.
 */
#ifndef ASCRIBE_HIST_BUCKET_H
#define ASCRIBE_HIST_BUCKET_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define HIST_BITS_MAX 12
#define HIST_BUCKETS(bits) ((65u - (bits)) << (bits))

#define HIST_INLINE static inline __attribute__((always_inline, unused))

/* The number of the highest bit of a value that is not 0. */
HIST_INLINE __u32 hist_log2(__u64 v)
{
#ifdef __bpf__
	/*
	 * BPF has no instruction for it, and clang 14 does not come to an end when it is asked for
	 * __builtin_clzll. Halves are asked whether they are 0 by adding, so that nothing becomes a
	 * jump.
	 */
	__u32 s32 = (__u32)(((v >> 32) + 0xffffffff) >> 32) << 5;
	v >>= s32;
	__u32 s16 = (__u32)(((v >> 16) + 0xffff) >> 16) << 4;
	v >>= s16;
	__u32 s8 = (__u32)(((v >> 8) + 0xff) >> 8) << 3;
	v >>= s8;
	__u32 s4 = (__u32)(((v >> 4) + 0xf) >> 4) << 2;
	v >>= s4;
	__u32 s2 = (__u32)(((v >> 2) + 3) >> 2) << 1;
	v >>= s2;
	return s32 + s16 + s8 + s4 + s2 + (__u32)(v >> 1);
#else
	return 63 ^ (__u32)__builtin_clzll(v);
#endif
}

/* By how much a value is shifted right to become its bucket's number within the power of two. */
HIST_INLINE __u32 hist_bucket_shift(__u32 bits, __u64 value)
{
	return hist_log2(value | 1ull << bits) - bits;
}

HIST_INLINE __u32 hist_bucket_index(__u32 bits, __u64 value)
{
	__u32 shift = hist_bucket_shift(bits, value);
	return (shift << bits) + (__u32)(value >> shift);
}

/* The shift of an index: 0 for the first two rows of `unit` buckets, then one more for each. */
HIST_INLINE __u32 hist_bucket_index_shift(__u32 bits, __u32 index)
{
	__u32 row = index >> bits;
	return row - ((row + 127) >> 7); /* row - (row != 0), for there are 65 rows at most */
}

/* The smallest and the greatest value of a bucket; index < HIST_BUCKETS(bits). */
HIST_INLINE __u64 hist_bucket_low(__u32 bits, __u32 index)
{
	__u32 shift = hist_bucket_index_shift(bits, index);
	return (__u64)(index - (shift << bits)) << shift;
}

HIST_INLINE __u64 hist_bucket_high(__u32 bits, __u32 index)
{
	return hist_bucket_low(bits, index) + ((1ull << hist_bucket_index_shift(bits, index)) - 1);
}

#endif
