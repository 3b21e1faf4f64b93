/* SPDX-License-Identifier: Apache-2.0 */
#include "top/numbers.h"

#include "query/account.h"
#include "util/array.h"
#include "util/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NS 1000000000.0
/* Windows end when they were drained: this much of one more is no reason to show it */
#define LATE_NS 400000000ll
#define OPEN_SHARE 0.5 /* of its parent: a branch this heavy is open unless it was closed */

struct top_level *view_level(struct top_view *v)
{
	return &v->level[v->n_levels - 1];
}

/* ---- selectors ---- */

static int add_quoted(struct buf *b, const char *s)
{
	int rc = buf_add_u8(b, '"');
	for (; !rc && *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\')
			rc = buf_printf(b, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			rc = buf_printf(b, "\\x%02x", c);
		else
			rc = buf_add_u8(b, c);
	}
	return rc ? rc : buf_add_u8(b, '"');
}

/* Where the selector's matchers are: without braces, space and a comma at the end. */
static const char *inside(const char *s, size_t *ret_len)
{
	size_t len = s ? strlen(s) : 0;
	while (len && strchr(" \t\n{", *s)) {
		s++;
		len--;
	}
	while (len && strchr(" \t\n},", s[len - 1]))
		len--;
	*ret_len = len;
	return s;
}

char *view_narrow(const char *selector, const char *key, const char *value)
{
	struct buf b = BUF_INIT;
	size_t len;
	const char *matchers = inside(selector, &len);
	int rc = buf_add_u8(&b, '{');
	rc = rc || !len ? rc : buf_add(&b, matchers, len);
	rc = rc || !len ? rc : buf_add_u8(&b, ',');
	rc = rc ? rc : add_quoted(&b, key);
	rc = rc ? rc : buf_add_u8(&b, '=');
	rc = rc ? rc : add_quoted(&b, value ? value : "");
	rc = rc ? rc : buf_add(&b, "}", 2);
	if (!rc)
		return (char *)b.data;
	buf_fini(&b);
	return NULL;
}

/* ---- levels ---- */

static void level_fini(struct top_level *l)
{
	free(l->key);
	free(l->where);
	free(l->title);
	free(l->function);
	free(l->module);
	free(l->opened.v);
	free(l->closed.v);
	*l = (struct top_level){ 0 };
}

static char *copy(const char *s, bool *failed)
{
	char *c = s ? strdup(s) : NULL;
	*failed |= s && !c;
	return c;
}

int view_init(struct top_view *v, const char *key, const char *where, struct err *err)
{
	bool failed = false;
	struct top_level *l = &v->level[0];
	l->kind = key ? TOP_KEY : TOP_FUNCTION;
	l->key = copy(key, &failed);
	l->where = copy(where && *where ? where : NULL, &failed);
	v->n_levels = 1;
	return failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

static void unload(struct top_view *v)
{
	calls_fini(&v->calls);
	query_table_free(v->table);
	query_close(v->query);
	store_close(v->store);
	v->table = NULL;
	v->query = NULL;
	v->store = NULL;
	v->n_rows = 0;
}

void view_fini(struct top_view *v)
{
	unload(v);
	while (v->n_levels)
		level_fini(&v->level[--v->n_levels]);
	free(v->rows);
	v->rows = NULL;
}

static bool push(struct top_view *v, struct top_level *l, bool failed)
{
	if (failed || v->n_levels == TOP_LEVELS_MAX) {
		level_fini(l);
		return false;
	}
	v->level[v->n_levels++] = *l;
	return true;
}

static bool enter_value(struct top_view *v, const struct top_row *r)
{
	const struct top_level *from = view_level(v);
	struct top_level l = { .kind = TOP_FUNCTION };
	struct buf b = BUF_INIT;
	bool failed = buf_printf(&b, "%s=%s", from->key, r->missing ? "(none)" : r->text) ||
		      buf_add_u8(&b, 0);
	l.title = (char *)b.data;
	l.where = view_narrow(from->where, from->key, r->missing ? NULL : r->text);
	return push(v, &l, failed || !l.where);
}

static bool enter_function(struct top_view *v, const struct top_row *r)
{
	const struct top_level *from = view_level(v);
	bool failed = false;
	struct top_level l = { .kind = TOP_CALLERS };
	l.where = copy(from->where, &failed);
	l.title = copy(r->text, &failed);
	l.function = copy(r->text, &failed);
	l.module = copy(r->module, &failed);
	return push(v, &l, failed);
}

bool view_enter(struct top_view *v, size_t row)
{
	if (row >= v->n_rows || v->rows[row].other)
		return false;
	switch (view_level(v)->kind) {
	case TOP_KEY:
		return enter_value(v, &v->rows[row]);
	case TOP_FUNCTION:
		return enter_function(v, &v->rows[row]);
	default:
		return false;
	}
}

bool view_leave(struct top_view *v)
{
	if (v->n_levels < 2)
		return false;
	level_fini(&v->level[--v->n_levels]);
	return true;
}

int view_regroup(struct top_view *v, const char *key)
{
	struct top_level *l = view_level(v);
	bool failed = false;
	if (l->kind == TOP_CALLERS || l->kind == TOP_CALLEES) {
		/* of the selection that the function was seen in */
		view_leave(v);
		l = view_level(v);
	}
	char *k = copy(key, &failed);
	if (failed)
		return -ENOMEM;
	free(l->key);
	l->key = k;
	l->kind = key ? TOP_KEY : TOP_FUNCTION;
	l->sort = TOP_BY_SELF;
	l->reverse = false;
	l->filter[0] = 0;
	l->marked = l->at = l->first = 0;
	return 0;
}

bool view_turn(struct top_view *v)
{
	struct top_level *l = view_level(v);
	if (l->kind != TOP_CALLERS && l->kind != TOP_CALLEES)
		return false;
	l->kind = l->kind == TOP_CALLERS ? TOP_CALLEES : TOP_CALLERS;
	l->opened.n = l->closed.n = 0;
	l->marked = l->at = l->first = 0;
	return true;
}

void view_sort_next(struct top_view *v)
{
	struct top_level *l = view_level(v);
	if (l->kind == TOP_KEY)
		l->sort = l->sort == TOP_BY_SELF ? TOP_BY_NAME : TOP_BY_SELF;
	else if (l->kind == TOP_FUNCTION)
		l->sort = (l->sort + 1) % TOP_N_SORTS;
}

/* ---- branches ---- */

static bool has_id(const struct top_ids *s, uint64_t id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i] == id)
			return true;
	return false;
}

