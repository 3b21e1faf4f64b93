/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Series over random windows, beside a sum of the plain-text rows: windows at odd times, gaps,
 * overlaps.
 */
#include "unit/store_model.h"

#include "query/series.h"
#include "store/writer.h"

#define N_WINDOWS 60
#define SECOND 1000000000ll
#define T0 1700000003000000000ll /* on no multiple of a step */

/*
 * Ten seconds each; a gap of some minutes here and there, a clock that is set back, a short last
 * window.
 */
static void place_windows(struct model *m)
{
	int64_t t = T0;
	for (size_t i = 0; i < N_WINDOWS; i++) {
		m->w[i].t0 = t;
		m->w[i].t1 = t + (i % 13 == 12 ? 3 : 10) * SECOND;
		t = m->w[i].t1;
		if (i % 17 == 16)
			t += 247 * SECOND;
		if (i % 23 == 22)
			t -= 25 * SECOND;
	}
}

static int setup(void **state)
{
	struct store_writer *w;
	struct err err = { 0 };
	struct fixture *f = fixture_new(3, NULL, &w);
	f->m.n = N_WINDOWS;
	place_windows(&f->m);
	for (size_t i = 0; i < N_WINDOWS; i++) {
		uint64_t lost[2] = { 1, 0 }, flagged[1] = { 0 };
		struct store_cpu_totals cpu = { 0, 1001, 1000, lost, flagged };
		struct store_totals t = { &cpu, 1, 0, 0, 0 };
		model_fill(&f->m, w, &f->m.w[i], 50);
		if (store_commit_window(w, f->m.w[i].t0, f->m.w[i].t1, (int64_t)i, &t, &err))
			fail_msg("%s", err.text);
	}
	fixture_open(f, w);
	*state = f;
	return 0;
}

static bool counts(const struct model_row *r, const char *label, const char *lacks)
{
	return r->event == 0 && !model_is_idle(r) && strstr(r->labels, label) &&
	       (!lacks || !strstr(r->labels, lacks));
}

/* Samples of the windows that begin in [from, to). */
static uint64_t brute(const struct fixture *f, int64_t from, int64_t to, const char *label,
		      const char *lacks, uint64_t *ret_windows)
{
	uint64_t sum = 0;
	*ret_windows = 0;
	for (size_t i = 0; i < N_WINDOWS; i++) {
		const struct model_window *w = &f->m.w[i];
		if (w->t0 < from || w->t0 >= to)
			continue;
		++*ret_windows;
		for (size_t k = 0; k < w->n; k++)
			sum += counts(&w->rows[k], label, lacks) ? w->rows[k].samples : 0;
	}
	return sum;
}

static struct query_series *ask(struct fixture *f, const struct query_series_spec *spec)
{
	struct query_series *s = NULL;
	struct err err = { 0 };
	if (query_series(&s, f->s, spec, &err))
		fail_msg("%s", err.text);
	return s;
}

static struct query_series_spec all(int64_t step_s)
{
	struct query_series_spec spec = { .step_ns = step_s * SECOND };
	spec.range.from_ns = INT64_MIN;
	spec.range.to_ns = INT64_MAX;
	return spec;
}

static void check_frame(const struct query_series *s, int64_t step_s)
{
	uint64_t sum = 0, samples = query_info(s->whole)->samples;
	assert_int_equal(s->step_ns, step_s * SECOND);
	assert_int_equal(s->from_ns % s->step_ns, 0);
	assert_int_equal(s->from_ns + (int64_t)s->n_steps * s->step_ns, s->to_ns);
	for (size_t i = 0; i < s->n_rows; i++) {
		uint64_t row = 0;
		for (size_t k = 0; k < s->n_steps; k++)
			row += s->rows[i].points[k];
		assert_int_equal(row, s->rows[i].samples);
		sum += row;
	}
	assert_int_equal(sum, samples);
}

static void one_series(void **state)
{
	struct fixture *f = *state;
	static const int64_t steps[][2] = { { 10, 10 },	 { 7, 10 },	 { 60, 60 },
					    { 95, 100 }, { 3600, 3600 }, { 86400, 86400 } };
	for (size_t i = 0; i < 6; i++) {
		struct query_series_spec spec = all(steps[i][0]);
		struct query_series *s = ask(f, &spec);
		uint64_t windows, covered = 0;
		check_frame(s, steps[i][1]);
		assert_int_equal(s->n_rows, 1);
		assert_true(s->from_ns <= f->m.w[0].t0 && s->to_ns > f->m.w[N_WINDOWS - 1].t0);
		for (size_t k = 0; k < s->n_steps; k++) {
			int64_t from = s->from_ns + (int64_t)k * s->step_ns;
			assert_int_equal(s->rows[0].points[k],
					 brute(f, from, from + s->step_ns, "", NULL, &windows));
			assert_int_equal(s->windows[k], windows);
			covered += (uint64_t)s->covered_ns[k];
		}
		/* Larger blocks know it up to the gaps and overlaps of their windows. */
		int64_t off = (int64_t)covered - query_info(s->whole)->covered_ns;
		assert_true(llabs(off) * 8 <= (int64_t)covered);
		assert_int_equal(query_info(s->whole)->windows, N_WINDOWS);
		query_series_free(s);
	}
}

