/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of gates: the grammar with the places of its errors, verdicts against draws whose truth is
 * known, and the accounting against sums by hand.
 */
#include "query/gate.h"
#include "query/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the grammar ---- */

static void accepted(void **state)
{
	(void)state;
	static const struct {
		const char *text, *name;
		enum gate_op op;
		enum gate_unit unit;
		double limit;
	} rules[] = {
		{ "function>2%", "function", GATE_MORE, GATE_PERCENT, 2 },
		{ " function  >=  2.50 % ", "function", GATE_MORE_EQUAL, GATE_PERCENT, 2.5 },
		{ "total > 1.1x", "total", GATE_MORE, GATE_TIMES, 1.1 },
		{ "lost<1%", "lost", GATE_LESS, GATE_PERCENT, 1 },
		{ "stored <= .5", "stored", GATE_LESS_EQUAL, GATE_COUNT, 0.5 },
		{ "http.route>0%", "http.route", GATE_MORE, GATE_PERCENT, 0 },
		{ "function=~\"a>b\\\"<.*\" > 1%", NULL, GATE_MORE, GATE_PERCENT, 1 },
		{ "{tenant=`x>\\`,comm!='a'}>3x", NULL, GATE_MORE, GATE_TIMES, 3 },
	};
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		struct gate_rule r;
		struct err err = { 0 };
		size_t at = 0;
		assert_int_equal(gate_rule_parse(&r, rules[i].text, &at, &err), 0);
		assert_int_equal(r.op, rules[i].op);
		assert_int_equal(r.unit, rules[i].unit);
		assert_true(r.limit == rules[i].limit);
		assert_string_equal(r.text, rules[i].text);
		assert_int_equal(!r.name, !rules[i].name);
		assert_int_equal(!r.name, !!r.where);
		if (r.name)
			assert_string_equal(r.name, rules[i].name);
		gate_rule_fini(&r);
	}
}

static void refused(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t at;
		const char *says;
	} rules[] = {
		{ "", 0, "what the rule is about" },
		{ "  >2%", 2, "what the rule is about" },
		{ "function", 8, "expected > or <" },
		{ "function=2%", 9, "expected a quoted value" },
		{ "function>", 9, "a number" },
		{ "function>-2%", 9, "a number" },
		{ "function>nan%", 9, "a number" },
		{ "function>0x2%", 11, "the end of the rule" },
		{ "function>1e3%", 10, "%, x or the end" },
		{ "function>2%%", 11, "the end of the rule" },
		{ "function>2% or more", 12, "the end of the rule" },
		{ "function>>2%", 9, "a number" },
		{ "function>1.2.3%", 12, "%, x or the end" },
		{ "function>1234567890123456%", 9, "15 digits" },
		{ "{}>1%", 0, "expected a matcher" },
		{ " function=~\"(\">1%", 11, "regular expression" },
		{ "function=\"a>1%", 9, "quote" },
		{ "a b>1%", 2, "expected" },
	};
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		struct gate_rule r = { 0 };
		struct err err = { 0 };
		size_t at = 12345;
		assert_int_equal(gate_rule_parse(&r, rules[i].text, &at, &err), -EINVAL);
		if (at != rules[i].at || !strstr(err.text, rules[i].says))
			fail_msg("%s: at %zu: %s", rules[i].text, at, err.text);
	}
}

/* ---- verdicts on draws ---- */

static uint64_t random_state = 7;

static double draw(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(random_state >> 11) / 9007199254740992.0;
}

#define ROWS 5

/* A side of n samples with these shares. */
static void draw_side(struct query_diff_row *rows, int side, const double *share, unsigned n)
{
	for (unsigned k = 0; k < n; k++) {
		double x = draw();
		size_t i = 0;
		while (i < ROWS - 1 && x >= share[i])
			x -= share[i++];
		rows[i].count[side]++;
	}
}

static enum gate_verdict verdict_of(const char *text, const double *a, const double *b, unsigned n,
				    unsigned n_b, size_t *ret_broken)
{
	static const char *const names[ROWS] = { "parse", "render", "main", "read", "write" };
	struct query_diff_row rows[ROWS] = { 0 };
	struct query_diff d = { .rows = rows, .n_rows = ROWS, .samples = { n, n_b } };
	const struct gate_sides s = { .d = &d, .exposure = { 3, 3 } };
	struct gate_result result;
	struct gate_rule r;
	struct err err = { 0 };
	size_t at;
	draw_side(rows, 0, a, n);
	draw_side(rows, 1, b, n_b);
	for (size_t i = 0; i < ROWS; i++) {
		rows[i].text = names[i];
		rows[i].module = "/bin/x";
		rows[i].share[0] = n ? (double)rows[i].count[0] / n : 0;
		rows[i].share[1] = n_b ? (double)rows[i].count[1] / n_b : 0;
		rows[i].change = rows[i].share[0] - rows[i].share[1];
	}
	assert_int_equal(gate_rule_parse(&r, text, &at, &err), 0);
	assert_int_equal(gate_check_diff(&r, NULL, 0, &err), 0);
	assert_int_equal(gate_judge_diff(&r, &s, &result, &err), 0);
	enum gate_verdict verdict = result.verdict;
	*ret_broken = result.n_broken;
	assert_int_equal(verdict == GATE_BROKEN, result.n_broken > 0);
	gate_result_fini(&result);
	gate_rule_fini(&r);
	return verdict;
}

