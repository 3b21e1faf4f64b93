/* SPDX-License-Identifier: Apache-2.0 */
/* Both ways to compute CRC-32C beside one bit at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "util/crc32c.h"

static uint32_t by_bits(const uint8_t *p, size_t len)
{
	uint32_t c = ~0u;
	for (size_t i = 0; i < len; i++) {
		c ^= p[i];
		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
	}
	return ~c;
}

static void agree(void **state)
{
	static uint8_t data[4096];
	uint64_t seed = 1;
	(void)state;
	for (size_t i = 0; i < sizeof(data); i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		data[i] = (uint8_t)(seed >> 56);
	}
	for (size_t at = 0; at < 16; at++)
		for (size_t len = 0; len < 200; len++) {
			assert_int_equal(crc32c(data + at, len), by_bits(data + at, len));
			assert_int_equal(crc32c_table(data + at, len), by_bits(data + at, len));
		}
	assert_int_equal(crc32c(data, sizeof(data)), by_bits(data, sizeof(data)));
	assert_int_equal(crc32c("123456789", 9), 0xe3069283);
	assert_int_equal(crc32c_table("123456789", 9), 0xe3069283);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(agree) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
