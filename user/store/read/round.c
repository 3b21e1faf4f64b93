/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range in whole windows. A window across an end of the range belongs to it when the greater part
 * of the window is inside, one in halves to the earlier range. So a range is as long as it was
 * asked for, and where two ranges meet each window belongs to one of them.
 */
#include "store/store.h"

#include "util/err.h"

/*
 * The windows across `t`; from *before to *after. Not where retention has left only parents: they
 * stand in for theirs.
 */
static int across(struct store *s, int64_t t, int64_t *before, int64_t *after, struct err *err)
{
	struct store_cover c;
	*before = *after = t;
	if (t == INT64_MIN || t == INT64_MAX)
		return 0;
	int rc = store_cover(s, t, t + 1, STORE_FOLDED, NULL, 0, &c, err);
	for (size_t i = 0; !rc && i < c.n; i++) {
		const struct store_block *b = c.blocks[i];
		if (b->level || b->t0_ns >= t)
			continue;
		*before = b->t0_ns < *before ? b->t0_ns : *before;
		*after = b->t1_ns > *after ? b->t1_ns : *after;
	}
	if (!rc)
		store_cover_free(&c);
	return rc;
}

int store_round(struct store *s, int64_t *from_ns, int64_t *to_ns, struct err *err)
{
	int64_t from = *from_ns, to = *to_ns, before, after;
	int rc = across(s, from, &before, &after, err);
	if (rc)
		return rc;
	from = from - before < after - from ? before : after;
	rc = across(s, to, &before, &after, err);
	if (rc)
		return rc;
	to = to - before < after - to ? before : after;
	if (from < to) {
		*from_ns = from;
		*to_ns = to;
	}
	return 0;
}
