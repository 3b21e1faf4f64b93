/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: rules of gates, on a comparison and an accounting of fixed rows. A byte says whether
 * rows are by function or by keys, whether a side is empty, and whether names are long and some
 * rows on one side alone; a rule is each line behind it.
 *
 * Covers: query/gate.c query/gate_diff.c query/gate_rule.c
 */
#include "fuzz/input.h"
#include "query/gate.h"

#include <errno.h>

#define ROWS 24 /* more than a verdict has lines */

static const char *const keys[] = { "tenant", "event", "wait" };
static const char *const values[] = { "a", "cpu-clock", "lock" };
static const bool present[] = { true, true, true }, absent[] = { false, true, false };

enum { BY_KEYS = 1, NO_A = 2, NO_B = 4, BOUNDED = 8, ODD = 16 };

/* Many ways to split it: a regular expression may take too many steps. */
#define LONG_NAME "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"

/* Of a side's samples; of odd rows the first is new, the second is gone. */
static uint64_t count_of(uint8_t mode, size_t i, int side, uint64_t samples)
{
	if (mode & ODD && i < 2)
		return (int)i == side ? 1000 : 0;
	return samples / ROWS / (side && i % 4 ? i + 1 : 1);
}

static void judge_diff(const struct gate_rule *r, uint8_t mode)
{
	struct query_diff_row rows[ROWS] = { 0 };
	struct query_diff d = { .rows = rows, .n_rows = ROWS };
	bool by = mode & BY_KEYS;
	const struct gate_sides s = { .d = &d,
				      .keys = by ? keys : NULL,
				      .n_keys = by ? 3 : 0,
				      .exposure = { 1, 2 },
				      .bounded = mode & BOUNDED };
	struct gate_result result;
	struct err err = { 0 };
	d.samples[0] = mode & NO_A ? 0 : 2400000;
	d.samples[1] = mode & NO_B ? 0 : 1200000;
	for (size_t i = 0; i < ROWS; i++) {
		rows[i].text = mode & ODD ? LONG_NAME : i % 2 ? "parse" : "render";
		rows[i].module = i % 3 ? "/bin/x" : "";
		rows[i].values = values;
		rows[i].present = i % 2 ? present : absent;
		rows[i].other = i == ROWS - 1;
		for (int side = 0; side < 2; side++) {
			rows[i].count[side] = count_of(mode, i, side, d.samples[side]);
			rows[i].share[side] = d.samples[side] ? (double)rows[i].count[side] /
									(double)d.samples[side]
							      : 0;
		}
		rows[i].change = rows[i].share[0] - rows[i].share[1];
	}
	if (gate_check_diff(r, s.keys, s.n_keys, &err))
		return;
	int rc = gate_judge_diff(r, &s, &result, &err);
	require(!rc || rc == -E2BIG);
	if (rc)
		return;
	require((result.verdict == GATE_BROKEN) == (result.n_broken > 0));
	require(result.verdict == GATE_HOLDS || result.n_lines > 0);
	require(result.n_lines <= GATE_LINES_MAX);
	gate_result_fini(&result);
}

static void judge_account(const struct gate_rule *r, uint8_t mode)
{
	static const char *const lost_names[] = { "not_run", "idle_not_run" };
	static const char *const flagged_names[] = { "unlabelled", "rooted", "waits", "blame_cut",
						     "wait_parts_full" };
	const struct store_meta m = { .lost_names = lost_names,
				      .n_lost = mode & ODD ? 1 : 2, /* of an older ascribe */
				      .flagged_names = flagged_names,
				      .n_flagged = 5 };
	uint64_t lost[] = { 8, 32 }, flagged[] = { 43, 817, 100, 5, 3 };
	const struct account a = { .all = { .fired = mode & NO_A ? 0 : 1000,
					    .stored = mode & NO_A ? 0 : 960,
					    .lost = lost,
					    .flagged = flagged } };
	struct gate_result result;
	struct err err = { 0 };
	if (gate_check_account(r, &m, &err) || !well(gate_judge_account(r, &a, &m, &result, &err)))
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
