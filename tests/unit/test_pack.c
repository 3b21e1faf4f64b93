/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles as bytes: what comes back is what went in, and bytes that were changed in any place are
 * refused or make a profile whose indices and texts are in range.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "import/pack.h"

static uint64_t state = 7;

static uint32_t rnd(uint32_t below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((state >> 33) % below);
}

static const char *text(struct profile *p, const char *stem, unsigned i)
{
	char s[64];
	snprintf(s, sizeof(s), "%s%u", stem, i);
	return profile_text(p, s, strlen(s));
}

static void fill(struct profile *p)
{
	size_t type;
	*p = (struct profile){ .prefix = PROFILE_SENT, .from_ns = 5, .to_ns = 99 };
	assert_int_equal(profile_add_type(p, "cpu", "nanoseconds", 1000000, &type), 0);
	assert_int_equal(profile_add_type(p, "heap", "bytes", 0, &type), 0);
	uint32_t frame[20];
	for (unsigned i = 0; i < 20; i++) {
		const struct profile_frame f = { text(p, "f", i % 7), PROFILE_MODULE, "", i,
						 i % 3 == 0,	      i % 5 == 0 };
		assert_int_equal(profile_new_frame(p, &f, &frame[i]), 0);
	}
	for (unsigned i = 0; i < 50; i++) {
		struct profile_labels l = { .n = 0 };
		struct profile_sample *s;
		struct err err;
		assert_int_equal(profile_labels_add(&l, "tenant", text(p, "t", i % 4), &err), 0);
		assert_int_equal(profile_new_sample(p, &l, &s), 0);
		const struct label number = { "n", NULL, -(int64_t)i, 1, 0, LABEL_INT };
		assert_int_equal(profile_push_label(p, s, &number), 0);
		for (unsigned k = rnd(12); k--;)
			assert_int_equal(profile_push_frame(p, s, frame[rnd(20)]), 0);
		s->count = rnd(3);
		s->value[0] = rnd(1000);
		s->value[1] = i;
	}
}

static bool same_label(const struct label *a, const struct label *b)
{
	return a->type == b->type && a->key_len == b->key_len &&
	       !memcmp(a->key, b->key, a->key_len) &&
	       (a->type == LABEL_INT
			? a->num == b->num
			: a->str_len == b->str_len && !memcmp(a->str, b->str, a->str_len));
}

static void test_round_trip(void **ctx)
{
	struct profile p, q;
	struct buf bytes = BUF_INIT;
	(void)ctx;
	fill(&p);
	assert_int_equal(profile_pack(&p, &bytes), 0);
	assert_int_equal(profile_unpack(bytes.data, bytes.len, &q), 0);
	assert_true(q.from_ns == 5 && q.to_ns == 99 && q.n_types == 2);
	assert_memory_equal(p.type, q.type, 2 * sizeof(p.type[0]));
	assert_int_equal(p.n_frames, q.n_frames);
	for (size_t i = 0; i < p.n_frames; i++) {
		const struct profile_frame *a = &p.frames[i], *b = &q.frames[i];
		assert_string_equal(a->function, b->function);
		assert_string_equal(a->module, b->module);
		assert_string_equal(a->file, b->file);
		assert_true(a->line == b->line && a->kernel == b->kernel &&
			    a->inlined == b->inlined);
	}
	assert_int_equal(p.n_labels, q.n_labels);
	for (size_t i = 0; i < p.n_labels; i++)
		assert_true(same_label(&p.labels[i], &q.labels[i]));
	assert_int_equal(p.n_stacks, q.n_stacks);
	assert_memory_equal(p.stacks, q.stacks, p.n_stacks * sizeof(*p.stacks));
	assert_int_equal(p.n_samples, q.n_samples);
	assert_memory_equal(p.samples, q.samples, p.n_samples * sizeof(*p.samples));
	assert_int_equal(profile_size(&p), profile_size(&q));
	profile_fini(&p);
	profile_fini(&q);
}

/* Touch all that a writer touches. */
static size_t walk(const struct profile *p)
{
	size_t n = profile_size(p);
	for (size_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		for (uint32_t k = 0; k < s->depth; k++)
			n += strlen(p->frames[p->stacks[s->stack + k]].function);
		for (uint32_t k = 0; k < s->n_labels; k++) {
			const struct label *l = &p->labels[s->label + k];
			for (uint32_t c = 0; c < l->key_len; c++)
				n += (size_t)l->key[c];
			for (uint32_t c = 0; l->type == LABEL_STRING && c < l->str_len; c++)
				n += (size_t)l->str[c];
		}
	}
	for (size_t i = 0; i < p->n_types; i++) {
		assert_true(!strncmp(p->type[i].event, PROFILE_SENT, strlen(PROFILE_SENT)));
		assert_null(strpbrk(p->type[i].event, "{}\"\n "));
	}
	return n;
}

static void test_damage(void **ctx)
{
	static volatile size_t sum;
	struct profile p, q;
	struct buf bytes = BUF_INIT;
	unsigned refused = 0, n = 20000;
	(void)ctx;
	fill(&p);
	assert_int_equal(profile_pack(&p, &bytes), 0);
	profile_fini(&p);
	for (unsigned i = 0; i < n; i++) {
		size_t len = rnd(8) ? bytes.len : rnd((uint32_t)bytes.len + 1);
		uint8_t *copy = malloc(len ? len : 1); /* of this size: ASan sees what is beyond */
		memcpy(copy, bytes.data, len);
		for (unsigned k = 1 + rnd(4); len && k--;) {
			size_t at = rnd((uint32_t)len) / (rnd(4) ? 1 : 16);
			copy[at] = rnd(2) ? (uint8_t)rnd(256) : (uint8_t)(copy[at] + 1);
		}
		int rc = profile_unpack(copy, len, &q);
		assert_true(!rc || rc == -EBADMSG || rc == -E2BIG);
		refused += rc != 0;
		sum += rc ? 0 : walk(&q);
		profile_fini(&q);
	}
	assert_in_range(refused, n / 10, n - n / 10);
	buf_fini(&bytes);
}

/* Events of programs on this host cannot be made up. */
static void test_other_event(void **ctx)
{
	struct profile p, q;
	struct buf bytes = BUF_INIT;
	(void)ctx;
	fill(&p);
	snprintf(p.type[0].event, sizeof(p.type[0].event), "cpu-clock");
	assert_int_equal(profile_pack(&p, &bytes), 0);
	assert_int_equal(profile_unpack(bytes.data, bytes.len, &q), -EBADMSG);
	profile_fini(&p);
	profile_fini(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_other_event),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
