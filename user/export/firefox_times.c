/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of a Firefox profile with times: samples at their instants, waits as markers with their
 * stacks and the labels of their work.
 *
 *   tracks of the windows --> instants, in order of time --> by thread
 */
#include "export/firefox_int.h"
#include "export/timed.h"
#include "query/instants.h"
#include "util/array.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INSTANTS_MAX (1u << 20) /* beyond, sums are written: 32 MiB */

struct instant {
	int64_t at_ns;
	uint32_t set, stack, event;
	uint32_t length_us; /* of a wait */
	uint64_t amount;    /* of a sample */
};

struct firefox_times {
	struct firefox *x;
	struct timed timed;
	struct threads threads;
	struct instant *v;
	size_t n, cap;
	uint32_t *order; /* [n]: by thread; of one in order of time */
	size_t *from;	 /* [threads.n + 1]: where each begins in it */
	struct buf labels;
	struct export_times out;
};

void firefox_times_free(struct firefox_times *t)
{
	if (!t)
		return;
	free(t->timed.events);
	threads_fini(&t->threads);
	free(t->v);
	free(t->order);
	free(t->from);
	buf_fini(&t->labels);
	free(t);
}

/* ---- reading ---- */

static int on_set(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	struct firefox_times *t = ctx;
	return threads_set(&t->threads, labels, n, ret);
}

static int on_instant(void *ctx, const struct store_instant *v, const struct store_instant_row *of)
{
	struct firefox_times *t = ctx;
	struct store_row one = of->row;
	const bool wait = timed_is_wait(store_event(t->x->src->store, one.event));
	if (wait && !v->length_us)
		return 0;
	if (t->n == INSTANTS_MAX)
		return -EFBIG;
	int rc = ARRAY_RESERVE(t->v, t->cap, t->n + 1);
	if (rc)
		return rc;
	one.samples /= of->instants;
	one.value /= of->instants;
	t->v[t->n++] = (struct instant){ .at_ns = v->at_ns,
					 .set = one.set,
					 .stack = one.stack,
					 .event = one.event,
					 .length_us = v->length_us,
					 .amount = wait ? 0 : firefox_amount(t->x, &one) };
	return 0;
}

static uint32_t thread_of(const struct firefox_times *t, size_t i)
{
	return t->threads.of_set[t->v[i].set];
}

static int sort(struct firefox_times *t)
{
	t->order = calloc(t->n + 1, sizeof(*t->order));
	t->from = calloc(t->threads.n + 2, sizeof(*t->from));
	if (!t->order || !t->from)
		return -ENOMEM;
	/* from[k + 1] is where the next one of thread k goes, and in the end where k ends. */
	for (size_t i = 0; i < t->n; i++)
		t->from[thread_of(t, i) + 2]++;
	for (size_t k = 2; k < t->threads.n + 2; k++)
		t->from[k] += t->from[k - 1];
	for (size_t i = 0; i < t->n; i++)
		t->order[t->from[thread_of(t, i) + 1]++] = (uint32_t)i;
	return 0;
}

static int read_instants(struct firefox_times *t, struct err *err)
{
	const struct firefox *x = t->x;
	struct query_instants_spec spec = { .range = *x->src->asked,
					    .events = t->timed.events,
					    .stacks = true,
					    .set = on_set,
					    .instant = on_instant,
					    .ctx = t };
	struct query_instants *q;
	/* The range as it was rounded: the sums of report are over it. */
	spec.range.from_ns = x->info->from_ns;
	spec.range.to_ns = x->info->to_ns;
	spec.range.keys = x->src->n_keys ? x->src->keys : NULL;
	spec.range.n_keys = x->src->n_keys;
	int rc = query_instants_open(&q, x->src->store, &spec, err);
	if (rc)
		return rc;
	rc = query_instants_read(q, &t->out.untracked, err);
	query_instants_close(q);
	return rc;
}

int firefox_times_read(struct firefox *x, struct firefox_times **ret, struct err *err)
{
	*ret = NULL;
	if (!x->src->asked ||
	    (x->src->asked->metric != QUERY_SAMPLES && x->src->asked->metric != QUERY_CPU))
		return 0;
	struct firefox_times *t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->x = x;
	int rc = timed_choose(x->src, &t->timed);
	rc = rc ? rc : threads_init(&t->threads, x->src->keys, x->src->n_keys);
	rc = rc ? rc : read_instants(t, err);
	rc = rc ? rc : sort(t);
	if (!rc && t->n && !t->out.untracked && t->timed.sampled)
		*ret = t;
	else
		firefox_times_free(t);
	if (rc == -EFBIG)
		*err = (struct err){ 0 };
	return rc == -EFBIG ? 0 : rc;
}

/* ---- writing ---- */

static bool is_wait(const struct firefox_times *t, const struct instant *v)
{
	return v->length_us && timed_is_wait(store_event(t->x->src->store, v->event));
}

/* The next instant of a thread from *io_at on that is a wait, or is none; NULL: there is none. */
static const struct instant *next(const struct firefox_times *t, size_t thread, bool wait,
				  size_t *io_at)
{
	while (*io_at < t->from[thread + 1]) {
		const struct instant *v = &t->v[t->order[(*io_at)++]];
		if (is_wait(t, v) == wait)
			return v;
	}
	return NULL;
}

static void put_time(const struct firefox *x, int64_t at_ns)
{
	firefox_put_ms(x->f, at_ns - x->info->from_ns / 1000000 * 1000000);
}

static void put_node(struct firefox *x, uint32_t stack)
{
	uint32_t node = 0;
	firefox_stack(x, stack, &node); /* it was found before */
	if (node)
		text_number(x->f, node - 1);
	else
		fputs("null", x->f);
}

