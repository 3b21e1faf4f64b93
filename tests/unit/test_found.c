/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, their values and events of the samples of a query, against the plain-text rows. */
#include "unit/store_model.h"

#include "query/found.h"

#include <math.h>

#define VALUES_MAX 64

static int setup(void **state)
{
	*state = fixture_of(43, 10, 80);
	return 0;
}

/* ---- brute force ---- */

struct sums {
	char text[VALUES_MAX][32];
	uint64_t samples[VALUES_MAX], all;
	size_t n;
};

/* The value of a key in a set; false: it has none. */
static bool value_of(const char *labels, const char *key, char out[32])
{
	char start[40];
	snprintf(start, sizeof(start), "%s=", key);
	for (const char *p = labels; *p; p = strchr(p, '\n') + 1)
		if (!strncmp(p, start, strlen(start))) {
			p += strlen(start);
			snprintf(out, 32, "%.*s", (int)strcspn(p, "\n"), p);
			return true;
		}
	return false;
}

/* Samples of rows whose labels hold `with`, by the values of a key; event < 0: by events. */
static void sum(const struct model *m, const char *with, const char *key, int event, struct sums *s)
{
	*s = (struct sums){ .n = 0 };
	for (size_t i = 0; i < m->n; i++)
		for (size_t k = 0; k < m->w[i].n; k++) {
			const struct model_row *r = &m->w[i].rows[k];
			char text[32];
			size_t at = 0;
			if (model_is_idle(r) || !strstr(r->labels, with) ||
			    (event >= 0 && r->event != (uint32_t)event))
				continue;
			s->all += r->samples;
			if (event < 0)
				strcpy(text, model_events[r->event].name);
			else if (!value_of(r->labels, key, text))
				continue;
			while (at < s->n && strcmp(s->text[at], text))
				at++;
			if (at == s->n) {
				strcpy(s->text[s->n++], text);
				s->samples[at] = 0;
			}
			s->samples[at] += r->samples;
		}
}

static uint64_t samples_of(const struct sums *s, const char *text)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->text[i], text))
			return s->samples[i];
	return 0;
}

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fabs(b);
}

/* ---- lists ---- */

static void ask(struct fixture *f, struct query_spec spec, const char *key, struct found_list *l)
{
	const char *const keys[] = { key };
	struct query *q;
	struct err err = { 0 };
	spec.from_ns = INT64_MIN;
	spec.to_ns = INT64_MAX;
	spec.labels = key ? QUERY_KEYS : QUERY_TOTALS;
	spec.keys = keys;
	spec.n_keys = key != NULL;
	*l = (struct found_list){ 0 };
	assert_int_equal(query_open(&q, f->s, &spec, &err), 0);
	assert_int_equal(found_collect(l, f->s, q, &spec, key, &err), 0);
	for (size_t i = 1; i < l->n; i++)
		assert_true(l->v[i].samples <= l->v[i - 1].samples);
	/* Labels of values are borrowed from the query. */
	for (size_t i = 0; i < l->n; i++) {
		size_t len;
		char *text = found_text(&l->v[i].label, &len);
		assert_int_equal(len, strlen(text));
		l->v[i].label.str = text;
	}
	query_close(q);
}

static void drop(struct found_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free((char *)l->v[i].label.str);
	found_fini(l);
}

static void values_have_their_samples(void **state)
{
	static const char *const keys[] = { "tenant", "query_id", "comm" };
	struct fixture *f = *state;
	for (size_t i = 0; i < 3; i++)
		for (int event = 0; event < 3; event++) {
			const struct query_spec spec = { .event = model_events[event].name };
			struct found_list l;
			struct sums s;
			sum(&f->m, "", keys[i], event, &s);
			ask(f, spec, keys[i], &l);
			assert_int_equal(l.n, s.n);
			assert_int_equal(l.samples, s.all);
			assert_int_equal(l.time, model_events[event].ns_per_sample > 0);
			assert_false(l.keys);
			assert_int_equal(l.other, 0);
			for (size_t k = 0; k < l.n; k++) {
				uint64_t want = samples_of(&s, l.v[k].label.str);
				assert_int_equal(l.v[k].samples, want);
				assert_true(
					near(l.v[k].seconds,
					     (double)want / 1e9 *
						     (double)model_events[event].ns_per_sample));
			}
			drop(&l);
		}
}

/* Of a query that tells sets apart by more than the key: a value's sets are one. */
static void values_of_many_sets(void **state)
{
	struct fixture *f = *state;
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .labels = QUERY_ALL_LABELS };
	struct found_list l = { 0 };
	struct query *q;
	struct sums s;
	struct err err = { 0 };
	assert_int_equal(query_open(&q, f->s, &spec, &err), 0);
	assert_int_equal(found_collect(&l, f->s, q, &spec, "tenant", &err), 0);
	sum(&f->m, "", "tenant", 0, &s);
	assert_int_equal(l.n, s.n);
	for (size_t i = 0; i < l.n; i++) {
		size_t len;
		char *text = found_text(&l.v[i].label, &len);
		assert_int_equal(l.v[i].samples, samples_of(&s, text));
		assert_true(near(l.v[i].seconds, (double)l.v[i].samples * 0.010101010));
		assert_true(!i || l.v[i].samples <= l.v[i - 1].samples);
		free(text);
	}
	found_fini(&l);
	query_close(q);
}

