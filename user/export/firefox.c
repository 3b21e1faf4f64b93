/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processed profile format of the Firefox profiler, version 60, as its type definitions and
 * docs-developer/CHANGELOG-formats.md have it. profiler.firefox.com upgrades older versions.
 *
 *   threads: a thread for each label set, its samples name stacks
 *   shared:  stacks --> frames, one for each function --> functions --> strings, resources
 *
 * The threads come first in the file: the shared tables are complete only then.
 */
#include "export/functions.h"
#include "export/text.h"
#include "util/array.h"

#include <errno.h>
#include <string.h>

struct node {
	uint32_t prefix, function; /* prefix: a node + 1; 0: none */
};

struct firefox {
	const struct export_source *src;
	const struct query_info *info;
	struct functions functions;
	struct intern nodes;   /* struct node; what the file calls a stack */
	uint32_t *by_stack;    /* node + 1 of each stack of the store; 0: not known yet */
	struct intern modules; /* string ids of the store */
	struct text text;
	FILE *f;
	bool values;
	size_t n_threads;
};

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

static uint64_t amount(const struct firefox *x, const struct store_row *row)
{
	return x->values ? export_value(x->info->event, row) : row->samples;
}

static bool is_time(const struct firefox *x)
{
	const struct store_event *e = x->info->event;
	return e && (x->values || x->info->amounts) &&
	       (e->ns_per_sample || !strcmp(e->unit, "nanoseconds"));
}

static const char *weight_type(const struct firefox *x)
{
	const struct store_event *e = x->info->event;
	bool amounts = x->values || x->info->amounts;
	return is_time(x)				   ? "tracing-ms"
	       : e && amounts && !strcmp(e->unit, "bytes") ? "bytes"
							   : "samples";
}

/* Nanoseconds as milliseconds. */
static void put_ms(FILE *f, uint64_t ns)
{
	text_number(f, ns / 1000000);
	if (ns % 1000000)
		fprintf(f, ".%06u", (unsigned)(ns % 1000000));
}

/* ---- stacks ---- */

static int add_node(struct firefox *x, uint32_t prefix, uint32_t frame, uint32_t *ret)
{
	struct node n = { .prefix = prefix };
	int rc = functions_find(&x->functions, frame, &n.function);
	rc = rc ? rc : intern_add(&x->nodes, &n, sizeof(n), ret, NULL);
	*ret += !rc;
	return rc;
}

/* The node + 1 of a stack, 0 of an empty one. Ancestors that have theirs are not walked again. */
static int find_stack(struct firefox *x, uint32_t stack, uint32_t *ret)
{
	uint32_t path[EXPORT_DEPTH_MAX], node = 0, parent, frame;
	size_t n = 0;
	int rc = 0;
	while (stack && n < EXPORT_DEPTH_MAX) {
		node = stack < store_n_stacks(x->src->store) ? x->by_stack[stack] : 0;
		if (node)
			break;
		path[n++] = stack;
		store_stack(x->src->store, stack, &parent, &frame);
		stack = parent < stack ? parent : 0;
	}
	while (!rc && n--) {
		store_stack(x->src->store, path[n], &parent, &frame);
		if (frame)
			rc = add_node(x, node, frame, &node);
		if (path[n] < store_n_stacks(x->src->store))
			x->by_stack[path[n]] = node;
	}
	*ret = node;
	return rc;
}

static int find_row(struct firefox *x, const struct store_row *row, uint32_t *ret)
{
	uint32_t stack = row->stack == QUERY_OTHER_STACK ? 0 : row->stack;
	int rc = find_stack(x, stack, ret);
	if (!rc && query_row_is_other(x->src->query, row))
		rc = add_node(x, *ret, 0, ret);
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
		weight_type(x));
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
		put_ms(x->f, is_time(x) ? at : at * 1000000);
		at += amount(x, &rows[i]);
	}
	fputs("],\"weight\":[", x->f);
	for (size_t i = 0; i < n; i++) {
		if (i)
			putc_unlocked(',', x->f);
		if (is_time(x))
			put_ms(x->f, amount(x, &rows[i]));
		else
			text_number(x->f, amount(x, &rows[i]));
	}
	fputs("]}", x->f);
	return rc;
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
	fprintf(x->f,
		",\"tid\":%zu,\"isMainThread\":false,\"processType\":\"default\","
		"\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,"
		"\"unregisterTime\":null,\"pausedRanges\":[],\"markers\":{\"length\":0,\"data\":[],"
		"\"name\":[],\"startTime\":[],\"endTime\":[],\"phase\":[],\"category\":[]},",
		x->n_threads);
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

/* ---- shared tables ---- */

/* A column: n times a constant, or numbers. */
static void put_same(FILE *f, const char *name, const char *value, size_t n)
{
	fprintf(f, ",\"%s\":[", name);
	for (size_t i = 0; i < n; i++) {
		if (i)
			putc_unlocked(',', f);
		fputs(value, f);
	}
	putc_unlocked(']', f);
}

static void put_column(struct firefox *x, const char *name, size_t n,
		       int64_t (*of)(struct firefox *x, uint32_t i))
{
	fprintf(x->f, ",\"%s\":[", name);
	for (uint32_t i = 0; i < n; i++) {
		int64_t v = of(x, i);
		if (i)
			putc_unlocked(',', x->f);
		if (v < 0)
			fputs("null", x->f);
		else
			text_number(x->f, (uint64_t)v);
	}
	putc_unlocked(']', x->f);
}

static const struct node *node_of(const struct firefox *x, uint32_t i)
{
	size_t len;
	return intern_get(&x->nodes, i, &len);
}

