/* SPDX-License-Identifier: Apache-2.0 */
/* The tree by the values of a label, against the plain-text rows that went into a random store. */
#include "unit/store_model.h"

#include "query/split.h"

#define KEY "tenant"
#define VALUES_MAX 32

static int setup(void **state)
{
	*state = fixture_of(37, 12, 60);
	return 0;
}

/* ---- brute force ---- */

/* Lines are no part of a function: cut the last word of each line. To be freed. */
static char *without_lines(char *stack)
{
	char *out = strdup(stack), *to = out;
	for (const char *p = stack; *p; p += strcspn(p, "\n") + 1) {
		size_t n = strcspn(p, "\n");
		while (p[n] != ' ')
			n--;
		memmove(to, p, n);
		to += n;
		*to++ = '\n';
	}
	*to = 0;
	free(stack);
	return out;
}

/* "(none)" for a set without the label. */
static void value_of(const struct model_row *r, char out[32])
{
	const char *at = strstr(r->labels, KEY "=");
	snprintf(out, 32, "%.*s", at ? (int)strcspn(at + 7, "\n") : 6, at ? at + 7 : "(none)");
}

struct values {
	char text[VALUES_MAX][32];
	uint64_t samples[VALUES_MAX];
	size_t n;
};

static int value_at(const struct values *v, const char *text)
{
	for (size_t i = 0; i < v->n; i++)
		if (!strcmp(v->text[i], text))
			return (int)i;
	return -1;
}

/* Does the query have this row? It asks for the first event, without idle CPUs. */
static bool is_in_query(const struct model_row *r)
{
	return r->event == 0 && !model_is_idle(r);
}

/* All values, those with most samples first; then by text. */
static void sum_values(const struct model *m, struct values *v)
{
	v->n = 0;
	for (size_t i = 0; i < m->n; i++)
		for (size_t k = 0; k < m->w[i].n; k++) {
			char text[32];
			if (!is_in_query(&m->w[i].rows[k]))
				continue;
			value_of(&m->w[i].rows[k], text);
			int at = value_at(v, text);
			if (at < 0) {
				at = (int)v->n++;
				strcpy(v->text[at], text);
				v->samples[at] = 0;
			}
			v->samples[at] += m->w[i].rows[k].samples;
		}
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = i + 1; k < v->n; k++) {
			struct values t = *v;
			if (v->samples[i] > v->samples[k] ||
			    (v->samples[i] == v->samples[k] && strcmp(v->text[i], v->text[k]) < 0))
				continue;
			strcpy(v->text[i], t.text[k]);
			strcpy(v->text[k], t.text[i]);
			v->samples[i] = t.samples[k];
			v->samples[k] = t.samples[i];
		}
}

/* Samples of a stack, of the values [from, to). */
static uint64_t sum_stack(const struct model *m, const struct values *v, size_t from, size_t to,
			  const char *stack)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < m->n; i++)
		for (size_t k = 0; k < m->w[i].n; k++) {
			const struct model_row *r = &m->w[i].rows[k];
			char text[32];
			if (!is_in_query(r))
				continue;
			value_of(r, text);
			int at = value_at(v, text);
			char *own = without_lines(strdup(r->stack));
			if (at >= (int)from && at < (int)to && !strcmp(own, stack))
				sum += r->samples;
			free(own);
		}
	return sum;
}

/* ---- a split beside it ---- */

static struct query *ask(struct fixture *f)
{
	static const char *const keys[] = { KEY };
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .labels = QUERY_KEYS_STACKS,
					 .keys = keys,
					 .n_keys = 1 };
	struct query *q;
	struct err err = { 0 };
	if (query_open(&q, f->s, &spec, &err))
		fail_msg("%s", err.text);
	return q;
}

/* The nodes below `node`: each has the samples of its own stack, and those of its children. */
static uint64_t check_below(struct fixture *f, const struct query_split *s, uint32_t node,
			    const struct values *v, size_t from, size_t to)
{
	const struct query_node *n = &s->nodes[node];
	char *stack = without_lines(store_stack_text(f->s, n->stack));
	uint64_t sum = n->self, last = UINT64_MAX;
	assert_int_equal(n->self, sum_stack(&f->m, v, from, to, stack));
	for (uint32_t c = n->first_child; c; c = s->nodes[c].next_sibling) {
		assert_true(c > node && c < s->n && s->nodes[c].parent == node);
		assert_true(s->nodes[c].total <= last);
		last = check_below(f, s, c, v, from, to);
		sum += last;
	}
	assert_int_equal(sum, n->total);
	free(stack);
	return sum;
}

static void check(struct fixture *f, struct query *q, uint32_t most)
{
	const struct query_view_spec down = { .view = QUERY_VIEW_DOWN };
	struct query_split *s;
	struct values v;
	struct err err = { 0 };
	uint64_t all = 0;
	size_t i = 0;
	assert_int_equal(query_split(&s, q, KEY, most, &down, &err), 0);
	sum_values(&f->m, &v);
	size_t n = most && most < v.n ? most : v.n;
	assert_int_equal(s->n_values, n + (n < v.n));
	assert_int_equal(s->nodes[0].next_sibling, 0);
	for (uint32_t c = s->nodes[0].first_child; c; c = s->nodes[c].next_sibling, i++) {
		assert_true(i < s->n_values);
		assert_int_equal(s->node[i], c);
		assert_int_equal(s->nodes[c].parent, 0);
		assert_int_equal(s->nodes[c].stack, 0);
		assert_string_equal(s->text[i], i < n ? v.text[i] : "(others)");
		uint64_t got = check_below(f, s, c, &v, i, i < n ? i + 1 : v.n), want = 0;
		for (size_t k = i; k < (i < n ? i + 1 : v.n); k++)
			want += v.samples[k];
		assert_int_equal(got, want);
		all += got;
	}
	assert_int_equal(i, s->n_values);
	assert_int_equal(s->nodes[0].total, all);
	assert_int_equal(s->nodes[0].self, 0);
	assert_int_equal(all, query_info(q)->samples);
	query_split_free(s);
}

