/* SPDX-License-Identifier: Apache-2.0 */
#include "query/query_int.h"

#include "hist/metrics.h"
#include "query/runs.h"
#include "query/selector.h"
#include "symbols/names.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 8192

#define NO_EVENT UINT32_MAX
#define LOOK_ROWS 1024

struct sum {
	uint64_t samples, value;
};

/* What a row of an event adds. */
struct measure {
	bool counts;	     /* it is of the metric */
	bool seen;	     /* the range has some */
	bool value;	     /* its value, that is */
	uint64_t per_sample; /* else so much for each of its samples */
	bool blocked;	     /* its stacks say why a thread waited */
};

struct merge {
	struct query *q;
	struct selector *selector;
	const struct query_spec *spec;
	const char **keys; /* [n_keys] that tell rows apart; NULL: all do */
	size_t n_keys;
	struct measure *measure; /* [store_n_events] */
	struct sum *sums; /* [n_sums], by stack or, with QUERY_KEYS, by set */
	size_t n_sums;
	bool event_ok;	  /* the selector admits the event */
	bool rates;	  /* there are several events of the name: until all is merged, samples are nanoseconds */
	bool names_wait;  /* the selector says which waits: idle ones are not left out beside that */
	bool wait_ok[WAIT_CLASSES], others_ok; /* that the selector admits; others: what is no wait */
	bool reasons;	  /* rows are wanted or not by the reason of their wait */
	bool once;	  /* no rows are left out: idle samples are counted on the way */
	struct runs runs; /* QUERY_ALL_LABELS */
	struct store_folding folding; /* QUERY_NO_LABELS, of what is read without labels */
	uint8_t *idle;	  /* [n_idle], by stack: whether it is that of an idle CPU */
	size_t n_idle;
	unsigned unchecked; /* rows since what is kept was looked at */
	struct err *err;
};

/* ---- which event ---- */

static int named_event(const struct store *s, const char *name, uint32_t *ret, struct err *err)
{
	char known[300] = "";
	for (uint32_t i = 0; i < store_n_events(s); i++) {
		const char *have = store_event(s, i)->name;
		if (!strcmp(have, name)) {
			*ret = i;
			return 0;
		}
		size_t n = strlen(known);
		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", have);
	}
	return err_set(err, -EINVAL, "no event %s in the store, it has: %s", name, known[0] ? known : "none");
}

/* The first that the selector admits, else the first. */
static int default_event(const struct store *s, struct selector *sel, uint32_t *ret, struct err *err)
{
	*ret = store_n_events(s) ? 0 : NO_EVENT;
	for (uint32_t i = 0; selector_names_event(sel) && i < store_n_events(s); i++) {
		bool match = false;
		int rc = selector_match_event(sel, store_event(s, i)->name, &match, err);
		if (rc)
			return rc;
		if (match) {
			*ret = i;
			break;
		}
	}
	return 0;
}

static const char *const metric_names[] = { "", "cpu", "off-cpu", "runq", "wall", "blame", "waker" };

int query_metric_named(const char *name, enum query_metric *ret)
{
	static const char *const names[] = { [QUERY_CPU] = "cpu", [QUERY_OFF] = "off", [QUERY_RUNQ] = "runq", [QUERY_WALL] = "wall",
					     [QUERY_BLAME] = "blame", [QUERY_WAKER] = "waker" };
	*ret = QUERY_SAMPLES;
	for (int i = QUERY_CPU; name && i <= QUERY_WAKER; i++)
		if (!strcmp(name, names[i]))
			*ret = (enum query_metric)i;
	return name && *ret == QUERY_SAMPLES ? -EINVAL : 0;
}

static bool is_thread_key(const char *key)
{
	return !strcmp(key, "tgid") || !strcmp(key, "tid") || !strcmp(key, "thread");
}

bool query_of_threads(const char *where, const char *const *keys, size_t n_keys)
{
	const char *used[SELECTOR_KEYS_MAX];
	struct selector *s = NULL;
	bool found = false;
	for (size_t i = 0; i < n_keys; i++)
		found |= is_thread_key(keys[i]);
	if (selector_parse(&s, where, NULL, NULL))
		return found;
	size_t n = selector_keys(s, used, SELECTOR_KEYS_MAX);
	for (size_t i = 0; i < n && i < SELECTOR_KEYS_MAX; i++)
		found |= is_thread_key(used[i]);
	selector_free(s);
	return found;
}

