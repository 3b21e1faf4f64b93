/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: what a ClickHouse server answers. A piece of the input is the answer to each
 * question, in place of user/fleet/ask.c. Four bytes say what is asked. The store that comes of it
 * opens and is whole. Then its hosts are asked which function grew.
 *
 * Covers: fleet/fleet.c fleet/fleet_rows.c fleet/filler.c fleet/functions.c fleet/grown.c
 */
#include "fleet/ask.h"
#include "fleet/grown.h"
#include "fuzz/input.h"
#include "unit/store_model.h"

struct ask {
	struct input in;
	unsigned bound;
};

static struct ask asked;

int ask_new(struct ask **ret, const struct fleet_server *server, struct err *err)
{
	(void)server;
	if (fuzz_denies())
		return err_sys(err, -ENOMEM, "cannot ask");
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
	return fuzz_denies() ? -ENOMEM : 0;
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
	require(false);
}

static void ask_grown(struct fleet_result *filled, struct store *s)
{
	struct finding v[] = { { .kind = FINDING_BUILD, .value = "x", .build = { "ab" } },
			       { .kind = FINDING_MORE },
			       { .kind = FINDING_BUILD, .value = "y", .build = { "cd" } } };
	struct findings f = { .v = v,
			      .n = sizeof(v) / sizeof(v[0]),
			      .from_ns = 1000000000,
			      .to_ns = asked.in.left % 2 ? INT64_MAX : 2000000000 };
	struct err err;
	if (!fleet_grown(filled, s, asked.in.left % 3 ? NULL : "{a=", &f, &err))
		for (size_t i = 0; i < f.n; i++)
			require(v[i].n_grew <= v[i].n_hosts);
}

static const char *const wheres[] = {
	NULL,	 "{tenant=\"a\"}", "{event=~\"cpu.*|off-cpu\"}",    "{wait=\"net\"}",
	"{a=b}", "{wait!=\"\"}",   "{comm=\"sh\",event=\"other\"}", "{event=~\"(e+)+[fg]\"}",
};
#define WHERES (sizeof(wheres) / sizeof(wheres[0]))

/* More than a statement keeps, the first twice. */
static size_t many_keys(const char *v[FLEET_KEYS_MAX + 6])
{
	static const char *const some[] = { "tenant", "wait", "event", "tenant", "comm" };
	static char names[FLEET_KEYS_MAX + 6][8];
	for (size_t i = 0; i < FLEET_KEYS_MAX + 6; i++) {
		snprintf(names[i], sizeof(names[i]), "k%zu", i);
		v[i] = i < sizeof(some) / sizeof(some[0]) ? some[i] : names[i];
	}
	return FLEET_KEYS_MAX + 6;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const events[] = { "cpu-clock", "off-cpu", "other" };
	static const int64_t second = 1000000000, begin = 1000;
	static char dir[64];
	const char *keys[FLEET_KEYS_MAX + 6] = { "tenant" };
	struct input in = { data, size };
	uint8_t how = take_byte(&in), more = take_byte(&in), also = take_byte(&in),
		which = take_byte(&in);
	const bool closed = also & 32;
	const size_t n_keys = which / 64 != 3;
	const struct fleet_question q = {
		.from_ns = closed ? (begin + 4) * second + 1 : INT64_MIN,
		.to_ns = closed ? (begin + 20) * second : INT64_MAX,
		.against_from_ns = closed ? begin * second : INT64_MIN,
		.against_to_ns = closed ? (begin + 4) * second : INT64_MAX,
		.where = wheres[(how & 1) ^ (which % WHERES)],
		.against = also & 64 ? wheres[which / 8 % WHERES] : NULL,
		.rest = also & 1,
		.idle = also & 2,
		.recent_s = also & 4 ? 5 : 0,
		.event = also & 8 ? events[which / 64 % 3] : NULL,
		.compares = how & 2,
		.several = how & 4,
		.no_stacks = how & 8,
		.list_keys = how & 16,
		.steps = how & 32,
		.by_start = how & 64,
		.all_labels = how & 128,
		.functions = also & 128 ? 1 << 20 : more & 3,
		.by_total = more & 4,
		.metric = (more >> 3 & 7) == 7 && also & 8 ? QUERY_VALUE : more >> 3 & 7,
		.blame = more & 64 && n_keys,
		.step_s = more & 128 ? 10 : 0,
		.keys = keys,
		.n_keys = also & 16 ? many_keys(keys) : n_keys,
		.memory = how & 1 ? 1000 : 1 << 20
	};
	struct fleet_result result;
	struct store *s = NULL;
	struct err err;
	asked = (struct ask){ .in = in };
	fleet_step_s(more & 1 ? (int64_t)size - 60 : (int64_t)(size % 64) << 57);
	temp_dir(dir);
	if (!fleet_fill(dir, &(struct fleet_server){ .url = "http://x" }, &q, &result, &err)) {
		if (well(store_open(&s, dir, &err))) {
			ask_grown(&result, s);
			store_close(s);
		}
		if (!fuzz_starved)
			require(!store_verify(dir, no_finding, NULL, &err));
	}
	fleet_result_fini(&result);
	remove_tree(dir);
	return 0;
}
