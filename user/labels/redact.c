/* SPDX-License-Identifier: Apache-2.0 */
/* Redacted values: SipHash-2-4 (Aumasson and Bernstein, 2012) under a key of 128 random bits. */
#include "labels/filter.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

struct sip {
	uint64_t v0, v1, v2, v3;
	uint64_t word; /* bytes that do not fill a word yet */
	uint64_t n;    /* bytes so far */
};

static uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void sip_rounds(struct sip *s, int n)
{
	while (n--) {
		s->v0 += s->v1;
		s->v2 += s->v3;
		s->v1 = rotate(s->v1, 13) ^ s->v0;
		s->v3 = rotate(s->v3, 16) ^ s->v2;
		s->v0 = rotate(s->v0, 32) + s->v3;
		s->v2 += s->v1;
		s->v3 = rotate(s->v3, 21) ^ s->v0;
		s->v1 = rotate(s->v1, 17) ^ s->v2;
		s->v2 = rotate(s->v2, 32);
	}
}

static void sip_word(struct sip *s, uint64_t m)
{
	s->v3 ^= m;
	sip_rounds(s, 2);
	s->v0 ^= m;
}

static void sip_add(struct sip *s, const void *data, size_t len)
{
	const uint8_t *p = data;
	for (; len; len--, p++) {
		s->word |= (uint64_t)*p << 8 * (s->n++ % 8);
		if (s->n % 8 == 0) {
			sip_word(s, s->word);
			s->word = 0;
		}
	}
}

static uint64_t sip_end(struct sip *s)
{
	sip_word(s, s->word | s->n << 56);
	s->v2 ^= 0xff;
	sip_rounds(s, 4);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

int redactor_init(struct redactor *r)
{
	ssize_t n = getrandom(r->key, sizeof(r->key), 0);
	return n == (ssize_t)sizeof(r->key) ? 0 : n < 0 ? -errno : -EIO;
}

void redactor_text(const struct redactor *r, const struct label *l, char out[REDACTED_LEN])
{
	static const char digits[] = "0123456789abcdef";
	struct sip s = { .v0 = r->key[0] ^ 0x736f6d6570736575ull,
			 .v1 = r->key[1] ^ 0x646f72616e646f6dull,
			 .v2 = r->key[0] ^ 0x6c7967656e657261ull,
			 .v3 = r->key[1] ^ 0x7465646279746573ull };
	uint32_t head[2] = { l->key_len, (uint32_t)l->type };
	sip_add(&s, head, sizeof(head)); /* so that no other key and value make the same bytes */
	sip_add(&s, l->key, l->key_len);
	if (l->type == LABEL_INT)
		sip_add(&s, &l->num, sizeof(l->num));
	else
		sip_add(&s, l->str, l->str_len);
	uint64_t h = sip_end(&s);
	memcpy(out, "redacted:", 9);
	for (int i = 0; i < 16; i++)
		out[9 + i] = digits[h >> (60 - 4 * i) & 15];
}
