/* SPDX-License-Identifier: Apache-2.0 */
/* Calls as text: the tree from the roots, and the callers and callees of one function. */
#include "cli/report.h"

#include "cli/groups.h"
#include "opt/term.h"
#include "opt/text.h"
#include "query/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 8192
#define DEPTH_COLUMNS 60 /* that branches may take; below that they stay at the same place */
#define SUGGESTIONS 8

/* End a line with the function of a node. */
static int print_name(const struct reading *r, const struct query_node *node, unsigned room)
{
	const struct store_frame *f = NULL;
	char name[NAME_MAX_BYTES];
	uint32_t parent, frame = 0;
	if (node->stack != QUERY_OTHER_STACK)
		store_stack(r->store, node->stack, &parent, &frame);
	f = frame ? store_frame(r->store, frame) : NULL;
	query_name(r->query, frame, name, sizeof(name));
	return function_print(name, f ? store_string(r->store, f->module, NULL) : NULL,
			      f && f->flags & FRAME_INLINED, room);
}

/* ---- the tree ---- */

struct tree {
	const struct reading *r;
	const struct report *opts;
	const struct query_node *nodes;
	bool *shown; /* [n] */
	char prefix[4 * DEPTH_COLUMNS];
	unsigned columns; /* of the prefix */
};

/* Choose the largest nodes. A parent has at least the samples of a child and comes before it. */
static int choose_nodes(struct tree *t, size_t n, size_t limit)
{
	uint32_t *order = calloc(n, sizeof(*order));
	t->shown = calloc(n, sizeof(*t->shown));
	if (!order || !t->shown) {
		free(order);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), query_by_total, (void *)(uintptr_t)t->nodes);
	for (size_t i = 0; i < n && i <= limit; i++)
		t->shown[order[i]] = true;
	free(order);
	return 0;
}

static uint32_t next_shown(const struct tree *t, uint32_t at)
{
	while (at && !t->shown[at])
		at = t->nodes[at].next_sibling;
	return at;
}

/* Print a node behind the branch that leads to it. */
static int print_node(const struct tree *t, uint32_t at, const char *branch)
{
	const struct query_node *node = &t->nodes[at];
	unsigned used = 17 + t->columns + (*branch ? 3 : 0);
	printf("%6.2f%% %6.2f%%  %s%s", 100 * report_share(t->r, node->total),
	       100 * report_share(t->r, node->self), t->prefix, branch);
	return print_name(t->r, node, t->opts->full_names ? 0 : term_room(used));
}

/*
 * Print what is below a node. A single child stands below its parent without a branch, so a chain
 * of calls stays at one place.
 */
static int print_children(struct tree *t, uint32_t parent)
{
	uint32_t at = next_shown(t, t->nodes[parent].first_child);
	bool single = at && !next_shown(t, t->nodes[at].next_sibling);
	size_t len = strlen(t->prefix);
	int rc = 0;
	while (at && !rc) {
		uint32_t next = next_shown(t, t->nodes[at].next_sibling);
		bool deeper = !single && t->columns + 3 <= DEPTH_COLUMNS;
		rc = print_node(t, at, single ? "" : next ? "\u251c\u2500 " : "\u2514\u2500 ");
		if (deeper) {
			strcpy(t->prefix + len, next ? "\u2502  " : "   ");
			t->columns += 3;
		}
		rc = rc ? rc : print_children(t, at);
		t->prefix[len] = '\0';
		t->columns -= deeper ? 3 : 0;
		at = next;
	}
	return rc;
}

int report_tree(struct reading *r, const struct report *opts, size_t limit)
{
	struct query_view_spec spec = { .view = QUERY_VIEW_DOWN };
	struct tree t = { .r = r, .opts = opts };
	struct query_view_tree v;
	struct err err = { 0 };
	int rc = query_view(&v, r->query, &spec, &err);
	if (rc) {
		cmd_error("%s", err.text);
		return EXIT_FAILED;
	}
	t.nodes = v.nodes;
	rc = choose_nodes(&t, v.n, limit);
	report_header(r, opts);
	if (!rc) {
		term_begin(stdout, TERM_HEAD);
		printf("%7s %7s  CALLS", "TOTAL%", "SELF%");
		term_end(stdout);
		putchar('\n');
		rc = print_children(&t, 0);
	}
	if (!rc && limit < v.n - 1)
		printf("\nnot shown: %zu calls; -n 0 prints all\n", v.n - 1 - limit);
	free(t.shown);
	query_view_free(&v);
	if (rc)
		cmd_error("out of memory");
	return rc ? EXIT_FAILED : EXIT_OK;
}

/* ---- one function ---- */

