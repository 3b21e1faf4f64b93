/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of one block for a window of another store. Those of a window are taken as they are.
 *
 * A parent without its windows has no rows: it has the sums of label sets without stacks, and for
 * each value of some keys the stacks. Nothing is made up. A row gets the stack and the value of one
 * key that a projection gives. It gets those other labels that all label sets with this value have
 * in common. Where a selector matches some of these sets, their stacks cannot be told apart: what
 * is left of the value are the sums of the other sets, without stacks.
 */
#include "store/ops/copy_int.h"
#include "store/read/block_data.h"
#include "store/read/contents.h"

#include "store/writer.h"
#include "util/array.h"
#include "util/bisect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What becomes of the rows of a label set whose event the deletion is about. */
enum verdict {
	KEEP,
	REMOVE,
	UNTOLD, /* some of the label sets behind it match */
	SKIP,	/* was taken with its stacks */
};

#define VERDICTS 4 /* an id that a reading gets is that of the writer times this, and a verdict */

struct taking {
	struct copy *c;
	struct copy_source *from;
	const struct store_block *b;
	bool deletes;
	bool *event_matches; /* [n_events] of the source; NULL: all do */
	/* Of a parent. */
	struct setpool pool; /* the label sets of its sums */
	bool has_empty;
	uint32_t *sets; /* ids of the pool, by the value of the key */
	size_t n_sets;
	char *key; /* whose projections are read; NULL: none has any */
	bool key_summed;
	bool blind;  /* a key of the selector is neither summed nor projected */
	bool alone;  /* the key is the only one of the selector that rows have */
	bool untold; /* there is a value of that verdict */
	struct label
		common[STORE_SET_MAX + 1]; /* that all sets have, where the sums lack the key */
	size_t n_common;
	uint32_t no_labels; /* the set of all rows of a parent without labels */
};

int copy_failed(const struct copy *c, int rc)
{
	return err_sys(c->err, rc, "cannot write %s", c->w->s.dir);
}

/* ---- rows as they were recorded ---- */

static int matches(struct taking *t, const struct label *labels, size_t n, bool *ret)
{
	const struct store_deletion *d = t->c->del;
	*ret = false;
	return t->deletes ? d->matches(d->ctx, labels, n, ret) : 0;
}

/* The set in the writer, with the label of the host. A set that is full stays as it is. */
static int put_set(struct taking *t, const struct label *labels, size_t n, enum verdict verdict,
		   uint32_t *ret)
{
	struct label v[STORE_SET_MAX + 1];
	uint32_t id;
	n = n < STORE_SET_MAX ? n : STORE_SET_MAX;
	if (n)
		memcpy(v, labels, n * sizeof(*v));
	if (t->from->add_host && n < STORE_SET_MAX)
		v[n++] = t->from->host;
	int rc = store_add_set(t->c->w, v, n, &id);
	if (!rc && id >= UINT32_MAX / VERDICTS - 1)
		rc = -E2BIG;
	if (rc)
		return copy_failed(t->c, rc);
	*ret = id * VERDICTS + verdict;
	return 0;
}

static int give_set(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	struct taking *t = ctx;
	bool match;
	int rc = matches(t, labels, n, &match);
	return rc ? rc : put_set(t, labels, n, match ? REMOVE : KEEP, ret);
}

static void count_removed(struct taking *t, const struct store_row *row)
{
	const struct store_event *e = store_event(t->from->s, row->event);
	t->c->touched = true;
	if (!e || (t->c->del->counts && !t->c->del->counts(e)))
		return;
	t->c->removed += row->samples;
	t->c->r.removed_samples += row->samples;
}

static int put_row(struct taking *t, const struct store_row *row)
{
	uint32_t stack, event;
	int rc = translate_stack(&t->from->to, row->stack, &stack);
	if (!rc)
		rc = translate_event(&t->from->to, row->event, &event);
	if (!rc)
		rc = store_add_row(t->c->w, row->set / VERDICTS, stack, event, row->samples,
				   row->value);
	return rc ? copy_failed(t->c, rc) : 0;
}

static int take_rows(void *ctx, const struct store_row *rows, size_t n)
{
	struct taking *t = ctx;
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		enum verdict verdict = rows[i].set % VERDICTS;
		if (verdict == KEEP || (t->event_matches && !t->event_matches[rows[i].event]))
			rc = put_row(t, &rows[i]);
		else if (verdict == REMOVE)
			count_removed(t, &rows[i]);
	}
	return rc;
}

