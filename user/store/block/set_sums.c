/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Column SUMS: varint, how many groups. Per group: varint, event * 4 + 2 where CPUs are idle + 1
 * where values are not samples times period; varint, how many sets. Then three varints, the bytes
 * of what follows: zigzag differences of the sets, samples, values (none without the 1).
 */
#include "store/block/set_sums.h"

#include "store/file/columns.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int set_sums_init(struct set_sums *s)
{
	*s = (struct set_sums){ 0 };
	return setpool_init(&s->pool);
}

void set_sums_fini(struct set_sums *s)
{
	for (size_t i = 0; i < s->n_events; i++)
		free(s->events[i].v);
	free(s->events);
	for (size_t i = 0; i < s->n_without; i++)
		free(s->without[i].key);
	free(s->without);
	setpool_fini(&s->pool);
	*s = (struct set_sums){ 0 };
}

bool set_sums_leaves_out(const struct set_sums *s, const char *key, size_t len)
{
	for (size_t i = 0; i < s->n_without; i++)
		if (s->without[i].len == len && !memcmp(s->without[i].key, key, len))
			return true;
	return false;
}

static int sum_of(struct set_sums *s, uint32_t set, uint32_t event, bool idle,
		  struct rows_sum **ret)
{
	struct set_sums_event *e = NULL;
	for (size_t i = 0; i < s->n_events && !e; i++)
		e = s->events[i].event == event && s->events[i].idle == idle ? &s->events[i] : NULL;
	if (!e) {
		int rc = ARRAY_RESERVE(s->events, s->events_cap, s->n_events + 1);
		if (rc)
			return rc;
		e = &s->events[s->n_events++];
		*e = (struct set_sums_event){ .event = event, .idle = idle };
	}
	int rc = ARRAY_RESERVE_CLEARED(e->v, e->cap, (size_t)set + 1);
	if (rc)
		return rc;
	*ret = &e->v[set];
	return 0;
}

static int add_kept(struct set_sums *s, const struct label *labels, size_t n, uint32_t event,
		    bool idle, uint64_t samples, uint64_t value)
{
	struct label kept[SET_LABELS_MAX];
	struct rows_sum *sum;
	size_t n_kept = 0;
	uint32_t set = 0;
	for (size_t i = 0; i < n && n_kept < SET_LABELS_MAX; i++)
		if (!set_sums_leaves_out(s, labels[i].key, labels[i].key_len))
			kept[n_kept++] = labels[i];
	int rc = n_kept ? setpool_add(&s->pool, kept, n_kept, &set) : 0;
	if (!rc)
		rc = sum_of(s, set, event, idle, &sum);
	if (rc)
		return rc;
	sum->samples += samples;
	sum->value += value;
	return 0;
}

/* ---- a key too many ---- */

struct key_value {
	const struct label *label;
	uint64_t hash; /* of key and value */
};

static int by_key_and_value(const void *pa, const void *pb)
{
	const struct key_value *a = pa, *b = pb;
	size_t n = a->label->key_len < b->label->key_len ? a->label->key_len : b->label->key_len;
	int c = memcmp(a->label->key, b->label->key, n);
	if (!c)
		c = (a->label->key_len > b->label->key_len) -
		    (a->label->key_len < b->label->key_len);
	return c ? c : (a->hash > b->hash) - (a->hash < b->hash);
}

static bool same_key(const struct label *a, const struct label *b)
{
	return a->key_len == b->key_len && !memcmp(a->key, b->key, a->key_len);
}

/* The key that has the most values in these sets; NULL in *ret: there is none. */
static int largest_key(const struct set_sums *s, const struct label **ret)
{
	size_t n = 0, most = 0;
	*ret = NULL;
	for (uint32_t id = 1; id < s->pool.n; id++)
		n += s->pool.sets[id].n;
	struct key_value *v = malloc(n * sizeof(*v));
	if (!v)
		return -ENOMEM;
	n = 0;
	for (uint32_t id = 1; id < s->pool.n; id++)
		for (uint32_t i = 0; i < s->pool.sets[id].n; i++) {
			const struct label *l = &s->pool.sets[id].labels[i];
			uint64_t hash = l->type == LABEL_INT
						? XXH3_64bits_withSeed(&l->num, sizeof(l->num), 1)
						: XXH3_64bits(l->str, l->str_len);
			v[n++] = (struct key_value){ l, hash };
		}
	qsort(v, n, sizeof(*v), by_key_and_value);
	for (size_t i = 0, end; i < n; i = end) {
		size_t values = 0;
		for (end = i; end < n && same_key(v[i].label, v[end].label); end++)
			values += end == i || v[end].hash != v[end - 1].hash;
		if (values > most) {
			most = values;
			*ret = v[i].label;
		}
	}
	free(v);
	return 0;
}

static int tell_left_out(struct set_sums *s, const struct label *labels, size_t n, const char *key,
			 size_t len, uint32_t event, uint64_t samples)
{
	int rc = 0;
	for (size_t i = 0; !rc && s->left_out && i < n; i++)
		if (labels[i].key_len == len && !memcmp(labels[i].key, key, len))
			rc = s->left_out(s->ctx, &labels[i], event, samples);
	return rc;
}

