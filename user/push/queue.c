/* SPDX-License-Identifier: Apache-2.0 */
#include "push/queue.h"

#include "query/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* By the windows that they hold, in the order of writing. */
static int by_window(const void *a, const void *b)
{
	const struct store_block *x = *(const struct store_block *const *)a,
				 *y = *(const struct store_block *const *)b;
	return (x->window_lo > y->window_lo) - (x->window_lo < y->window_lo);
}

int push_queue_cover(struct store *s, struct store_cover *ret, struct err *err)
{
	int rc = store_cover(s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, ret, err);
	if (!rc && ret->n)
		qsort(ret->blocks, ret->n, sizeof(*ret->blocks), by_window);
	return rc;
}

int push_queue_next(struct store *s, const struct push_range *r, struct push_cursor *c,
		    struct push_stats *st, const struct store_block **ret, struct err *err)
{
	struct store_cover all = { 0 };
	int rc = push_queue_cover(s, &all, err);
	*ret = NULL;
	for (size_t i = 0; !rc && !*ret && i < all.n; i++) {
		const struct store_block *b = all.blocks[i];
		if (b->window_lo < c->window)
			continue; /* sent, if only in part */
		st->cut += c->there ? b->window_lo - c->window : 0;
		if (b->window_lo > c->window)
			push_cursor_advance(c, b->window_lo);
		bool wanted = b->t1_ns > r->from_ns && b->t0_ns < r->to_ns;
		bool old = wanted && b->t0_ns < r->oldest_ns;
		st->too_old += old ? b->n_windows : 0;
		if (wanted && !old)
			*ret = b;
		else
			push_cursor_advance(c, b->window_hi);
	}
	store_cover_free(&all);
	return rc;
}

int push_queue_skip_all(struct store *s, struct push_cursor *c, struct err *err)
{
	struct store_cover all = { 0 };
	int rc = push_queue_cover(s, &all, err);
	for (size_t i = 0; !rc && i < all.n; i++)
		if (all.blocks[i]->window_hi > c->window)
			push_cursor_advance(c, all.blocks[i]->window_hi);
	store_cover_free(&all);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int push_queue_events(const struct store *s, bool beside, const char ***ret, size_t *ret_n,
		      struct err *err)
{
	uint32_t n = store_n_events(s);
	const char **v = calloc(n + 1, sizeof(*v));
	size_t found = 0, unique = 0;
	if (!v)
		return err_sys(err, -ENOMEM, "cannot push");
	for (uint32_t i = 0; i < n; i++) {
		const struct store_event *e = store_event(s, i);
		if ((query_is_profile(e) && query_counts_samples(e)) ||
		    (beside && strncmp(e->name, "ascribe_", 8)))
			v[found++] = e->name;
	}
	qsort(v, found, sizeof(*v), by_name);
	for (size_t i = 0; i < found; i++)
		if (!i || strcmp(v[i], v[i - 1])) /* two rates of one event are one */
			v[unique++] = v[i];
	*ret = v;
	*ret_n = unique;
	return 0;
}