static void drop_id(struct top_ids *s, uint64_t id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i] == id)
			s->v[i--] = s->v[--s->n];
}

int view_open(struct top_view *v, size_t row, bool open)
{
	struct top_level *l = view_level(v);
	if (row >= v->n_rows || (l->kind != TOP_CALLERS && l->kind != TOP_CALLEES))
		return 0;
	struct top_ids *to = open ? &l->opened : &l->closed;
	drop_id(open ? &l->closed : &l->opened, v->rows[row].id);
	if (!has_id(to, v->rows[row].id)) {
		if (ARRAY_RESERVE(to->v, to->cap, to->n + 1))
			return -ENOMEM;
		to->v[to->n++] = v->rows[row].id;
	}
	return view_arrange(v);
}

static bool is_open(const struct top_level *l, const struct calls *c, uint32_t node)
{
	const struct calls_node *n = &c->v[node];
	if (!n->first_child || has_id(&l->closed, n->id))
		return false;
	return !node || has_id(&l->opened, n->id) ||
	       (double)n->samples >= OPEN_SHARE * (double)c->v[n->parent].samples;
}

/* ---- reading ---- */

/* The end of the newest window. -ENODATA: none yet. */
static int newest(struct store *s, int64_t *ret, struct err *err)
{
	struct store_cover all = { 0 };
	int rc = store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &all, err);
	if (rc)
		return rc;
	*ret = all.to_ns;
	rc = all.n ? 0 : -ENODATA;
	store_cover_free(&all);
	return rc;
}

int64_t view_from(const struct top_view *v, int64_t to_ns)
{
	return to_ns > INT64_MIN + v->span_ns ? to_ns - v->span_ns + LATE_NS : INT64_MIN;
}

static int ask(struct top_view *v, int64_t to_ns, struct err *err)
{
	const struct top_level *l = view_level(v);
	const char *const keys[] = { l->key };
	struct query_spec spec = { .names = v->names,
				   .where = l->where,
				   .to_ns = to_ns,
				   .event = v->event,
				   .metric = v->metric,
				   .idle = v->idle,
				   .labels = QUERY_NO_LABELS };
	spec.from_ns = view_from(v, to_ns);
	if (l->kind == TOP_KEY) {
		spec.labels = QUERY_KEYS;
		spec.keys = keys;
		spec.n_keys = 1;
	}
	int rc = query_open(&v->query, v->store, &spec, err);
	if (!rc && (l->kind == TOP_KEY || l->kind == TOP_FUNCTION))
		rc = query_table(v->query, l->kind == TOP_KEY ? keys : NULL, l->kind == TOP_KEY,
				 &v->table, err);
	else if (!rc)
		rc = calls_build(&v->calls, v->query, v->store,
				 calls_function(l->function, l->module), l->kind == TOP_CALLERS,
				 err);
	return rc;
}