/*
 * Rows by keys: from 20% to 60% each, in a comparison of 10,000 samples, so that a rule breaks for
 * each row that it is about.
 */
static void rows_of_keys(void **state)
{
	static const char *const keys[] = { "tenant", "event" }, *const waits[] = { "tenant",
										    "wait" };
	static const char *const values[4][2] = { { "t1", "cpu-clock" },
						  { "", "cpu-clock" },
						  { "t1", "cycles" },
						  { "(other)", "(other)" } };
	static const bool present[4][2] = {
		{ true, true }, { false, true }, { true, true }, { true, true }
	};
	static const struct {
		const char *rule;
		unsigned broken;
	} want[] = {
		{ "{tenant=\"t1\"}>9%", 2 },
		{ "{tenant=\"\"}>9%", 1 },
		{ "{tenant!=\"t1\"}>9%", 1 },
		{ "{event=\"cycles\"}>9%", 1 },
		{ "{tenant=\"t1\",event=\"cpu-clock\"}>9%", 1 },
		{ "{event!=\"nothing\"}>9%", 3 },
	};
	struct query_diff_row rows[4] = { 0 };
	struct query_diff d = { .rows = rows, .n_rows = 4, .samples = { 10000, 10000 } };
	const struct gate_sides s = { .d = &d, .keys = keys, .n_keys = 2, .exposure = { 3, 3 } };
	(void)state;
	for (size_t i = 0; i < 4; i++)
		rows[i] = (struct query_diff_row){ .text = "row",
						   .values = values[i],
						   .present = present[i],
						   .other = i == 3,
						   .count = { 6000, 2000 },
						   .share = { 0.6, 0.2 },
						   .change = 0.4 };
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct gate_result result;
		struct gate_rule r;
		struct err err = { 0 };
		size_t at;
		assert_int_equal(gate_rule_parse(&r, want[i].rule, &at, &err), 0);
		assert_int_equal(gate_check_diff(&r, keys, 2, &err), 0);
		assert_int_equal(gate_judge_diff(&r, &s, &result, &err), 0);
		assert_int_equal(result.verdict, GATE_BROKEN);
		assert_int_equal(result.n_broken, want[i].broken);
		assert_int_equal(result.n_lines, want[i].broken);
		assert_non_null(strstr(result.line[0], "20.00% -> 60.00%, +40.00 points"));
		gate_result_fini(&result);
		gate_rule_fini(&r);
	}
	/* The same of classes of waits, which are in no set either */
	const struct gate_sides w = { .d = &d, .keys = waits, .n_keys = 2, .exposure = { 3, 3 } };
	static const char *const rules[] = { "{wait=\"cycles\"}>9%", "{wait!=\"cycles\"}>9%" };
	for (unsigned i = 0; i < 2; i++) {
		struct gate_result result;
		struct gate_rule r;
		struct err err = { 0 };
		size_t at;
		assert_int_equal(gate_rule_parse(&r, rules[i], &at, &err), 0);
		assert_int_equal(gate_judge_diff(&r, &w, &result, &err), 0);
		assert_int_equal(result.n_broken, 1 + i);
		gate_result_fini(&result);
		gate_rule_fini(&r);
	}
}

