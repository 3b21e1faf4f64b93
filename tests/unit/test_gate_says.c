/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What verdicts of gates say, line by line, and how many rows they count. The bounds come from
 * query/stats.h, which has tests of its own.
 */
#include "query/gate.h"
#include "query/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ERROR 0.01 /* of all rows that could break a rule */

/* ---- growth ---- */

static const char *const keys[] = { "tenant", "zone" };
static const char *const values[][2] = { { "t1", "z" }, { "", "z" } };
static const bool present[][2] = { { true, true }, { false, true } };

/* Of 10,000 samples in A and 5,000 in B, from 4 s and from 2 s. */
static struct query_diff_row row_of(const char *text, const char *module, unsigned a, unsigned b)
{
	return (struct query_diff_row){ .text = text,
					.module = module,
					.count = { a, b },
					.share = { a / 10000.0, b / 5000.0 },
					.change = a / 10000.0 - b / 5000.0 };
}

static struct gate_result judge(const char *text, struct query_diff_row *rows, size_t n,
				const char *const *by, bool bounded)
{
	static struct gate_rule r;
	struct query_diff d = { .rows = rows, .n_rows = n, .samples = { 10000, 5000 } };
	const struct gate_sides s = {
		.d = &d, .keys = by, .n_keys = by ? 2 : 0, .exposure = { 4, 2 }, .bounded = bounded
	};
	struct gate_result ret;
	struct err err = { 0 };
	size_t at;
	gate_rule_fini(&r);
	assert_int_equal(gate_rule_parse(&r, text, &at, &err), 0);
	assert_int_equal(gate_check_diff(&r, by, by ? 2 : 0, &err), 0);
	assert_int_equal(gate_judge_diff(&r, &s, &ret, &err), 0);
	assert_ptr_equal(ret.rule, &r);
	return ret;
}

static double low_points(unsigned a, unsigned b, unsigned candidates)
{
	double low, high;
	stats_change_interval(a, 10000, b, 5000, stats_normal_z(ERROR / candidates), &low, &high);
	return 100 * low;
}

static double low_times(unsigned a, unsigned b, unsigned candidates)
{
	return stats_rate_ratio_low(a, 4, b, 2, stats_normal_z(ERROR / candidates));
}

/* A row with a file, without one, by labels. The rows over the limit that may be noise count. */
static void rows_are_named(void **state)
{
	struct query_diff_row rows[] = {
		row_of("parse", "/usr/bin/app", 3000, 500),
		row_of("pad", "", 1100, 500),
		row_of("read", "lib", 900, 450),
		row_of("new", "/x", 5000, 0),
		row_of("gone", "/x", 0, 3550),
		row_of("rest", "/x", 9000, 100),
	};
	char want[200];
	(void)state;
	rows[5].other = true; /* what was cut is no row of a rule */
	struct gate_result r = judge("function>1%", rows, 6, NULL, false);
	assert_int_equal(r.verdict, GATE_BROKEN);
	assert_int_equal(r.n_broken, 2);
	assert_int_equal(r.n_lines, 2);
	/* pad: one point just so, which is not over it */
	assert_int_equal(r.n_unsure, 0);
	snprintf(want, sizeof(want),
		 "parse (app): 10.00%% -> 30.00%%, +20.00 points, certainly %+.2f",
		 low_points(3000, 500, 4));
	assert_string_equal(r.line[0], want);
	snprintf(want, sizeof(want), "new (x): 0.00%% -> 50.00%%, +50.00 points, certainly %+.2f",
		 low_points(5000, 0, 4));
	assert_string_equal(r.line[1], want);
	gate_result_fini(&r);
	assert_int_equal(r.n_lines, 0);
	r = judge("function>0.9%", rows, 6, NULL, false);
	assert_int_equal(r.n_broken, 2);
	assert_int_equal(r.n_unsure, 1); /* pad, by a tenth of a point */
	gate_result_fini(&r);
	r = judge("function=\"pad\">0%", rows, 6, NULL, false);
	assert_int_equal(r.verdict, GATE_HOLDS);
	assert_int_equal(r.n_unsure + r.n_broken, 1);
	gate_result_fini(&r);
	rows[1].count[0] = 3000;
	r = judge("function=~\"pad|new|gone|read\">1x", rows, 6, NULL, false);
	assert_int_equal(r.n_broken, 2);
	snprintf(want, sizeof(want), "pad: 3.000 times the CPU time, certainly %.3f",
		 low_times(3000, 500, 3));
	assert_string_equal(r.line[0], want);
	assert_string_equal(r.line[1], "new (x): not there before");
	snprintf(want, sizeof(want), "a growth to less than %.3f times may be noise",
		 1 / low_times(900, 450, 3));
	assert_string_equal(r.note, want); /* of read, which has fewest samples of those */
	gate_result_fini(&r);
	rows[0].values = values[0];
	rows[0].present = present[0];
	rows[1] = row_of("by keys", NULL, 2900, 500);
	rows[1].values = values[1];
	rows[1].present = present[1];
	r = judge("zone>5%", rows, 2, keys, false);
	assert_int_equal(r.n_lines, 2);
	snprintf(want, sizeof(want),
		 "tenant=\"t1\", zone=\"z\": 10.00%% -> 30.00%%, +20.00 points, certainly %+.2f",
		 low_points(3000, 500, 2));
	assert_string_equal(r.line[0], want);
	assert_ptr_equal(strstr(r.line[1], "tenant=(none), zone=\"z\": 10.00%"), r.line[1]);
	gate_result_fini(&r);
}