static void by_tenant(void **state)
{
	struct fixture *f = *state;
	const char *const keys[] = { "tenant" };
	for (size_t top = 0; top <= 8; top++) {
		struct query_series_spec spec = all(60);
		spec.keys = keys;
		spec.n_keys = 1;
		spec.top = top;
		spec.range.from_ns = f->m.w[9].t0 + 1;
		spec.range.to_ns = f->m.w[50].t0;
		struct query_series *s = ask(f, &spec);
		uint64_t windows, named = 0;
		check_frame(s, 60);
		assert_int_equal(s->n_groups, 7); /* t0 .. t5, and none */
		assert_int_equal(s->n_rows, top && top < 7 ? top + 1 : 7);
		assert_int_equal(s->other_groups, top && top < 7 ? 7 - top : 0);
		assert_true(s->from_ns <= spec.range.from_ns &&
			    spec.range.from_ns < s->from_ns + s->step_ns);
		assert_true(s->to_ns >= spec.range.to_ns &&
			    spec.range.to_ns > s->to_ns - s->step_ns);
		for (size_t i = 0; i < s->n_rows; i++) {
			const struct query_series_row *r = &s->rows[i];
			char label[32] = "";
			assert_int_equal(r->other, top && i == top);
			if (r->other)
				break;
			if (r->present[0])
				snprintf(label, sizeof(label), "tenant=%s\n", r->values[0]);
			for (size_t k = 0; k < s->n_steps; k++) {
				int64_t from = s->from_ns + (int64_t)k * s->step_ns;
				assert_int_equal(r->points[k],
						 brute(f, from, from + s->step_ns, label,
						       r->present[0] ? NULL : "tenant=", &windows));
			}
			assert_true(!i || s->rows[i - 1].samples >= r->samples);
			named += r->samples;
		}
		assert_true(named <= query_info(s->whole)->samples);
		query_series_free(s);
	}
}

/* A quarter of the memory is for points: as many groups are shown as have room there. */
static void groups_that_fit(void **state)
{
	struct fixture *f = *state;
	const char *const keys[] = { "tenant" };
	struct query_series_spec spec = all(10);
	spec.keys = keys;
	spec.n_keys = 1;
	struct query_series *s = ask(f, &spec);
	const size_t each = (s->n_steps + 1) * sizeof(uint64_t) + sizeof(*s->rows);
	query_series_free(s);
	for (size_t room = 4; room <= 8; room++)
		for (size_t less = 0; less < 2; less++) {
			const size_t n = room - less;
			store_limit(f->s,
				    &(struct store_limits){ .bytes = 4 * each * room - less });
			s = ask(f, &spec);
			assert_int_equal(s->n_groups, 7);
			assert_int_equal(s->other_groups, n < 7 ? 7 - n : 0);
			assert_int_equal(s->n_rows, n < 7 ? n + 1 : 7);
			assert_int_equal(s->bounded, n < 7);
			query_series_free(s);
		}
	store_limit(f->s, &(struct store_limits){ 0 });
}

static void selected(void **state)
{
	struct fixture *f = *state;
	const char *const keys[] = { "comm", "tenant" };
	struct query_series_spec spec = all(30);
	spec.range.where = "tenant=\"t2\"";
	spec.keys = keys;
	spec.n_keys = 2;
	struct query_series *s = ask(f, &spec);
	uint64_t windows;
	check_frame(s, 30);
	assert_int_equal(s->n_rows, 3); /* sh, postgres, none */
	assert_int_equal(query_info(s->whole)->samples,
			 brute(f, INT64_MIN, INT64_MAX, "tenant=t2\n", NULL, &windows));
	query_series_free(s);
	spec.range.where = "tenant=\"nobody\"";
	s = ask(f, &spec);
	check_frame(s, 30);
	assert_int_equal(s->n_rows, 0);
	assert_int_equal(query_info(s->whole)->windows, N_WINDOWS);
	query_series_free(s);
}

