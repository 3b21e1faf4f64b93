/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe blame: who had the CPU while others waited for it, as a matrix by one label key. */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/text.h"
#include "export/answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_VICTIMS 20
#define COLUMNS 6 /* occupants that have a column; the others are summed */
#define CELL 19   /* columns of one */

struct blame_options {
	struct filter filter;
	struct opt_list by;
};

static const struct opt options[] = {
	{ "by", 'b', OPT_LIST, "KEY", "by this label key (default comm)", offsetof(struct blame_options, by), 0, 0 },
	{ "where", 'w', OPT_STRING, "SELECTOR", "only who waited with these labels: {tenant=\"a\"}; labels of who had the CPU\n"
	  "have by. before them: {by.comm=\"make\"}", offsetof(struct blame_options, filter.where), 0, 0 },
	RANGE_OPTIONS(struct blame_options, filter),
	LIMIT_OPTION(struct blame_options, filter, "victims to print, 0 for all (default: 20; with --json all)"),
	JSON_OPTION(struct blame_options, filter),
	EXPLAIN_OPTION(struct blame_options, filter),
};

static const struct opt_command command = {
	.name = "blame",
	.usage = "[STORE] [OPTIONS]",
	.about = "Who waited for a CPU, and who had it meanwhile, of a recording with --wall. A line for each who waited, a column\n"
		 "for each who had the CPU: seconds, and their part of that line's waiting. (idle): nobody had it, the CPU was being\n"
		 "woken. (other): not known, since more than 128 runs of others came between, or the wait is not over.\n",
	.examples = "  ascribe blame\n"
		    "  ascribe blame --by tenant\n"
		    "  ascribe blame --by comm --where '{tenant=\"a\"}'\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = 1,
};

/* One victim, or one occupant. */
struct party {
	const char *name;
	bool present; /* it has the label; else name says what it is instead */
	uint64_t ns;
};

struct cell {
	uint32_t victim, occupant;
	uint64_t ns;
};

struct matrix {
	struct party *victim, *occupant;
	struct cell *cell;
	size_t n_victims, n_occupants, n_cells;
	uint64_t ns;
};

static uint32_t party(struct party *v, size_t *n, const char *name, bool present, uint64_t ns)
{
	size_t i = 0;
	while (i < *n && (v[i].present != present || strcmp(v[i].name, name)))
		i++;
	if (i == *n)
		v[(*n)++] = (struct party){ name, present, 0 };
	v[i].ns += ns;
	return (uint32_t)i;
}

static void matrix_free(struct matrix *m)
{
	free(m->victim);
	free(m->occupant);
	free(m->cell);
}

/* Rows are (victim, occupant, the occupant's comm), by samples, descending: so those of most come first in every list. */
static int matrix_fill(struct matrix *m, const struct query_table *t)
{
	m->victim = calloc(t->n_rows + 1, sizeof(*m->victim));
	m->occupant = calloc(t->n_rows + 1, sizeof(*m->occupant));
	m->cell = calloc(t->n_rows + 1, sizeof(*m->cell));
	if (!m->victim || !m->occupant || !m->cell)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct query_table_row *r = &t->rows[i];
		bool nobody = !r->present[1] && r->values[2][0] == '('; /* (idle), (other): no thread */
		uint32_t v = party(m->victim, &m->n_victims, r->present[0] ? r->values[0] : "(none)", r->present[0], r->samples);
		uint32_t o = party(m->occupant, &m->n_occupants, r->present[1] ? r->values[1] : nobody ? r->values[2] : "(none)",
				   r->present[1], r->samples);
		size_t c = 0;
		while (c < m->n_cells && (m->cell[c].victim != v || m->cell[c].occupant != o))
			c++;
		if (c == m->n_cells)
			m->cell[m->n_cells++] = (struct cell){ v, o, 0 };
		m->cell[c].ns += r->samples;
		m->ns += r->samples;
	}
	return 0;
}

