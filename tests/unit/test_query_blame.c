/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix of who ran while others waited, against sums of what was put in. */
#include "unit/store_model.h"

#include "query/blame.h"
#include "store/writer.h"

#define PARTIES 6
#define ROWS 400

static const struct store_event events[2] = { { "blame", "nanoseconds", 0, 0 },
					      { "waker", "nanoseconds", 0, 0 } };

/* By event: of a tenant, by another one. */
static uint64_t put[2][PARTIES][PARTIES];

static struct store *make_store(const char *dir)
{
	struct model m = { .random = 3 };
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	uint32_t id[2], set, stack;
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	for (unsigned e = 0; e < 2; e++)
		assert_int_equal(store_add_event(w, &events[e], &id[e]), 0);
	assert_int_equal(model_put_stack(w, "main (a)1\n", &stack), 0);
	for (unsigned i = 0; i < ROWS; i++) {
		uint32_t e = model_random(&m, 2), of = model_random(&m, PARTIES),
			 by = model_random(&m, PARTIES),
			 ns = 1 + model_random(&m, 1000 * (1 + of) * (1 + by));
		char text[60];
		snprintf(text, sizeof(text), "by.tenant=t%u\ntenant=t%u\n", by, of);
		assert_int_equal(model_put_set(w, text, &set), 0);
		assert_int_equal(store_add_row(w, set, stack, id[e], 1, ns), 0);
		put[e][of][by] += ns;
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	return s;
}

/* Which tenants a line or column stands for: a bit for each. */
static unsigned stands_for(const struct blame_party *v, size_t n, size_t i)
{
	unsigned named = 0;
	if (v[i].kind == BLAME_VALUE)
		return 1u << (v[i].name[1] - '0');
	assert_int_equal(v[i].kind, BLAME_REST);
	assert_int_equal(i, n - 1);
	for (size_t k = 0; k < i; k++)
		named |= stands_for(v, n, k);
	return ((1u << PARTIES) - 1) & ~named;
}

static uint64_t sum_of(unsigned e, unsigned of, unsigned by)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < PARTIES * PARTIES; i++)
		if (of >> i / PARTIES & 1 && by >> i % PARTIES & 1)
			sum += put[e][i / PARTIES][i % PARTIES];
	return sum;
}

static void check(struct store *s, unsigned e, size_t lines, size_t columns)
{
	const unsigned all = (1u << PARTIES) - 1;
	const struct query_spec spec = { .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .metric = e ? QUERY_WAKER : QUERY_BLAME };
	struct query_blame *b;
	struct err err = { 0 };
	if (query_blame(&b, s, &spec, "tenant", lines, columns, &err))
		fail_msg("%s", err.text);
	lines = lines ? lines : 1;
	columns = columns ? columns : 1;
	assert_int_equal(b->victims, PARTIES);
	assert_int_equal(b->occupants, PARTIES);
	assert_int_equal(b->n_victims, lines < PARTIES ? lines + 1 : PARTIES);
	assert_int_equal(b->n_occupants, columns < PARTIES ? columns + 1 : PARTIES);
	assert_int_equal(b->total, sum_of(e, all, all));
	for (size_t i = 0; i < b->n_victims; i++) {
		unsigned of = stands_for(b->victim, b->n_victims, i);
		assert_int_equal(b->victim[i].ns, sum_of(e, of, all));
		if (i && b->victim[i].kind == BLAME_VALUE)
			assert_true(b->victim[i].ns <= b->victim[i - 1].ns);
		for (size_t k = 0; k < b->n_occupants; k++) {
			unsigned by = stands_for(b->occupant, b->n_occupants, k);
			assert_int_equal(query_blame_ns(b, i, k), sum_of(e, of, by));
			assert_int_equal(b->occupant[k].ns, sum_of(e, all, by));
		}
	}
	query_blame_free(b);
}

static void test_matrix(void **state)
{
	(void)state;
	char dir[] = "/tmp/test_query_blame.XXXXXX", path[64], command[80];
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	struct store *s = make_store(path);
	for (unsigned e = 0; e < 2; e++)
		for (size_t lines = 0; lines <= PARTIES + 1; lines++)
			for (size_t columns = 0; columns <= PARTIES + 1; columns++)
				check(s, e, lines, columns);
	store_close(s);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
	query_blame_free(NULL);
}

/* ---- parties that are no value ---- */

static const struct {
	const char *labels;
	uint64_t ns;
} kinds[] = {
	{ "by.comm=(idle)\ntenant=a\n", 10 },
	{ "by.comm=(interrupt)\ntenant=a\n", 20 },
	{ "by.comm=(other)\n", 30 },
	{ "by.comm=sh\n", 40 },
	{ "by.comm=sh\nby.tenant=b\ntenant=a\n", 45 },
	/* The recorder's word as the label's value, and a value that is called as another's name */
	{ "by.comm=(idle)\nby.tenant=(idle)\ntenant=b\n", 60 },
	{ "by.comm=sh\ntenant=(none)\n", 5 },
	{ "by.comm=(idle)\nby.tenant=x\ntenant=c\n", 5 },
};

