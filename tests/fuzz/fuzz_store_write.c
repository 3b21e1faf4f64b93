/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: a store that is written as the input says, read back. An input begins with struct
 * head: options and a question (store_questions.h). Then come steps, a byte each (enum step) with
 * bytes of their own.
 *
 * A store is sound, and has the samples that were committed, unless an allocation failed.
 *
 * Covers: store/block/*.c store/dict/*.c store/file/columns.c store/file/bits.c
 */
#include "fuzz/store_questions.h"

#include "store/damage.h"
#include "store/writer.h"

#define STEPS_MAX 96
#define ROWS_MOST 8192 /* of an input */
#define EVENTS 3
#define MINUTE 60

struct head {
	uint8_t wide_values, wide_sets, symbols, flags;
	struct question question;
};

enum { WINDOWS_ONLY = 1, NO_GRACE = 2 };

enum step {
	ROW,  /* one row, as its bytes say */
	ROWS, /* many, drawn from a seed */
	COMMIT,
	RENEW,
	FOLD,
	MOVE,
	COMPACT,
	REOPEN,
	APART,
	STEPS,
};

struct writing {
	struct store_writer *w;
	const struct store_options *o;
	char dir[64];
	struct input in;
	struct model random;
	uint32_t event[EVENTS];
	uint64_t open[EVENTS], put[EVENTS]; /* samples of the open window, and committed ones */
	size_t n_rows;
	int64_t t; /* seconds since QUESTION_BEGIN_NS */
	struct {
		uint32_t set, stack, event;
		uint64_t samples;
	} last;
	bool failed;
};

/* ---- rows ---- */

/* What a row is made of; drawn or from the input. */
struct draft {
	uint8_t keys, value, type, stack, event, samples, odd;
};

static void make_label(const struct draft *d, unsigned key, char text[40], struct label *l)
{
	static const char *const keys[] = { "tenant", "query_id", "comm", "trace", "host", "k" };
	const unsigned v = d->value * (key + 1u) + d->odd;
	*l = (struct label){ .key = keys[key],
			     .key_len = (uint32_t)strlen(keys[key]),
			     .str = text };
	switch ((d->type + key) % 4) {
	case 0:
		l->type = LABEL_INT;
		l->num = (int64_t)((uint64_t)v * 0x123456789abcdu) - (v & 1 ? 1ll << 40 : 0);
		l->str = NULL;
		break;
	case 1: /* tables keep a UUID, and 32 digits, as 16 bytes; but not what is only like them */
		snprintf(text, 40,
			 v % 3 ? "%08x-1234-5678-9abc-def0%08x" : "%08x123456789abcdef0%08x",
			 v * 2654435761u, v);
		if (v % 8 == 7)
			text[v / 8 % 32] = "-g/: ~"[v % 6];
		break;
	case 2:
		snprintf(text, 40, "t%u", v);
		break;
	default:
		snprintf(text, 40, "%.*s", (int)(v % 8), "a long text");
	}
	l->str_len = l->str ? (uint32_t)strlen(text) : 0;
}

static int put_stack(struct writing *g, const struct draft *d, uint32_t *ret)
{
	int rc = 0;
	*ret = 0;
	if (d->stack == 1) {
		const struct store_frame idle = { .kind = FRAME_IDLE };
		uint32_t frame;
		rc = store_add_frame(g->w, &idle, &frame);
		return rc ? rc : store_add_stack(g->w, 0, frame, ret);
	}
	for (unsigned i = 0; !rc && i < d->stack % 9u; i++) {
		struct store_frame f = { .kind = i & 1, .flags = d->stack >> 7, .line = d->stack };
		char name[24];
		uint32_t frame;
		snprintf(name, sizeof(name), "f%u_%u", i, (d->stack >> i & 3) + d->odd);
		rc = store_add_string(g->w, name, strlen(name), &f.function);
		rc = rc ? rc : store_add_frame(g->w, &f, &frame);
		rc = rc ? rc : store_add_stack(g->w, *ret, frame, ret);
	}
	return rc;
}

