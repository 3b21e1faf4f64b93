/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/why_memory.h"

#include "cli/accounting.h"
#include "cli/report.h"
#include "export/growth.h"
#include "opt/term.h"
#include "opt/text.h"

#include <errno.h>
#include <string.h>

#define LINES 10
#define FRAMES 8 /* of a stack, from the leaf on */

static void print_title(const struct reading *r, const struct filter *f, const struct growth *g)
{
	char range[120], first[32], last[32];
	accounting_title(r->store);
	if (f->where) {
		fputs("where ", stdout);
		text_put(stdout, f->where, 0);
		putchar('\n');
	}
	text_range(g->from_ns, g->to_ns, range);
	text_bytes(g->first, first);
	text_bytes(g->last, last);
	printf("%s\nlive memory: %s in the first %.0f s, %s in the last\n", range, first, g->end_s,
	       last);
}

static void print_stack(const struct store *s, const struct growth *g,
			const struct growth_stack *of)
{
	char bytes[32], name[256];
	text_bytes((uint64_t)of->bytes, bytes);
	printf("  %9s  ", bytes);
	for (size_t i = 0; i < FRAMES && growth_frame(s, g, of, i, name, sizeof(name)); i++) {
		if (i)
			fputs(" < ", stdout);
		text_put(stdout, name, 0);
	}
	putchar('\n');
}

static void print_row(const struct growth_row *r)
{
	char first[32], last[32], rate[32];
	text_bytes(r->first, first);
	text_bytes(r->last, last);
	text_bytes((uint64_t)r->bytes_per_s, rate);
	strcat(rate, "/s");
	printf("%9s %9s %11s  ", first, last, rate);
	if (r->value)
		text_put(stdout, *r->value ? r->value : "\"\"", 0);
	else
		fputs("(none)", stdout);
	putchar('\n');
}

static void print_page(const struct reading *r, const struct filter *f, const struct growth *g,
		       const char *key)
{
	size_t n = 0;
	print_title(r, f, g);
	for (size_t i = 0; i < g->n_rows; i++) {
		const struct growth_row *row = &g->rows[i];
		if (!row->grows || n++ >= LINES)
			continue;
		if (n == 1) {
			puts("\nGROWS by more than chance");
			term_begin(stdout, TERM_HEAD);
			printf("%9s %9s %11s  %s", "FIRST", "LAST", "", key);
			term_end(stdout);
			putchar('\n');
		}
		print_row(row);
		for (size_t k = 0; k < GROWTH_STACKS && row->stacks[k].bytes > 0; k++)
			if (!k || row->stacks[k].bytes * 10 >= row->stacks[0].bytes)
				print_stack(r->store, g, &row->stacks[k]);
	}
	if (n > LINES)
		printf("and %zu more\n", n - LINES);
	if (!n)
		printf("\nno value of %s grows by more than chance\n", key);
}

int why_memory(struct reading *r, const struct filter *f)
{
	const struct query_spec spec = reading_spec(f, QUERY_NO_LABELS, NULL);
	char key[256];
	struct growth g;
	struct err err = { 0 };
	if (spec.metric != QUERY_INUSE_SPACE) {
		cmd_error("why: --metric %s: heap is the one metric to ask about", f->metric);
		return EXIT_USAGE;
	}
	int rc = report_who_key(r, f, key, &err);
	if (rc) {
		cmd_error("%s", err.text);
		return rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	do {
		rc = growth_open(&g, r->store, &spec, key, &err);
		if (rc)
			growth_close(&g);
	} while (reading_again(r, f, &rc, &err));
	if (!rc && f->json)
		rc = cmd_print_json(answer_growth(r->store, &g, key, SIZE_MAX));
	else if (!rc)
		print_page(r, f, &g, key);
	growth_close(&g);
	cmd_flush();
	if (rc)
		cmd_error("%s", err.text[0] ? err.text : strerror(-rc));
	reading_explain(r);
	return !rc ? EXIT_OK : rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}