/* More rows than there are lines: they are counted. */
static void lines_have_an_end(void **state)
{
	struct query_diff_row rows[GATE_LINES_MAX + 2];
	(void)state;
	for (size_t n = GATE_LINES_MAX - 1; n <= GATE_LINES_MAX + 2; n++) {
		for (size_t i = 0; i < n; i++)
			rows[i] = row_of("f", "/x", 3000, 500);
		struct gate_result r = judge("function>1%", rows, n, NULL, false);
		assert_int_equal(r.n_broken, n);
		assert_int_equal(r.n_lines, n < GATE_LINES_MAX ? n : GATE_LINES_MAX);
		gate_result_fini(&r);
	}
}

/* Where the answer was cut, no rule about rows holds for certain; one that is broken is. */
static void cut_answers(void **state)
{
	struct query_diff_row row = row_of("parse", "/x", 3000, 500);
	(void)state;
	struct gate_result r = judge("function>50%", &row, 1, NULL, true);
	assert_int_equal(r.verdict, GATE_UNKNOWN);
	assert_int_equal(r.n_lines, 1);
	assert_non_null(strstr(r.line[0], "--memory"));
	gate_result_fini(&r);
	r = judge("function>50%", &row, 1, NULL, false);
	assert_int_equal(r.verdict, GATE_HOLDS);
	gate_result_fini(&r);
	r = judge("function>1%", &row, 1, NULL, true);
	assert_int_equal(r.verdict, GATE_BROKEN);
	gate_result_fini(&r);
	r = judge("total>50%", &row, 1, NULL, true);
	assert_int_equal(r.verdict, GATE_HOLDS);
	gate_result_fini(&r);
	r = judge("function=\"nobody\">1%", &row, 1, NULL, false);
	assert_int_equal(r.verdict, GATE_UNKNOWN);
	assert_string_equal(r.line[0], "no row of A or B is called so");
	gate_result_fini(&r);
}

/* As many samples a second on both sides; the rule says more, or it may be noise. */
static void totals(void **state)
{
	char want[200];
	const double low = low_times(10000, 5000, 1);
	(void)state;
	struct gate_result r = judge("total>=0%", NULL, 0, NULL, false);
	assert_int_equal(r.verdict, GATE_HOLDS);
	assert_int_equal(r.n_unsure, 1);
	snprintf(want, sizeof(want), "a growth to less than %.3f times may be noise", 1 / low);
	assert_string_equal(r.note, want);
	gate_result_fini(&r);
	snprintf(want, sizeof(want), "total>=%.6f%%", 0.001);
	r = judge(want, NULL, 0, NULL, false);
	assert_int_equal(r.n_unsure, 0);
	gate_result_fini(&r);
	/* Half the samples in B, in the same time */
	struct query_diff d = { .samples = { 10000, 5000 } };
	const struct gate_sides s = { .d = &d, .exposure = { 2, 2 } };
	struct gate_rule rule;
	struct err err = { 0 };
	size_t at;
	assert_int_equal(gate_rule_parse(&rule, "total>50%", &at, &err), 0);
	assert_int_equal(gate_judge_diff(&rule, &s, &r, &err), 0);
	assert_int_equal(r.verdict, GATE_BROKEN);
	assert_int_equal(r.n_broken, 1);
	assert_int_equal(r.n_unsure, 0);
	snprintf(want, sizeof(want), "total: 2.000 times the CPU time, certainly %.3f", 2 * low);
	assert_string_equal(r.line[0], want);
	gate_result_fini(&r);
	for (int side = 0; side < 2; side++) {
		d.samples[side] = 0;
		d.samples[!side] = 5;
		assert_int_equal(gate_judge_diff(&rule, &s, &r, &err), 0);
		assert_int_equal(r.verdict, GATE_UNKNOWN);
		assert_string_equal(r.line[0], side ? "B has no samples" : "A has no samples");
		gate_result_fini(&r);
	}
	gate_rule_fini(&rule);
}

/* ---- accounting ---- */