static void nothing_there(void **state)
{
	struct fixture *f = *state;
	struct query_series_spec spec = all(60);
	spec.range.to_ns = T0 - SECOND;
	struct query_series *s = ask(f, &spec);
	assert_int_equal(s->n_steps, 0);
	assert_int_equal(s->n_rows, 0);
	assert_int_equal(query_info(s->whole)->blocks, 0);
	query_series_free(s);
	spec = all(60);
	spec.range.from_ns = f->m.w[N_WINDOWS - 1].t1;
	s = ask(f, &spec);
	assert_int_equal(s->n_steps, 0);
	query_series_free(s);
	/* Rounded out to the step in which the window begins */
	spec.range.from_ns = f->m.w[N_WINDOWS - 1].t0 + 1;
	s = ask(f, &spec);
	assert_int_equal(s->n_steps, 1);
	assert_int_equal(s->windows[0] > 0, 1);
	query_series_free(s);
	query_series_free(NULL);
}

static void refused(void **state)
{
	struct fixture *f = *state;
	struct query_series *s = NULL;
	struct err err = { 0 };
	struct query_series_spec spec = all(60);
	spec.range.where = "{tenant=t1}";
	assert_int_equal(query_series(&s, f->s, &spec, &err), -EINVAL);
	assert_non_null(strstr(err.text, "column 9"));
	spec = all(0);
	assert_int_equal(query_series(&s, f->s, &spec, &err), -EINVAL);
	spec = all(60);
	spec.range.event = "cycles";
	assert_int_equal(query_series(&s, f->s, &spec, &err), -EINVAL);
	assert_null(s);
}

/* As many steps as are asked for at most, and one more; the shortest and the longest step. */
static void limits(void **state)
{
	struct fixture *f = *state;
	struct query_series_spec spec = all(60);
	struct query_series *s = ask(f, &spec);
	const size_t n = s->n_steps;
	const int64_t length = s->to_ns - s->from_ns;
	struct err err = { 0 };
	char text[200];
	query_series_free(s);
	spec.max_steps = n;
	s = ask(f, &spec);
	assert_int_equal(s->n_steps, n);
	query_series_free(s);
	for (spec.max_steps = n - 1; spec.max_steps; spec.max_steps /= 2) {
		/* in whole windows: seconds of a step, rounded up to tens */
		const int64_t each =
			(length / (int64_t)spec.max_steps + 10 * SECOND - 1) / (10 * SECOND) * 10;
		s = NULL;
		assert_int_equal(query_series(&s, f->s, &spec, &err), -E2BIG);
		assert_null(s);
		snprintf(text, sizeof(text),
			 "%zu steps of 60 s, at most %zu: a step of %" PRId64 " s would do", n,
			 spec.max_steps, each);
		assert_string_equal(err.text, text);
	}
	static const struct {
		int64_t step_ns, got; /* 0: refused */
	} v[] = { { -1, 0 },
		  { 0, 0 },
		  { 1, 10 * SECOND },
		  { 10 * SECOND, 10 * SECOND },
		  { 10 * SECOND + 1, 20 * SECOND },
		  { INT64_MAX / 4, (INT64_MAX / 4 / (10 * SECOND) + 1) * 10 * SECOND },
		  { INT64_MAX / 4 + 1, 0 } };
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		spec = all(0);
		spec.step_ns = v[i].step_ns;
		s = NULL;
		assert_int_equal(query_series(&s, f->s, &spec, &err), v[i].got ? 0 : -EINVAL);
		if (s)
			assert_int_equal(s->step_ns, v[i].got);
		query_series_free(s);
	}
}

/* Two windows a year apart: too many steps of a minute; the step that the text names is taken. */
static void too_many(void **state)
{
	(void)state;
	char dir[64];
	struct store_writer *w;
	struct store *s;
	struct query_series *series = NULL;
	struct err err = { 0 };
	uint64_t lost[2] = { 0 }, flagged[1] = { 0 };
	struct store_cpu_totals cpu = { 0, 0, 0, lost, flagged };
	struct store_totals t = { &cpu, 1, 0, 0, 0 };
	struct query_series_spec spec = all(60);
	int64_t year = 365 * 86400 * SECOND;
	assert_int_equal(store_writer_open(&w, temp_dir(dir), &model_meta, &err), 0);
	assert_int_equal(store_commit_window(w, T0, T0 + 10 * SECOND, 0, &t, &err), 0);
	assert_int_equal(store_commit_window(w, T0 + year, T0 + year + 10 * SECOND, 0, &t, &err),
			 0);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(query_series(&series, s, &spec, &err), -E2BIG);
	const char *would = strstr(err.text, "a step of ");
	assert_non_null(would);
	spec = all(atoll(would + strlen("a step of ")));
	assert_int_equal(query_series(&series, s, &spec, &err), 0);
	assert_true(series->n_steps > QUERY_STEPS_MAX / 2);
	query_series_free(series);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_series),	   cmocka_unit_test(by_tenant),
		cmocka_unit_test(selected),	   cmocka_unit_test(refused),
		cmocka_unit_test(nothing_there),   cmocka_unit_test(too_many),
		cmocka_unit_test(groups_that_fit), cmocka_unit_test(limits),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