static uint64_t counter(const char *const *names, const uint64_t *counts, size_t n,
			const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return counts[i];
	return 0;
}

/* As many CPUs as the newest window of each store had. */
static int count_cpus(const struct top_view *v, int64_t to_ns, unsigned *ret, struct err *err)
{
	unsigned newest[STORE_UNION_MAX] = { 0 }, sum = 0;
	struct store_cover c = { 0 };
	int rc = store_cover_nearest(v->store, view_from(v, to_ns), to_ns, STORE_FOLDED, NULL, 0,
				     &c, err);
	for (size_t i = 0; !rc && i < c.n; i++) {
		struct store_totals *t;
		rc = store_block_totals(v->store, c.blocks[i], &t, err);
		if (rc)
			break;
		newest[store_block_source(c.blocks[i])] = (unsigned)t->n_cpus;
		store_totals_free(t);
	}
	store_cover_free(&c);
	for (size_t i = 0; i < STORE_UNION_MAX; i++)
		sum += newest[i];
	*ret = sum ? sum : 1;
	return rc;
}

static int read_head(struct top_view *v, int64_t to_ns, struct err *err)
{
	const struct query_info *info = query_info(v->query);
	const struct store_meta *m = store_meta(v->store);
	struct top_head h = { .seconds = (double)info->covered_ns / NS,
			      .samples = info->samples,
			      .fired = info->fired,
			      .stored = info->stored,
			      .own_rss = info->own_rss_max,
			      .to_ns = to_ns };
	int rc = count_cpus(v, to_ns, &h.n_cpus, err);
	for (size_t i = 0; i < m->n_lost; i++)
		h.lost += info->lost[i];
	h.idle_lost = counter(m->lost_names, info->lost, m->n_lost, "idle_not_run");
	h.lost -= h.idle_lost;
	h.unlabelled = counter(m->flagged_names, info->flagged, m->n_flagged, "unlabelled");
	h.truncated = counter(m->flagged_names, info->flagged, m->n_flagged, "truncated");
	h.sampled = account_base(m, info->flagged, info->stored, "unlabelled");
	h.event = info->event ? info->event->name : "";
	numbers_choose(&h, info, v->metric);
	h.own_cpu = h.seconds > 0 ? (double)info->own_cpu_ns / NS / h.seconds : 0;
	v->head = h;
	v->head.busy = view_rate(v, info->samples);
	return rc;
}

int view_load(struct top_view *v, struct err *err)
{
	int64_t to_ns = v->frozen_ns;
	unload(v);
	int rc = store_open_all(&v->store, v->dirs, v->n_dirs, err);
	if (!rc && !to_ns)
		rc = newest(v->store, &to_ns, err);
	rc = rc ? rc : ask(v, to_ns, err);
	rc = rc ? rc : read_head(v, to_ns, err);
	if (!rc && view_arrange(v))
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc)
		unload(v);
	return rc;
}

/* ---- rows ---- */

static bool wanted(const struct top_level *l, const char *text, const char *module)
{
	return !l->filter[0] || strcasestr(text, l->filter) ||
	       (module && strcasestr(module, l->filter));
}

static int add_row(struct top_view *v, const struct top_row *r)
{
	int rc = ARRAY_RESERVE(v->rows, v->rows_cap, v->n_rows + 1);
	if (!rc)
		v->rows[v->n_rows++] = *r;
	return rc;
}

static int table_rows(struct top_view *v)
{
	const struct top_level *l = view_level(v);
	int rc = 0;
	v->head.matching = v->table->n_rows;
	for (size_t i = 0; !rc && i < v->table->n_rows; i++) {
		const struct query_table_row *t = &v->table->rows[i];
		struct top_row r = { .text = t->text,
				     .module = t->module,
				     .samples = t->samples,
				     .self = t->self,
				     .inlined = t->inlined,
				     .other = t->other };
		if (l->kind == TOP_KEY) {
			r.text = t->values[0];
			r.missing = !t->present[0];
		}
		r.id = calls_function(r.missing ? "\001"
				      : r.other ? "\002"
						: r.text,
				      r.module ? r.module : "");
		if (wanted(l, r.missing ? "(none)" : r.text, r.module))
			rc = add_row(v, &r);
	}
	return rc;
}