static int by_ns(const void *a, const void *b, void *ctx)
{
	const struct party *v = ctx;
	uint64_t x = v[*(const size_t *)a].ns, y = v[*(const size_t *)b].ns;
	return (x < y) - (x > y);
}

/* Indices by seconds, descending; to be freed. */
static size_t *in_order(struct party *v, size_t n)
{
	size_t *order = calloc(n + 1, sizeof(*order));
	for (size_t i = 0; order && i < n; i++)
		order[i] = i;
	if (order)
		qsort_r(order, n, sizeof(*order), by_ns, v);
	return order;
}

static void print_cell(uint64_t ns, uint64_t of)
{
	char text[40];
	if (ns)
		snprintf(text, sizeof(text), "%.3f s %6.2f%%", (double)ns / 1e9, of ? 100.0 * (double)ns / (double)of : 0.0);
	else
		snprintf(text, sizeof(text), "-");
	printf(" %*s", CELL, text);
}

static void print_head(const char *name)
{
	char *text = text_printable(name, strlen(name));
	if (text)
		text_cut(text, CELL);
	putchar(' ');
	text_put(stdout, text ? text : "?", -CELL);
	free(text);
}

static int print_matrix(const struct matrix *m, const char *key, size_t limit)
{
	size_t *v = in_order(m->victim, m->n_victims), *o = in_order(m->occupant, m->n_occupants);
	size_t columns = m->n_occupants < COLUMNS ? m->n_occupants : COLUMNS;
	uint64_t row[COLUMNS];
	int rc = v && o ? 0 : -ENOMEM;
	if (!rc) {
		print_head("WAITED");
		for (size_t c = 0; c < columns; c++)
			print_head(m->occupant[o[c]].name);
		if (columns < m->n_occupants)
			print_head("(the rest)");
		printf("  ");
		text_put(stdout, key, 0);
		putchar('\n');
	}
	for (size_t i = 0; !rc && i < m->n_victims && i < limit; i++) {
		const struct party *p = &m->victim[v[i]];
		uint64_t rest = p->ns;
		memset(row, 0, sizeof(row));
		for (size_t k = 0; k < m->n_cells; k++)
			for (size_t c = 0; m->cell[k].victim == v[i] && c < columns; c++)
				if (m->cell[k].occupant == o[c])
					row[c] += m->cell[k].ns;
		print_cell(p->ns, m->ns);
		for (size_t c = 0; c < columns; c++) {
			print_cell(row[c], p->ns);
			rest -= row[c];
		}
		if (columns < m->n_occupants)
			print_cell(rest, p->ns);
		printf("  ");
		text_put(stdout, *p->name ? p->name : "\"\"", 0);
		putchar('\n');
	}
	if (!rc && limit < m->n_victims)
		printf("\nnot shown: %zu; -n 0 prints all\n", m->n_victims - limit);
	free(v);
	free(o);
	return rc;
}

/* null: without the label; "(idle)" and "(other)" are said by "nobody". */
static int put_party(json_t *o, const char *who, const char *nobody, const struct party *p)
{
	bool named = p->present || !strcmp(p->name, "(none)");
	int rc = json_put(o, who, p->present ? json_text(p->name, strlen(p->name)) : json_null());
	return rc || named ? rc : json_put(o, nobody, json_text(p->name, strlen(p->name)));
}