static int take_folded(void *ctx, const struct store_row *row)
{
	struct taking *t = ctx;
	struct store_row labelled = *row;
	labelled.set = t->no_labels;
	return put_row(t, &labelled);
}

/* ---- a parent: the label sets of its sums ---- */

static const struct label *label_of(const struct taking *t, uint32_t set)
{
	const struct label *v;
	size_t n = setpool_get(&t->pool, set, &v),
	       len = t->key && t->key_summed ? strlen(t->key) : 0;
	for (size_t i = 0; len && i < n; i++)
		if (v[i].key_len == len && !memcmp(v[i].key, t->key, len))
			return &v[i];
	return NULL;
}

static int compare_values(const struct label *a, const struct label *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	if (a->type == LABEL_INT)
		return (a->num > b->num) - (a->num < b->num);
	size_t n = a->str_len < b->str_len ? a->str_len : b->str_len;
	int c = n ? memcmp(a->str, b->str, n) : 0;
	return c ? c : (a->str_len > b->str_len) - (a->str_len < b->str_len);
}

static int by_value(const void *pa, const void *pb, void *ctx)
{
	const struct taking *t = ctx;
	return compare_values(label_of(t, *(const uint32_t *)pa),
			      label_of(t, *(const uint32_t *)pb));
}

static int note_set(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	struct taking *t = ctx;
	int rc = setpool_add(&t->pool, labels, n, ret);
	t->has_empty |= !n;
	return rc ? copy_failed(t->c, rc) : 0;
}

static int pass_rows(void *ctx, const struct store_row *rows, size_t n)
{
	(void)ctx, (void)rows, (void)n;
	return 0;
}

/*
 * The sets with this value (NULL: without the key), [*from, *to) of the list. All where the sums
 * lack the key.
 */
static void find_run(const struct taking *t, const struct label *value, size_t *from, size_t *to)
{
	if (!t->key_summed) {
		*from = 0;
		*to = t->n_sets;
		return;
	}
	size_t lo = bisect(i, 0, t->n_sets, compare_values(label_of(t, t->sets[i]), value) < 0);
	*from = lo;
	for (*to = lo; *to < t->n_sets && !compare_values(label_of(t, t->sets[*to]), value);)
		++*to;
}

/* The labels of a set with the value of the key; returns how many. */
static size_t with_value(const struct taking *t, size_t i, const struct label *value,
			 struct label *out)
{
	const struct label *v;
	size_t n = setpool_get(&t->pool, t->sets[i], &v);
	n = n < STORE_SET_MAX ? n : STORE_SET_MAX;
	if (n)
		memcpy(out, v, n * sizeof(*v));
	if (value)
		out[n++] = *value;
	return labels_normalize(out, n);
}

/* Keep of v[0..n) what is in w[0..m), too: both are sorted. */
static size_t in_common(struct label *v, size_t n, const struct label *w, size_t m)
{
	size_t out = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < m; k++)
			if (labels_equal(&v[i], 1, &w[k], 1)) {
				v[out++] = v[i];
				break;
			}
	return out;
}

/* ---- a parent: its rows ---- */

/* Of one value, whose label sets are [from, to) of the list. */
static int judge(struct taking *t, const struct label *value, size_t from, size_t to,
		 enum verdict *ret)
{
	struct label v[STORE_SET_MAX + 1];
	size_t n_match = 0;
	bool match = false;
	int rc = 0;
	*ret = KEEP;
	if (!t->deletes || t->blind)
		return 0;
	if (t->alone || from == to) {
		rc = matches(t, value, value != NULL, &match);
		*ret = match ? REMOVE : KEEP;
		return rc;
	}
	for (size_t i = from; !rc && i < to; i++) {
		size_t n = with_value(t, i, value, v);
		rc = matches(t, v, n, &match);
		n_match += !rc && match;
	}
	if (rc || !n_match)
		return rc;
	*ret = n_match == to - from ? REMOVE : UNTOLD;
	t->untold |= *ret == UNTOLD;
	return 0;
}

/* The labels that all of these sets have. */
static size_t common_labels(const struct taking *t, size_t from, size_t to, struct label *out)
{
	struct label v[STORE_SET_MAX + 1];
	size_t n = from < to ? with_value(t, from, NULL, out) : 0;
	for (size_t i = from + 1; i < to; i++) {
		size_t m = with_value(t, i, NULL, v);
		n = in_common(out, n, v, m);
	}
	return n;
}

