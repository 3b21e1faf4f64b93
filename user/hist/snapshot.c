/* SPDX-License-Identifier: Apache-2.0 */
#include "hist/snapshot.h"

#include "hist/hist_int.h"
#include "util/array.h"

void hist_snapshot_init(struct hist_snapshot *s, unsigned bits)
{
	*s = (struct hist_snapshot){ .bits = (uint8_t)bits };
}

void hist_snapshot_fini(struct hist_snapshot *s)
{
	if (!s)
		return;
	free(s->counts);
	hist_snapshot_init(s, s->bits);
}

/* ---- rows ---- */

/* Room for n more rows, so that row_of cannot fail. */
static int reserve(struct hist_snapshot *s, unsigned n, struct err *err)
{
	if (ARRAY_RESERVE(s->counts, s->cap, s->n + ((size_t)n << s->bits)))
		return err_set(err, -ENOMEM, "no memory for the counters of a histogram of %u bits",
			       s->bits);
	return 0;
}

/* Its counters are to be written. */
static uint64_t *new_row(struct hist_snapshot *s, unsigned row)
{
	uint64_t *counts = s->counts + s->n;
	s->at[row] = (uint32_t)s->n + 1;
	s->n += (size_t)1 << s->bits;
	return counts;
}

static uint64_t *row_of(struct hist_snapshot *s, unsigned row)
{
	if (s->at[row])
		return s->counts + s->at[row] - 1;
	return memset(new_row(s, row), 0, sizeof(*s->counts) << s->bits);
}

static const uint64_t *row_or_null(const struct hist_snapshot *s, unsigned row)
{
	return s->at[row] ? s->counts + s->at[row] - 1 : NULL;
}

static unsigned n_rows(const struct hist_snapshot *s)
{
	return 65u - s->bits;
}

static int too_many(struct err *err)
{
	return err_set(err, -EOVERFLOW, "a histogram cannot count more than 2^64 - 1 values");
}

int hist_snapshot_count(struct hist_snapshot *s, uint32_t index, uint64_t n, struct err *err)
{
	unsigned row = index >> s->bits;
	if (n > UINT64_MAX - s->total)
		return too_many(err);
	int rc = n && !s->at[row] ? reserve(s, 1, err) : 0;
	if (rc || !n)
		return rc;
	row_of(s, row)[index & ((1u << s->bits) - 1)] += n;
	s->row_total[row] += n;
	s->total += n;
	return 0;
}

bool hist_snapshot_next(const struct hist_snapshot *s, uint32_t *index, uint64_t *ret_count)
{
	uint32_t unit = 1u << s->bits;
	for (unsigned row = *index >> s->bits, i = *index & (unit - 1); row < n_rows(s);
	     row++, i = 0) {
		const uint64_t *c = s->row_total[row] ? row_or_null(s, row) : NULL;
		for (; c && i < unit; i++) {
			if (!c[i])
				continue;
			*index = (row << s->bits) + i;
			*ret_count = c[i];
			return true;
		}
	}
	return false;
}

/* ---- taking and merging ---- */

/* The counters of one row, under the lock; false: more than fits. */
static bool read_row(struct hist_snapshot *s, const struct hist *h, unsigned row, uint32_t at)
{
	const uint32_t *count = h->count + at, *high = h->high + ((size_t)row << s->bits);
	uint64_t *out = new_row(s, row), sum = 0;
	for (uint32_t i = 0; i < 1u << s->bits; i++) {
		out[i] = __atomic_load_n(&count[i], __ATOMIC_RELAXED);
		sum += out[i]; /* 2^12 counters of 32 bits at most */
	}
	for (uint32_t i = 0; h->carried && i < 1u << s->bits; i++) {
		const uint64_t more = (uint64_t)high[i] * HIST_HALF;
		out[i] += more;
		if (__builtin_add_overflow(sum, more, &sum))
			return false;
	}
	s->row_total[row] = sum;
	return !__builtin_add_overflow(s->total, sum, &s->total);
}

/* s is empty, of the precision of h, and has room for every row. */
static bool read_all(struct hist_snapshot *s, struct hist *h)
{
	uint32_t unit = 1u << h->bits;
	bool ok = true;
	hist_lock(h);
	for (unsigned row = 0; row < n_rows(s) && ok; row++) {
		/*
		 * The first two rows hold what is not shifted; row 0 is told by any of its values.
		 */
		uint32_t place = hist_place(h, row ? hist_bucket_low(h->bits, row << h->bits) : 0);
		if (place >= 64)
			ok = read_row(s, h, row, (place >> 6) + (row ? unit : 0));
	}
	ok = ok && !h->overflow;
	hist_unlock(h);
	return ok;
}

int hist_snapshot_add(struct hist_snapshot *s, const struct hist *h, struct err *err)
{
	struct hist_snapshot now;
	hist_snapshot_init(&now, h->bits);
	int rc = reserve(&now, n_rows(&now), err);
	/* The lock is the one word that a reader writes. */
	if (!rc && !read_all(&now, (struct hist *)(uintptr_t)h))
		rc = too_many(err);
	if (!rc && !s->total && s->bits >= now.bits) {
		hist_snapshot_fini(s);
		*s = now;
		return 0;
	}
	if (!rc)
		rc = hist_snapshot_merge(s, &now, err);
	hist_snapshot_fini(&now);
	return rc;
}

int hist_snapshot_coarsen(struct hist_snapshot *s, unsigned bits, struct err *err)
{
	if (bits >= s->bits)
		return 0;
	struct hist_snapshot out;
	hist_snapshot_init(&out, bits);
	uint64_t n;
	for (uint32_t i = 0; hist_snapshot_next(s, &i, &n); i++) {
		int rc = hist_snapshot_count(
			&out, hist_bucket_index(bits, hist_bucket_low(s->bits, i)), n, err);
		if (rc) {
			hist_snapshot_fini(&out);
			return rc;
		}
	}
	hist_snapshot_fini(s);
	*s = out;
	return 0;
}

/* other is not finer than s: its rows are there, or are made. */
static int merge_same(struct hist_snapshot *s, const struct hist_snapshot *other, struct err *err)
{
	unsigned fresh = 0;
	for (unsigned row = 0; row < n_rows(s); row++)
		fresh += other->row_total[row] && !s->at[row];
	int rc = reserve(s, fresh, err);
	if (rc)
		return rc;
	for (unsigned row = 0; row < n_rows(s); row++) {
		if (!other->row_total[row])
			continue;
		uint64_t *to = row_of(s, row);
		const uint64_t *from = row_or_null(other, row);
		for (uint32_t i = 0; i < 1u << s->bits; i++)
			to[i] += from[i];
		s->row_total[row] += other->row_total[row];
	}
	s->total += other->total;
	return 0;
}

int hist_snapshot_merge(struct hist_snapshot *s, const struct hist_snapshot *other, struct err *err)
{
	if (other->total > UINT64_MAX - s->total)
		return too_many(err);
	int rc = hist_snapshot_coarsen(s, other->bits, err);
	if (rc || other->bits == s->bits)
		return rc ? rc : merge_same(s, other, err);
	struct hist_snapshot copy;
	hist_snapshot_init(&copy, other->bits);
	rc = merge_same(&copy, other, err);
	if (!rc)
		rc = hist_snapshot_coarsen(&copy, s->bits, err);
	if (!rc)
		rc = merge_same(s, &copy, err);
	hist_snapshot_fini(&copy);
	return rc;
}
