/* SPDX-License-Identifier: Apache-2.0 */
#include "util/crc32c.h"

#include <pthread.h>
#include <string.h>

/*
 * Eight tables: eight bytes per step, table[k] advances a byte that lies k bytes before the end of
 * the step.
 */
static uint32_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
		table[0][i] = c;
	}
	for (int t = 1; t < 8; t++)
		for (uint32_t i = 0; i < 256; i++)
			table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 0xff];
}

static uint32_t le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t crc32c_table(const void *data, size_t len)
{
	pthread_once(&once, fill_tables);
	const uint8_t *p = data;
	uint32_t c = ~0u;
	for (; len >= 8; p += 8, len -= 8) {
		uint32_t lo = le32(p) ^ c, hi = le32(p + 4);
		c = table[7][lo & 0xff] ^ table[6][lo >> 8 & 0xff] ^ table[5][lo >> 16 & 0xff] ^
		    table[4][lo >> 24] ^ table[3][hi & 0xff] ^ table[2][hi >> 8 & 0xff] ^
		    table[1][hi >> 16 & 0xff] ^ table[0][hi >> 24];
	}
	for (; len; p++, len--)
		c = c >> 8 ^ table[0][(c ^ *p) & 0xff];
	return ~c;
}

/* ---- by the instruction that some CPUs have for it ---- */

#if defined(__x86_64__)
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC_8(c, v) ((uint32_t)__builtin_ia32_crc32di(c, v))
#define CRC_1(c, v) __builtin_ia32_crc32qi(c, v)
#define CRC_HAS __builtin_cpu_supports("sse4.2")
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define CRC_TARGET __attribute__((target("+crc")))
#define CRC_8(c, v) __crc32cd(c, v)
#define CRC_1(c, v) __crc32cb(c, v)
#define CRC_HAS (getauxval(AT_HWCAP) & 1ul << 7) /* HWCAP_CRC32 */
#endif

#ifdef CRC_TARGET
CRC_TARGET static uint32_t crc32c_instruction(const uint8_t *p, size_t len)
{
	uint32_t c = ~0u;
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t v;
		memcpy(&v, p, sizeof(v));
		c = CRC_8(c, v);
	}
	for (; len; p++, len--)
		c = CRC_1(c, *p);
	return ~c;
}
#endif

uint32_t crc32c(const void *data, size_t len)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	/* Every change of a byte would be found. libFuzzer's documentation names the macro. */
	(void)data, (void)len;
	return 0;
#endif
#ifdef CRC_TARGET
	if (CRC_HAS)
		return crc32c_instruction(data, len);
#endif
	return crc32c_table(data, len);
}
