/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mutator of protobuf messages, for targets that read one: one field at some depth is changed,
 * repeated, moved or removed, and the lengths around it are made right. Else nearly every change
 * would end in a length that does not fit.
 */
#ifndef TESTS_FUZZ_PROTOBUF_H
#define TESTS_FUZZ_PROTOBUF_H

#include "fuzz/input.h"

#define PROTOBUF_FIELDS 512
#define PROTOBUF_DEPTH 6

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
/* libFuzzer's; replayed without it. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

struct protobuf_field {
	size_t at, value, end; /* its tag, its content, what follows */
	bool bytes;
};

static inline unsigned protobuf_random(unsigned *seed, unsigned n)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 16) % n;
}

static inline bool protobuf_varint(const uint8_t *p, size_t len, size_t *io_at, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; *io_at < len && shift < 64; shift += 7) {
		uint8_t c = p[(*io_at)++];
		*ret |= (uint64_t)(c & 0x7f) << shift;
		if (!(c & 0x80))
			return true;
	}
	return false;
}

static inline size_t protobuf_put(uint8_t *out, uint64_t v)
{
	size_t n = 0;
	for (; v > 0x7f; v >>= 7)
		out[n++] = (uint8_t)(v | 0x80);
	out[n++] = (uint8_t)v;
	return n;
}

static inline bool protobuf_next(const uint8_t *p, size_t len, size_t at, struct protobuf_field *f)
{
	uint64_t tag, v = 0;
	size_t i = at;
	if (!protobuf_varint(p, len, &i, &tag))
		return false;
	f->at = at;
	f->bytes = (tag & 7) == 2;
	if (((tag & 7) == 0 || f->bytes) && !protobuf_varint(p, len, &i, &v))
		return false;
	v = f->bytes ? v : (tag & 7) == 1 ? 8 : (tag & 7) == 5 ? 4 : 0;
	f->value = i;
	f->end = i + v;
	return v <= len - i && (tag & 7) != 3 && (tag & 7) != 4 && (tag & 7) < 6;
}

/* The fields of a message; 0: it is none. */
static inline size_t protobuf_fields(const uint8_t *p, size_t len,
				     struct protobuf_field f[PROTOBUF_FIELDS])
{
	size_t n = 0;
	for (size_t at = 0; at < len && n < PROTOBUF_FIELDS; at = f[n++].end)
		if (!protobuf_next(p, len, at, &f[n]))
			return 0;
	return n;
}

static inline size_t protobuf_mutate(const uint8_t *p, size_t len, uint8_t *out, size_t max,
				     unsigned *seed, int depth);

/* A field's new form in out; its length. The tag has 5 bytes at the most, and so has a length. */
static inline size_t protobuf_change(const uint8_t *p, const struct protobuf_field *f, uint8_t *out,
				     size_t max, unsigned *seed, int depth)
{
	size_t old = f->end - f->at, tag = f->value - f->at, i = f->at, n;
	uint64_t v;
	if (old + 32 > max)
		return 0;
	if (!f->bytes) {
		memcpy(out, p + f->at, old);
		return LLVMFuzzerMutate(out, old, max < old + 8 ? max : old + 8);
	}
	uint8_t *inner = malloc(max);
	require(inner && protobuf_varint(p, f->end, &i, &v));
	n = protobuf_mutate(p + f->value, f->end - f->value, inner, max - 16, seed, depth + 1);
	tag = i - f->at;
	memcpy(out, p + f->at, tag);
	tag += protobuf_put(out + tag, n);
	memcpy(out + tag, inner, n);
	free(inner);
	return tag + n;
}

static inline size_t protobuf_mutate(const uint8_t *p, size_t len, uint8_t *out, size_t max,
				     unsigned *seed, int depth)
{
	struct protobuf_field f[PROTOBUF_FIELDS];
	size_t n = depth < PROTOBUF_DEPTH ? protobuf_fields(p, len, f) : 0, done = 0;
	unsigned how = protobuf_random(seed, 8);
	if (len > max || max < 64)
		return 0;
	if (!n || (how == 0 && depth)) {
		if (len)
			memcpy(out, p, len);
		return LLVMFuzzerMutate(out, len, max);
	}
	size_t k = protobuf_random(seed, (unsigned)n), to = protobuf_random(seed, (unsigned)n);
	for (size_t i = 0; i < n; i++) {
		size_t have = f[i].end - f[i].at;
		/* One is removed, one stands elsewhere once more. */
		if (how == 1 && i == k)
			continue;
		if (how == 2 && i == to && done + (f[k].end - f[k].at) < max) {
			memcpy(out + done, p + f[k].at, f[k].end - f[k].at);
			done += f[k].end - f[k].at;
		}
		if (done + have > max)
			break;
		if (how > 2 && i == k) {
			done += protobuf_change(p, &f[i], out + done, max - done, seed, depth);
			continue;
		}
		memcpy(out + done, p + f[i].at, have);
		done += have;
	}
	return done;
}

/* Behind the first `skip` bytes of an input there is a message. */
static inline size_t protobuf_mutate_behind(size_t skip, uint8_t *data, size_t size, size_t max,
					    unsigned seed)
{
	if (size <= skip || !protobuf_random(&seed, 8))
		return LLVMFuzzerMutate(data, size, max);
	uint8_t *out = malloc(max);
	require(out != NULL);
	size_t n = protobuf_mutate(data + skip, size - skip, out, max - skip, &seed, 0);
	memcpy(data + skip, out, n);
	free(out);
	return skip + n;
}

#endif
