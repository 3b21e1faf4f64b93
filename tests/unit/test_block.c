/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: which columns are packed, and that each is read back as it was written. */
#include "store/block/block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#define BYTES 8192u

/* Columns that are read by pieces stand in the file as they are, however well they would pack. */
static void pieces_are_not_packed(void **state)
{
	static uint8_t zeros[BYTES];
	struct block b = { .info = { .t0_ns = 1, .t1_ns = 2 } };
	struct buf out = BUF_INIT, back = BUF_INIT;
	struct block_head h;
	(void)state;
	for (unsigned c = COLUMN_TOP; c < N_COLUMNS; c++) {
		b.has |= 1u << c;
		assert_int_equal(buf_add(&b.column[c], zeros, BYTES - c), 0);
	}
	assert_int_equal(block_encode(&out, &b), 0);
	assert_int_equal(block_decode_head(&h, out.data, out.len, out.len), 0);
	for (unsigned c = COLUMN_TOP; c < N_COLUMNS; c++) {
		const struct block_column *k = &h.column[c];
		assert_true(block_has(&h, c));
		assert_int_equal(k->raw_len, BYTES - c);
		if (c >= COLUMN_POST_HEAD)
			assert_int_equal(k->stored_len, k->raw_len);
		else
			assert_in_range(k->stored_len, 1, BYTES / 16);
		back.len = 0;
		assert_int_equal(block_unpack(&h, c, out.data + k->at, &back), 0);
		assert_int_equal(back.len, BYTES - c);
		assert_memory_equal(back.data, zeros, back.len);
	}
	buf_fini(&out);
	buf_fini(&back);
	block_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(pieces_are_not_packed) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
