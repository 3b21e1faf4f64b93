/* SPDX-License-Identifier: Apache-2.0 */
#include "query/locks.h"

#include "query/lock_frames.h"
#include "query/query_int.h"
#include "query/selector.h"
#include "query/table_int.h"
#include "util/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_MAX 300
#define NAME_MAX_BYTES 1024

/* ---- the selector ---- */

/* Rows that have a lock, of those that `where` admits. */
static int only_locks(const char *where, struct buf *ret, struct err *err)
{
	struct selector *sel = NULL;
	int rc = selector_parse(&sel, where, NULL, err);
	if (rc)
		return rc;
	selector_free(sel);
	rc = selector_add_matchers(ret, where);
	rc = rc ? rc : buf_add(ret, LOCK_KIND_KEY "!=\"\"", sizeof(LOCK_KIND_KEY "!=\"\""));
	return rc ? err_sys(err, rc, "cannot query") : 0;
}

/* ---- rows ---- */

enum { VICTIM, BY, BY_COMM, IS, KIND, NAME, KEYS };

static struct query_lock lock_of_row(const struct query_table_row *r)
{
	struct query_lock l = { .ns = r->samples, .is = "", .kind = r->values[KIND] };
	l.victim = (struct blame_party){ r->present[VICTIM] ? BLAME_VALUE : BLAME_NONE,
					 r->present[VICTIM] ? r->values[VICTIM] : "(none)",
					 r->samples };
	l.by = blame_occupant(r->present[BY] ? r->values[BY] : NULL, r->values[BY_COMM]);
	l.by.ns = r->samples;
	l.is = r->values[IS];
	l.name = r->present[NAME] ? r->values[NAME] : NULL;
	return l;
}

static struct query_lock lock_of_rest(uint64_t ns)
{
	static const struct blame_party other = { BLAME_OTHER, "(other)", 0 };
	struct query_lock l = { .victim = other, .by = other, .is = "", .kind = "", .ns = ns };
	l.victim.ns = l.by.ns = ns;
	return l;
}

static int by_ns(const void *pa, const void *pb)
{
	const struct query_lock *a = pa, *b = pb;
	if (a->ns != b->ns)
		return a->ns < b->ns ? 1 : -1;
	int c = strcmp(a->victim.name, b->victim.name);
	c = c ? c : strcmp(a->by.name, b->by.name);
	return c ? c : strcmp(a->name ? a->name : "", b->name ? b->name : "");
}

/* ---- stacks ---- */

struct stack_time {
	uint32_t same, stack; /* what stands for it, and itself */
	uint64_t ns;
};

static int by_same(const void *pa, const void *pb)
{
	const struct stack_time *a = pa, *b = pb;
	return (a->same > b->same) - (a->same < b->same);
}

/* "[no stack]", "[interrupt]": the recorder's own marks. */
static bool is_mark(const struct query *q, uint32_t stack)
{
	uint32_t parent, frame;
	if (!stack || stack == QUERY_OTHER_STACK)
		return true;
	store_stack(q->store, stack, &parent, &frame);
	const struct store_frame *f = store_frame(q->store, frame);
	return f && f->kind == FRAME_KERNEL && *store_string(q->store, f->function, NULL) == '[';
}

/* Set the stack with the most time, of those of a row. v is sorted by it. */
static void set_stack(struct query_lock *l, struct stack_time *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_same);
	for (size_t i = 0, end; i < n; i = end) {
		uint64_t ns = 0;
		for (end = i; end < n && v[end].same == v[i].same; end++)
			ns += v[end].ns;
		if (ns <= l->stack_ns)
			continue;
		l->stack = v[i].stack;
		l->stack_ns = ns;
	}
}