static void keys_have_their_values(void **state)
{
	struct fixture *f = *state;
	const struct query_spec spec = { .where = "{tenant=\"t1\"}" };
	struct found_list l;
	size_t named = 0;
	ask(f, spec, NULL, &l);
	assert_true(l.keys && l.time);
	assert_int_equal(l.n, 4);
	for (size_t i = 0; i < l.n; i++) {
		char key[32];
		struct sums s;
		uint64_t want = 0;
		snprintf(key, sizeof(key), "%.*s", (int)l.v[i].label.key_len, l.v[i].label.key);
		sum(&f->m, "tenant=t1\n", key, 0, &s);
		for (size_t k = 0; k < s.n; k++)
			want += s.samples[k];
		if (!strcmp(key, "event")) {
			want = s.all;
			s.n = 1;
		}
		named += !strcmp(key, "event") || !strcmp(key, "tenant") ||
			 !strcmp(key, "query_id") || !strcmp(key, "comm");
		assert_int_equal(l.v[i].samples, want);
		assert_int_equal(l.v[i].values, s.n);
	}
	assert_int_equal(named, 4);
	drop(&l);
}

/* Every event that has samples, or the one that is asked for. */
static void events_have_their_samples(void **state)
{
	static const struct query_spec specs[] = {
		{ .where = NULL },
		{ .where = "{tenant=\"t1\"}" },
		{ .event = "page-faults" },
		{ .where = "{tenant=\"nobody\"}" },
	};
	static const char *const with[] = { "", "tenant=t1\n", "", "tenant=nobody\n" };
	static const size_t n[] = { 3, 3, 1, 0 };
	struct fixture *f = *state;
	for (size_t i = 0; i < 4; i++) {
		struct found_list l;
		struct sums s;
		uint64_t all = 0;
		sum(&f->m, with[i], NULL, -1, &s);
		ask(f, specs[i], "event", &l);
		assert_int_equal(l.n, n[i]);
		for (size_t k = 0; k < l.n; k++) {
			assert_int_equal(l.v[k].samples, samples_of(&s, l.v[k].label.str));
			all += l.v[k].samples;
		}
		assert_int_equal(l.samples, all);
		assert_int_equal(l.time, i != 2);
		drop(&l);
	}
}

/* Keys that were counted elsewhere: those with most samples first, the event among them. */
static void counted_keys(void **state)
{
	static const struct found_key first[] = { { "tenant", 3, 50 }, { "pod", 9, 70 } },
				      second[] = { { "pod", 1, 1 }, { "zone", 2, 7 } };
	struct fixture *f = *state;
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .labels = QUERY_TOTALS };
	struct found_list a = { 0 }, b = { 0 };
	struct query *q;
	struct err err = { 0 };
	assert_int_equal(query_open(&q, f->s, &spec, &err), 0);
	assert_int_equal(found_list_keys(&a, q, first, 2, &err), 0);
	assert_int_equal(found_list_keys(&b, q, second, 2, &err), 0);
	assert_true(a.keys && a.time);
	assert_int_equal(a.samples, query_info(q)->samples);
	assert_int_equal(a.n, 3);
	assert_int_equal(a.v[0].samples, a.samples);
	assert_memory_equal(a.v[0].label.key, "event", 5);
	assert_memory_equal(a.v[1].label.key, "pod", 3);
	assert_int_equal(a.v[1].samples, 70);
	assert_int_equal(a.v[1].values, 9);
	assert_true(near(a.v[1].seconds, 70 * 0.010101010));
	assert_int_equal(a.v[2].label.key_len, 6);
	assert_int_equal(a.v[2].values, 3);
	/* Those of b that a has not */
	assert_int_equal(found_add_keys(&a, &b), 0);
	found_fini(&b);
	assert_int_equal(a.n, 4);
	assert_memory_equal(a.v[3].label.key, "zone", 4);
	assert_int_equal(a.v[3].label.key_len, 4);
	assert_int_equal(a.v[3].samples, 7);
	assert_int_equal(a.v[3].values, 2);
	assert_true(near(a.v[3].seconds, 7 * 0.010101010));
	assert_int_equal(a.v[1].samples, 70);
	found_fini(&a);
	query_close(q);
}

/* ---- values of two types, rates, what is cut or shown to others ---- */

static void put(struct store_writer *w, const struct store_event *e, const struct label *l,
		size_t n, uint64_t samples)
{
	uint32_t event, set;
	assert_int_equal(store_add_event(w, e, &event), 0);
	assert_int_equal(store_add_set(w, l, n, &set), 0);
	assert_int_equal(store_add_row(w, set, 0, event, samples, samples), 0);
}

