/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/groups.h"

#include "cli/term.h"
#include "cli/text.h"

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

int groups_print(const struct opt_list *by, const struct group *rows, size_t n, void (*numbers)(void *ctx, size_t i),
		 void *ctx)
{
	size_t *width = calloc(by->n + 1, sizeof(*width));
	char **cells = calloc((n + 1) * by->n + 1, sizeof(*cells));
	int rc = width && cells ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < (n + 1) * by->n; i++) {
		size_t row = i / by->n, col = i % by->n;
		cells[i] = row ? cell(&rows[row - 1], col) : text_printable(by->v[col], strlen(by->v[col]));
		rc = cells[i] ? 0 : -ENOMEM;
		if (cells[i] && text_width(cells[i]) > width[col])
			width[col] = text_width(cells[i]);
	}
	for (size_t row = 0; !rc && row <= n; row++) {
		if (!row)
			term_begin(stdout, TERM_HEAD);
		numbers(ctx, row ? row - 1 : GROUP_HEAD);
		for (size_t col = 0; col < by->n; col++)
			text_put(stdout, cells[row * by->n + col], col + 1 < by->n ? (int)width[col] + 2 : 0);
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

int function_print(const char *text, const char *module, bool inlined, size_t width)
{
	const char *base = module ? strrchr(module, '/') : NULL;
	base = base ? base + 1 : module ? module : "";
	char *name = text_printable(text, strlen(text)), *file = text_printable(base, strlen(base));
	int rc = name && file ? 0 : -ENOMEM;
	if (!rc && width)
		text_cut(name, width);
	if (!rc)
		printf("%s%s  %s%s%s\n", name, inlined ? " (inlined)" : "", *file == '[' ? "" : "(", file, *file == '[' ? "" : ")");
	free(name);
	free(file);
	return rc;
}