static void put_row(struct writing *g, const struct draft *d)
{
	const uint32_t e = d->event % EVENTS;
	const uint64_t samples = 1 + d->samples,
		       value = d->odd & 1 ? d->odd * 1000u : samples * model_events[e].period;
	struct label labels[6];
	char text[6][40];
	uint32_t set, stack;
	size_t n = 0;
	if (g->n_rows++ >= ROWS_MOST)
		return;
	for (unsigned key = 0; key < 6; key++)
		if (d->keys >> key & 1) {
			make_label(d, key, text[n], &labels[n]);
			n++;
		}
	int rc = store_add_set(g->w, labels, n, &set);
	rc = rc ? rc : put_stack(g, d, &stack);
	rc = rc ? rc : store_add_row(g->w, set, stack, g->event[e], samples, value);
	require(!rc);
	if (rc)
		return;
	g->open[e] += samples;
	g->last.set = set;
	g->last.stack = stack;
	g->last.event = g->event[e];
	g->last.samples = samples;
}

static void put_rows(struct writing *g)
{
	uint8_t how[3]; /* number, kinds of values, keys */
	take_bytes(&g->in, how, sizeof(how));
	g->random.random = how[0] + 256u * how[1];
	for (unsigned i = 0; i < how[0] * 20u; i++) {
		const uint32_t r = model_random(&g->random, 1u << 31);
		const struct draft d = { .keys = how[2] & (uint8_t)(r | how[1]),
					 .value = (uint8_t)(r >> 8),
					 .type = how[1],
					 .stack = (uint8_t)(r >> 16),
					 .event = (uint8_t)(r >> 24),
					 .samples = (uint8_t)(r >> 3),
					 .odd = how[1] & 8 ? (uint8_t)(r >> 11) : 0 };
		put_row(g, &d);
	}
}

/* ---- steps ---- */

static void add_events(struct writing *g)
{
	for (uint32_t i = 0; i < EVENTS; i++)
		g->failed |= store_add_event(g->w, &model_events[i], &g->event[i]) != 0;
}

static void open_writer(struct writing *g)
{
	struct err err;
	g->failed = store_writer_open_with(&g->w, g->dir, &model_meta, g->o, &err) != 0;
	require(!g->failed);
	if (!g->failed)
		add_events(g);
	memset(g->open, 0, sizeof(g->open));
	memset(&g->last, 0, sizeof(g->last));
}

static void commit(struct writing *g)
{
	static const int later[] = { 0, 0, 0, MINUTE, 10 * MINUTE, 60 * MINUTE, 1500 * MINUTE };
	const uint8_t how = take_byte(&g->in);
	uint64_t lost[2] = { how, 2 }, flagged[1] = { 3 };
	struct store_cpu_totals cpu[2] = { { 1, 103, 100, lost, flagged },
					   { 2u + how, 1, 1, lost, flagged } };
	const struct store_totals t = { cpu, how % 3, 4, 5, 6 };
	const int64_t t0 = QUESTION_BEGIN_NS + g->t * SECOND;
	struct err err;
	const bool done = !store_commit_window(g->w, t0, t0 + 10 * SECOND,
					       1000000 * SECOND + t0 - QUESTION_BEGIN_NS, &t, &err);
	require(done);
	for (size_t i = 0; i < EVENTS; i++)
		g->put[i] += done ? g->open[i] : 0;
	memset(g->open, 0, sizeof(g->open));
	memset(&g->last, 0, sizeof(g->last));
	g->t += 10 + later[how % (sizeof(later) / sizeof(later[0]))];
}

static void fold(struct writing *g)
{
	const struct store_folding_rule rule = { .max = take_byte(&g->in),
						 .events = g->event,
						 .n_events = EVENTS };
	uint64_t samples;
	require(!store_fold_small_rows(g->w, &rule, &samples));
}