/* All sums again, without the key that was left out last. */
static int add_again(struct set_sums *s)
{
	const struct set_sums_key *key = &s->without[s->n_without - 1];
	struct set_sums old = *s;
	s->events = NULL;
	s->n_events = s->events_cap = 0;
	int rc = setpool_init(&s->pool);
	for (size_t e = 0; !rc && e < old.n_events; e++)
		for (uint32_t set = 0; !rc && set < old.pool.n && set < old.events[e].cap; set++) {
			const struct rows_sum *sum = &old.events[e].v[set];
			const struct label *labels;
			if (!sum->samples)
				continue;
			size_t n = setpool_get(&old.pool, set, &labels);
			rc = tell_left_out(s, labels, n, key->key, key->len, old.events[e].event,
					   sum->samples);
			if (!rc)
				rc = add_kept(s, labels, n, old.events[e].event, old.events[e].idle,
					      sum->samples, sum->value);
		}
	for (size_t e = 0; e < old.n_events; e++)
		free(old.events[e].v);
	free(old.events);
	setpool_fini(&old.pool);
	return rc;
}

static int name_left_out(struct set_sums *s, const char *key, size_t len)
{
	int rc = ARRAY_RESERVE(s->without, s->without_cap, s->n_without + 1);
	char *copy = rc ? NULL : malloc(len);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, key, len);
	s->without[s->n_without++] = (struct set_sums_key){ copy, (uint32_t)len };
	return 0;
}

int set_sums_leave_out(struct set_sums *s, const char *key, size_t len)
{
	if (set_sums_leaves_out(s, key, len))
		return 0;
	int rc = name_left_out(s, key, len);
	return rc || s->pool.n <= 1 ? rc : add_again(s);
}

int set_sums_add(struct set_sums *s, const struct label *labels, size_t n, uint32_t event,
		 bool idle, uint64_t samples, uint64_t value)
{
	int rc = add_kept(s, labels, n, event, idle, samples, value);
	while (!rc && s->pool.n > SUMS_MAX) {
		const struct label *most;
		rc = largest_key(s, &most);
		if (rc || !most)
			break;
		rc = name_left_out(s, most->key, most->key_len);
		if (!rc)
			rc = add_again(s);
	}
	return rc;
}

/* ---- the column ---- */

static int add_group(struct buf *out, const struct set_sums_event *e, const uint32_t *ids,
		     uint32_t n_sets, const struct store_event *events)
{
	struct buf sets = BUF_INIT, samples = BUF_INIT, values = BUF_INIT;
	uint64_t n = 0, last = 0;
	bool explicit = false;
	int rc = 0;
	for (uint32_t set = 0; set < n_sets && set < e->cap; set++)
		explicit |= e->v[set].value != e->v[set].samples * events[e->event].period;
	for (uint32_t set = 0; !rc && set < n_sets && set < e->cap; set++) {
		const struct rows_sum *sum = &e->v[set];
		if (!sum->samples)
			continue;
		rc = buf_add_varint(&sets, zigzag(ids[set] - last));
		rc |= buf_add_varint(&samples, sum->samples);
		if (explicit)
			rc |= buf_add_varint(&values, sum->value);
		last = ids[set];
		n++;
	}
	const uint64_t head[] = { (uint64_t)e->event * 4 + e->idle * 2u + explicit, n, sets.len,
				  samples.len, values.len };
	for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		rc |= buf_add_varint(out, head[i]);
	rc |= buf_add(out, sets.data, sets.len);
	rc |= buf_add(out, samples.data, samples.len);
	rc |= buf_add(out, values.data, values.len);
	buf_fini(&sets);
	buf_fini(&samples);
	buf_fini(&values);
	return rc;
}

int set_sums_encode(struct buf *out, const struct set_sums *s, struct dicts *d)
{
	uint32_t *ids = calloc(s->pool.n, sizeof(*ids));
	int rc = ids ? buf_add_varint(out, s->n_events) : -ENOMEM;
	for (uint32_t id = 1; !rc && id < s->pool.n; id++)
		rc = dicts_add_set(d, s->pool.sets[id].labels, s->pool.sets[id].n, &ids[id]);
	for (size_t i = 0; !rc && i < s->n_events; i++)
		rc = add_group(out, &s->events[i], ids, s->pool.n, d->events);
	free(ids);
	return rc;
}

void set_sums_begin(struct set_sums_reader *r, const struct buf *raw, uint32_t n_sets,
		    uint32_t n_events, const struct store_event *of)
{
	*r = (struct set_sums_reader){
		.c = cursor_of(raw), .n_sets = n_sets, .n_events = n_events, .of = of
	};
	r->groups_left = cursor_varint(&r->c);
}

static int next_group(struct set_sums_reader *r)
{
	uint64_t what = cursor_varint(&r->c);
	r->left = cursor_varint(&r->c);
	uint64_t sets = cursor_varint(&r->c), samples = cursor_varint(&r->c),
		 values = cursor_varint(&r->c);
	r->sets = cursor_part(&r->c, sets);
	r->samples = cursor_part(&r->c, samples);
	r->values = cursor_part(&r->c, values);
	r->explicit = what & 1;
	r->idle = what & 2;
	r->row.event = (uint32_t)(what >> 2);
	r->set = 0;
	return r->c.bad || what >> 2 >= r->n_events ? -EBADMSG : 0;
}

int set_sums_next(struct set_sums_reader *r)
{
	while (!r->left) {
		if (r->sets.p != r->sets.end || r->samples.p != r->samples.end ||
		    r->values.p != r->values.end)
			return -EBADMSG;
		if (!r->groups_left)
			return r->c.bad || cursor_left(&r->c) ? -EBADMSG : 0;
		r->groups_left--;
		if (next_group(r))
			return -EBADMSG;
	}
	r->left--;
	r->set += unzigzag(cursor_varint(&r->sets));
	r->row.samples = cursor_varint(&r->samples);
	r->row.value = r->explicit ? cursor_varint(&r->values)
				   : r->row.samples * r->of[r->row.event].period;
	r->row.set = (uint32_t)r->set;
	return r->sets.bad || r->samples.bad || r->values.bad || r->set >= r->n_sets ||
			       !r->row.samples
		       ? -EBADMSG
		       : 1;
}