/*
 * The first event that stands for time is the CPU's; a store that was appended to at another rate
 * has two of its name.
 */
static const char *cpu_event(const struct store *s)
{
	for (uint32_t i = 0; i < store_n_events(s); i++)
		if (store_event(s, i)->ns_per_sample)
			return store_event(s, i)->name;
	return "";
}

static int choose_metric(struct query *q, struct merge *m, struct err *err)
{
	enum query_metric metric = m->spec->metric;
	const char *cpu = cpu_event(q->store), *name = metric_names[metric];
	bool any = false;
	for (uint32_t i = 0; i < store_n_events(q->store); i++) {
		const struct store_event *e = store_event(q->store, i);
		struct measure *v = &m->measure[i];
		bool wait = !strcmp(e->name, metric_names[QUERY_OFF]) || !strcmp(e->name, metric_names[QUERY_RUNQ]);
		if ((metric == QUERY_CPU || metric == QUERY_WALL) && !strcmp(e->name, cpu)) {
			*v = (struct measure){ .counts = true, .per_sample = e->ns_per_sample };
			q->info.grain_ns = e->ns_per_sample;
			any |= metric == QUERY_CPU;
		} else if ((metric == QUERY_WALL && wait) || (metric != QUERY_CPU && !strcmp(e->name, name))) {
			*v = (struct measure){ .counts = true, .value = true };
			any = true;
		}
	}
	if (!any && store_n_events(q->store))
		return err_set(err, -EINVAL, "no %s times in the store: record with --wall%s", name, metric == QUERY_WAKER ? " --waker" : "");
	q->metric = (struct store_event){ name, "nanoseconds", 1, 1 };
	q->event = 0;
	q->info.event = &q->metric;
	return selector_match_event(m->selector, name, &m->event_ok, err);
}

bool query_is_profile(const struct store_event *e)
{
	static const char end[] = ".lengths";
	size_t n = strlen(e->name);
	if (!strncmp(e->name, "ascribe_", 8)) /* what the recorder measured of itself */
		return false;
	return strcmp(e->name, "blame") && (n < sizeof(end) || strcmp(e->name + n - (sizeof(end) - 1), end));
}

/* A store that is written at another rate than before has another event of the same name. */
static void measure_rates(const struct query *q, struct merge *m)
{
	for (uint32_t i = 0; i < store_n_events(q->store); i++) {
		const struct store_event *e = store_event(q->store, i);
		bool other = i != q->event && e->ns_per_sample && q->info.event->ns_per_sample && !strcmp(e->name, q->info.event->name);
		m->rates |= other;
		m->measure[i].counts = other || i == q->event;
	}
	for (uint32_t i = 0; i < store_n_events(q->store); i++)
		m->measure[i].per_sample = m->rates ? store_event(q->store, i)->ns_per_sample : 1;
}

static int choose_event(struct query *q, struct merge *m, struct err *err)
{
	const char *name = m->spec->event;
	int rc = name && *name ? named_event(q->store, name, &q->event, err)
			       : default_event(q->store, m->selector, &q->event, err);
	if (rc || q->event == NO_EVENT)
		return rc;
	q->info.event = store_event(q->store, q->event);
	measure_rates(q, m);
	return selector_match_event(m->selector, q->info.event->name, &m->event_ok, err);
}

/* ---- reasons of waits ---- */

bool query_is_wait_key(const char *key)
{
	return !strcmp(key, "wait") || !strcmp(key, "wait_in");
}

static int choose_waits(struct query *q, struct merge *m, struct err *err)
{
	int rc = selector_match_wait(m->selector, "", &m->others_ok, err);
	bool blocked = false, others = false;
	for (int i = 0; !rc && i < WAIT_CLASSES; i++)
		rc = selector_match_wait(m->selector, wait_class_names[i], &m->wait_ok[i], err);
	for (uint32_t i = 0; i < store_n_events(q->store); i++) {
		m->measure[i].blocked = !strcmp(store_event(q->store, i)->name, WAIT_EVENT);
		blocked |= m->measure[i].counts && m->measure[i].blocked;
		others |= m->measure[i].counts && !m->measure[i].blocked;
	}
	m->names_wait = selector_names_wait(m->selector);
	m->reasons = m->names_wait || (blocked && !m->spec->idle);
	q->blocked = blocked && !others;
	if (!rc && m->names_wait && m->spec->rest)
		return err_set(err, -EINVAL, "`wait` cannot be in the selector of a comparison with the rest");
	return rc;
}