struct wanted {
	enum blame_kind kind;
	const char *name;
	uint64_t ns;
};

static void check_parties(const struct blame_party *got, size_t n, const struct wanted *want,
			  size_t n_want)
{
	assert_int_equal(n, n_want);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(got[i].kind, want[i].kind);
		assert_string_equal(got[i].name, want[i].name);
		assert_int_equal(got[i].ns, want[i].ns);
	}
}

/* By time, then by kind, then by name. */
static void check_kinds(const struct query_blame *b)
{
	static const struct wanted victims[] = { { BLAME_VALUE, "a", 75 },
						 { BLAME_NONE, "(none)", 70 },
						 { BLAME_VALUE, "b", 60 },
						 { BLAME_VALUE, "(none)", 5 },
						 { BLAME_VALUE, "c", 5 } },
				   occupants[] = { { BLAME_IDLE, "(idle)", 70 },
						   { BLAME_VALUE, "b", 45 },
						   { BLAME_NONE, "(none)", 45 },
						   { BLAME_OTHER, "(other)", 30 },
						   { BLAME_INTERRUPT, "(interrupt)", 20 },
						   { BLAME_VALUE, "x", 5 } };
	static const uint64_t ns[5][6] = { { 10, 45, 0, 0, 20, 0 },
					   { 0, 0, 40, 30, 0, 0 },
					   { 60, 0, 0, 0, 0, 0 },
					   { 0, 0, 5, 0, 0, 0 },
					   { 0, 0, 0, 0, 0, 5 } };
	check_parties(b->victim, b->n_victims, victims, 5);
	check_parties(b->occupant, b->n_occupants, occupants, 6);
	for (size_t i = 0; i < 5; i++)
		for (size_t k = 0; k < 6; k++)
			assert_int_equal(query_blame_ns(b, i, k), ns[i][k]);
	assert_int_equal(b->total, 215);
}

/* Without memory all are (other). A name of 296 bytes is a key, with "by." before it, too. */
static void test_kinds(void **state)
{
	struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	struct store_writer *w;
	struct query_blame *b = NULL;
	struct err err = { 0 };
	uint32_t id, set, stack;
	char dir[64], key[300];
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	assert_int_equal(store_add_event(w, &events[0], &id), 0);
	assert_int_equal(model_put_stack(w, "main (a)1\n", &stack), 0);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		assert_int_equal(model_put_set(w, kinds[i].labels, &set), 0);
		assert_int_equal(store_add_row(w, set, stack, id, 1, kinds[i].ns), 0);
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_int_equal(query_blame(&b, s, &spec, "tenant", 9, 9, &err), 0);
	check_kinds(b);
	query_blame_free(b);
	store_limit(s, &(struct store_limits){ .bytes = 1 });
	assert_int_equal(query_blame(&b, s, &spec, "tenant", 9, 9, &err), 0);
	store_limit(s, &(struct store_limits){ 0 });
	assert_int_equal(b->total, 215);
	check_parties(b->victim, b->n_victims, &(struct wanted){ BLAME_OTHER, "(other)", 215 }, 1);
	check_parties(b->occupant, b->n_occupants, &(struct wanted){ BLAME_OTHER, "(other)", 215 },
		      1);
	query_blame_free(b);
	for (size_t len = 297; len >= 296; len--) {
		memset(key, 'k', len);
		key[len] = 0;
		b = NULL;
		assert_int_equal(query_blame(&b, s, &spec, key, 9, 9, &err),
				 len > 296 ? -EINVAL : 0);
		query_blame_free(b);
	}
	/* Who may see two tenants sees others as (other), also where rows go by another label */
	static const struct wanted seen[] = { { BLAME_OTHER, "(other)", 60 },
					      { BLAME_VALUE, "b", 45 },
					      { BLAME_INTERRUPT, "(interrupt)", 20 },
					      { BLAME_IDLE, "(idle)", 10 } },
				   comms[] = { { BLAME_OTHER, "(other)", 60 },
					       { BLAME_VALUE, "sh", 45 },
					       { BLAME_INTERRUPT, "(interrupt)", 20 },
					       { BLAME_IDLE, "(idle)", 10 } };
	store_set_scope(s, "{tenant=~\"a|b\"}");
	for (int by_comm = 0; by_comm < 2; by_comm++) {
		assert_int_equal(query_blame(&b, s, &spec, by_comm ? "comm" : "tenant", 9, 9, &err),
				 0);
		check_parties(b->occupant, b->n_occupants, by_comm ? comms : seen, 4);
		assert_int_equal(b->total, 135);
		query_blame_free(b);
	}
	store_set_scope(s, NULL);
	spec.metric = QUERY_WAKER; /* of which there are none */
	b = NULL;
	assert_int_equal(query_blame(&b, s, &spec, "tenant", 9, 9, &err), -EINVAL);
	assert_null(b);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matrix),
		cmocka_unit_test(test_kinds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