static void values_have_their_samples(void **state)
{
	static const uint32_t most[] = { 0, 1, 3, 6, 7, 100 };
	struct fixture *f = *state;
	struct query *q = ask(f);
	for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++)
		check(f, q, most[i]);
	query_close(q);
}

/* The query's own tree is neither shown nor lost. */
static void own_tree_stays(void **state)
{
	struct fixture *f = *state;
	struct query *q = ask(f);
	const struct query_node *nodes, *again;
	struct err err = { 0 };
	size_t n, n_again;
	assert_int_equal(query_tree(q, &nodes, &n, &err), 0);
	const uint64_t total = nodes[0].total;
	check(f, q, 2);
	assert_int_equal(query_tree(q, &again, &n_again, &err), 0);
	assert_int_equal(n, n_again);
	assert_int_equal(again[0].total, total);
	query_close(q);
}

/* Leaves of one value are the functions in which its samples ended. */
static void inverted(void **state)
{
	struct fixture *f = *state;
	const struct query_view_spec spec = { .view = QUERY_VIEW_INVERTED };
	struct query *q = ask(f);
	struct query_split *s;
	struct values v;
	struct err err = { 0 };
	sum_values(&f->m, &v);
	assert_int_equal(query_split(&s, q, KEY, 0, &spec, &err), 0);
	for (uint32_t i = 0; i < s->n_values; i++)
		assert_int_equal(s->nodes[s->node[i]].total, v.samples[i]);
	query_split_free(s);
	query_close(q);
}

/* ---- by hand: values of no text, equal ones, more than there is room for ---- */

#define MANY (QUERY_SPLIT_MAX + 3)

static void put(struct store_writer *w, const char *value, uint64_t samples)
{
	const struct label l = { .key = KEY,
				 .key_len = 6,
				 .str = value ? value : "",
				 .str_len = value ? (uint32_t)strlen(value) : 0 };
	uint32_t event, set, stack;
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	assert_int_equal(store_add_set(w, &l, value != NULL, &set), 0);
	assert_int_equal(model_put_stack(w, "main (/bin/a) 0 0\n", &stack), 0);
	assert_int_equal(store_add_row(w, set, stack, event, samples, samples), 0);
}

static void check_texts(struct query *q, uint32_t most, const char *const *want, size_t n)
{
	const struct query_view_spec down = { .view = QUERY_VIEW_DOWN };
	struct query_split *s;
	struct err err = { 0 };
	assert_int_equal(query_split(&s, q, KEY, most, &down, &err), 0);
	assert_int_equal(s->n_values, n);
	for (size_t i = 0; i < n; i++)
		if (want[i])
			assert_string_equal(s->text[i], want[i]);
	assert_int_equal(s->nodes[0].total, query_info(q)->samples);
	query_split_free(s);
}

static void odd_values(void **state)
{
	static const char *const three[] = { "(none)", "(empty)", "b" },
				 *const two[] = { "(none)", "(others)" },
				 *const cut[] = { "(others)" };
	static const char *const keys[] = { KEY };
	const char *many[QUERY_SPLIT_MAX + 1] = { NULL };
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .labels = QUERY_KEYS_STACKS,
					 .keys = keys,
					 .n_keys = 1 };
	(void)state;
	for (int n = 0; n < 2; n++) {
		struct store_writer *w;
		struct query *q;
		struct err err = { 0 };
		char dir[64], text[16];
		assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta,
							&model_options, &err),
				 0);
		for (int i = 0; n && i < MANY; i++) {
			snprintf(text, sizeof(text), "v%02d", i);
			put(w, text, 5);
		}
		if (!n) {
			put(w, "b", 2);
			put(w, NULL, 9);
			put(w, "", 2);
		}
		assert_int_equal(model_commit_at(w, 0, &err), 0);
		store_writer_close(w);
		struct store *s = open_store(dir);
		assert_int_equal(query_open(&q, s, &spec, &err), 0);
		many[0] = "v00";
		many[QUERY_SPLIT_MAX - 1] = "v19";
		many[QUERY_SPLIT_MAX] = "(others)";
		if (n) {
			check_texts(q, 0, many, QUERY_SPLIT_MAX + 1);
			check_texts(q, QUERY_SPLIT_MAX, many, QUERY_SPLIT_MAX + 1);
			check_texts(q, MANY, many, QUERY_SPLIT_MAX + 1);
		} else {
			check_texts(q, 0, three, 3);
			check_texts(q, 3, three, 3);
			check_texts(q, 1, two, 2);
		}
		query_close(q);
		store_limit(s, &(struct store_limits){ .bytes = 1 });
		assert_int_equal(query_open(&q, s, &spec, &err), 0);
		store_limit(s, &(struct store_limits){ 0 });
		assert_true(query_info(q)->bounded);
		if (n) /* without memory there is no value */
			check_texts(q, 3, cut, 1);
		query_close(q);
		store_close(s);
		remove_tree(dir);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_have_their_samples),
		cmocka_unit_test(own_tree_stays),
		cmocka_unit_test(inverted),
		cmocka_unit_test(odd_values),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