/* Is a row left out for the reason of its wait? An idle one is counted. 0 or -ENOMEM. */
static int left_out(struct merge *m, const struct measure *v, const struct store_row *row, bool *ret)
{
	const struct wait_reason *r;
	*ret = m->reasons && !v->blocked && !m->others_ok;
	if (!m->reasons || !v->blocked)
		return 0;
	int rc = wait_reason_of(&m->q->reasons, m->q->store, row->stack, &r);
	if (rc)
		return rc;
	bool idle = r->class == WAIT_CLASS_IDLE && !m->spec->idle && !m->names_wait;
	if (idle)
		m->q->info.idle_waits += v->value ? row->value : row->samples * v->per_sample;
	*ret = idle || !m->wait_ok[r->class];
	return 0;
}

/* ---- rows ---- */

static bool is_idle(const struct store *s, uint32_t stack)
{
	uint32_t parent, frame;
	store_stack(s, stack, &parent, &frame);
	const struct store_frame *f = parent ? NULL : store_frame(s, frame);
	return f && f->kind == FRAME_IDLE;
}

static int wanted(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	struct merge *m = ctx;
	int rc = selector_match(m->selector, labels, n, ret, m->err);
	*ret ^= m->spec->rest;
	return rc;
}

/* Stacks and sets are numbered densely: an array is the fastest sum. */
static int add_sum(struct merge *m, uint32_t id, uint64_t samples, uint64_t value)
{
	if (id >= m->n_sums) {
		size_t n = m->spec->labels == QUERY_KEYS ? 2 * (size_t)id + 64 : store_n_stacks(m->q->store);
		struct sum *v = realloc(m->sums, n * sizeof(*v));
		if (!v)
			return -ENOMEM;
		memset(v + m->n_sums, 0, (n - m->n_sums) * sizeof(*v));
		m->sums = v;
		m->n_sums = n;
	}
	m->sums[id].samples += samples;
	m->sums[id].value += value;
	return 0;
}

enum { IDLE_UNKNOWN, IDLE_NO, IDLE_YES };

/*
 * The same stacks come in every window, and their nodes are not near each other: what one is is
 * kept beside that of the others.
 */
static int stack_is_idle(struct merge *m, uint32_t stack, bool *ret)
{
	if (stack >= m->n_idle) {
		size_t n = store_n_stacks(m->q->store);
		uint8_t *v = realloc(m->idle, n);
		if (!v)
			return -ENOMEM;
		memset(v + m->n_idle, IDLE_UNKNOWN, n - m->n_idle);
		m->idle = v;
		m->n_idle = n;
	}
	if (m->idle[stack] == IDLE_UNKNOWN)
		m->idle[stack] = is_idle(m->q->store, stack) ? IDLE_YES : IDLE_NO;
	*ret = m->idle[stack] == IDLE_YES;
	return 0;
}

/* What a row of the store is in the terms of the query; NULL: nothing. */
static const struct measure *measure_of(const struct merge *m, const struct store_row *row)
{
	struct measure *v = row->event < store_n_events(m->q->store) ? &m->measure[row->event] : NULL;
	if (!v || !v->counts)
		return NULL;
	v->seen = true;
	return v;
}

/* The row in those terms. */
static struct store_row measured(const struct merge *m, const struct measure *v, const struct store_row *row)
{
	uint64_t amount = v->value ? row->value : row->samples * v->per_sample;
	return (struct store_row){ row->set, row->stack, m->q->event, amount, m->spec->metric ? amount : row->value };
}

static int within(struct merge *m)
{
	m->unchecked = 0;
	return store_within(m->q->store, runs_bytes(&m->runs) + m->n_sums * sizeof(*m->sums) + m->n_idle + m->folding.bytes +
			    wait_reasons_bytes(&m->q->reasons), m->err);
}

/* The sums by stack. They are admitted when all is summed, once for each stack. */
static int on_sum(void *ctx, const struct store_row *of)
{
	struct merge *m = ctx;
	const struct measure *v = measure_of(m, of);
	int rc = ++m->unchecked >= LOOK_ROWS ? within(m) : 0;
	bool out = false;
	if (rc || !v)
		return rc;
	const struct store_row in = measured(m, v, of);
	rc = left_out(m, v, of, &out);
	rc = rc || out ? rc : add_sum(m, in.stack, in.samples, in.value);
	return rc ? err_sys(m->err, rc, "cannot merge the rows") : 0;
}

