/* SPDX-License-Identifier: Apache-2.0 */
#include "query/table_int.h"

#include "util/array.h"
#include "util/buf.h"
#include "util/idhash.h"

#include <stdio.h>

void query_table_free(struct query_table *t)
{
	struct table *own = (struct table *)t;
	if (!own)
		return;
	for (size_t i = 0; i < own->n_texts; i++)
		free(own->texts[i]);
	free(own->texts);
	free(own->table.rows);
	free(own);
}

int table_add_row(struct table *t, const struct query_table_row *row)
{
	int rc = ARRAY_RESERVE(t->table.rows, t->cap, t->table.n_rows + 1);
	if (!rc)
		t->table.rows[t->table.n_rows++] = *row;
	return rc;
}

/* Memory that lives as long as the table, len > 0; NULL when there is none. */
static void *table_alloc(struct table *t, size_t len)
{
	if (ARRAY_RESERVE(t->texts, t->texts_cap, t->n_texts + 1))
		return NULL;
	char *p = malloc(len);
	if (p)
		t->texts[t->n_texts++] = p;
	return p;
}

/* What an integer label looks like. */
static bool is_integer(const char *s, long long *ret)
{
	const char *end = s + (*s == '-');
	bool digits = *end;
	while (*end >= '0' && *end <= '9')
		end++;
	if (!digits || *end)
		return false;
	errno = 0;
	*ret = strtoll(s, NULL, 10);
	return !errno;
}

/* Integers by their value, all else (UUIDs too) by its bytes. */
static int compare_values(const char *a, const char *b)
{
	long long x, y;
	int c = strcmp(a, b);
	if (c && is_integer(a, &x) && is_integer(b, &y) && x != y)
		return x < y ? -1 : 1;
	return c;
}

static int by_samples(const void *pa, const void *pb, void *ctx)
{
	const struct query_table_row *a = pa, *b = pb;
	size_t n_keys = *(const size_t *)ctx;
	if (a->self != b->self)
		return a->self > b->self ? -1 : 1;
	if (a->samples != b->samples)
		return a->samples > b->samples ? -1 : 1;
	for (size_t i = 0; i < n_keys; i++) {
		int c = a->present[i] - b->present[i];
		c = c ? c : compare_values(a->values[i], b->values[i]);
		if (c)
			return c;
	}
	int c = strcmp(a->text, b->text);
	return c || !a->module ? c : strcmp(a->module, b->module);
}

void table_sort(struct table *t, size_t n_keys)
{
	if (t->table.n_rows)
		qsort_r(t->table.rows, t->table.n_rows, sizeof(*t->table.rows), by_samples,
			&n_keys);
}

/* ---- by function ---- */

#define FUNCTION_NAME_MAX 8192

struct functions {
	struct query *q;
	struct table *t;
	struct idhash hash;
	uint32_t *group;  /* [frames]: row of the table, TABLE_NO_GROUP while unknown */
	uint32_t *sample; /* per row: a frame of it */
	/*
	 * Of the frame that is looked for, when rows go by the text: FUNCTION_NAME_MAX bytes; else
	 * NULL
	 */
	char *name;
	size_t sample_cap;
};

/* Frame 0 is what the budget cut. */
static const struct store_frame *frame_of(const struct functions *f, uint32_t id)
{
	static const struct store_frame other;
	return id ? store_frame(f->q->store, id) : &other;
}

/* One row: a function in a module; or a place in a module that has no name. */
static bool same_function(const void *ctx, uint32_t row, const void *key)
{
	const struct functions *f = ctx;
	const struct store_frame *a = frame_of(f, f->sample[row]), *b = key;
	if (f->name) /* functions of one short name are one */
		return a->module == b->module && !strcmp(f->t->table.rows[row].text, f->name);
	return a->function == b->function && a->module == b->module &&
	       (a->function || a->offset == b->offset);
}

static int describe(struct functions *f, uint32_t frame, struct query_table_row *row)
{
	const struct store *s = f->q->store;
	const struct store_frame *fr = frame_of(f, frame);
	*row = (struct query_table_row){ .function = fr->function,
					 .module = store_string(s, fr->module, NULL),
					 .other = !frame };
	if (f->name) {
		char *copy = table_alloc(f->t, strlen(f->name) + 1);
		if (!copy)
			return -ENOMEM;
		row->text = strcpy(copy, f->name);
		return 0;
	}
	if (fr->function) {
		row->text = store_string(s, fr->function, NULL);
		return 0;
	}
	size_t cap = strlen(row->module) + 32;
	char *text = table_alloc(f->t, cap);
	if (!text)
		return -ENOMEM;
	query_frame_name(s, frame, text, cap);
	row->text = text;
	return 0;
}