/* The rows of the query come by their set, so those of one row of the table stand together. */
static int set_stacks(struct query_locks *l, const uint32_t *groups)
{
	struct query *q = l->query;
	struct stack_time *v = calloc(q->n_rows + 1, sizeof(*v));
	struct query_same *same = NULL;
	int rc = v ? query_same_new(&same, q) : -ENOMEM;
	for (size_t i = 0, end; !rc && i < q->n_rows; i = end) {
		size_t n = 0;
		for (end = i; end < q->n_rows && groups[end] == groups[i]; end++)
			if (!is_mark(q, q->rows[end].stack))
				v[n++] = (struct stack_time){
					query_same_stack(same, q->rows[end].stack),
					q->rows[end].stack, q->rows[end].samples
				};
		if (groups[i] != TABLE_NO_GROUP && n)
			set_stack(&l->v[groups[i]], v, n);
	}
	for (size_t i = 0; !rc && i < l->n_all; i++) {
		const struct wait_reason *r;
		rc = l->v[i].stack ? wait_reason_of(&q->reasons, q->store, l->v[i].stack, &r) : 0;
		if (!rc && l->v[i].stack)
			l->v[i].frame = r->frame;
	}
	query_same_free(same);
	free(v);
	return rc;
}

int query_locks_frames(const struct query_locks *l, uint32_t stack,
		       int (*each)(void *ctx, const char *function), void *ctx)
{
	const struct query *q = l->query;
	const struct store *s = q->store;
	bool user = false;
	uint32_t parent, frame;
	int rc = 0;
	for (uint32_t at = stack; at && at != QUERY_OTHER_STACK; at = parent) {
		store_stack(s, at, &parent, &frame);
		const struct store_frame *f = store_frame(s, frame);
		user |= f && f->kind != FRAME_KERNEL;
	}
	for (uint32_t at = stack; !rc && at && at != QUERY_OTHER_STACK; at = parent) {
		char name[NAME_MAX_BYTES];
		store_stack(s, at, &parent, &frame);
		const struct store_frame *f = store_frame(s, frame);
		if (user && f && f->kind == FRAME_KERNEL)
			continue;
		query_name(q, frame, name, sizeof(name));
		rc = each(ctx, name);
	}
	return rc;
}

/* ---- all ---- */

static int fill(struct query_locks *l, const char *const *keys)
{
	struct query *q = l->query;
	uint32_t *groups = calloc(q->n_rows + 1, sizeof(*groups));
	struct table *t = calloc(1, sizeof(*t));
	l->table = &t->table;
	int rc = groups && t ? table_by_keys(q, keys, KEYS, t, groups) : -ENOMEM;
	l->v = rc ? NULL : calloc(t->table.n_rows + 1, sizeof(*l->v));
	rc = rc || l->v ? rc : -ENOMEM;
	for (size_t i = 0; !rc && i < t->table.n_rows; i++) {
		l->v[l->n_all++] = lock_of_row(&t->table.rows[i]);
		l->ns += t->table.rows[i].samples;
	}
	rc = rc ? rc : set_stacks(l, groups);
	if (!rc && t->other.samples) {
		l->v[l->n_all++] = lock_of_rest(t->other.samples);
		l->ns += t->other.samples;
	}
	if (!rc)
		qsort(l->v, l->n_all, sizeof(*l->v), by_ns);
	free(groups);
	return rc;
}

int query_locks(struct query_locks **ret, struct store *s, const struct query_spec *spec,
		const char *key, size_t max, struct err *err)
{
	struct query_locks *l = calloc(1, sizeof(*l));
	struct query_spec of = *spec;
	struct buf where = BUF_INIT;
	char by[KEY_MAX];
	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	int len = snprintf(by, sizeof(by), "by.%s", key);
	const char *keys[KEYS] = { key, by, "by.comm", LOCK_BY_KEY, LOCK_KIND_KEY, LOCK_NAME_KEY };
	int rc = len < KEY_MAX ? only_locks(spec->where, &where, err)
			       : err_set(err, -EINVAL, "the key is too long");
	of.where = (const char *)where.data;
	of.metric = QUERY_WAKER;
	of.event = NULL;
	of.labels = QUERY_KEYS_STACKS;
	of.keys = keys;
	of.n_keys = KEYS;
	rc = rc ? rc : query_open(&l->query, s, &of, err);
	if (!rc && (rc = fill(l, keys)))
		err_set(err, rc, "out of memory");
	l->n = l->n_all < max ? l->n_all : max;
	buf_fini(&where);
	if (rc)
		query_locks_free(l);
	else
		*ret = l;
	return rc;
}

void query_locks_free(struct query_locks *l)
{
	if (!l)
		return;
	free(l->v);
	query_table_free(l->table);
	query_close(l->query);
	free(l);
}