/* Of rows whose stacks are left out this is the last place where an idle CPU can be told. */
static int on_group(void *ctx, const struct store_row *sum)
{
	struct merge *m = ctx;
	const struct measure *v = measure_of(m, sum);
	bool idle = false;
	if (!v)
		return 0;
	int rc = m->spec->labels == QUERY_NO_LABELS ? 0 : stack_is_idle(m, sum->stack, &idle);
	if (rc)
		return err_sys(m->err, rc, "cannot merge the rows");
	if (idle && m->once)
		m->q->info.idle += measured(m, v, sum).samples;
	return m->spec->labels == QUERY_NO_LABELS || (m->event_ok && (!idle || m->spec->idle));
}

static int add_row(struct merge *m, const struct store_row *row)
{
	if (m->spec->labels == QUERY_NO_LABELS)
		return add_sum(m, row->stack, row->samples, row->value);
	m->q->info.samples += row->samples;
	m->q->info.value += row->value;
	return m->spec->labels == QUERY_KEYS ? add_sum(m, row->set, row->samples, row->value) : runs_add(&m->runs, row);
}

/* Those of groups that were admitted. */
static int on_rows(void *ctx, const struct store_row *rows, size_t n)
{
	struct merge *m = ctx;
	const struct measure *v = measure_of(m, rows);
	m->unchecked += (unsigned)n;
	int rc = m->unchecked >= LOOK_ROWS ? within(m) : 0;
	for (size_t i = 0; !rc && v && i < n; i++) {
		const struct store_row in = measured(m, v, &rows[i]);
		bool out = false;
		rc = left_out(m, v, &rows[i], &out);
		rc = rc || out ? rc : add_row(m, &in);
		rc = rc ? err_sys(m->err, rc, "cannot merge the rows") : 0;
	}
	return rc;
}

/* A block without labels: of those that are asked for it has none. */
static int on_folded(void *ctx, const struct store_row *row)
{
	struct merge *m = ctx;
	int wanted = on_group(m, row);
	return wanted <= 0 ? wanted : on_rows(m, row, 1);
}

static int on_idle(void *ctx, const struct store_row *row)
{
	struct merge *m = ctx;
	const struct measure *v = measure_of(m, row);
	bool idle = false;
	int rc = v ? stack_is_idle(m, row->stack, &idle) : 0;
	if (idle)
		m->q->info.idle += measured(m, v, row).samples;
	return rc ? err_sys(m->err, rc, "cannot merge the rows") : 0;
}

/* ---- blocks ---- */

static void add_totals(struct query *q, const struct store_totals *t)
{
	const struct store_meta *m = store_meta(q->store);
	uint64_t *lost = q->counters, *flagged = lost + m->n_lost;
	for (size_t i = 0; i < t->n_cpus; i++) {
		q->info.fired += t->cpu[i].fired;
		q->info.stored += t->cpu[i].stored;
		for (size_t k = 0; k < m->n_lost; k++)
			lost[k] += t->cpu[i].lost[k];
		for (size_t k = 0; k < m->n_flagged; k++)
			flagged[k] += t->cpu[i].flagged[k];
	}
	q->info.outside += t->outside;
	q->info.own_cpu_ns += t->own_cpu_ns;
	if (t->own_rss > q->info.own_rss_max)
		q->info.own_rss_max = t->own_rss;
}

/* A parent does not know the gaps between its windows; none of them is longer than a window of a recorder. */
static int64_t covered(const struct store_block *b)
{
	int64_t length, windows;
	/* Times and numbers are whatever a damaged store says. */
	if (__builtin_sub_overflow(b->t1_ns, b->t0_ns, &length))
		length = INT64_MAX;
	if (__builtin_mul_overflow(b->n_windows, QUERY_WINDOW_NS, &windows))
		windows = INT64_MAX;
	return b->level && windows < length ? windows : length;
}

/* Idle samples are counted whatever the selector: they are in the folded stacks. */
static int add_account(struct merge *m, const struct store_block *b)
{
	struct store_totals *t;
	int rc = store_block_totals(m->q->store, b, &t, m->err);
	if (rc)
		return rc;
	add_totals(m->q, t);
	store_totals_free(t);
	m->q->info.windows += b->n_windows;
	if (__builtin_add_overflow(m->q->info.covered_ns, covered(b), &m->q->info.covered_ns))
		m->q->info.covered_ns = INT64_MAX;
	return m->once ? 0 : store_block_folded(m->q->store, b, on_idle, m, m->err);
}