static json_t *cell_json(const struct matrix *m, const struct cell *c)
{
	json_t *o = json_object();
	const struct party *v = &m->victim[c->victim];
	int rc = put_party(o, "victim", "-", v);
	rc = rc ? rc : put_party(o, "occupant", "nobody", &m->occupant[c->occupant]);
	rc = rc ? rc : json_put(o, "seconds", json_real((double)c->ns / 1e9));
	rc = rc ? rc : json_put(o, "share", json_real(v->ns ? (double)c->ns / (double)v->ns : 0));
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

static json_t *victim_json(const struct party *p)
{
	json_t *o = json_object();
	int rc = put_party(o, "victim", "-", p);
	rc = rc ? rc : json_put(o, "seconds", json_real((double)p->ns / 1e9));
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

static int print_json(const struct reading *r, const struct matrix *m, const char *key, size_t limit)
{
	json_t *o = json_object(), *cells = json_array(), *victims = json_array();
	const struct query_info *info = query_info(r->query);
	int rc = o && cells && victims ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < m->n_victims && i < limit; i++)
		rc = json_array_append_new(victims, victim_json(&m->victim[i])) ? -ENOMEM : 0;
	for (size_t i = 0; !rc && i < m->n_cells; i++)
		if (m->cell[i].victim < limit)
			rc = json_array_append_new(cells, cell_json(m, &m->cell[i])) ? -ENOMEM : 0;
	rc = rc ? rc : json_put(o, "key", json_text(key, strlen(key)));
	rc = rc ? rc : json_put(o, "victims", json_incref(victims));
	rc = rc ? rc : json_put(o, "cells", json_incref(cells));
	rc = rc ? rc : json_put(o, "seconds", json_real((double)m->ns / 1e9));
	rc = rc ? rc : json_put(o, "from", json_real((double)info->from_ns / 1e9));
	rc = rc ? rc : json_put(o, "to", json_real((double)info->to_ns / 1e9));
	rc = rc ? rc : answer_accounting(o, r->store, info);
	rc = rc ? rc : cmd_print_json(json_incref(o));
	json_decref(victims);
	json_decref(cells);
	json_decref(o);
	return rc;
}

static int blame(struct reading *r, const struct blame_options *opts, const char *const *keys)
{
	const struct query_info *info = query_info(r->query);
	struct query_table *t = NULL;
	struct matrix m = { 0 };
	struct err err = { 0 };
	char range[120];
	uint64_t limit = opts->filter.limit == UINT64_MAX && !opts->filter.json ? DEFAULT_VICTIMS : opts->filter.limit;
	limit = limit ? limit : UINT64_MAX;
	int rc = query_table(r->query, keys, 3, &t, &err);
	rc = rc ? rc : matrix_fill(&m, t);
	reading_step(r, "matrix");
	if (!rc && opts->filter.json) {
		rc = print_json(r, &m, keys[0], limit);
	} else if (!rc) {
		accounting_title(r->store);
		if (info->blocks) {
			text_range(info->from_ns, info->to_ns, range);
			puts(range);
		}
		printf("waited for a CPU: %.3f s\n\n", info->seconds);
		rc = m.n_cells ? print_matrix(&m, keys[0], limit) : 0;
		accounting_footer(r->store, info);
	}
	if (rc)
		cmd_error("%s", err.text[0] ? err.text : strerror(-rc));
	matrix_free(&m);
	query_table_free(t);
	reading_explain(r);
	return rc ? EXIT_FAILED : EXIT_OK;
}

int cmd_blame(int argc, char **argv)
{
	static char blamed[] = "blame", comm[] = "comm", by_comm[] = "by.comm";
	struct blame_options opts = { .filter = FILTER_INIT };
	struct reading r = { 0 };
	struct opt_args args;
	char by[300];
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	opts.filter.metric = blamed;
	char *key = opts.by.n ? opts.by.v[0] : comm;
	if (opts.by.n > 1 || (size_t)snprintf(by, sizeof(by), "by.%s", key) >= sizeof(by)) {
		cmd_error(opts.by.n > 1 ? "blame: --by takes one key" : "blame: --by: the key is too long");
		opt_release(&command, &opts);
		return EXIT_USAGE;
	}
	if (reading_of_threads(&opts.filter, &(struct opt_list){ &key, 1 })) {
		cmd_error("blame: waits for a CPU are kept by the labels of the work, not by tgid, tid or thread");
		opt_release(&command, &opts);
		return EXIT_USAGE;
	}
	char *keys[] = { key, by, by_comm };
	struct opt_list list = { keys, 3 };
	status = reading_open_keys(&r, args.n ? args.v[0] : NULL, &opts.filter, QUERY_KEYS, &list);
	if (!status)
		status = blame(&r, &opts, (const char *const *)keys);
	reading_close(&r);
	opt_release(&command, &opts);
	return status;
}