/* A number and its text are two values, in whatever order they came. */
static struct store *odd_store(char *dir)
{
	static const struct store_event clocks[] = { { "clock", "nanoseconds", 10000000, 1 },
						     { "clock", "nanoseconds", 30000000, 1 } },
					waker = { "waker", "nanoseconds", 0, 0 };
	const struct label
		text = { .key = "k", .key_len = 1, .str = "5", .str_len = 1 },
		longer = { .key = "k", .key_len = 1, .str = "55", .str_len = 2 },
		empty = { .key = "k", .key_len = 1, .str = "" },
		number = { .key = "k", .key_len = 1, .str = "", .num = 5, .type = LABEL_INT },
		negative = { .key = "k", .key_len = 1, .str = "", .num = -6, .type = LABEL_INT };
	struct store_writer *w;
	struct err err = { 0 };
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	for (int twice = 0; twice < 2; twice++) {
		put(w, &clocks[0], &longer, 1, 3);
		put(w, &clocks[0], &number, 1, 3);
		put(w, &clocks[0], &empty, 1, 3);
		put(w, &clocks[0], &text, 1, 3);
		put(w, &clocks[0], &negative, 1, 3);
		put(w, &clocks[1], NULL, 0, 2);
		put(w, &waker, &text, 1, 1000);
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	return open_store(dir);
}

static void list(struct store *s, enum query_labels labels, const char *key, struct found_list *l,
		 struct query **ret)
{
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .labels = labels,
					 .keys = &key,
					 .n_keys = labels == QUERY_KEYS };
	struct err err = { 0 };
	*l = (struct found_list){ 0 };
	assert_int_equal(query_open(ret, s, &spec, &err), 0);
	assert_int_equal(found_collect(l, s, *ret, &spec, key, &err), 0);
}

static void odd_values(void **state)
{
	/* Of as many samples: strings by their bytes, then numbers */
	static const char *const want[] = { "", "5", "55", "-6", "5" };
	struct found_list l;
	struct query *q;
	char dir[64];
	struct store *s = odd_store(dir);
	(void)state;
	list(s, QUERY_KEYS, "k", &l, &q);
	assert_int_equal(l.n, 5);
	for (size_t i = 0; i < 5; i++) {
		size_t len;
		char *text = found_text(&l.v[i].label, &len);
		assert_string_equal(text, want[i]);
		assert_int_equal(len, strlen(text));
		/* 60 ms each, in samples of the lowest rate */
		assert_int_equal(l.v[i].samples, 2);
		assert_true(near(l.v[i].seconds, 0.06));
		free(text);
	}
	found_fini(&l);
	query_close(q);
	/* The clock is one event at both rates; what wakes has no list of its own */
	list(s, QUERY_TOTALS, "event", &l, &q);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.v[0].label.str_len, 5);
	assert_memory_equal(l.v[0].label.str, "waker", 5);
	assert_int_equal(l.v[1].samples, 14);
	assert_true(near(l.v[1].seconds, 0.42));
	found_fini(&l);
	query_close(q);
	/* Who may see a part is not told of wakers, and not refused either */
	store_set_scope(s, "k=\"5\"");
	list(s, QUERY_TOTALS, "event", &l, &q);
	assert_int_equal(l.n, 1);
	assert_memory_equal(l.v[0].label.str, "clock", 5);
	found_fini(&l);
	query_close(q);
	store_set_scope(s, NULL);
	store_close(s);
	remove_tree(dir);
}

/* Without memory values are (other): a key has all of its samples, and says that some are. */
static void cut(void **state)
{
	struct fixture *f = *state;
	struct found_list l;
	struct query *q;
	struct sums s;
	store_limit(f->s, &(struct store_limits){ .bytes = 4000 });
	list(f->s, QUERY_KEYS, "query_id", &l, &q);
	sum(&f->m, "", "query_id", 0, &s);
	uint64_t all = l.other;
	for (size_t i = 0; i < l.n; i++)
		all += l.v[i].samples;
	assert_true(l.other > 0 && l.n > 0 && l.info.bounded);
	assert_int_equal(query_info(q)->samples, s.all);
	/* The others are of the key, or without it */
	uint64_t with = 0;
	for (size_t i = 0; i < s.n; i++)
		with += s.samples[i];
	assert_true(all >= with && all <= s.all);
	found_fini(&l);
	query_close(q);
	list(f->s, QUERY_TOTALS, NULL, &l, &q);
	store_limit(f->s, &(struct store_limits){ 0 });
	assert_false(query_info(q)->bounded);
	assert_true(l.info.bounded);
	found_fini(&l);
	query_close(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_have_their_samples),
		cmocka_unit_test(values_of_many_sets),
		cmocka_unit_test(keys_have_their_values),
		cmocka_unit_test(events_have_their_samples),
		cmocka_unit_test(counted_keys),
		cmocka_unit_test(odd_values),
		cmocka_unit_test(cut),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