const char *view_row_text(const struct top_view *v, const struct top_row *r, char *out, size_t cap)
{
	if (r->text)
		return r->text;
	query_name(v->query, v->calls.v[r->node].frame, out, cap);
	return out;
}

/*
 * One of several: only then is it set off from its parent, or a chain of calls would run out of the
 * screen.
 */
static bool is_branch(const struct calls *c, uint32_t node)
{
	return c->v[c->v[c->v[node].parent].first_child].next_sibling;
}

static int tree_row(struct top_view *v, uint32_t node, unsigned depth)
{
	const struct top_level *l = view_level(v);
	const struct calls_node *n = &v->calls.v[node];
	const struct store_frame *f = store_frame(v->store, n->frame);
	char name[8192];
	struct top_row r = { .module = f ? store_string(v->store, f->module, NULL) : "",
			     .id = n->id,
			     .samples = n->samples,
			     .self = n->self,
			     .node = node,
			     .depth = depth,
			     .inlined = f && f->flags & FRAME_INLINED,
			     .has_children = n->first_child,
			     .open = is_open(l, &v->calls, node),
			     .branch = node && is_branch(&v->calls, node),
			     .last = !n->next_sibling };
	if (l->filter[0] && !wanted(l, view_row_text(v, &r, name, sizeof(name)), r.module))
		return 0;
	return add_row(v, &r);
}

static int tree_rows(struct top_view *v)
{
	const struct top_level *l = view_level(v);
	const struct calls *c = &v->calls;
	unsigned depth = 0;
	int rc = 0;
	v->head.matching = c->n;
	for (uint32_t at = 0; !rc;) {
		rc = tree_row(v, at, depth);
		if (is_open(l, c, at)) {
			at = c->v[at].first_child;
			depth += is_branch(c, at);
			continue;
		}
		while (at && !c->v[at].next_sibling) {
			depth -= is_branch(c, at);
			at = c->v[at].parent;
		}
		if (!at)
			break;
		at = c->v[at].next_sibling;
	}
	return rc;
}

static int by_text(const char *a, const char *b)
{
	char *end_a, *end_b;
	long long x = strtoll(a, &end_a, 10), y = strtoll(b, &end_b, 10);
	if (*a && *b && !*end_a && !*end_b && x != y)
		return x < y ? -1 : 1;
	return strcmp(a, b);
}

static int compare(const void *pa, const void *pb, void *ctx)
{
	const struct top_level *l = ctx;
	const struct top_row *a = pa, *b = pb;
	int c = 0;
	if (l->sort == TOP_BY_NAME || l->sort == TOP_BY_MODULE)
		c = l->sort == TOP_BY_MODULE
			    ? by_text(a->module ? a->module : "", b->module ? b->module : "")
			    : 0;
	else if (l->sort == TOP_BY_TOTAL)
		c = (a->samples < b->samples) - (a->samples > b->samples);
	if (!c && l->sort != TOP_BY_NAME)
		c = (a->self < b->self) - (a->self > b->self);
	if (!c && l->sort != TOP_BY_NAME)
		c = (a->samples < b->samples) - (a->samples > b->samples);
	c = c ? c : by_text(a->text, b->text);
	return l->reverse ? -c : c;
}

static void place_cursor(struct top_view *v)
{
	struct top_level *l = view_level(v);
	for (size_t i = 0; l->marked && i < v->n_rows; i++)
		if (v->rows[i].id == l->marked) {
			l->at = i;
			return;
		}
	if (!l->marked)
		l->at = 0;
	if (l->at >= v->n_rows)
		l->at = v->n_rows ? v->n_rows - 1 : 0;
}

int view_arrange(struct top_view *v)
{
	struct top_level *l = view_level(v);
	bool tree = l->kind == TOP_CALLERS || l->kind == TOP_CALLEES;
	v->n_rows = 0;
	if (tree ? !v->calls.n : !v->table)
		return 0;
	int rc = tree ? tree_rows(v) : table_rows(v);
	if (!rc && !tree && v->n_rows)
		qsort_r(v->rows, v->n_rows, sizeof(*v->rows), compare, l);
	place_cursor(v);
	return rc;
}

void view_mark(struct top_view *v, long row)
{
	struct top_level *l = view_level(v);
	if (row >= (long)v->n_rows)
		row = (long)v->n_rows - 1;
	l->at = row > 0 ? (size_t)row : 0;
	l->marked = l->at && l->at < v->n_rows ? v->rows[l->at].id : 0;
}