static int add_folded(struct merge *m, const struct store_block *b)
{
	struct store *s = m->q->store;
	return m->spec->labels == QUERY_NO_LABELS ? store_fold_block(s, &m->folding, b, m->err) : store_block_folded(s, b, on_folded, m, m->err);
}

static int add_block(struct merge *m, const struct store_block *b, enum store_want want)
{
	struct store *s = m->q->store;
	const struct store_keys keys = { m->keys, m->n_keys };
	bool all = !m->spec->where || !*m->spec->where;
	const struct store_reading how = { .keys = m->keys ? &keys : NULL, .filter = all ? NULL : wanted, .group = on_group, .rows = on_rows,
					   .fold_stacks = m->spec->labels == QUERY_KEYS && !m->reasons, .fold_sets = m->spec->labels == QUERY_NO_LABELS,
					   .ctx = m };
	if (all && m->spec->rest)
		return 0;
	int rc = want == STORE_FOLDED ? add_folded(m, b) : store_block_read(s, b, &how, m->err);
	if (rc == -ENODATA)
		rc = all ? add_folded(m, b) : 0;
	if (rc)
		return rc;
	rc = runs_close(&m->runs);
	return rc ? err_sys(m->err, rc, "cannot merge the rows") : 0;
}

/* Whether the sum of a stack is part of the answer; it is counted, or that its CPU was idle. */
static bool admit(struct merge *m, const struct store_row *row)
{
	struct query_info *info = &m->q->info;
	bool idle = is_idle(m->q->store, row->stack);
	if (idle && m->once)
		info->idle += row->samples;
	if (!m->event_ok || (idle && !m->spec->idle))
		return false;
	info->samples += row->samples;
	info->value += row->value;
	return true;
}

static int give_sums(struct merge *m)
{
	struct query *q = m->q;
	size_t n = 0;
	for (size_t i = 0; i < m->n_sums; i++)
		n += m->sums[i].samples || m->sums[i].value;
	q->rows = calloc(n + 1, sizeof(*q->rows));
	if (!q->rows)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_sums; i++) {
		const struct sum *v = &m->sums[i];
		uint32_t id = (uint32_t)i;
		bool by_set = m->spec->labels == QUERY_KEYS;
		struct store_row row = { by_set ? id : 0, by_set ? 0 : id, q->event, v->samples, v->value };
		if ((v->samples || v->value) && (by_set || admit(m, &row)))
			q->rows[q->n_rows++] = row;
	}
	return 0;
}

/*
 * From nanoseconds back to samples: of the lowest rate that was seen, so that none stands for more
 * than one that was taken, and an interval is never narrower than it ought to be. What a row has
 * too much for a whole sample goes to the next: the sum is right.
 */
static void count_rates(struct merge *m)
{
	struct query *q = m->q;
	uint64_t ns = 0, carry, sum = 0;
	size_t n = 0, seen = 0;
	for (uint32_t i = 0; i < store_n_events(q->store); i++) {
		const struct store_event *e = store_event(q->store, i);
		bool longer = m->spec->ns_per_sample ? e->ns_per_sample == m->spec->ns_per_sample : m->measure[i].seen && e->ns_per_sample > ns;
		seen += m->measure[i].seen;
		if (!m->measure[i].counts || !longer)
			continue;
		q->event = i;
		ns = e->ns_per_sample;
	}
	q->rates = seen > 1;
	q->info.event = store_event(q->store, q->event);
	ns = q->info.event->ns_per_sample;
	carry = ns / 2;
	for (size_t i = 0; i < q->n_rows; i++) {
		struct store_row row = q->rows[i];
		carry += row.samples;
		row.samples = carry / ns;
		row.event = q->event;
		carry %= ns;
		sum += row.samples;
		if (row.samples)
			q->rows[n++] = row;
	}
	q->n_rows = n;
	q->info.samples = sum;
	q->info.idle = (q->info.idle + ns / 2) / ns;
}

