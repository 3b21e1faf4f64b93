/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that are written apart: the open window stays as it is, whatever becomes of them. */
#include "unit/store_model.h"
#include "store/instants.h"
#include "store/writer.h"

#define SECOND 1000000000ll
#define APART_NS 1600000000000000000ll
#define OPEN_NS 1700000000000000000ll /* that of model_commit_at */

struct apart {
	uint64_t samples; /* 0: no rows */
	int rc;		  /* what the caller's function ends with */
};

static int fill(struct store_writer *w, void *ctx)
{
	const struct apart *a = ctx;
	struct model_row r = { (char *)"tenant=apart\n", (char *)"late (/bin/late) 0 0\n", 1,
			       a->samples, a->samples };
	return a->samples && model_put_row(w, &r) ? -EINVAL : a->rc;
}

static int commit_apart(struct store_writer *w, int64_t at, struct apart a, struct err *err)
{
	return store_commit_apart(w, APART_NS + at * SECOND, APART_NS + (at + 10) * SECOND,
				  MODEL_BOOT(0), fill, &a, err);
}

/* Samples of an event, of the tenant that is written apart or of all others. */
static uint64_t samples_of(struct store *s, const char *event, bool apart)
{
	const struct query_spec spec = { .where = apart ? "{tenant=\"apart\"}"
							: "{tenant!=\"apart\"}",
					 .from_ns = INT64_MIN,
					 .to_ns = INT64_MAX,
					 .event = event,
					 .idle = true,
					 .labels = QUERY_TOTALS };
	struct query *q;
	struct err err = { 0 };
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	uint64_t samples = query_info(q)->samples;
	query_close(q);
	return samples;
}

static void the_open_window_stays(void **state)
{
	struct model m = { .random = 8 };
	struct model_window win = { 0 };
	struct store_writer *w;
	struct err err = { 0 };
	char dir[64];
	uint64_t want[3] = { 0 };
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	model_fill(&m, w, &win, 30);
	const size_t n_rows = store_n_rows(w);
	assert_int_equal(commit_apart(w, 0, (struct apart){ .samples = 7 }, &err), 0);
	assert_string_equal(err.text, "");
	assert_int_equal(store_n_rows(w), n_rows);
	/* Without rows nothing is written; nor where the caller's function fails. */
	assert_int_equal(commit_apart(w, 20, (struct apart){ .samples = 0 }, &err), 0);
	assert_int_equal(commit_apart(w, 40, (struct apart){ .samples = 9, .rc = -EDOM }, &err),
			 -EDOM);
	assert_non_null(strstr(err.text, "cannot write"));
	assert_non_null(strstr(err.text, strerror(EDOM)));
	assert_int_equal(store_n_rows(w), n_rows);
	assert_int_equal(commit_apart(w, 60, (struct apart){ .samples = 5 }, &err), 0);
	model_fill(&m, w, &win, 30); /* into the same window */
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	for (size_t i = 0; i < win.n; i++)
		want[win.rows[i].event] += win.rows[i].samples;
	struct store *s = open_store(dir);
	assert_int_equal(store_n_windows(s), 3);
	for (size_t e = 0; e < 3; e++)
		assert_int_equal(samples_of(s, model_events[e].name, false), want[e]);
	assert_int_equal(samples_of(s, "page-faults", true), 12);
	assert_int_equal(store_window(s, 0, &err)->t0_ns, APART_NS);
	assert_int_equal(store_window(s, 0, &err)->t1_ns, APART_NS + 10 * SECOND);
	assert_int_equal(store_window(s, 1, &err)->t0_ns, APART_NS + 60 * SECOND);
	store_close(s);
	assert_sound(dir);
	model_window_fini(&win);
	remove_tree(dir);
}

/* Does the window that begins there have a track, by which a part of it can be had? */
static bool is_tracked(struct store *s, int64_t begin)
{
	struct store_cover c;
	struct err err = { 0 };
	const int64_t middle = begin + 5 * SECOND;
	assert_int_equal(store_cover_nearest(s, begin, middle, STORE_FOLDED, NULL, 0, &c, &err), 0);
	bool tracked = c.to_ns == middle;
	store_cover_free(&c);
	return tracked;
}

/* Instants that were given are of the open window alone. */
static void instants_stay(void **state)
{
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	struct model_row row = { (char *)"tenant=apart\n", (char *)"late (/bin/late) 0 0\n", 1, 7,
				 7 };
	struct store_row r = { .samples = 7 };
	struct store_instant v[7];
	char dir[64];
	(void)state;
	o.tracks_ns = INT64_MAX;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	assert_int_equal(model_put_row(w, &row), 0);
	assert_int_equal(model_put_set(w, row.labels, &r.set), 0);
	assert_int_equal(model_put_stack(w, row.stack, &r.stack), 0);
	assert_int_equal(store_add_event(w, &model_events[1], &r.event), 0);
	for (int i = 0; i < 7; i++)
		v[i] = (struct store_instant){ OPEN_NS + i * SECOND, 0, 0, 0 };
	const struct store_instants given = { &r, 1, v, 7, 0 };
	store_set_instants(w, &given);
	assert_int_equal(commit_apart(w, 0, (struct apart){ .samples = 7 }, &err), 0);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_false(is_tracked(s, APART_NS));
	assert_true(is_tracked(s, OPEN_NS));
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_open_window_stays),
					    cmocka_unit_test(instants_stay) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
