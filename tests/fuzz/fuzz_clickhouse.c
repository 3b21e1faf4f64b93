/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: what a ClickHouse server answers. A piece of the input is the answer to each
 * question, in place of user/fleet/ask.c. Two bytes say what is asked. The store that comes of it
 * opens and is whole.
 *
 * Covers: fleet/fleet.c fleet/fleet_rows.c fleet/filler.c fleet/functions.c
 */
#include "fleet/ask.h"
#include "fuzz/input.h"
#include "unit/store_model.h"

struct ask {
	struct input in;
	unsigned bound;
};

static struct ask asked;

int ask_new(struct ask **ret, const struct fleet_server *server, struct err *err)
{
	(void)server, (void)err;
	*ret = &asked;
	return 0;
}

void ask_free(struct ask *a)
{
	(void)a;
}

int ask_bind(struct ask *a, const char *bytes, size_t len, unsigned *ret_n)
{
	(void)bytes, (void)len;
	*ret_n = a->bound++;
	return 0;
}

int ask_run(struct ask *a, const char *sql, const void *hashes, size_t n, size_t max_bytes,
	    struct buf *answer, struct err *err)
{
	size_t len;
	(void)sql, (void)hashes, (void)n;
	if (!a->in.left)
		return err_set(err, -EPROTO, "no further answer");
	uint8_t *p = take_piece(&a->in, &len);
	answer->len = 0;
	require(!buf_add(answer, p, len < max_bytes ? len : max_bytes));
	free(p);
	return 0;
}

static void no_finding(void *ctx, const struct store_finding *f)
{
	(void)ctx, (void)f;
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const keys[] = { "tenant" };
	static char dir[64];
	struct input in = { data, size };
	uint8_t how = take_byte(&in), more = take_byte(&in);
	const struct fleet_question q = { .from_ns = INT64_MIN,
					  .to_ns = INT64_MAX,
					  .against_from_ns = INT64_MIN,
					  .against_to_ns = INT64_MAX,
					  .where = how & 1 ? "{tenant=\"a\"}" : NULL,
					  .compares = how & 2,
					  .several = how & 4,
					  .no_stacks = how & 8,
					  .list_keys = how & 16,
					  .steps = how & 32,
					  .by_start = how & 64,
					  .all_labels = how & 128,
					  .functions = more & 3,
					  .by_total = more & 4,
					  .metric = (more >> 3 & 7) % 7,
					  .blame = more & 64,
					  .step_s = more & 128 ? 10 : 0,
					  .keys = keys,
					  .n_keys = 1,
					  .memory = how & 1 ? 1000 : 1 << 20 };
	struct fleet_result result;
	struct store *s = NULL;
	struct err err;
	asked = (struct ask){ .in = in };
	temp_dir(dir);
	if (!fleet_fill(dir, &(struct fleet_server){ .url = "http://x" }, &q, &result, &err)) {
		if (well(store_open(&s, dir, &err)))
			store_close(s);
		if (!fuzz_starved)
			require(!store_verify(dir, no_finding, NULL, &err));
	}
	fleet_result_fini(&result);
	remove_tree(dir);
	return 0;
}