static int group_of(struct functions *f, uint32_t frame, uint32_t *ret)
{
	if (f->group[frame] == TABLE_NO_GROUP) {
		const struct store_frame *fr = frame_of(f, frame);
		const uint64_t key[3] = { fr->function, fr->module, fr->function ? 0 : fr->offset };
		uint32_t hash = idhash_hash(&f->hash, key, sizeof(key));
		if (f->name) {
			query_name(f->q, frame, f->name, FUNCTION_NAME_MAX);
			hash = idhash_hash(&f->hash, f->name, strlen(f->name));
		}
		uint32_t row = idhash_find(&f->hash, hash, same_function, f, fr);
		if (row == IDHASH_NONE) {
			struct query_table_row r;
			row = (uint32_t)f->t->table.n_rows;
			int rc = ARRAY_RESERVE(f->sample, f->sample_cap, (size_t)row + 1);
			if (!rc)
				rc = idhash_reserve(&f->hash);
			if (!rc)
				rc = describe(f, frame, &r);
			if (!rc)
				rc = table_add_row(f->t, &r);
			if (rc)
				return rc;
			f->sample[row] = frame;
			f->t->table.rows[row].inlined = true;
			idhash_put(&f->hash, hash, row);
		}
		f->t->table.rows[row].inlined &= fr->flags & FRAME_INLINED;
		f->group[frame] = row;
	}
	*ret = f->group[frame];
	return 0;
}

/*
 * Down the tree with a count of each function on the path: the topmost call of a recursion counts,
 * the rest not.
 */
static int walk(struct functions *f, const struct query_node *nodes, size_t n_nodes,
		uint32_t *groups)
{
	for (size_t i = 1; i < n_nodes; i++) {
		uint32_t parent, frame;
		store_stack(f->q->store, nodes[i].stack, &parent, &frame);
		int rc = group_of(f, frame, &groups[i]);
		if (rc)
			return rc;
		f->t->table.rows[groups[i]].self += nodes[i].self;
	}
	uint32_t *on_path = calloc(f->t->table.n_rows + 1, sizeof(*on_path));
	if (!on_path)
		return -ENOMEM;
	uint32_t at = nodes[0].first_child;
	while (at) {
		if (!on_path[groups[at]]++)
			f->t->table.rows[groups[at]].samples += nodes[at].total;
		uint32_t next = nodes[at].first_child;
		while (!next && at) {
			on_path[groups[at]]--;
			next = nodes[at].next_sibling;
			at = nodes[at].parent;
		}
		at = next;
	}
	free(on_path);
	return 0;
}

/* What was cut may be of any function. */
static void bound_functions(const struct query *q, struct table *t)
{
	uint64_t cut = 0;
	for (size_t i = 0; i < q->n_rows; i++)
		cut += query_row_is_other(q, &q->rows[i]) ? q->rows[i].samples : 0;
	if (!cut && !q->info.bounded)
		return;
	for (size_t i = 0; i < t->table.n_rows; i++)
		t->table.rows[i].error = t->table.rows[i].other ? 0 : cut;
	t->table.approximate = true;
	t->table.bound = cut;
}

static int by_function(struct query *q, struct table *t, struct err *err)
{
	struct functions f = { .q = q, .t = t };
	const struct query_node *nodes;
	size_t n_nodes, n_frames = store_n_frames(q->store);
	uint32_t *groups = NULL;
	int rc = query_tree(q, &nodes, &n_nodes, err);
	if (rc)
		return rc;
	f.group = malloc(n_frames * sizeof(*f.group));
	groups = malloc(n_nodes * sizeof(*groups));
	rc = f.group && groups ? 0 : -ENOMEM;
	if (q->names != QUERY_NAMES_FULL && !rc) {
		f.name = malloc(FUNCTION_NAME_MAX);
		rc = f.name ? 0 : -ENOMEM;
	}
	if (!rc) {
		memset(f.group, 0xff, n_frames * sizeof(*f.group));
		rc = walk(&f, nodes, n_nodes, groups);
	}
	if (!rc)
		bound_functions(q, t);
	free(groups);
	free(f.group);
	free(f.sample);
	free(f.name);
	idhash_fini(&f.hash);
	return rc;
}

/* ---- by label keys ---- */

struct keys {
	struct query *q;
	struct table *t;
	const char *const *keys;
	size_t n;
	struct value *values; /* [n]: of the set at hand */
	bool by_stack;	      /* some key is known by the stack */
	uint32_t stack;	      /* at hand */
	const char *module;   /* of the frame that is key wait_in; else NULL */
	char name[FUNCTION_NAME_MAX];
	struct idhash hash;
	struct buf packed; /* the values, so that they can be hashed */
};

