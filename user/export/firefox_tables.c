/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared tables of a Firefox profile:
 *
 *   stacks --> frames, one for each function --> functions --> strings, resources
 *
 * Strings: names of functions, of modules, of events.
 */
#include "export/firefox_int.h"
#include "util/array.h"

#include <string.h>

struct node {
	uint32_t prefix, function; /* prefix: a node + 1; 0: none */
};

/* ---- stacks ---- */

static int add_node(struct firefox *x, uint32_t prefix, uint32_t frame, uint32_t *ret)
{
	struct node n = { .prefix = prefix };
	int rc = functions_find(&x->functions, frame, &n.function);
	rc = rc ? rc : intern_add(&x->nodes, &n, sizeof(n), ret, NULL);
	*ret += !rc;
	return rc;
}

/* Stacks become known while a store is read. */
static int make_room(struct firefox *x)
{
	return ARRAY_RESERVE_CLEARED(x->by_stack, x->cap_stacks,
				     (size_t)store_n_stacks(x->src->store) + 1);
}

/* Ancestors that have theirs are not walked again. */
int firefox_stack(struct firefox *x, uint32_t stack, uint32_t *ret)
{
	uint32_t path[EXPORT_DEPTH_MAX], node = 0, parent, frame;
	size_t n = 0;
	int rc = make_room(x);
	while (!rc && stack && n < EXPORT_DEPTH_MAX) {
		node = stack < x->cap_stacks ? x->by_stack[stack] : 0;
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
		if (path[n] < x->cap_stacks)
			x->by_stack[path[n]] = node;
	}
	*ret = node;
	return rc;
}

int firefox_other(struct firefox *x, uint32_t node, uint32_t *ret)
{
	*ret = node;
	return add_node(x, node, 0, ret);
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
	for (uint32_t i = 0; !rc && x->times && i < store_n_events(x->src->store); i++) {
		const char *name = store_event(x->src->store, i)->name;
		putc_unlocked(',', x->f);
		rc = text_json(&x->text, name, strlen(name));
	}
	putc_unlocked(']', x->f);
	return rc;
}

int firefox_modules(struct firefox *x)
{
	int rc = 0;
	for (uint32_t i = 0; !rc && i < x->functions.keys.n; i++) {
		uint32_t module = function_module(x, i), id;
		rc = intern_add(&x->modules, &module, sizeof(module), &id, NULL);
	}
	return rc;
}

size_t firefox_event_string(const struct firefox *x, uint32_t event)
{
	return x->functions.keys.n + x->modules.n + event;
}

int firefox_put_shared(struct firefox *x)
{
	const size_t n = x->functions.keys.n, n_nodes = x->nodes.n;
	FILE *f = x->f;
	int rc = firefox_modules(x);
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
