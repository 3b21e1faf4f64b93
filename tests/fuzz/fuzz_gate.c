/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: rules of gates, on a comparison and an accounting of fixed rows. A byte says whether
 * rows are by function or by keys, and whether a side is empty; a rule is each line behind it.
 *
 * Covers: query/gate.c query/gate_diff.c query/gate_rule.c
 */
#include "fuzz/input.h"
#include "query/gate.h"

#define ROWS 24 /* more than a verdict has lines */

static const char *const keys[] = { "tenant", "event" };
static const char *const values[] = { "a", "cpu-clock" };
static const bool present[] = { true, true }, absent[] = { false, true };

static void judge_diff(const struct gate_rule *r, uint8_t mode)
{
	struct query_diff_row rows[ROWS] = { 0 };
	struct query_diff d = { .rows = rows, .n_rows = ROWS };
	bool by = mode & 1;
	const struct gate_sides s = { .d = &d,
				      .keys = by ? keys : NULL,
				      .n_keys = by ? 2 : 0,
				      .exposure = { 1, 2 },
				      .bounded = mode & 8 };
	struct gate_result result;
	struct err err = { 0 };
	d.samples[0] = mode & 2 ? 0 : 2400000;
	d.samples[1] = mode & 4 ? 0 : 1200000;
	for (size_t i = 0; i < ROWS; i++) {
		rows[i].text = i % 2 ? "parse" : "render";
		rows[i].module = i % 3 ? "/bin/x" : "";
		rows[i].values = values;
		rows[i].present = i % 2 ? present : absent;
		rows[i].other = i == ROWS - 1;
		for (int side = 0; side < 2; side++) {
			rows[i].count[side] = d.samples[side] / 24 / (side && i % 4 ? i + 1 : 1);
			rows[i].share[side] = d.samples[side] ? (double)rows[i].count[side] /
									(double)d.samples[side]
							      : 0;
		}
		rows[i].change = rows[i].share[0] - rows[i].share[1];
	}
	if (gate_check_diff(r, s.keys, s.n_keys, &err) || gate_judge_diff(r, &s, &result, &err))
		return;
	require((result.verdict == GATE_BROKEN) == (result.n_broken > 0));
	require(result.verdict == GATE_HOLDS || result.n_lines > 0);
	require(result.n_lines <= GATE_LINES_MAX);
	gate_result_fini(&result);
}

static void judge_account(const struct gate_rule *r, uint8_t mode)
{
	static const char *const lost_names[] = { "not_run", "idle_not_run" };
	static const char *const flagged_names[] = { "unlabelled", "rooted", "waits", "blame_cut" };
	static const struct store_meta m = { .lost_names = lost_names,
					     .n_lost = 2,
					     .flagged_names = flagged_names,
					     .n_flagged = 4 };
	uint64_t lost[] = { 8, 32 }, flagged[] = { 43, 817, 100, 5 };
	const struct account a = { .all = { .fired = mode & 2 ? 0 : 1000,
					    .stored = mode & 2 ? 0 : 960,
					    .lost = lost,
					    .flagged = flagged } };
	struct gate_result result;
	struct err err = { 0 };
	if (gate_check_account(r, &m, &err) || gate_judge_account(r, &a, &m, &result, &err))
		return;
	require(result.verdict == GATE_HOLDS || result.n_lines == 1);
	gate_result_fini(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t mode = take_byte(&in);
	while (in.left) {
		char *text = take_line(&in);
		struct gate_rule r;
		struct err err = { 0 };
		size_t at = SIZE_MAX;
		int rc = gate_rule_parse(&r, text, &at, &err);
		if (rc) {
			require(at <= strlen(text) || at == SIZE_MAX);
			free(text);
			continue;
		}
		require(!r.name != !r.where && r.limit >= 0);
		judge_diff(&r, mode);
		judge_account(&r, mode);
		gate_rule_fini(&r);
		free(text);
	}
	return 0;
}