static const char *frame_module(const struct store *s, uint32_t frame)
{
	const struct store_frame *f = store_frame(s, frame);
	return f ? store_string(s, f->module, NULL) : "";
}

/* Why the thread waited, or in which function of its program. */
static int find_reason(struct keys *k, const char *key, struct value *v)
{
	const struct wait_reason *r;
	int rc = wait_reason_of(&k->q->reasons, k->q->store, k->stack, &r);
	if (rc)
		return rc;
	v->text = wait_class_names[r->class];
	if (strcmp(key, "wait")) {
		query_name(k->q, r->frame, k->name, sizeof(k->name));
		v->text = k->name;
		k->module = frame_module(k->q->store, r->frame);
	}
	v->len = strlen(v->text);
	v->present = true;
	return 0;
}

static int find_value(struct keys *k, const char *key, const struct label *labels, size_t n,
		      struct value *v)
{
	size_t len = strlen(key);
	*v = (struct value){ .text = "" };
	if (!strcmp(key, "event") && k->q->info.event) {
		v->text = k->q->info.event->name;
		v->len = strlen(v->text);
		v->present = true;
		return 0;
	}
	if (query_by_stack(k->q, key))
		return find_reason(k, key, v);
	for (size_t i = 0; i < n; i++) {
		const struct label *l = &labels[i];
		if (l->key_len != len || memcmp(l->key, key, len))
			continue;
		v->present = true;
		v->text = l->type == LABEL_INT ? v->number : l->str;
		v->len = l->type == LABEL_INT ? label_text(l, v->number, sizeof(v->number))
					      : l->str_len;
	}
	return 0;
}

static bool same_values(const void *ctx, uint32_t row, const void *key)
{
	const struct keys *k = ctx;
	const struct query_table_row *r = &k->t->table.rows[row];
	(void)key;
	for (size_t i = 0; i < k->n; i++)
		if (r->present[i] != k->values[i].present ||
		    strcmp(r->values[i], k->values[i].text))
			return false;
	return true;
}

static int pack_values(struct keys *k)
{
	int rc = 0;
	k->packed.len = 0;
	for (size_t i = 0; !rc && i < k->n; i++) {
		rc = buf_add_u8(&k->packed, k->values[i].present);
		if (!rc)
			rc = buf_add(&k->packed, k->values[i].text, strlen(k->values[i].text) + 1);
	}
	return rc;
}

/*
 * One allocation: the pointers, the flags, the texts, and the text of the whole row: the values
 * with commas.
 */
int table_row_of_values(struct table *t, const struct value *values, size_t n,
			struct query_table_row *row)
{
	size_t texts = 1;
	for (size_t i = 0; i < n; i++)
		texts += 2 * (strlen(values[i].text) + 1);
	char *p = table_alloc(t, n * (sizeof(char *) + sizeof(bool)) + texts);
	if (!p)
		return -ENOMEM;
	const char **own = (const char **)p;
	bool *present = (bool *)(own + n);
	char *text = (char *)(present + n);
	for (size_t i = 0; i < n; i++) {
		own[i] = text;
		present[i] = values[i].present;
		text = stpcpy(text, values[i].text) + 1;
	}
	row->values = own;
	row->present = present;
	row->text = text;
	*text = 0;
	for (size_t i = 0; i < n; i++) {
		if (i)
			text = stpcpy(text, ",");
		text = stpcpy(text, own[i]);
	}
	return 0;
}

bool table_row_has_values(const struct query_table_row *row, const char *const *values,
			  const bool *present, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (row->present[i] != present[i] || strcmp(row->values[i], values[i]))
			return false;
	return true;
}

int table_row_add_values(struct buf *to, const struct query_table_row *row, size_t n)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		rc = buf_add_u8(to, row->present[i]);
		rc = rc ? rc : buf_add(to, row->values[i], strlen(row->values[i]) + 1);
	}
	return rc;
}

static int group_set(struct keys *k, uint32_t set, const struct store_row *sum, uint32_t *ret)
{
	const struct label *labels;
	size_t n = query_set(k->q, set, &labels);
	int rc = 0;
	for (size_t i = 0; !rc && i < k->n; i++)
		rc = find_value(k, k->keys[i], labels, n, &k->values[i]);
	rc = rc ? rc : pack_values(k);
	if (rc)
		return rc;
	uint32_t hash = idhash_hash(&k->hash, k->packed.data, k->packed.len);
	uint32_t row = idhash_find(&k->hash, hash, same_values, k, NULL);
	if (row == IDHASH_NONE) {
		struct query_table_row r = { .module = k->module };
		row = (uint32_t)k->t->table.n_rows;
		rc = idhash_reserve(&k->hash);
		if (!rc)
			rc = table_row_of_values(k->t, k->values, k->n, &r);
		if (!rc)
			rc = table_add_row(k->t, &r);
		if (rc)
			return rc;
		idhash_put(&k->hash, hash, row);
	}
	k->t->table.rows[row].samples += sum->samples;
	k->t->table.rows[row].self += sum->samples;
	k->t->table.rows[row].value += sum->value;
	*ret = row;
	return 0;
}