/* "tenant=acme, endpoint=/pay" of a wait's work. */
static int put_labels(struct firefox_times *t, uint32_t set)
{
	const struct label *labels;
	const size_t n = setpool_get(&t->threads.sets, set, &labels);
	char value[TEXT_NAME_MAX];
	int rc = 0;
	t->labels.len = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		size_t len = label_text(&labels[i], value, sizeof(value));
		if (threads_say(&labels[i]))
			continue;
		rc = t->labels.len ? buf_add(&t->labels, ", ", 2) : 0;
		rc = rc ? rc : buf_add(&t->labels, labels[i].key, labels[i].key_len);
		rc = rc ? rc : buf_add(&t->labels, "=", 1);
		rc = rc ? rc
			: buf_add(&t->labels, value, len < sizeof(value) ? len : sizeof(value) - 1);
	}
	return rc ? rc
		  : text_json(&t->x->text, t->labels.len ? (const char *)t->labels.data : "",
			      t->labels.len);
}

static void put_begin(const struct firefox *x, const struct instant *v)
{
	put_time(x, v->at_ns - (int64_t)v->length_us * 1000);
}

static int put_data(struct firefox_times *t, const struct instant *v)
{
	struct firefox *x = t->x;
	fputs("{\"type\":\"wait\",\"labels\":", x->f);
	int rc = put_labels(t, v->set);
	if (v->stack) {
		fputs(",\"cause\":{\"time\":", x->f);
		put_begin(x, v);
		fputs(",\"stack\":", x->f);
		put_node(x, v->stack);
		putc_unlocked('}', x->f);
	}
	putc_unlocked('}', x->f);
	return rc;
}

enum column { NAME, START, END, PHASE, CATEGORY, DATA, COLUMNS };

static int put_cell(struct firefox_times *t, enum column c, const struct instant *v)
{
	struct firefox *x = t->x;
	switch (c) {
	case NAME:
		text_number(x->f, firefox_event_string(x, v->event));
		return 0;
	case START:
		put_begin(x, v);
		return 0;
	case END:
		put_time(x, v->at_ns);
		return 0;
	case DATA:
		return put_data(t, v);
	default: /* an interval */
		text_number(x->f, c == PHASE ? 1 : FIREFOX_OTHER);
		return 0;
	}
}

static int put_markers(struct firefox_times *t, size_t thread)
{
	static const char *const names[COLUMNS] = { "name",  "startTime", "endTime",
						    "phase", "category",  "data" };
	FILE *f = t->x->f;
	size_t n = 0;
	int rc = 0;
	for (enum column c = 0; !rc && c < COLUMNS; c++) {
		const char *comma = "";
		const struct instant *v;
		size_t at = t->from[thread];
		fprintf(f, "\"%s\":[", names[c]);
		for (n = 0; !rc && (v = next(t, thread, true, &at)); n++, comma = ",") {
			fputs(comma, f);
			rc = put_cell(t, c, v);
		}
		fputs("],", f);
	}
	t->out.waits += n;
	fprintf(f, "\"length\":%zu},", n);
	return rc;
}

static void put_samples(struct firefox_times *t, size_t thread)
{
	static const char *const names[] = { "stack", "time", "weight", "threadCPUDelta" };
	struct firefox *x = t->x;
	const uint64_t ns = t->timed.sampled->ns_per_sample;
	size_t n = 0;
	fprintf(x->f, "\"samples\":{\"weightType\":\"%s\"", firefox_weight_type(x));
	for (size_t c = 0; c < (ns ? 4 : 3); c++) {
		const char *comma = "";
		const struct instant *v;
		size_t at = t->from[thread];
		fprintf(x->f, ",\"%s\":[", names[c]);
		for (n = 0; (v = next(t, thread, false, &at)); n++, comma = ",") {
			fputs(comma, x->f);
			if (!c)
				put_node(x, v->stack);
			else if (c == 1)
				put_time(x, v->at_ns);
			else if (c == 2)
				firefox_put_weight(x, v->amount);
			else /* between two samples of a clock the thread ran for its period */
				text_number(x->f, ns);
		}
		putc_unlocked(']', x->f);
	}
	t->out.samples += n;
	fprintf(x->f, ",\"length\":%zu}", n);
}

static int put_thread(struct firefox_times *t, size_t thread)
{
	struct firefox *x = t->x;
	const struct thread *of = &t->threads.v[thread];
	size_t process_len;
	int rc = threads_names(&t->threads, (uint32_t)thread, &process_len);
	if (rc)
		return rc;
	const char *names = (const char *)t->threads.text.data;
	fputs(x->n_threads++ ? ",\n{\"name\":" : "{\"name\":", x->f);
	rc = text_json(&x->text, names + process_len, t->threads.text.len - process_len);
	fputs(",\"processName\":", x->f);
	rc = rc ? rc : text_json(&x->text, names, process_len);
	fprintf(x->f, ",\"pid\":\"%u\"", of->pid);
	firefox_put_thread(x->f, of->tid);
	rc = rc ? rc : put_markers(t, thread);
	put_samples(t, thread);
	putc_unlocked('}', x->f);
	return rc;
}

int firefox_put_times(struct firefox *x)
{
	struct firefox_times *t = x->times;
	uint32_t node;
	int rc = 0;
	/* Markers have numbers of strings, which are known when all functions are. */
	for (size_t i = 0; !rc && i < t->n; i++)
		rc = firefox_stack(x, t->v[i].stack, &node);
	rc = rc ? rc : firefox_modules(x);
	for (size_t k = 0; !rc && k < t->threads.n && !ferror(x->f); k++)
		if (t->from[k] < t->from[k + 1])
			rc = put_thread(t, k);
	if (x->src->times)
		*x->src->times = t->out;
	return rc;
}
