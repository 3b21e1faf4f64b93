/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comma-separated values (RFC 4180, with a newline as the line's end): one line for each label set
 * and stack. First the columns event, unit, samples, value, stack, then one for each label key, in
 * the order of their names. The stack has the frames from the root to the leaf, with ';' between.
 */
#include "export/functions.h"
#include "util/buf.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const own_columns[] = { "event", "unit", "samples", "value", "stack" };

struct csv {
	const struct export_source *src;
	struct functions functions; /* their names are made once */
	struct intern keys;
	uint32_t *order;	    /* [keys.n]: the columns' keys */
	uint32_t *column;	    /* [keys.n]: the place of a key in it */
	const struct label **cells; /* [keys.n]: of a line */
	struct buf text, stack;
	FILE *f;
};

static bool has_special(const char *v, size_t len)
{
	bool special = false;
	for (size_t i = 0; i < len; i++)
		special |= v[i] == ',' || v[i] == '"' || v[i] == '\r' || v[i] == '\n';
	return special;
}

/* As UTF-8, in quotes where the format wants them. */
static int put_cell(struct csv *o, const char *s, size_t len)
{
	o->text.len = 0;
	int rc = utf8_repair(&o->text, s, len);
	if (rc)
		return rc;
	const char *v = (const char *)o->text.data;
	len = o->text.len;
	/* Spaces at an end are a part of the value. */
	const bool spaces = len && (v[0] == ' ' || v[len - 1] == ' ');
	if (!spaces && !has_special(v, len)) {
		fwrite(v, 1, len, o->f);
		return 0;
	}
	putc_unlocked('"', o->f);
	for (size_t i = 0; i < len; i++) {
		if (v[i] == '"')
			putc_unlocked('"', o->f);
		putc_unlocked(v[i], o->f);
	}
	putc_unlocked('"', o->f);
	return 0;
}

static int put_string(struct csv *o, const char *s)
{
	return put_cell(o, s, strlen(s));
}

/* ---- columns ---- */

static int by_key(const void *pa, const void *pb, void *ctx)
{
	size_t a_len, b_len;
	const char *a = intern_get(ctx, *(const uint32_t *)pa, &a_len),
		   *b = intern_get(ctx, *(const uint32_t *)pb, &b_len);
	int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
	return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int find_keys(struct csv *o)
{
	size_t n_rows;
	const struct store_row *rows = query_rows(o->src->query, &n_rows);
	int rc = 0;
	for (size_t i = 0; !rc && i < n_rows; i++) {
		const struct label *l;
		uint32_t id;
		if (i && rows[i].set == rows[i - 1].set)
			continue;
		size_t n = query_set(o->src->query, rows[i].set, &l);
		for (size_t k = 0; !rc && k < n; k++)
			rc = intern_add(&o->keys, l[k].key, l[k].key_len, &id, NULL);
	}
	const size_t n = o->keys.n;
	o->order = calloc(n + 1, sizeof(*o->order));
	o->column = calloc(n + 1, sizeof(*o->column));
	o->cells = calloc(n + 1, sizeof(*o->cells));
	if (rc || !o->order || !o->column || !o->cells)
		return rc ? rc : -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		o->order[i] = i;
	qsort_r(o->order, n, sizeof(*o->order), by_key, &o->keys);
	for (uint32_t i = 0; i < n; i++)
		o->column[o->order[i]] = i;
	return 0;
}

/* A key that is called as one of the own columns has "label." before its name. */
static int put_header(struct csv *o)
{
	const size_t n_own = sizeof(own_columns) / sizeof(own_columns[0]);
	int rc = 0;
	for (size_t i = 0; i < n_own; i++)
		fprintf(o->f, "%s%s", i ? "," : "", own_columns[i]);
	for (size_t i = 0; !rc && i < o->keys.n; i++) {
		char name[1024] = "label.";
		size_t len;
		const char *key = intern_get(&o->keys, o->order[i], &len);
		bool taken = len >= 6 && !memcmp(key, "label.", 6);
		for (size_t k = 0; k < n_own; k++)
			taken |= len == strlen(own_columns[k]) && !memcmp(key, own_columns[k], len);
		len = len < sizeof(name) - 6 ? len : sizeof(name) - 6;
		memcpy(name + 6, key, len);
		putc(',', o->f);
		rc = put_cell(o, taken ? name : name + 6, taken ? len + 6 : len);
	}
	putc('\n', o->f);
	return rc;
}

/* ---- lines ---- */

static int add_name(struct buf *to, const char *name, size_t len)
{
	int rc = buf_reserve(to, to->len + len + 1);
	for (size_t i = 0; !rc && i < len; i++)
		to->data[to->len++] = name[i] == ';' ? ':' : name[i];
	return rc;
}

static int put_stack(struct csv *o, const struct store_row *row)
{
	uint32_t frames[EXPORT_DEPTH_MAX + 1];
	size_t len, n = export_row_stack(o->src, row, frames);
	int rc = 0;
	o->stack.len = 0;
	while (!rc && n--) {
		uint32_t id;
		rc = functions_find(&o->functions, frames[n], &id);
		if (rc)
			break;
		const char *name = functions_name(&o->functions, id, &len);
		rc = add_name(&o->stack, name, len);
		if (!rc && n)
			o->stack.data[o->stack.len++] = ';';
	}
	return rc ? rc : put_cell(o, (const char *)o->stack.data, o->stack.len);
}

static int put_labels(struct csv *o, uint32_t set)
{
	const struct label *l;
	const size_t n = query_set(o->src->query, set, &l);
	int rc = 0;
	memset(o->cells, 0, o->keys.n * sizeof(*o->cells));
	for (size_t i = 0; !rc && i < n; i++) {
		uint32_t id;
		rc = intern_add(&o->keys, l[i].key, l[i].key_len, &id, NULL);
		if (!rc)
			o->cells[o->column[id]] = &l[i];
	}
	for (size_t i = 0; !rc && i < o->keys.n; i++) {
		putc(',', o->f);
		if (o->cells[i] && o->cells[i]->type == LABEL_INT)
			fprintf(o->f, "%lld", (long long)o->cells[i]->num);
		else if (o->cells[i])
			rc = put_cell(o, o->cells[i]->str, o->cells[i]->str_len);
	}
	return rc;
}

static int put_row(struct csv *o, const struct store_row *row)
{
	static const struct store_event no_event = { "samples", "count", 0, 0 };
	const struct query_info *info = query_info(o->src->query);
	const struct store_event *e = info->event ? info->event : &no_event;
	int rc = put_string(o, e->name);
	putc(',', o->f);
	rc = rc ? rc : put_string(o, e->ns_per_sample ? "nanoseconds" : e->unit);
	/* Of amounts there is nothing that could be counted. */
	if (info->amounts)
		putc(',', o->f);
	else
		fprintf(o->f, ",%llu", (unsigned long long)row->samples);
	fprintf(o->f, ",%llu,", (unsigned long long)export_value(e, row));
	rc = rc ? rc : put_stack(o, row);
	rc = rc ? rc : put_labels(o, row->set);
	putc('\n', o->f);
	return rc;
}

int export_csv(const struct export_source *src, enum export_unit unit, FILE *f, struct err *err)
{
	struct csv o = { .src = src, .f = f };
	size_t n_rows;
	const struct store_row *rows = query_rows(src->query, &n_rows);
	(void)unit; /* it has both */
	errno = 0;
	int rc = functions_init(&o.functions, src);
	rc = rc ? rc : find_keys(&o);
	rc = rc ? rc : put_header(&o);
	for (size_t i = 0; !rc && i < n_rows && !ferror(f); i++)
		rc = put_row(&o, &rows[i]);
	if (!rc && (ferror(f) || fflush(f)))
		rc = -EIO;
	if (rc)
		rc = err_sys(err, rc == -EIO && errno ? -errno : rc, "CSV");
	functions_fini(&o.functions);
	intern_fini(&o.keys);
	buf_fini(&o.text);
	buf_fini(&o.stack);
	free(o.order);
	free(o.column);
	free(o.cells);
	return rc;
}