static void move(struct writing *g)
{
	const uint8_t part = take_byte(&g->in);
	const uint64_t samples = part < g->last.samples ? part : g->last.samples;
	store_move_row(g->w, g->last.set, g->last.event, g->last.stack, 0, samples, 0);
}

static int fill(struct store_writer *w, void *ctx)
{
	struct writing *g = ctx;
	uint32_t event;
	int rc = store_add_event(w, &model_events[1], &event);
	return rc ? rc : store_add_row(w, 0, 0, event, 7, 7);
}

static void commit_apart(struct writing *g)
{
	const int64_t t0 = QUESTION_BEGIN_NS - take_byte(&g->in) * MINUTE * SECOND;
	struct err err;
	const bool done =
		!store_commit_apart(g->w, t0, t0 + 10 * SECOND, 1000000 * SECOND, fill, g, &err);
	require(done);
	g->put[1] += done ? 7 : 0;
}

static void step(struct writing *g)
{
	struct draft d;
	struct err err;
	switch ((enum step)(take_byte(&g->in) % STEPS)) {
	case ROW:
		take_bytes(&g->in, &d, sizeof(d));
		put_row(g, &d);
		return;
	case ROWS:
		put_rows(g);
		return;
	case COMMIT:
		commit(g);
		return;
	case RENEW:
		commit(g);
		if (store_renew(g->w))
			add_events(g);
		store_renew_end(g->w);
		store_give_back(g->w);
		return;
	case FOLD:
		fold(g);
		return;
	case MOVE:
		move(g);
		return;
	case COMPACT:
		require(!store_compact(g->w, &err));
		return;
	case REOPEN:
		store_writer_close(g->w);
		g->w = NULL;
		open_writer(g);
		return;
	default:
		commit_apart(g);
	}
}

/* ---- what was written ---- */

static void no_damage(void *ctx, const struct store_finding *f)
{
	(void)ctx;
	require(f->kind != STORE_DAMAGED);
}

static void check_sums(const struct writing *g, struct store *s)
{
	for (size_t i = 0; i < EVENTS; i++) {
		const struct query_spec spec = { .from_ns = INT64_MIN,
						 .to_ns = INT64_MAX,
						 .event = model_events[i].name,
						 .idle = true,
						 .labels = QUERY_TOTALS };
		struct query *q;
		struct err err;
		if (query_open(&q, s, &spec, &err))
			continue; /* nothing was committed */
		require(query_info(q)->samples == g->put[i]);
		query_close(q);
	}
}

static void read_back(const struct writing *g, const struct question *question)
{
	struct store *s;
	struct err err;
	require(!store_verify(g->dir, no_damage, NULL, &err));
	if (!well(store_open(&s, g->dir, &err)))
		return;
	check_sums(g, s);
	question_ask(s, question);
	store_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t symbols[] = { 64u << 20, 1500, 20000 };
	struct writing g = { .in = { data, size } };
	struct store_options o = model_options;
	struct head h;
	take_bytes(&g.in, &h, sizeof(h));
	o.wide_values = h.wide_values ? h.wide_values : STORE_WIDE_VALUES;
	o.wide_sets = h.wide_sets ? h.wide_sets : 16384;
	o.symbols_bytes = symbols[h.symbols % 3];
	o.windows_only = h.flags & WINDOWS_ONLY;
	o.grace_ns = h.flags & NO_GRACE ? 0 : 20 * SECOND;
	g.o = &o;
	temp_dir(g.dir);
	open_writer(&g);
	for (int i = 0; i < STEPS_MAX && g.in.left && !g.failed; i++)
		step(&g);
	store_writer_close(g.w);
	if (!g.failed)
		read_back(&g, &h.question);
	remove_tree(g.dir);
	return 0;
}