/* The matcher that postings can answer, with the forms that its value may have. */
static size_t posted_value(const struct merge *m, struct label values[STORE_VALUES_MAX])
{
	const char *key, *value;
	size_t len;
	for (size_t i = 0; i < SELECTOR_KEYS_MAX; i++) {
		if (!selector_equal(m->selector, i, &key, &value, &len) || !store_is_wide(m->q->store, key))
			continue;
		char text[32], back[32];
		values[0] = (struct label){ key, value, 0, (uint32_t)strlen(key), (uint32_t)len, LABEL_STRING };
		if (len >= sizeof(text))
			return 1;
		memcpy(text, value, len);
		text[len] = 0;
		values[1] = (struct label){ key, "", strtoll(text, NULL, 10), values[0].key_len, 0, LABEL_INT };
		label_text(&values[1], back, sizeof(back));
		return strcmp(text, back) ? 1 : 2;
	}
	return 0;
}

/* What the rows must tell apart: the keys that are asked for, and those of the selector. */
static int choose_cover(struct merge *m, enum store_want *ret_want, bool *ret_posted,
			struct store_cover *ret)
{
	const struct query_spec *spec = m->spec;
	const char *keys[SELECTOR_KEYS_MAX + 1];
	size_t n = selector_keys(m->selector, keys, SELECTOR_KEYS_MAX);
	enum store_want want = STORE_NARROW_KEYS;
	if (spec->labels == QUERY_ALL_LABELS || n > SELECTOR_KEYS_MAX)
		want = STORE_ALL_LABELS;
	bool by_keys = spec->labels == QUERY_KEYS || spec->labels == QUERY_KEYS_STACKS;
	if (want == STORE_NARROW_KEYS && !n && !(by_keys && spec->n_keys))
		want = STORE_FOLDED;
	size_t n_keys = by_keys ? spec->n_keys : 0;
	if (want != STORE_ALL_LABELS) {
		m->keys = calloc(n + n_keys + 1, sizeof(*m->keys));
		if (!m->keys)
			return err_sys(m->err, -ENOMEM, "cannot query");
		memcpy(m->keys, keys, n * sizeof(*keys));
		if (n_keys)
			memcpy(m->keys + n, spec->keys, n_keys * sizeof(*keys));
		m->n_keys = n + n_keys;
	}
	struct label values[STORE_VALUES_MAX];
	size_t n_values = want == STORE_NARROW_KEYS && !spec->rest ? posted_value(m, values) : 0;
	int rc = n_values ? store_cover_value(m->q->store, spec->from_ns, spec->to_ns, values, n_values, m->keys, m->n_keys, ret, m->err)
			  : store_cover(m->q->store, spec->from_ns, spec->to_ns, want, m->keys, m->n_keys, ret, m->err);
	*ret_posted = n_values > 0;
	*ret_want = want;
	return rc;
}

/*
 * by_start: a cover takes a block above level 0 only when it begins in the range, so that what
 * begins before it are the windows on its edge (or a block whose children are gone, which counts
 * where it begins, too).
 */
static void keep_starts(const struct query_spec *spec, struct store_cover *c)
{
	size_t n = 0;
	for (size_t i = 0; spec->by_start && i < c->n; i++) {
		const struct store_block *b = c->blocks[i];
		if (b->t0_ns < spec->from_ns)
			continue;
		c->from_ns = !n || b->t0_ns < c->from_ns ? b->t0_ns : c->from_ns;
		c->to_ns = !n || b->t1_ns > c->to_ns ? b->t1_ns : c->to_ns;
		c->blocks[n++] = b;
	}
	if (!spec->by_start)
		return;
	c->n = n;
	if (!n)
		c->from_ns = c->to_ns = 0;
}

