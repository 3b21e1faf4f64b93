/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processed profile format of the Firefox profiler, version 60, as its type definitions and
 * docs-developer/CHANGELOG-formats.md have it. profiler.firefox.com upgrades older versions.
 *
 *   threads: of sums, one for each label set; with times, one for each thread of the host
 *   shared:  stacks, functions, strings
 *
 * Threads have times where all windows of the range keep them. The threads come first in the file:
 * the shared tables are complete only then.
 */
#include "export/firefox_int.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Categories give frames their colours: enum export_kind in the order of this list. */
static const char categories[] =
	"[{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Library\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Program\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"JIT\",\"color\":\"green\",\"subcategories\":[\"Other\"]},"
	"{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]}]";
_Static_assert(EXPORT_KERNEL == 0 && EXPORT_LIBRARY == 1 && EXPORT_EXECUTABLE == 2 &&
		       EXPORT_JIT == 3 && EXPORT_OTHER == 4,
	       "categories are in this order");
_Static_assert(EXPORT_OTHER == FIREFOX_OTHER, "so is the last");

uint64_t firefox_amount(const struct firefox *x, const struct store_row *row)
{
	return x->values ? export_value(x->info->event, row) : row->samples;
}

static bool is_time(const struct firefox *x)
{
	const struct store_event *e = x->info->event;
	return e && (x->values || x->info->amounts) &&
	       (e->ns_per_sample || !strcmp(e->unit, "nanoseconds"));
}

const char *firefox_weight_type(const struct firefox *x)
{
	const struct store_event *e = x->info->event;
	bool amounts = x->values || x->info->amounts;
	return is_time(x)				   ? "tracing-ms"
	       : e && amounts && !strcmp(e->unit, "bytes") ? "bytes"
							   : "samples";
}

void firefox_put_ms(FILE *f, int64_t ns)
{
	if (ns < 0)
		putc_unlocked('-', f);
	const uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	text_number(f, v / 1000000);
	if (v % 1000000)
		fprintf(f, ".%06u", (unsigned)(v % 1000000));
}

void firefox_put_weight(const struct firefox *x, uint64_t amount)
{
	if (is_time(x))
		firefox_put_ms(x->f, (int64_t)amount);
	else
		text_number(x->f, amount);
}

static int find_row(struct firefox *x, const struct store_row *row, uint32_t *ret)
{
	uint32_t stack = row->stack == QUERY_OTHER_STACK ? 0 : row->stack;
	int rc = firefox_stack(x, stack, ret);
	if (!rc && query_row_is_other(x->src->query, row))
		rc = firefox_other(x, *ret, ret);
	return rc;
}

/* ---- threads ---- */

static int put_label(struct firefox *x, uint32_t set, const char *key, const char *other)
{
	char value[TEXT_NAME_MAX];
	const struct label *l = export_label(x->src->query, set, key);
	size_t len = l ? label_text(l, value, sizeof(value)) : 0;
	len = len < sizeof(value) ? len : sizeof(value) - 1;
	const char *none = set == QUERY_OTHER ? "(other)" : other;
	return len ? text_json(&x->text, value, len) : text_json(&x->text, none, strlen(none));
}

/* Samples lie side by side, each as long as it weighs: the store sums them over the range. */
static int put_samples(struct firefox *x, const struct store_row *rows, size_t n)
{
	uint64_t at = 0;
	uint32_t node;
	int rc = 0;
	fprintf(x->f, "\"samples\":{\"length\":%zu,\"weightType\":\"%s\",\"stack\":[", n,
		firefox_weight_type(x));
	for (size_t i = 0; !rc && i < n; i++) {
		rc = find_row(x, &rows[i], &node);
		if (i)
			putc_unlocked(',', x->f);
		if (node)
			text_number(x->f, node - 1);
		else
			fputs("null", x->f);
	}
	fputs("],\"time\":[", x->f);
	for (size_t i = 0; i < n; i++) {
		if (i)
			putc_unlocked(',', x->f);
		firefox_put_ms(x->f, (int64_t)(is_time(x) ? at : at * 1000000));
		at += firefox_amount(x, &rows[i]);
	}
	fputs("],\"weight\":[", x->f);
	for (size_t i = 0; i < n; i++) {
		if (i)
			putc_unlocked(',', x->f);
		firefox_put_weight(x, firefox_amount(x, &rows[i]));
	}
	fputs("]}", x->f);
	return rc;
}

