/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a file at the limits of what may be one. They are made here by docs/format.md, with a
 * CRC by the bit.
 */
#include "store/file/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK 65536 /* of a search */

static struct file file = { .fd = -1 };

static uint32_t crc_by_bit(const uint8_t *p, size_t n)
{
	uint32_t c = ~0u;
	for (; n; n--, p++) {
		c ^= *p;
		for (int i = 0; i < 8; i++)
			c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
	}
	return ~c;
}

static void put(uint8_t *p, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/* A file of zeros. */
static void make(size_t size)
{
	if (file.fd >= 0)
		close(file.fd);
	file = (struct file){ .fd = memfd_create("frames", MFD_CLOEXEC), .size = size };
	assert_int_equal(ftruncate(file.fd, (off_t)size), 0);
}

static void write_bytes(uint64_t at, const void *p, size_t n)
{
	assert_int_equal(pwrite(file.fd, p, n, (off_t)at), n);
}

/* The head says where it stands and how long what follows is; it may lie about either. */
static void put_head(uint64_t at, uint64_t says_at, uint32_t len, const void *payload, size_t n)
{
	uint8_t h[FRAME_SIZE] = { 'A', 'S', 'F', 'R', KIND_STRINGS };
	put(h + 8, says_at, 8);
	put(h + 16, 7, 4);
	put(h + 20, 3, 4);
	put(h + 24, len, 4);
	put(h + 28, len, 4);
	put(h + 32, crc_by_bit(payload, n), 4);
	put(h + 36, crc_by_bit(h, 36), 4);
	write_bytes(at, h, sizeof(h));
	write_bytes(at + sizeof(h), payload, n);
}

static int read_at(uint64_t at, uint64_t limit)
{
	struct frame h;
	struct buf b = BUF_INIT;
	int rc = file_frame(&file, at, limit, &h, &b);
	if (!rc) {
		assert_int_equal(h.first, 7);
		assert_int_equal(h.count, 3);
		assert_int_equal(h.stored_len, b.len);
		assert_int_equal(frame_end(&h), at + FRAME_SIZE + b.len);
	}
	buf_fini(&b);
	return rc;
}

static void whole_or_cut(void **state)
{
	(void)state;
	make(200);
	put_head(100, 100, 60, (uint8_t[60]){ 1, 2, 3 }, 60); /* the file ends with it */
	assert_int_equal(read_at(100, UINT64_MAX), 0);
	assert_int_equal(read_at(100, 200), 0);
	assert_int_equal(read_at(100, 199), -ENODATA);
	assert_int_equal(read_at(100, 140), -ENODATA);
	assert_int_equal(read_at(100, 139), -ENODATA);
	assert_int_equal(read_at(161, UINT64_MAX), -ENODATA);
	assert_int_equal(read_at(201, UINT64_MAX), -ENODATA);
	assert_int_equal(read_at(160, UINT64_MAX), -EBADMSG);
	put_head(100, 101, 60, (uint8_t[60]){ 1, 2, 3 }, 60);
	assert_int_equal(read_at(100, UINT64_MAX), -EBADMSG);
	put_head(100, 100, 60, (uint8_t[60]){ 1, 2, 3 }, 60);
	write_bytes(199, "x", 1);
	assert_int_equal(read_at(100, UINT64_MAX), -EBADMSG);
}

/* Any bit of a head that is not as it was written. */
static void every_bit(void **state)
{
	uint8_t h[FRAME_SIZE];
	(void)state;
	make(FRAME_SIZE);
	put_head(0, 0, 0, "", 0);
	assert_int_equal(pread(file.fd, h, sizeof(h), 0), sizeof(h));
	for (size_t bit = 0; bit < 8 * sizeof(h); bit++) {
		uint8_t changed = h[bit / 8] ^ (uint8_t)(1 << bit % 8);
		assert_int_equal(read_at(0, UINT64_MAX), 0);
		write_bytes(bit / 8, &changed, 1);
		assert_int_equal(read_at(0, UINT64_MAX), -EBADMSG);
		write_bytes(bit / 8, &h[bit / 8], 1);
	}
}

/* 256 MiB may follow; what says more is no head. */
static void longest(void **state)
{
	(void)state;
	make(100);
	put_head(0, 0, 256u << 20, "", 0);
	assert_int_equal(read_at(0, UINT64_MAX), -ENODATA);
	put_head(0, 0, (256u << 20) + 1, "", 0);
	assert_int_equal(read_at(0, UINT64_MAX), -EBADMSG);
}

static uint64_t found(enum kind kind, uint64_t from)
{
	uint64_t at = 0;
	assert_int_equal(file_find_frame(&file, kind, from, &at), 0);
	return at;
}

/* Wherever it stands: at both ends of the file, and across the pieces in which it is read. */
static void search(void **state)
{
	static const uint64_t places[] = { 0,
					   1,
					   CHUNK - 40,
					   CHUNK - 20,
					   CHUNK - 1,
					   CHUNK,
					   CHUNK + 1,
					   2 * CHUNK - 40,
					   2 * CHUNK - 1,
					   2 * CHUNK,
					   3 * CHUNK - 40 };
	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const uint64_t at = places[i];
		make(3 * CHUNK);
		assert_true(found(0, 0) == UINT64_MAX);
		put_head(at, at, 0, "", 0);
		assert_true(found(0, 0) == at);
		assert_true(found(KIND_STRINGS, at) == at);
		assert_true(found(0, at + 1) == UINT64_MAX);
		assert_true(found(KIND_BLOCKS, 0) == UINT64_MAX);
	}
	/* Behind what only looks like one, and behind one that lies. */
	write_bytes(100, "ASFRASFR", 8);
	put_head(200, 201, 0, "", 0);
	assert_true(found(0, 50) == 3 * CHUNK - 40);
	/* Its last bytes are not in the file. */
	file.size--;
	assert_true(found(0, 50) == UINT64_MAX);
}

static int count(void *ctx, const struct frame *h, const uint8_t *payload)
{
	size_t *n = ctx;
	assert_int_equal(payload[0], ++*n);
	return h->stored_len == 9 ? -ECANCELED : 0;
}

/* One behind the other, as far as they are whole. */
static void each(void **state)
{
	(void)state;
	size_t n = 0;
	uint64_t end;
	make(1000);
	put_head(32, 32, 3, (uint8_t[3]){ 1 }, 3);
	put_head(75, 75, 4, (uint8_t[4]){ 2 }, 4);
	put_head(119, 119, 5, (uint8_t[5]){ 3 }, 5);
	assert_int_equal(file_each_frame(&file, 32, UINT64_MAX, count, &n, &end), 0);
	assert_int_equal(n, 3);
	assert_int_equal(end, 164);
	n = 0;
	assert_int_equal(file_each_frame(&file, 32, 163, count, &n, &end), 0);
	assert_int_equal(n, 2);
	assert_int_equal(end, 119);
	n = 2;
	assert_int_equal(file_each_frame(&file, 119, 164, count, &n, &end), 0);
	assert_int_equal(n, 3);
	put_head(75, 75, 9, (uint8_t[9]){ 2 }, 9);
	n = 0;
	assert_int_equal(file_each_frame(&file, 32, UINT64_MAX, count, &n, &end), -ECANCELED);
	assert_int_equal(n, 2);
	assert_int_equal(end, 75);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_or_cut), cmocka_unit_test(longest), cmocka_unit_test(search),
		cmocka_unit_test(every_bit),	cmocka_unit_test(each),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
