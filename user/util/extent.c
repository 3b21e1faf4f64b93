/* SPDX-License-Identifier: Apache-2.0 */
#include "util/extent.h"

#include "util/array.h"
#include "util/bisect.h"

#include <errno.h>

int extents_init(struct extents *e, uint32_t n)
{
	*e = (struct extents){ 0 };
	int rc = ARRAY_RESERVE(e->v, e->cap, 1);
	if (!rc)
		e->v[e->n++] = (struct extent){ 0, n };
	return rc;
}

static void drop(struct extents *e, size_t i)
{
	memmove(&e->v[i], &e->v[i + 1], (e->n - i - 1) * sizeof(*e->v));
	e->n--;
}

int extents_take(struct extents *e, uint32_t n, uint32_t *ret_at)
{
	for (size_t i = 0; i < e->n; i++) {
		struct extent *x = &e->v[i];
		if (x->n < n)
			continue;
		*ret_at = x->at;
		x->at += n;
		x->n -= n;
		if (!x->n)
			drop(e, i);
		e->used += n;
		return 0;
	}
	return -ENOSPC;
}

int extents_give(struct extents *e, uint32_t at, uint32_t n)
{
	size_t lo = bisect(i, 0, e->n, e->v[i].at < at);
	int rc = ARRAY_RESERVE(e->v, e->cap, e->n + 1);
	if (rc)
		return rc;
	e->used -= n;
	if (lo < e->n && at + n == e->v[lo].at) { /* the next one begins where this ends */
		e->v[lo].at = at;
		e->v[lo].n += n;
	} else {
		memmove(&e->v[lo + 1], &e->v[lo], (e->n - lo) * sizeof(*e->v));
		e->v[lo] = (struct extent){ at, n };
		e->n++;
	}
	if (lo && e->v[lo - 1].at + e->v[lo - 1].n == at) {
		e->v[lo - 1].n += e->v[lo].n;
		drop(e, lo);
	}
	return 0;
}

void extents_fini(struct extents *e)
{
	free(e->v);
	*e = (struct extents){ 0 };
}