static void account_lines(void **state)
{
	static const char *const lost_names[] = { "not_run", "idle_not_run" };
	static const char *const flagged_names[] = { "unlabelled", "wait_parts_full", "waits" };
	static const struct store_meta meta = { .lost_names = lost_names,
						.n_lost = 2,
						.flagged_names = flagged_names,
						.n_flagged = 3 };
	static const struct {
		const char *rule, *line; /* NULL: it holds */
	} v[] = {
		{ "lost<1%", "lost is 20 of 1000, 2.000%" },
		{ "lost<20", "lost is 20 of 1000, 2.000%" },
		{ "not_run<1", "not_run is 20 of 1000, 2.000%" },
		{ "fired>1000", "fired is 1000 of 1000, 100.000%" },
		{ "stored>990", "stored is 950 of 1000, 95.000%" },
		{ "wait_parts_full<7", "wait_parts_full is 7" },
		{ "unlabelled<5%", "unlabelled is 90 of 900, 10.000%" },
		{ "labelled>95%", "labelled is 810 of 900, 90.000%" },
		{ "labelled>=90%", NULL },
		{ "lost<=2%", NULL },
		{ "fired<=100%", NULL },
	};
	uint64_t lost[] = { 20, 30 }, flagged[] = { 90, 7, 50 };
	const struct account a = {
		.all = { .fired = 1000, .stored = 950, .lost = lost, .flagged = flagged }
	};
	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct gate_result r;
		struct gate_rule rule;
		struct err err = { 0 };
		size_t at;
		assert_int_equal(gate_rule_parse(&rule, v[i].rule, &at, &err), 0);
		assert_int_equal(gate_check_account(&rule, &meta, &err), 0);
		assert_int_equal(gate_judge_account(&rule, &a, &meta, &r, &err), 0);
		assert_int_equal(r.verdict, v[i].line ? GATE_BROKEN : GATE_HOLDS);
		assert_int_equal(r.n_lines, v[i].line != NULL);
		if (v[i].line)
			assert_string_equal(r.line[0], v[i].line);
		gate_result_fini(&r);
		gate_rule_fini(&rule);
	}
	/* Of a recorder that does not count what has no labels there is nothing labelled */
	const struct store_meta none = { .lost_names = lost_names, .n_lost = 2 };
	static const char *const unknown[] = { "labelled>1", "wait_parts_full>1", "lost<100.5%" };
	for (size_t i = 0; i < 3; i++) {
		struct gate_rule rule;
		struct err err = { 0 };
		size_t at;
		assert_int_equal(gate_rule_parse(&rule, unknown[i], &at, &err), 0);
		assert_int_equal(gate_check_account(&rule, &none, &err), -EINVAL);
		gate_rule_fini(&rule);
	}
}

/* ---- limits of a rule's text ---- */

static void long_rules(void **state)
{
	char text[GATE_RULE_MAX + 2];
	struct gate_rule r;
	struct err err = { 0 };
	size_t at;
	(void)state;
	for (size_t len = GATE_RULE_MAX; len <= GATE_RULE_MAX + 1; len++) {
		memset(text, ' ', len);
		memcpy(text, "lost<1", 6);
		text[len] = 0;
		assert_int_equal(gate_rule_parse(&r, text, &at, &err),
				 len > GATE_RULE_MAX ? -EINVAL : 0);
		if (len > GATE_RULE_MAX)
			assert_int_equal(at, GATE_RULE_MAX);
		else
			gate_rule_fini(&r);
	}
	assert_int_equal(gate_rule_parse(&r, "lost<123456789012345", &at, &err), 0);
	assert_true(r.limit == 123456789012345.0);
	gate_rule_fini(&r);
	/* A backslash before the end of a quote, or of the text */
	assert_int_equal(gate_rule_parse(&r, "a=\"x\\\\\">2%", &at, &err), 0);
	gate_rule_fini(&r);
	assert_int_equal(gate_rule_parse(&r, "a=\"x\\", &at, &err), -EINVAL);
	/* Quotes within others */
	assert_int_equal(gate_rule_parse(&r, "a=\"'>`\",b='\"<',c=`\">'`>=2%", &at, &err), 0);
	assert_int_equal(r.op, GATE_MORE_EQUAL);
	gate_rule_fini(&r);
	for (int op = GATE_MORE; op <= GATE_LESS_EQUAL; op++) {
		const struct gate_rule rule = { .op = (enum gate_op)op, .limit = 5 };
		bool more = op == GATE_MORE || op == GATE_MORE_EQUAL,
		     equal = op == GATE_MORE_EQUAL || op == GATE_LESS_EQUAL;
		assert_int_equal(gate_rule_compare(&rule, 5), equal);
		assert_int_equal(gate_rule_compare(&rule, 5.1), more);
		assert_int_equal(gate_rule_compare(&rule, 4.9), !more);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_named), cmocka_unit_test(lines_have_an_end),
		cmocka_unit_test(cut_answers),	  cmocka_unit_test(totals),
		cmocka_unit_test(account_lines),  cmocka_unit_test(long_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
