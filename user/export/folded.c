/* SPDX-License-Identifier: Apache-2.0 */
#include "export/export.h"
#include "export/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct line {
	uint32_t comm, stack;
	bool other; /* samples below the stack that were cut */
	uint64_t n; /* samples, or their value */
};

static int by_comm_and_stack(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
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
	const struct label *labels;
	size_t n = query_set(q, set, &labels);
	if (set == QUERY_OTHER)
		return intern_add(comms, other, sizeof(other) - 1, ret, NULL);
	for (size_t i = 0; i < n; i++) {
		const struct label *l = &labels[i];
		if (l->key_len == 4 && !memcmp(l->key, "comm", 4) && l->type == LABEL_STRING)
			return intern_add(comms, l->str, l->str_len, ret, NULL);
	}
	return intern_add(comms, none, sizeof(none) - 1, ret, NULL);
}

/* ';' parts frames, a newline ends the line; other control characters only make trouble. */
static void put_name(const char *s, size_t len, FILE *f)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];
		putc(c == ';' ? ':' : c < 0x20 || c == 0x7f ? '_' : c, f);
	}
}

static void put_line(const struct export_source *src, const struct intern *comms,
		     const struct line *l, FILE *f)
{
	uint32_t frames[EXPORT_DEPTH_MAX];
	char name[4096];
	const struct store *s = src->store;
	size_t len, n = export_stack(s, l->stack, frames);
	const char *comm = intern_get(comms, l->comm, &len);
	put_name(comm, len, f);
	while (n--) {
		const struct store_frame *frame = store_frame(s, frames[n]);
		query_name(src->query, frames[n], name, sizeof(name));
		putc(';', f);
		put_name(name, strlen(name), f);
		if (frame && frame->kind == FRAME_KERNEL)
			fputs("_[k]", f);
		else if (frame && frame->flags & FRAME_INLINED)
			fputs("_[i]", f);
	}
	if (l->other)
		fputs(";(other)", f);
	fprintf(f, " %llu\n", (unsigned long long)l->n);
}

/* Waits are measured: their event has times, and no sample stands for a time. */
static bool counts_values(const struct store_event *e, enum export_unit unit)
{
	return e && (unit == EXPORT_BY_EVENT ? !e->ns_per_sample && !strcmp(e->unit, "nanoseconds")
					     : unit == EXPORT_VALUE);
}

int export_folded(const struct export_source *src, enum export_unit unit, FILE *f, struct err *err)
{
	const struct store_event *e = query_info(src->query)->event;
	const bool values = counts_values(e, unit);
	struct intern comms = { 0 };
	size_t n_rows, n = 0;
	const struct store_row *rows = query_rows(src->query, &n_rows);
	struct line *lines = calloc(n_rows + 1, sizeof(*lines));
	struct query_same *same = NULL;
	int rc = lines ? query_same_new(&same, src->query) : -ENOMEM;
	for (size_t i = 0; !rc && i < n_rows; i++) {
		bool other = query_row_is_other(src->query, &rows[i]);
		lines[i] = (struct line){ 0, query_same_stack(same, rows[i].stack), other,
					  values ? export_value(e, &rows[i]) : rows[i].samples };
		rc = find_comm(src->query, rows[i].set, &comms, &lines[i].comm);
	}
	if (rc) {
		rc = err_sys(err, rc, "folded stacks");
		goto out;
	}
	qsort(lines, n_rows, sizeof(*lines), by_comm_and_stack);
	for (size_t i = 0; i < n_rows; i++) {
		if (n && !by_comm_and_stack(&lines[n - 1], &lines[i]))
			lines[n - 1].n += lines[i].n;
		else
			lines[n++] = lines[i];
	}
	errno = 0;
	for (size_t i = 0; i < n && !ferror(f); i++)
		put_line(src, &comms, &lines[i], f);
	if (ferror(f) || fflush(f))
		rc = err_sys(err, errno ? -errno : -EIO, "folded stacks");
out:
	intern_fini(&comms);
	query_same_free(same);
	free(lines);
	return rc;
}