/* Only rows that could break a rule share its error: those with more than the limit. */
static void candidates_share_the_error(void **state)
{
	static const struct {
		const char *rule;
		unsigned candidates;
	} want[] = { { "function>12.5%", 2 },
		     { "function>25%", 1 },
		     { "function>24%", 2 },
		     { "function>1.5x", 3 } };
	struct query_diff_row rows[4] = { 0 };
	struct query_diff d = { .rows = rows, .n_rows = 4, .samples = { 8000, 4000 } };
	const struct gate_sides s = { .d = &d, .exposure = { 3, 3 } };
	static const unsigned counts[4][2] = {
		{ 6000, 400 }, { 2000, 800 }, { 1000, 0 }, { 0, 2800 }
	};
	(void)state;
	for (size_t i = 0; i < 4; i++)
		rows[i] = (struct query_diff_row){
			.text = "f",
			.module = "/bin/x",
			.count = { counts[i][0], counts[i][1] },
			.share = { counts[i][0] / 8000.0, counts[i][1] / 4000.0 },
			.change = counts[i][0] / 8000.0 - counts[i][1] / 4000.0,
		};
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		const double z = stats_normal_z(0.01 / want[i].candidates);
		struct gate_result result;
		struct gate_rule r;
		struct err err = { 0 };
		char text[80];
		double low, high;
		size_t at;
		assert_int_equal(gate_rule_parse(&r, want[i].rule, &at, &err), 0);
		assert_int_equal(gate_judge_diff(&r, &s, &result, &err), 0);
		stats_change_interval(6000, 8000, 400, 4000, z, &low, &high);
		if (i < 3)
			snprintf(text, sizeof(text),
				 "f (x): 10.00%% -> 75.00%%, +65.00 points, certainly %+.2f",
				 100 * low);
		else
			snprintf(text, sizeof(text),
				 "f (x): 15.000 times the CPU time, certainly %.3f",
				 stats_rate_ratio_low(6000, 3, 400, 3, z));
		assert_string_equal(result.line[0], text);
		/* The noise of the row in which it is largest */
		assert_non_null(
			strstr(result.note, i < 3 ? "points may be noise" : "times may be noise"));
		if (i < 3) {
			double noise = 0;
			for (size_t k = 0; k < 4; k++) {
				stats_change_interval(counts[k][0], 8000, counts[k][1], 4000, z,
						      &low, &high);
				noise = fmax(noise, 100 * (rows[k].change - low));
			}
			snprintf(text, sizeof(text),
				 "a growth by less than %.2f points may be noise", noise);
			assert_string_equal(result.note, text);
		}
		gate_result_fini(&result);
		gate_rule_fini(&r);
	}
}

static unsigned broken_of(unsigned tries, const char *text, const double *a, const double *b,
			  unsigned n)
{
	unsigned broken = 0;
	size_t rows;
	for (unsigned i = 0; i < tries; i++)
		broken += verdict_of(text, a, b, n, n, &rows) == GATE_BROKEN;
	return broken;
}

static const double same[ROWS] = { 0.4, 0.3, 0.15, 0.1, 0.05 };
static const double more[ROWS] = { 0.45, 0.25, 0.15, 0.1, 0.05 };

/* At most 1 in 100 of comparisons in which nothing grew beyond the limit, over all rows. */
static void noise_passes(void **state)
{
	(void)state;
	/* 2,000 tries of chance 1%: above 36 in one case of 4,000 */
	assert_in_range(broken_of(2000, "function > 0%", same, same, 800), 1, 36);
	assert_in_range(broken_of(2000, "function=\"parse\" > 1x", same, same, 800), 0, 36);
	/* Exactly at the limit. */
	assert_in_range(broken_of(2000, "function > 5%", more, same, 800), 0, 36);
	assert_int_equal(broken_of(300, "total > 0%", same, same, 800), 0);
}

static void growth_fails(void **state)
{
	(void)state;
	/* Five points beside a noise of one: z is 5. */
	assert_true(broken_of(200, "function > 0%", more, same, 10000) == 200);
	assert_true(broken_of(200, "function=~\"pa.*\",module=\"/bin/x\" > 1.02x", more, same,
			      10000) == 200);
	assert_int_equal(broken_of(200, "function=\"render\" > 0%", more, same, 10000), 0);
	/* Too few samples to be certain of it. */
	assert_in_range(broken_of(200, "function > 2%", more, same, 200), 0, 20);
}

static void totals(void **state)
{
	(void)state;
	size_t rows;
	assert_int_equal(verdict_of("total > 10%", same, same, 13000, 10000, &rows), GATE_BROKEN);
	assert_int_equal(verdict_of("total > 1.1x", same, same, 13000, 10000, &rows), GATE_BROKEN);
	assert_int_equal(verdict_of("total > 30%", same, same, 13000, 10000, &rows), GATE_HOLDS);
	assert_int_equal(verdict_of("total > 10%", same, same, 120, 100, &rows), GATE_HOLDS);
	assert_int_equal(verdict_of("total > 10%", same, same, 0, 100, &rows), GATE_UNKNOWN);
	assert_int_equal(verdict_of("function > 10%", same, same, 100, 0, &rows), GATE_UNKNOWN);
	assert_int_equal(verdict_of("function=\"prase\" > 1%", same, same, 100, 100, &rows),
			 GATE_UNKNOWN);
}

/* Quantiles of the normal distribution, from a table. */
static void quantiles(void **state)
{
	(void)state;
	assert_true(fabs(stats_normal_z(0.025) - STATS_Z95) < 1e-6);
	assert_true(fabs(stats_normal_z(0.01) - 2.326347874) < 1e-6);
	assert_true(fabs(stats_normal_z(0.0001) - 3.719016485) < 1e-6);
	assert_true(stats_normal_z(0.5) < 1e-6);
	/* 200 in 2 beside 100 in 1: Wilson's interval of 2/3 of 300 begins at 0.611512. */
	double low = stats_rate_ratio_low(200, 2, 100, 1, STATS_Z95);
	assert_true(fabs(low - 0.7870426) < 1e-6);
	assert_true(stats_rate_ratio_low(0, 1, 5, 1, 2) == 0);
	assert_true(stats_rate_ratio_low(5, 0, 5, 1, 2) == 0);
}