/* Rows come in order of their set: each set is looked at once, with a key of the stack each row. */
int table_by_keys(struct query *q, const char *const *keys, size_t n_keys, struct table *t,
		  uint32_t *groups)
{
	struct keys k = { .q = q, .t = t, .keys = keys, .n = n_keys };
	k.values = calloc(n_keys + 1, sizeof(*k.values));
	for (size_t i = 0; i < n_keys; i++)
		k.by_stack |= query_by_stack(q, keys[i]);
	int rc = k.values ? 0 : -ENOMEM;
	t->table.has_values = query_has_values(&q->info);
	for (size_t i = 0, end; !rc && i < q->n_rows; i = end) {
		struct store_row sum = { 0 };
		uint32_t group = TABLE_NO_GROUP;
		for (end = i; end < q->n_rows && q->rows[end].set == q->rows[i].set &&
			      !(k.by_stack && end > i);
		     end++) {
			sum.samples += q->rows[end].samples;
			sum.value += q->rows[end].value;
		}
		k.stack = q->rows[i].stack;
		if (q->rows[i].set == QUERY_OTHER || (k.by_stack && k.stack == QUERY_OTHER_STACK))
			t->other.samples += sum.samples, t->other.value += sum.value;
		else
			rc = group_set(&k, q->rows[i].set, &sum, &group);
		for (size_t j = i; groups && j < end; j++)
			groups[j] = group;
	}
	free(k.values);
	buf_fini(&k.packed);
	idhash_fini(&k.hash);
	return rc;
}

/* What was sampled is as sure as the samples it comes from, what was counted is what it is. */
void table_set_intervals(const struct query *q, struct query_table *t)
{
	uint64_t all = q->info.samples, grain = q->info.grain;
	for (size_t i = 0; i < t->n_rows; i++) {
		struct query_table_row *r = &t->rows[i];
		r->low = r->high = all ? (double)r->samples / (double)all : 0;
		if (grain)
			query_interval(r->samples / grain, all / grain, &r->low, &r->high);
	}
}

/* The sets that have no row of their own, in a last one. */
static int add_other(struct table *t, size_t n_keys)
{
	struct value *v = calloc(n_keys + 1, sizeof(*v));
	struct query_table_row row = { .samples = t->other.samples,
				       .self = t->other.samples,
				       .value = t->other.value,
				       .other = true };
	for (size_t i = 0; v && i < n_keys; i++)
		v[i] = (struct value){ .text = "(other)", .len = 7, .present = true };
	int rc = v ? table_row_of_values(t, v, n_keys, &row) : -ENOMEM;
	free(v);
	return rc ? rc : table_add_row(t, &row);
}

int query_table(struct query *q, const char *const *keys, size_t n_keys, struct query_table **ret,
		struct err *err)
{
	struct table *t = calloc(1, sizeof(*t));
	int rc = -ENOMEM;
	if (t)
		rc = keys ? table_by_keys(q, keys, n_keys, t, NULL) : by_function(q, t, err);
	if (rc) {
		if (t)
			query_table_free(&t->table);
		return err_sys(err, rc, "cannot build the table");
	}
	table_sort(t, keys ? n_keys : 0);
	if (t->other.samples && add_other(t, n_keys)) {
		query_table_free(&t->table);
		return err_sys(err, -ENOMEM, "cannot build the table");
	}
	table_set_intervals(q, &t->table);
	*ret = &t->table;
	return 0;
}

int query_table_counted(struct query *q, const struct query_counted *c, struct query_table **ret,
			struct err *err)
{
	const uint64_t all = q->info.samples;
	struct table *t = calloc(1, sizeof(*t));
	int rc = t ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < c->n; i++) {
		const struct query_function *f = &c->v[i];
		/* Samples may have come meanwhile. */
		uint64_t samples = f->samples < all ? f->samples : all;
		rc = table_add_row(t, &(struct query_table_row){
					      .text = f->name,
					      .module = f->module,
					      .samples = samples,
					      .self = f->self < samples ? f->self : samples,
					      .inlined = f->inlined,
				      });
	}
	if (rc) {
		query_table_free(t ? &t->table : NULL);
		return err_sys(err, rc, "cannot build the table");
	}
	t->table.n_left = c->n_all - c->n;
	table_sort(t, 0);
	table_set_intervals(q, &t->table);
	*ret = &t->table;
	return 0;
}