static int merge_blocks(struct merge *m)
{
	struct query *q = m->q;
	const struct store_meta *meta = store_meta(q->store);
	struct store_cover cover, account = { 0 };
	enum store_want want = STORE_ALL_LABELS;
	bool posted = false;
	q->counters = calloc(meta->n_lost + meta->n_flagged + 1, sizeof(*q->counters));
	if (!q->counters)
		return err_sys(m->err, -ENOMEM, "cannot query");
	q->info.lost = q->counters;
	q->info.flagged = q->counters + meta->n_lost;
	int rc = choose_cover(m, &want, &posted, &cover);
	if (rc)
		return rc;
	keep_starts(m->spec, &cover);
	q->info.blocks = cover.n;
	q->info.coarse = cover.coarse;
	q->info.gone = cover.gone;
	/* Where postings left windows out they were in the range all the same, with their counters. */
	if (posted)
		rc = store_cover(q->store, m->spec->from_ns, m->spec->to_ns, STORE_FOLDED, NULL, 0, &account, m->err);
	if (posted && !rc)
		keep_starts(m->spec, &account);
	m->once = !posted && (!m->spec->where || !*m->spec->where);
	const struct store_cover *all = posted ? &account : &cover;
	q->info.from_ns = all->from_ns;
	q->info.to_ns = all->to_ns;
	for (size_t i = 0; !rc && i < all->n; i++)
		rc = add_account(m, all->blocks[i]);
	for (size_t i = 0; !rc && i < cover.n; i++) {
		rc = add_block(m, cover.blocks[i], want);
		rc = rc ? rc : within(m);
	}
	rc = rc ? rc : store_fold_rows(q->store, &m->folding, on_sum, m, m->err);
	store_cover_free(&cover);
	store_cover_free(&account);
	bool sums = m->spec->labels == QUERY_KEYS || m->spec->labels == QUERY_NO_LABELS;
	if (!rc && (sums ? give_sums(m) : runs_finish(&m->runs, &q->rows, &q->n_rows)))
		rc = err_sys(m->err, -ENOMEM, "cannot merge the rows");
	if (!rc && m->rates)
		count_rates(m);
	if (!rc && q->info.event)
		q->info.seconds = (double)q->info.samples * (double)q->info.event->ns_per_sample / 1e9;
	return rc;
}

static int open_query(struct query **ret, struct store *s, const struct query_spec *spec, struct err *err)
{
	struct query *q = calloc(1, sizeof(*q));
	if (!q)
		return err_sys(err, -ENOMEM, "cannot query");
	q->store = s;
	q->names = spec->names;
	struct query_spec whole = *spec; /* windows */
	struct merge m = { .q = q, .spec = &whole, .err = err };
	m.measure = calloc(store_n_events(s) + 1, sizeof(*m.measure));
	int rc = m.measure ? selector_parse(&m.selector, spec->where, NULL, err) : err_sys(err, -ENOMEM, "cannot query");
	if (!rc && !spec->by_start)
		rc = store_round(s, &whole.from_ns, &whole.to_ns, err);
	if (!rc)
		rc = spec->metric ? choose_metric(q, &m, err) : choose_event(q, &m, err);
	rc = rc ? rc : choose_waits(q, &m, err);
	for (size_t i = 0; !rc && q->blocked && whole.labels == QUERY_KEYS && i < whole.n_keys; i++)
		if (query_is_wait_key(whole.keys[i]))
			whole.labels = QUERY_KEYS_STACKS;
	if (!rc)
		rc = merge_blocks(&m);
	selector_free(m.selector);
	free(m.sums);
	store_folding_fini(&m.folding);
	free(m.idle);
	free(m.measure);
	free(m.keys);
	runs_fini(&m.runs);
	if (rc)
		query_close(q);
	else
		*ret = q;
	return rc;
}

/* ---- by one wide key, from what blocks keep of it ---- */

