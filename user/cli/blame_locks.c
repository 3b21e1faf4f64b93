/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/blame_locks.h"

#include "opt/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_COLUMNS 18
#define FRAMES 8
#define FRAME_COLUMNS 60

static void put_cut(const char *text, size_t columns)
{
	char *copy = text_printable(text, strlen(text));
	if (copy)
		text_cut(copy, columns);
	text_put(stdout, copy ? copy : "?", (int)columns);
	free(copy);
}

struct frames {
	unsigned n;
};

static int put_frame(void *ctx, const char *function)
{
	struct frames *f = ctx;
	char *copy = text_printable(function, strlen(function));
	if (copy)
		text_cut(copy, FRAME_COLUMNS);
	printf("%s%s", f->n ? " < " : "", copy ? copy : "?");
	free(copy);
	return ++f->n == FRAMES;
}

static const char *shown(const struct blame_party *p)
{
	return *p->name ? p->name : "\"\"";
}

static void print_lock(const struct query_locks *l, const struct query_lock *k)
{
	struct frames f = { 0 };
	printf("%10.3f %6.2f%%  ", (double)k->ns / 1e9,
	       l->ns ? 100.0 * (double)k->ns / (double)l->ns : 0.0);
	put_cut(shown(&k->victim), NAME_COLUMNS);
	putchar(' ');
	put_cut(shown(&k->by), NAME_COLUMNS);
	printf(" %-10s %-15s ", k->is, k->kind);
	text_put(stdout, k->name ? k->name : "-", 0);
	putchar('\n');
	if (!k->stack)
		return;
	printf("%20s", "");
	query_locks_frames(l, k->stack, put_frame, &f);
	putchar('\n');
}

void blame_print_locks(const struct query_locks *l, const char *key)
{
	printf("by ");
	text_put(stdout, key, 0);
	printf("; below each line the stack of who ended the waits, when it did\n\n");
	printf("%10s %7s  %-*s %-*s %-10s %-15s %s\n", "SECONDS", "SHARE", NAME_COLUMNS, "BLOCKED",
	       NAME_COLUMNS, "ENDED BY", "WHO IS", "KIND", "LOCK");
	for (size_t i = 0; i < l->n; i++)
		print_lock(l, &l->v[i]);
	if (l->n_all > l->n)
		printf("\n%zu more; -n 0 prints all\n", l->n_all - l->n);
}