static int sort_sets(struct taking *t)
{
	t->sets = malloc((size_t)t->pool.n * sizeof(*t->sets));
	if (!t->sets)
		return copy_failed(t->c, -ENOMEM);
	for (uint32_t id = t->has_empty ? 0 : 1; id < t->pool.n; id++)
		t->sets[t->n_sets++] = id;
	if (t->n_sets)
		qsort_r(t->sets, t->n_sets, sizeof(*t->sets), by_value, t);
	if (!t->key_summed)
		t->n_common = common_labels(t, 0, t->n_sets, t->common);
	return 0;
}

/* labels: the value of the key, or none. */
static int give_value(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	struct taking *t = ctx;
	const struct label *value = n ? labels : NULL;
	struct label v[STORE_SET_MAX + 1];
	size_t from, to;
	enum verdict verdict;
	find_run(t, value, &from, &to);
	int rc = judge(t, value, from, to, &verdict);
	if (rc)
		return rc;
	if (t->key_summed) {
		n = common_labels(t, from, to, v);
	} else {
		n = t->n_common;
		if (n)
			memcpy(v, t->common, n * sizeof(*v));
	}
	if (value)
		v[n++] = *value;
	return put_set(t, v, n, verdict, ret);
}

/* Of a set whose stacks were not taken. */
static int give_untold(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	struct taking *t = ctx;
	size_t from, to;
	uint32_t id;
	enum verdict verdict = SKIP;
	bool match = false;
	int rc = setpool_add(&t->pool, labels, n, &id);
	if (rc)
		return copy_failed(t->c, rc);
	const struct label *value = label_of(t, id);
	find_run(t, value, &from, &to);
	rc = judge(t, value, from, to, &verdict);
	if (!rc && verdict == UNTOLD)
		rc = matches(t, labels, n, &match);
	if (rc)
		return rc;
	verdict = verdict != UNTOLD ? SKIP : match ? REMOVE : KEEP;
	return put_set(t, labels, n, verdict, ret);
}

static int take_untold(void *ctx, const struct store_row *rows, size_t n)
{
	struct taking *t = ctx;
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		enum verdict verdict = rows[i].set % VERDICTS;
		if (verdict == SKIP || (t->event_matches && !t->event_matches[rows[i].event]))
			continue;
		if (verdict == REMOVE)
			count_removed(t, &rows[i]);
		else
			rc = put_row(t, &rows[i]);
	}
	return rc;
}

static bool in_selector(const struct taking *t, const struct block_key *k)
{
	const struct store_deletion *d = t->c->del;
	for (size_t i = 0; t->deletes && i < d->n_keys; i++)
		if (strlen(d->keys[i]) == k->len && !memcmp(d->keys[i], k->key, k->len))
			return true;
	return false;
}

/*
 * The key to take stacks by: the only one of the selector. Else that of the parent before, so that
 * one key is there at all times. Else the one with the longest list of values, which mostly decides
 * the most other labels.
 */
static int choose_key(struct taking *t, const struct block_keys *keys)
{
	const struct block_key *best = NULL, *asked = NULL, *last = NULL;
	size_t n_asked = 0;
	for (size_t i = 0; i < keys->n; i++) {
		const struct block_key *k = &keys->v[i];
		if (in_selector(t, k)) {
			n_asked++;
			asked = k->state & KEY_PROJECTED ? k : asked;
			t->blind |= !(k->state & (KEY_SUMMED | KEY_PROJECTED));
		}
		if (!(k->state & KEY_PROJECTED))
			continue;
		if (t->from->key && strlen(t->from->key) == k->len &&
		    !memcmp(t->from->key, k->key, k->len))
			last = k;
		if (!best || k->raw_len > best->raw_len)
			best = k;
	}
	best = last ? last : best;
	best = n_asked == 1 && asked ? asked : best;
	t->alone = best && n_asked == 1 && best == asked;
	t->key_summed = !best || best->state & KEY_SUMMED;
	/* Beside a key that the sums lack, those of all values are the same. */
	t->blind |= n_asked && !t->alone && !t->key_summed;
	for (size_t i = 0; i < keys->n; i++)
		if (in_selector(t, &keys->v[i]) && !(keys->v[i].state & KEY_SUMMED) && !t->alone)
			t->blind = true;
	t->key = best ? strndup(best->key, best->len) : NULL;
	if (best && !t->key)
		return copy_failed(t->c, -ENOMEM);
	if (t->key) {
		char *copy = strdup(t->key);
		free(t->from->key);
		t->from->key = copy;
	}
	return 0;
}