static int64_t node_function(struct firefox *x, uint32_t i)
{
	struct node n;
	memcpy(&n, node_of(x, i), sizeof(n));
	return n.function;
}

static int64_t node_prefix(struct firefox *x, uint32_t i)
{
	struct node n;
	memcpy(&n, node_of(x, i), sizeof(n));
	return (int64_t)n.prefix - 1;
}

static int64_t same(struct firefox *x, uint32_t i)
{
	(void)x;
	return i;
}

static int64_t function_category(struct firefox *x, uint32_t i)
{
	const uint32_t frame = x->functions.frame[i];
	return frame ? export_frame_kind(x->src->store, frame) : EXPORT_OTHER;
}

static uint32_t function_module(const struct firefox *x, uint32_t i)
{
	return export_frame(x->src->store, x->functions.frame[i])->module;
}

/* All modules were added before. */
static int64_t function_resource(struct firefox *x, uint32_t i)
{
	uint32_t module = function_module(x, i), id = 0;
	intern_add(&x->modules, &module, sizeof(module), &id, NULL);
	return id;
}

static int64_t resource_name(struct firefox *x, uint32_t i)
{
	return (int64_t)x->functions.keys.n + i;
}

static int put_strings(struct firefox *x)
{
	size_t len, n = x->functions.keys.n;
	int rc = 0;
	fputs("\"stringArray\":[", x->f);
	for (uint32_t i = 0; !rc && i < n + x->modules.n; i++) {
		if (i)
			fputs(",\n", x->f);
		if (i < n) {
			const char *name = functions_name(&x->functions, i, &len);
			rc = text_json(&x->text, name, len);
			continue;
		}
		uint32_t module;
		memcpy(&module, intern_get(&x->modules, i - (uint32_t)n, &len), sizeof(module));
		const char *name = store_string(x->src->store, module, &len);
		rc = text_json(&x->text, len ? name : "[unknown]", len ? len : 9);
	}
	putc_unlocked(']', x->f);
	return rc;
}

static int put_shared(struct firefox *x)
{
	const size_t n = x->functions.keys.n, n_nodes = x->nodes.n;
	FILE *f = x->f;
	int rc = 0;
	for (uint32_t i = 0; !rc && i < n; i++) {
		uint32_t module = function_module(x, i), id;
		rc = intern_add(&x->modules, &module, sizeof(module), &id, NULL);
	}
	if (rc)
		return rc;
	const size_t n_modules = x->modules.n;
	fprintf(f, "\"shared\":{\"stackTable\":{\"length\":%zu", n_nodes);
	put_column(x, "frame", n_nodes, node_function);
	put_column(x, "prefix", n_nodes, node_prefix);
	fprintf(f, "},\n\"frameTable\":{\"length\":%zu", n);
	put_same(f, "address", "-1", n);
	put_same(f, "inlineDepth", "0", n);
	put_column(x, "category", n, function_category);
	put_same(f, "subcategory", "0", n);
	put_column(x, "func", n, same);
	put_same(f, "nativeSymbol", "null", n);
	put_same(f, "innerWindowID", "0", n);
	put_same(f, "line", "null", n);
	put_same(f, "column", "null", n);
	fprintf(f, "},\n\"funcTable\":{\"length\":%zu", n);
	put_column(x, "name", n, same);
	put_same(f, "isJS", "false", n);
	put_same(f, "relevantForJS", "false", n);
	put_column(x, "resource", n, function_resource);
	put_same(f, "source", "null", n);
	put_same(f, "lineNumber", "null", n);
	put_same(f, "columnNumber", "null", n);
	fprintf(f, "},\n\"resourceTable\":{\"length\":%zu", n_modules);
	put_same(f, "lib", "null", n_modules);
	put_column(x, "name", n_modules, resource_name);
	put_same(f, "host", "null", n_modules);
	put_same(f, "type", "1", n_modules); /* a library */
	fputs("},\n\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],\"name\":[],"
	      "\"functionSize\":[]},\"sources\":{\"length\":0,\"uuid\":[],\"filename\":[]},\n",
	      f);
	rc = put_strings(x);
	putc_unlocked('}', f);
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
	      "\"markerSchema\":[],\"interval\":",
	      x->f);
	put_ms(x->f, interval);
	fprintf(x->f, ",\"startTime\":%lld,\"categories\":%s,\"product\":",
		(long long)(x->info->from_ns / 1000000), categories);
	int rc = text_json(&x->text, product, strlen(product));
	fputs(",\"oscpu\":", x->f);
	rc = rc ? rc : text_json(&x->text, m->os, strlen(m->os));
	fputs("},\"libs\":[],\n\"threads\":[", x->f);
	rc = rc ? rc : put_threads(x);
	fputs("],\n", x->f);
	rc = rc ? rc : put_shared(x);
	fputs("}\n", x->f);
	return rc;
}

int export_firefox(const struct export_source *src, enum export_unit unit, FILE *f, struct err *err)
{
	struct firefox x = {
		.src = src, .info = query_info(src->query), .text = { .f = f }, .f = f
	};
	x.values = x.info->event && !x.info->amounts && unit != EXPORT_SAMPLES;
	x.by_stack = calloc((size_t)store_n_stacks(src->store) + 1, sizeof(*x.by_stack));
	errno = 0;
	int rc = functions_init(&x.functions, src);
	rc = rc ? rc : x.by_stack ? put_all(&x) : -ENOMEM;
	if (!rc && (ferror(f) || fflush(f)))
		rc = errno ? -errno : -EIO;
	functions_fini(&x.functions);
	intern_fini(&x.nodes);
	intern_fini(&x.modules);
	text_fini(&x.text);
	free(x.by_stack);
	return rc ? err_sys(err, rc, "Firefox profile") : 0;
}