struct names {
	const char *v[SUGGESTIONS]; /* those with most samples */
	size_t n, all;
};

/* Find the functions with this text in their names, once each. An exact match is the only one. */
static void find_names(const struct query_table *t, const char *text, struct names *ret)
{
	*ret = (struct names){ 0 };
	for (size_t i = 0; i < t->n_rows; i++) {
		const char *name = t->rows[i].text;
		bool again = false;
		if (!strcmp(name, text)) {
			*ret = (struct names){ { name }, 1, 1 };
			return;
		}
		if (!strstr(name, text))
			continue;
		for (size_t k = 0; k < ret->n; k++)
			again |= !strcmp(ret->v[k], name);
		if (again)
			continue;
		if (ret->n < SUGGESTIONS)
			ret->v[ret->n++] = name;
		ret->all++;
	}
}

static int unclear(const struct report *opts, const struct names *n)
{
	char *shown = text_printable(opts->peek, strlen(opts->peek));
	if (!n->n) {
		cmd_error("--peek: no function of these samples has '%s' in its name; ascribe "
			  "report --by function -n 0 lists them",
			  shown ? shown : "");
	} else {
		cmd_error("--peek: '%s' is in the names of %zu functions; which one?",
			  shown ? shown : "", n->all);
		for (size_t i = 0; i < n->n; i++) {
			fputs("  ", stderr);
			text_put(stderr, n->v[i], 0);
			fputc('\n', stderr);
		}
	}
	free(shown);
	return EXIT_USAGE;
}

static int print_neighbours(const struct reading *r, const struct report *opts,
			    const struct query_view_tree *v, size_t limit)
{
	size_t n = 0;
	uint64_t rest = 0, of = v->nodes[v->nodes[0].first_child].total;
	for (uint32_t at = v->nodes[v->nodes[0].first_child].first_child; at;
	     at = v->nodes[at].next_sibling) {
		const struct query_node *node = &v->nodes[at];
		if (n++ >= limit) {
			rest += node->total;
			continue;
		}
		printf("%6.2f%% %6.2f%%  | ", 100 * report_share(r, node->total),
		       of ? 100.0 * (double)node->total / (double)of : 0);
		if (print_name(r, node, opts->full_names ? 0 : term_room(19)))
			return -ENOMEM;
	}
	if (n > limit)
		printf("%6.2f%% %6.2f%%  | (other): %zu\n", 100 * report_share(r, rest),
		       of ? 100.0 * (double)rest / (double)of : 0, n - limit);
	return 0;
}

/* Callers above the function, callees below it. */
static int print_peek(const struct reading *r, const struct report *opts,
		      const struct query_view_tree v[2], size_t limit)
{
	const struct query_node *it = &v[1].nodes[v[1].nodes[0].first_child];
	term_begin(stdout, TERM_HEAD);
	printf("%7s %7s  CALLERS, FUNCTION, CALLEES", "SHARE", "OF IT");
	term_end(stdout);
	putchar('\n');
	int rc = print_neighbours(r, opts, &v[0], limit);
	if (rc)
		return rc;
	puts("------------------");
	printf("%6.2f%% %6.2f%%  ", 100 * report_share(r, it->total), 100.0);
	rc = print_name(r, it, opts->full_names ? 0 : term_room(17));
	printf("%6.2f%% %6.2f%%    itself\n", 100 * report_share(r, it->self),
	       it->total ? 100.0 * (double)it->self / (double)it->total : 0);
	puts("------------------");
	return rc ? rc : print_neighbours(r, opts, &v[1], limit);
}

int report_peek(struct reading *r, const struct report *opts, size_t limit)
{
	struct query_view_tree v[2] = { { 0 }, { 0 } };
	struct query_table *t = NULL;
	struct names names;
	struct err err = { 0 };
	int rc = query_table(r->query, NULL, 0, &t, &err);
	if (!rc) {
		find_names(t, opts->peek, &names);
		if (names.all != 1) {
			int status =
				query_info(r->query)->samples ? unclear(opts, &names) : EXIT_OK;
			query_table_free(t);
			return status;
		}
	}
	report_header(r, opts);
	for (int i = 0; !rc && i < 2; i++) {
		struct query_view_spec spec = { i ? QUERY_VIEW_CALLEES : QUERY_VIEW_CALLERS,
						names.v[0], NULL };
		rc = query_view(&v[i], r->query, &spec, &err);
	}
	rc = rc ? rc : print_peek(r, opts, v, limit);
	query_view_free(&v[0]);
	query_view_free(&v[1]);
	query_table_free(t);
	if (rc)
		cmd_error("%s", err.text[0] ? err.text : "out of memory");
	return rc ? EXIT_FAILED : EXIT_OK;
}