/* Names of the keys that the sums have; the texts are to be freed. */
static int list_summed(const struct taking *t, const struct block_keys *keys, char ***ret,
		       size_t *ret_n)
{
	char **v = calloc(keys->n, sizeof(*v));
	int rc = v ? 0 : -ENOMEM;
	*ret = v;
	*ret_n = 0;
	for (size_t i = 0; !rc && i < keys->n; i++)
		if (keys->v[i].state & KEY_SUMMED) {
			v[*ret_n] = strndup(keys->v[i].key, keys->v[i].len);
			rc = v[*ret_n] ? 0 : -ENOMEM;
			*ret_n += !rc;
		}
	return rc ? copy_failed(t->c, rc) : 0;
}

static int read_labelled(struct taking *t, const struct block_keys *keys)
{
	struct store *s = t->from->s;
	char **summed = NULL;
	size_t n = 0;
	int rc = choose_key(t, keys);
	rc = rc ? rc : list_summed(t, keys, &summed, &n);
	const char *const one[] = { t->key };
	const struct store_keys all = { (const char *const *)summed, n },
				by = { one, t->key != NULL };
	const struct store_reading sums = {
		.keys = &all, .set = note_set, .fold_stacks = true, .rows = pass_rows, .ctx = t
	};
	const struct store_reading stacks = {
		.keys = &by, .set = give_value, .rows = take_rows, .ctx = t
	};
	const struct store_reading untold = {
		.keys = &all, .set = give_untold, .fold_stacks = true, .rows = take_untold, .ctx = t
	};
	rc = rc ? rc : store_block_read(s, t->b, &sums, t->c->err);
	rc = rc ? rc : sort_sets(t);
	rc = rc ? rc : store_block_read(s, t->b, &stacks, t->c->err);
	if (!rc && t->untold)
		rc = store_block_read(s, t->b, &untold, t->c->err);
	for (size_t i = 0; i < n; i++)
		free(summed[i]);
	free(summed);
	return rc;
}

static int copy_parent(struct taking *t)
{
	struct store *s = t->from->s;
	struct block_data d;
	struct block_keys keys = { 0 };
	uint32_t set;
	t->c->r.coarse++;
	if (t->b->flags & BLOCK_NO_LABELS) {
		t->c->r.blind += t->deletes;
		t->deletes = false;
		int rc = put_set(t, NULL, 0, KEEP, &set);
		t->no_labels = set;
		return rc ? rc : store_block_folded(s, t->b, take_folded, t, t->c->err);
	}
	int rc = block_read(s, store_ref(t->b), WANT_KEYS, &d, t->c->err);
	if (rc)
		return rc;
	rc = setpool_init(&t->pool) ? copy_failed(t->c, -ENOMEM) : 0;
	rc = rc ? rc : contents_keys(s, store_ref(t->b), &d, &keys, t->c->err);
	rc = rc ? rc : read_labelled(t, &keys);
	t->c->r.blind += !rc && t->deletes && t->blind;
	block_keys_fini(&keys);
	block_data_fini(&d);
	setpool_fini(&t->pool);
	free(t->sets);
	free(t->key);
	return rc;
}

/* ---- any ---- */

static int match_events(struct taking *t)
{
	const struct store_deletion *d = t->c->del;
	uint32_t n = store_n_events(t->from->s);
	int rc = 0;
	if (!t->deletes || !d->event)
		return 0;
	t->event_matches = calloc(n, sizeof(*t->event_matches));
	if (!t->event_matches)
		return copy_failed(t->c, -ENOMEM);
	for (uint32_t i = 0; !rc && i < n; i++)
		rc = d->event(d->ctx, store_event(t->from->s, i)->name, &t->event_matches[i]);
	return rc;
}

int copy_rows(struct copy *c, struct copy_source *from, const struct store_block *b, bool in_range)
{
	struct taking t = { .c = c, .from = from, .b = b, .deletes = c->del && in_range };
	const struct store_reading window = { .set = give_set, .rows = take_rows, .ctx = &t };
	int rc = match_events(&t);
	if (!rc)
		rc = b->level ? copy_parent(&t) : store_block_read(from->s, b, &window, c->err);
	free(t.event_matches);
	return rc;
}
