/* SPDX-License-Identifier: Apache-2.0 */
#include "export/lines.h"

#include <errno.h>

#include <stdlib.h>
#include <string.h>

static int by_comm_and_stack(const void *a, const void *b)
{
	const struct export_line *x = a, *y = b;
	if (x->comm != y->comm)
		return x->comm < y->comm ? -1 : 1;
	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	return x->other - y->other;
}

/* The comm of a set, interned. */
static int find_comm(const struct query *q, uint32_t set, struct intern *comms, uint32_t *ret)
{
	static const char none[] = "(none)", other[] = "(other)";
	const struct label *l = set == QUERY_OTHER ? NULL : export_label(q, set, "comm");
	if (set == QUERY_OTHER)
		return intern_add(comms, other, sizeof(other) - 1, ret, NULL);
	if (l && l->type == LABEL_STRING)
		return intern_add(comms, l->str, l->str_len, ret, NULL);
	return intern_add(comms, none, sizeof(none) - 1, ret, NULL);
}

/* Waits are measured: their event has times, and no sample stands for a time. */
static bool counts_values(const struct store_event *e, enum export_unit unit)
{
	return e && (unit == EXPORT_BY_EVENT ? !e->ns_per_sample && !strcmp(e->unit, "nanoseconds")
					     : unit == EXPORT_VALUE);
}

int export_lines_init(struct export_lines *l, const struct export_source *src,
		      enum export_unit unit)
{
	const struct store_event *e = query_info(src->query)->event;
	struct query_same *same = NULL;
	size_t n_rows, n = 0;
	const struct store_row *rows = query_rows(src->query, &n_rows);
	*l = (struct export_lines){ .v = calloc(n_rows + 1, sizeof(*l->v)),
				    .values = counts_values(e, unit) };
	int rc = l->v ? query_same_new(&same, src->query) : -ENOMEM;
	for (size_t i = 0; !rc && i < n_rows; i++) {
		bool other = query_row_is_other(src->query, &rows[i]);
		l->v[i] = (struct export_line){ 0, query_same_stack(same, rows[i].stack), other,
						l->values ? export_value(e, &rows[i])
							  : rows[i].samples };
		rc = find_comm(src->query, rows[i].set, &l->comms, &l->v[i].comm);
	}
	query_same_free(same);
	if (rc)
		return rc;
	qsort(l->v, n_rows, sizeof(*l->v), by_comm_and_stack);
	for (size_t i = 0; i < n_rows; i++) {
		if (n && !by_comm_and_stack(&l->v[n - 1], &l->v[i]))
			l->v[n - 1].n += l->v[i].n;
		else
			l->v[n++] = l->v[i];
	}
	l->n = n;
	return 0;
}

void export_lines_fini(struct export_lines *l)
{
	intern_fini(&l->comms);
	free(l->v);
	*l = (struct export_lines){ 0 };
}

void export_put_name(const char *s, size_t len, const char *parts, FILE *f)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];
		putc(c < 0x20 || c == 0x7f ? '_' : strchr(parts, c) ? ':' : c, f);
	}
}