void firefox_put_thread(FILE *f, uint64_t tid)
{
	fprintf(f,
		",\"tid\":%" PRIu64 ",\"isMainThread\":false,\"processType\":\"default\","
		"\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,"
		"\"unregisterTime\":null,\"pausedRanges\":[],\"markers\":{",
		tid);
}

static int put_thread(struct firefox *x, const struct store_row *rows, size_t n)
{
	const uint32_t set = n ? rows->set : 0;
	fputs(x->n_threads++ ? ",\n{\"name\":" : "{\"name\":", x->f);
	int rc = text_set(&x->text, x->src->query, set);
	const char *all = (const char *)x->text.room.data;
	if (!rc && x->src->n_keys)
		rc = text_json(&x->text, all, x->text.room.len - 1);
	else
		rc = rc ? rc : put_label(x, set, "thread", "(none)");
	fputs(",\"processName\":", x->f);
	rc = rc ? rc : put_label(x, set, "comm", "(none)");
	fputs(",\"pid\":", x->f);
	rc = rc ? rc : put_label(x, set, "comm", "(none)");
	firefox_put_thread(x->f, x->n_threads);
	fputs("\"length\":0,\"data\":[],\"name\":[],\"startTime\":[],\"endTime\":[],\"phase\":[],"
	      "\"category\":[]},",
	      x->f);
	rc = rc ? rc : put_samples(x, rows, n);
	putc_unlocked('}', x->f);
	return rc;
}

static int put_threads(struct firefox *x)
{
	size_t n, from = 0;
	const struct store_row *rows = query_rows(x->src->query, &n);
	int rc = n ? 0 : put_thread(x, NULL, 0);
	while (!rc && from < n && !ferror(x->f)) {
		size_t to = from;
		while (to < n && rows[to].set == rows[from].set)
			to++;
		rc = put_thread(x, rows + from, to - from);
		from = to;
	}
	return rc;
}

static int put_all(struct firefox *x)
{
	const struct store_meta *m = store_meta(x->src->store);
	const struct store_event *e = x->info->event;
	const char *product = e ? e->name : "samples";
	const uint64_t interval = e && e->ns_per_sample > 1 ? e->ns_per_sample : 1000000;
	fputs("{\"meta\":{\"version\":32,\"preprocessedProfileVersion\":60,\"processType\":0,"
	      "\"stackwalk\":1,\"symbolicated\":true,\"debug\":false,\"importedFrom\":\"ascribe\","
	      "\"markerSchema\":[{\"name\":\"wait\",\"tooltipLabel\":\"{marker.name}\","
	      "\"tableLabel\":\"{marker.data.labels}\",\"chartLabel\":\"{marker.name}\","
	      "\"display\":[\"marker-chart\",\"marker-table\"],\"fields\":[{\"key\":\"labels\","
	      "\"label\":\"Labels\",\"format\":\"string\"}]}],\"sampleUnits\":{\"time\":\"ms\","
	      "\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"},\"interval\":",
	      x->f);
	firefox_put_ms(x->f, (int64_t)(interval));
	fprintf(x->f, ",\"startTime\":%lld,\"categories\":%s,\"product\":",
		(long long)(x->info->from_ns / 1000000), categories);
	int rc = text_json(&x->text, product, strlen(product));
	fputs(",\"oscpu\":", x->f);
	rc = rc ? rc : text_json(&x->text, m->os, strlen(m->os));
	fputs("},\"libs\":[],\n\"threads\":[", x->f);
	rc = rc ? rc : x->times ? firefox_put_times(x) : put_threads(x);
	fputs("],\n", x->f);
	rc = rc ? rc : firefox_put_shared(x);
	fputs("}\n", x->f);
	return rc;
}

int export_firefox(const struct export_source *src, enum export_unit unit, FILE *f, struct err *err)
{
	struct firefox x = {
		.src = src, .info = query_info(src->query), .text = { .f = f }, .f = f
	};
	x.values = x.info->event && !x.info->amounts && unit != EXPORT_SAMPLES;
	struct err why = { 0 };
	errno = 0;
	int rc = functions_init(&x.functions, src);
	rc = rc ? rc : firefox_times_read(&x, &x.times, &why);
	rc = rc ? rc : put_all(&x);
	if (!rc && (ferror(f) || fflush(f)))
		rc = errno ? -errno : -EIO;
	functions_fini(&x.functions);
	intern_fini(&x.nodes);
	intern_fini(&x.modules);
	text_fini(&x.text);
	free(x.by_stack);
	firefox_times_free(x.times);
	if (rc && why.text[0])
		*err = why;
	return !rc || why.text[0] ? rc : err_sys(err, rc, "Firefox profile");
}