/* What the recorder says of any sample, also of that of an idle CPU. */
bool query_is_system_key(const char *key)
{
	static const char *const keys[] = { "comm", "tgid", "tid", "thread", "exe", "cgroup", "container", "pod", "unit" };
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

static bool asks_for_values(const struct store *s, const struct query_spec *spec)
{
	return spec->labels == QUERY_KEYS && spec->n_keys == 1 && (!spec->where || !*spec->where) && !spec->rest && !spec->metric &&
	       store_is_wide(s, spec->keys[0]);
}

/* The rows of q become those of the values: what the lists know when they are exact. */
static int rows_of_values(struct query *q, const char *key, const struct store_top *top)
{
	uint64_t period = q->info.event->period, rest = q->info.samples - top->total;
	const struct query_spec by_key = { .labels = QUERY_KEYS };
	struct merge m = { .q = q, .spec = &by_key };
	int rc = rest ? add_sum(&m, 0, rest, rest * period) : 0;
	for (size_t i = 0; !rc && i < top->n; i++) {
		struct label l = top->v[i].label;
		uint32_t id;
		l.key = key;
		l.key_len = (uint32_t)strlen(key);
		rc = store_keep_set(q->store, &l, 1, &id);
		rc = rc ? rc : add_sum(&m, id, top->v[i].samples, top->v[i].samples * period);
	}
	free(q->rows);
	q->rows = NULL;
	q->n_rows = 0;
	rc = rc ? rc : give_sums(&m);
	free(m.sums);
	return rc;
}

/*
 * Blocks above the windows keep the most frequent values of a wide key. Where those are all there
 * are nothing else needs to be read. *ret is NULL where they are not, or samples of idle CPUs may
 * be among them.
 */
static int open_values(struct query **ret, struct store *s, const struct query_spec *spec, struct err *err)
{
	struct query_spec all = *spec;
	struct query *q = NULL;
	struct store_cover cover = { 0 };
	struct store_top top = { 0 };
	all.labels = QUERY_NO_LABELS;
	all.keys = NULL;
	all.n_keys = 0;
	*ret = NULL;
	int rc = open_query(&q, s, &all, err);
	const struct query_info *info = rc ? NULL : &q->info;
	bool serves = !rc && info->event && info->blocks < info->windows && (spec->idle || !info->idle || !query_is_system_key(spec->keys[0])) &&
		      info->value == info->samples * info->event->period;
	if (serves)
		rc = store_cover(s, info->from_ns, info->to_ns, STORE_FOLDED, NULL, 0, &cover, err);
	if (serves && !rc)
		rc = store_top(s, cover.blocks, cover.n, spec->keys[0], q->event, &top, err);
	serves &= !rc && top.exact && top.total <= info->samples;
	if (serves && rows_of_values(q, spec->keys[0], &top))
		rc = err_sys(err, -ENOMEM, "cannot merge the rows");
	store_top_free(&top);
	store_cover_free(&cover);
	if (rc || !serves)
		query_close(q);
	else
		*ret = q;
	return rc;
}

int query_open(struct query **ret, struct store *s, const struct query_spec *spec, struct err *err)
{
	METRIC_TIME(query);
	if (asks_for_values(s, spec)) {
		struct query *q;
		int rc = open_values(&q, s, spec, err);
		if (rc || q) {
			*ret = q;
			return rc;
		}
	}
	return open_query(ret, s, spec, err);
}

void query_close(struct query *q)
{
	if (!q)
		return;
	free(q->nodes);
	free(q->rows);
	wait_reasons_fini(&q->reasons);
	free(q->counters);
	free(q);
}

const struct query_info *query_info(const struct query *q)
{
	return &q->info;
}

const struct store_row *query_rows(const struct query *q, size_t *ret_n)
{
	*ret_n = q->n_rows;
	return q->rows;
}

/* ---- small things ---- */

void query_interval(uint64_t k, uint64_t n, double *ret_low, double *ret_high)
{
	const double z = 1.959963984540054; /* the 97.5% quantile of the normal distribution */
	*ret_low = 0;
	*ret_high = 1;
	if (!n)
		return;
	double p = (double)k / (double)n, zz = z * z / (double)n;
	double mid = (p + zz / 2) / (1 + zz);
	double half = z * sqrt(p * (1 - p) / (double)n + zz / (4 * (double)n)) / (1 + zz);
	/* At the ends the formula gives 0 and 1 but for rounding. */
	if (k)
		*ret_low = mid - half > 0 ? mid - half : 0;
	if (k < n)
		*ret_high = mid + half < 1 ? mid + half : 1;
}

void query_name(const struct query *q, uint32_t frame, char *out, size_t cap)
{
	char full[NAME_MAX_BYTES];
	if (q->names == QUERY_NAMES_FULL) {
		query_frame_name(q->store, frame, out, cap);
		return;
	}
	query_frame_name(q->store, frame, full, sizeof(full));
	if (q->names == QUERY_NAMES_FOLDED)
		name_fold_clones(full, out, cap);
	else
		name_simplify(full, out, cap);
}

void query_frame_name(const struct store *s, uint32_t frame, char *out, size_t cap)
{
	const struct store_frame *f = store_frame(s, frame);
	if (!f) {
		snprintf(out, cap, "[unknown]");
		return;
	}
	if (f->function) {
		snprintf(out, cap, "%s", store_string(s, f->function, NULL));
		return;
	}
	const char *module = store_string(s, f->module, NULL), *slash = strrchr(module, '/');
	if (slash && slash[1])
		module = slash + 1;
	snprintf(out, cap, "%s+0x%" PRIx64, *module ? module : "[unknown]", f->offset);
}
