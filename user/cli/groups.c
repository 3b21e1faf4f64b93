/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/groups.h"

#include "opt/term.h"
#include "opt/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The cell's text, to be freed: a missing label is not the same as an empty value. */
static char *cell(const struct group *g, size_t i)
{
	if (!g->values)
		return strdup(i ? "" : "(other)");
	if (!g->present[i])
		return strdup("(none)");
	return *g->values[i] ? text_printable(g->values[i], strlen(g->values[i])) : strdup("\"\"");
}

#define LEAST_WIDTH 8 /* columns that a cell keeps on a narrow terminal */

/* Take columns from the widest cells until all fit; a gap of 2 is between two cells. */
static void fit_columns(size_t *width, size_t n, size_t room)
{
	for (;;) {
		size_t sum = 2 * (n - 1), widest = 0;
		for (size_t i = 0; i < n; i++) {
			sum += width[i];
			widest = width[i] > width[widest] ? i : widest;
		}
		if (sum <= room || width[widest] <= LEAST_WIDTH)
			return;
		width[widest]--;
	}
}

int groups_print(const struct opt_list *by, const struct group *rows, size_t n, size_t room,
		 void (*numbers)(void *ctx, size_t i), void *ctx)
{
	size_t *width = calloc(by->n + 1, sizeof(*width));
	char **cells = calloc((n + 1) * by->n + 1, sizeof(*cells));
	int rc = width && cells ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < (n + 1) * by->n; i++) {
		size_t row = i / by->n, col = i % by->n;
		cells[i] = row ? cell(&rows[row - 1], col)
			       : text_printable(by->v[col], strlen(by->v[col]));
		rc = cells[i] ? 0 : -ENOMEM;
		if (cells[i] && text_width(cells[i]) > width[col])
			width[col] = text_width(cells[i]);
	}
	if (!rc && room && by->n)
		fit_columns(width, by->n, room);
	for (size_t i = 0; !rc && room && i < (n + 1) * by->n; i++)
		text_cut(cells[i], width[i % by->n]);
	for (size_t row = 0; !rc && row <= n; row++) {
		if (!row)
			term_begin(stdout, TERM_HEAD);
		numbers(ctx, row ? row - 1 : GROUP_HEAD);
		for (size_t col = 0; col < by->n; col++)
			text_put(stdout, cells[row * by->n + col],
				 col + 1 < by->n ? (int)width[col] + 2 : 0);
		if (!row)
			term_end(stdout);
		putchar('\n');
	}
	for (size_t i = 0; cells && i < (n + 1) * by->n; i++)
		free(cells[i]);
	free(cells);
	free(width);
	return rc;
}

int function_print(const char *text, const char *module, bool inlined, size_t room)
{
	const char *base = module ? strrchr(module, '/') : NULL,
		   *mark = inlined ? " (inlined)" : "";
	base = base ? base + 1 : module ? module : "";
	char *name = text_printable(text, strlen(text)), *file = text_printable(base, strlen(base));
	int rc = name && file ? 0 : -ENOMEM;
	if (!rc && room) {
		text_cut(file, room / 3 > LEAST_WIDTH ? room / 3 : LEAST_WIDTH);
		size_t rest = text_width(file) + strlen(mark) + 4;
		text_cut(name, room > rest + LEAST_WIDTH ? room - rest : LEAST_WIDTH);
	}
	if (!rc)
		printf("%s%s  %s%s%s\n", name, mark, *file == '[' ? "" : "(", file,
		       *file == '[' ? "" : ")");
	free(name);
	free(file);
	return rc;
}
