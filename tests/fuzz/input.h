/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fuzz targets share: a look at the input piece by piece, and what must hold.
 *
 * A target's head names the files that it is for on a line "Covers:", by shell patterns below user/
 * (make fuzz-coverage). tests/fuzz/corpus/NAME has its inputs; make test replays them.
 */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include "fuzz/starve.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(bool holds)
{
	if (!holds && !fuzz_starved)
		abort();
}

/* What must have gone well; false where an allocation failed. */
static inline bool well(int rc)
{
	require(!rc);
	return !rc;
}

struct input {
	const uint8_t *p;
	size_t left;
};

/* 0 at the end, as all numbers. */
static inline uint8_t take_byte(struct input *in)
{
	return in->left ? (in->left--, *in->p++) : 0;
}

/* n bytes; fewer at the end: the others are 0. */
static inline void take_bytes(struct input *in, void *out, size_t n)
{
	size_t have = n < in->left ? n : in->left;
	memset(out, 0, n);
	if (have)
		memcpy(out, in->p, have);
	in->p += have;
	in->left -= have;
}

static inline uint64_t take_u64(struct input *in)
{
	uint64_t v;
	take_bytes(in, &v, sizeof(v));
	return v;
}

/* A copy with a NUL behind it, and no byte more: to be freed. */
static inline char *copy_of(const uint8_t *p, size_t n)
{
	char *s = malloc(n + 1);
	require(s != NULL);
	if (n)
		memcpy(s, p, n);
	s[n] = '\0';
	return s;
}

/* What stands before the next byte `end`, which goes, too: to be freed. */
static inline char *take_until(struct input *in, char end, size_t *ret_len)
{
	const uint8_t *at = in->left ? memchr(in->p, end, in->left) : NULL;
	size_t n = at ? (size_t)(at - in->p) : in->left;
	char *s = copy_of(in->p, n);
	in->p += n + (at != NULL);
	in->left -= n + (at != NULL);
	if (ret_len)
		*ret_len = n;
	return s;
}

static inline char *take_line(struct input *in)
{
	return take_until(in, '\n', NULL);
}

/* A piece: two bytes of length, then the bytes, as many as there are: to be freed. */
static inline uint8_t *take_piece(struct input *in, size_t *ret_len)
{
	uint16_t n;
	take_bytes(in, &n, sizeof(n));
	*ret_len = n < in->left ? n : in->left;
	uint8_t *p = malloc(*ret_len ? *ret_len : 1);
	require(p != NULL);
	take_bytes(in, p, *ret_len);
	return p;
}

/* A file in memory: to be closed. */
static inline int file_of(const void *bytes, size_t len)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(fd >= 0 && !fchmod(fd, 0600) && (!len || write(fd, bytes, len) == (ssize_t)len));
	return fd;
}

#endif