/* ---- which rules fit ---- */

static void fitting(void **state)
{
	(void)state;
	static const char *const keys[] = { "tenant", "event" };
	static const struct {
		const char *text;
		bool by_function, by_keys;
	} rules[] = {
		{ "function>1%", true, false },	    { "tenant>1%", false, true },
		{ "total>1%", true, true },	    { "module>1%", false, false },
		{ "module=\"x\">1%", true, false }, { "event=\"x\">1x", false, true },
		{ "wait=\"x\">1%", false, false },  { "function<1%", false, false },
		{ "function>1", false, false },	    { "total>0.9x", false, false },
		{ "function>0.9x", false, false },
	};
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		struct gate_rule r;
		struct err err = { 0 };
		size_t at;
		assert_int_equal(gate_rule_parse(&r, rules[i].text, &at, &err), 0);
		assert_int_equal(gate_check_diff(&r, NULL, 0, &err),
				 rules[i].by_function ? 0 : -EINVAL);
		assert_int_equal(gate_check_diff(&r, keys, 2, &err),
				 rules[i].by_keys ? 0 : -EINVAL);
		gate_rule_fini(&r);
	}
}

/* ---- accounting ---- */

static const char *const lost_names[] = { "not_run", "idle_not_run" };
static const char *const flagged_names[] = { "unlabelled", "rooted", "waits", "blame_cut" };
static const struct store_meta meta = {
	.lost_names = lost_names, .n_lost = 2, .flagged_names = flagged_names, .n_flagged = 4
};

static int verdict_on(const char *text, uint64_t fired)
{
	/* 1,000 fired: 960 stored, 8 lost, 32 of idle CPUs; 860 samples, 100 waits */
	uint64_t lost[] = { 8, 32 }, flagged[] = { 43, 817, 100, 5 };
	struct account a = {
		.all = { .fired = fired, .stored = 960, .lost = lost, .flagged = flagged }
	};
	struct gate_result result;
	struct gate_rule r;
	struct err err = { 0 };
	size_t at;
	assert_int_equal(gate_rule_parse(&r, text, &at, &err), 0);
	int verdict = gate_check_account(&r, &meta, &err);
	if (!verdict) {
		assert_int_equal(gate_judge_account(&r, &a, &meta, &result, &err), 0);
		verdict = (int)result.verdict;
		assert_int_equal(result.n_broken, verdict == GATE_BROKEN);
		assert_int_equal(result.n_lines, verdict != GATE_HOLDS);
		assert_ptr_equal(result.rule, &r);
		gate_result_fini(&result);
	}
	gate_rule_fini(&r);
	return verdict;
}

static void accounts(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int verdict;
	} rules[] = {
		{ "lost<0.81%", GATE_HOLDS },
		{ "lost<0.8%", GATE_BROKEN },
		{ "lost<=0.8%", GATE_HOLDS },
		{ "lost<=8", GATE_HOLDS },
		{ "idle_not_run<3.2%", GATE_BROKEN },
		{ "stored>=96%", GATE_HOLDS },
		{ "stored>960", GATE_BROKEN },
		{ "fired>=1000", GATE_HOLDS },
		{ "rooted>=95%", GATE_HOLDS },
		{ "rooted>95%", GATE_BROKEN },
		{ "labelled>=95%", GATE_HOLDS },
		{ "labelled>95%", GATE_BROKEN },
		{ "unlabelled<=5%", GATE_HOLDS },
		{ "labelled>=817", GATE_HOLDS },
		{ "blame_cut<6", GATE_HOLDS },
		{ "blame_cut<1%", -EINVAL },
		{ "rootet>1%", -EINVAL },
		{ "lost<1x", -EINVAL },
		{ "lost<101%", -EINVAL },
		{ "lost=\"a\"<1%", -EINVAL },
	};
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (verdict_on(rules[i].text, 1000) != rules[i].verdict)
			fail_msg("%s", rules[i].text);
	assert_int_equal(verdict_on("lost<1%", 0), GATE_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepted),
		cmocka_unit_test(rows_of_keys),
		cmocka_unit_test(refused),
		cmocka_unit_test(noise_passes),
		cmocka_unit_test(candidates_share_the_error),
		cmocka_unit_test(growth_fails),
		cmocka_unit_test(totals),
		cmocka_unit_test(quantiles),
		cmocka_unit_test(fitting),
		cmocka_unit_test(accounts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
