/* SPDX-License-Identifier: Apache-2.0 */
#include "attribute/labelling.h"

#include "stacks/python.h"

#include "ascribe/label_abi.h"
#include "attribute/sources.h"
#include "labels/foreign.h"
#include "labels/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS 65536
#define DEFINITIONS_MAX 262144 /* kept at a time; at half of it, all are asked for again after the window */
#define DEFINITIONS_BYTES (64u << 20)
#define PROC_SETS_MAX 32768 /* of one process: further ones are (other) until all are asked for again */
#define PROC_BYTES_MAX (8u << 20)
#define PROC_KEYS_MAX 16 /* keys that (other) is shown for */
#define KEY_TABLES_MAX 16384
#define PROC_PUBLISHED_MAX 16384
#define LABELS_MAX 128 /* of one set, all parts */
#define ABSENT_READS_A_SECOND 256 /* of values that were not resident, all processes together */
#define TRIES 60 /* for a constructor to have run: each 20 ms for a second, then after 40 ms, 80 ms, ... 10 s */
#define TRIES_SLOW 10
#define RETRY_NS 20000000ull
#define TICK_NS 10000000ull /* then others have their turn: new processes may wait to be heard of */
#define LATE_NS 250000000ull /* for a file that there was no time to read: that is tried as long as the resolver does */

struct owner {
	uint64_t start_ns;
	uint32_t tgid, exec_id;
};

struct definition {
	struct definition *next;
	struct owner owner;
	uint64_t set_id;
	uint32_t generation;
	uint32_t n_labels;
	struct label *labels; /* [n_labels], their text behind */
	size_t bytes;
	uint64_t flags; /* counters, from COUNTER_labels_cut on */
	void *capture;  /* while attributes have names that are not known; NULL: none has */
	uint32_t capture_len;
	uint64_t otel_ns; /* of the process context that did not know them */
};

struct key_table {
	struct key_table *next;
	struct owner owner;
	uint64_t addr;
	uint32_t generation, len;
	uint8_t text[];
};

/* What is kept of a process that has labels. */
struct labelled {
	struct source_list sources;
	size_t n_sets, bytes;
	bool full;
	struct label other[PROC_KEYS_MAX]; /* each key that its sets had, as (other) */
	size_t n_other;
	char key[PROC_KEYS_MAX][ASCRIBE_KEY_MAX];
};

/* A process that was asked about. */
struct known {
	struct owner owner;
	struct labelled *labelled; /* NULL: it has none */
	uint64_t from_ns;  /* of the image that was looked at: news of an exec may come after the first sample */
	uint32_t tries;    /* still to do; 0: nothing is waited for */
	uint64_t retry_ns; /* 0: it was not looked at yet */
	uint64_t asked;    /* one after the other; ourselves last */
};

struct labelling {
	struct sampler *sampler;
	struct procs *procs;
	struct resolver *resolver;
	struct sources *sources;
	struct definition *definitions[BUCKETS];
	struct key_table *keys[1024];
	size_t n_definitions, n_keys, bytes, sets_max;
	bool any_full, any_missed, look;
	uint32_t generation;
	struct label_filter *filter;
	struct redactor redactor;
	struct known *known;
	size_t n_known, cap_known;
	uint64_t asked;
	uint64_t n_looks;
	uint64_t absent_second; /* what absent_reads count for */
	uint32_t absent_reads;
	void (*on_known)(void *ctx, uint32_t tgid);
	void *known_ctx;
};

int labelling_new(struct labelling **ret, struct sampler *s, struct procs *procs, struct resolver *r,
		  const struct sampler_config *cfg)
{
	struct labelling *l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->sampler = s;
	l->procs = procs;
	l->resolver = r;
	l->generation = 1;
	l->look = !cfg->no_labels;
	l->sets_max = cfg->label_sets ? cfg->label_sets : PROC_SETS_MAX;
	int rc = sources_new(&l->sources, s, r, cfg->recipes);
	if (rc) {
		free(l);
		return rc;
	}
	*ret = l;
	return 0;
}

int labelling_set_filter(struct labelling *l, const struct label_filter *f, const struct redactor *r)
{
	struct label_filter *copy = filter_copy(f);
	if (!copy)
		return -ENOMEM;
	filter_free(l->filter);
	l->filter = copy;
	l->redactor = *r;
	return 0;
}

size_t labelling_filter(const struct labelling *l, struct label *v, size_t n, char *room)
{
	return filter_apply(l->filter, &l->redactor, v, n, room);
}

static bool same_owner(const struct owner *a, const struct owner *b)
{
	return a->tgid == b->tgid && a->exec_id == b->exec_id && a->start_ns == b->start_ns;
}

static struct owner owner_of(const struct wire_record *r)
{
	return (struct owner){ .start_ns = r->start_ns, .tgid = r->tgid, .exec_id = r->exec_id };
}

static size_t bucket(const struct owner *o, uint64_t id, size_t n)
{
	uint64_t h = (id ^ o->tgid ^ ((uint64_t)o->exec_id << 32)) * 0x9e3779b97f4a7c15ull;
	return (h >> 32) % n;
}

/* ---- slots ---- */

/* Look in every mapped file for the note. SOURCES_: why to look again. */
static int find_slots(struct labelling *l, const struct proc_image *im, struct proc_entry *e)
{
	int waiting = 0;
	e->n_slots = 0;
	for (uint32_t i = 0; i < im->n_maps && e->n_slots < PROC_SLOTS; i++) {
		const struct proc_map *m = &im->maps[i];
		struct binary *b = resolver_binary(l->resolver, im, m);
		uint64_t at, bias;
		struct ascribe_descriptor d;
		if (!b && resolver_is_late(m))
			waiting |= SOURCES_LATE;
		if (!b || binary_label_descriptor(b, &at) || binary_bias(b, m->start, m->pgoff, &bias))
			continue;
		bool read = !proc_read_memory(im->tgid, bias + at, &d, sizeof(d));
		if (read && d.magic == ASCRIBE_DESCRIPTOR_MAGIC && d.abi != ASCRIBE_ABI_VERSION)
			continue;
		if (!read || d.magic != ASCRIBE_DESCRIPTOR_MAGIC || !d.tp_offset) {
			waiting |= SOURCES_NOT_YET;
			continue;
		}
		bool twice = false;
		for (uint64_t k = 0; k < e->n_slots; k++)
			twice |= e->slot[k].tp_offset == d.tp_offset;
		if (twice)
			continue;
		e->slot[e->n_slots].tp_offset = d.tp_offset;
		e->slot[e->n_slots].key_table = d.key_table;
		e->n_slots++;
	}
	return waiting;
}

static void labelled_free(struct labelled *p)
{
	if (!p)
		return;
	source_list_fini(&p->sources);
	free(p);
}

/* The foreign sources, appended to those that are known. SOURCES_: why to look again. */
static int find_sources(struct labelling *l, const struct proc_image *im, struct known *k, struct proc_entry *e)
{
	if (!k->labelled) {
		k->labelled = calloc(1, sizeof(*k->labelled));
		if (!k->labelled)
			return 0;
	}
	int waiting = sources_find(l->sources, im, &k->labelled->sources);
	e->n_sources = k->labelled->sources.n;
	if (!e->n_sources && !e->n_slots && !waiting) {
		labelled_free(k->labelled);
		k->labelled = NULL;
	}
	return waiting;
}

/* When to look again, or not at all. */
static void put_off(struct known *k, int waiting)
{
	uint64_t now = proc_now_ns();
	if (waiting & SOURCES_LATE) {
		k->retry_ns = now + LATE_NS;
		return;
	}
	k->tries = waiting ? k->tries - 1 : 0;
	k->retry_ns = now + (RETRY_NS << (k->tries < TRIES_SLOW ? TRIES_SLOW - k->tries : 0));
}

/* And not looked at yet. */
static bool was_asked(const struct known *k)
{
	return k->tries && !k->retry_ns;
}

static void look_at(struct labelling *l, struct known *k)
{
	struct proc_image *im = procs_find(l->procs, k->owner.tgid, UINT64_MAX);
	if (!im || im->to_ns != UINT64_MAX) {
		int rc = procs_scan_one(l->procs, k->owner.tgid);
		if (rc) {
			put_off(k, rc == -ENOENT ? 0 : SOURCES_NOT_YET); /* it has ended */
			return;
		}
		im = procs_find(l->procs, k->owner.tgid, UINT64_MAX);
	}
	struct proc_entry e = { .tgid = k->owner.tgid, .exec_id = k->owner.exec_id, .start_ns = k->owner.start_ns };
	if (im && im->from_ns != k->from_ns) {
		labelled_free(k->labelled);
		k->labelled = NULL;
		k->from_ns = im->from_ns;
	}
	int waiting = im && l->look ? find_slots(l, im, &e) : 0;
	if (im)
		python_locate(l->resolver, im, &e);
	/* Own labels at once: files that are new take a while to be searched for the others. */
	e.labels_late = 1;
	if (e.n_slots && !k->labelled)
		sampler_publish(l->sampler, &e, NULL);
	if (im && l->look)
		waiting |= find_sources(l, im, k, &e);
	e.labels_late = waiting & SOURCES_LATE || (waiting & SOURCES_NOT_YET && k->tries > 1);
	if (sampler_publish(l->sampler, &e, k->labelled ? k->labelled->sources.source : NULL))
		waiting |= SOURCES_NOT_YET; /* no room near its place in the table: others end */
	if (l->on_known)
		l->on_known(l->known_ctx, e.tgid);
	put_off(k, waiting);
}

void labelling_on_known(struct labelling *l, void (*on_known)(void *ctx, uint32_t tgid), void *ctx)
{
	l->on_known = on_known;
	l->known_ctx = ctx;
}

static struct known *known_find(struct labelling *l, uint32_t tgid)
{
	for (size_t i = 0; i < l->n_known; i++)
		if (l->known[i].owner.tgid == tgid)
			return &l->known[i];
	return NULL;
}

static void new_process(struct labelling *l, const struct wire_record *rec)
{
	struct known *k = known_find(l, rec->tgid);
	if (!k) {
		if (l->n_known == l->cap_known) {
			size_t cap = l->cap_known ? l->cap_known * 2 : 64;
			struct known *v = cap <= PROC_PUBLISHED_MAX ? realloc(l->known, cap * sizeof(*v)) : NULL;
			if (!v) {
				l->any_missed = true; /* it does not ask again in this generation */
				return;
			}
			l->known = v;
			l->cap_known = cap;
		}
		k = &l->known[l->n_known++];
		k->labelled = NULL;
	}
	struct owner o = owner_of(rec);
	if (!same_owner(&k->owner, &o)) {
		labelled_free(k->labelled);
		k->labelled = NULL;
	}
	/* Ourselves last: we have no labels, but many files. */
	*k = (struct known){ .owner = o, .tries = TRIES, .labelled = k->labelled, .from_ns = k->from_ns,
			     .asked = o.tgid == (uint32_t)getpid() ? UINT64_MAX : ++l->asked };
}

void labelling_mapped(struct labelling *l, const struct proc_image *im, const struct proc_map *m)
{
	struct known *k = known_find(l, im->tgid);
	uint64_t at;
	if (!k || was_asked(k))
		return;
	struct binary *b = resolver_binary(l->resolver, im, m);
	struct binary_python py;
	bool has = b && (!binary_label_descriptor(b, &at) || !binary_python(b, &py) || sources_has(l->sources, im, m));
	if (!has && !resolver_is_late(m))
		return;
	k->tries = TRIES;
	look_at(l, k);
}

/* In turns who waits longest, and who came last: it may not live long enough to wait for all of a host's processes. */
static struct known *next_due(const struct labelling *l, uint64_t now)
{
	struct known *first = NULL, *last = NULL;
	for (size_t i = 0; i < l->n_known; i++) {
		struct known *k = &l->known[i];
		if (!k->tries || k->retry_ns > now)
			continue;
		if (!first || k->asked < first->asked)
			first = k;
		if (was_asked(k) && k->asked != UINT64_MAX && (!last || k->asked > last->asked))
			last = k;
	}
	return last && l->n_looks & 1 ? last : first;
}

int labelling_tick(struct labelling *l)
{
	uint64_t now = proc_now_ns(), until = now + TICK_NS, next = UINT64_MAX;
	struct known *due;
	while (now < until && (due = next_due(l, now))) {
		look_at(l, due);
		l->n_looks++;
		now = proc_now_ns();
	}
	for (size_t i = 0; i < l->n_known; i++)
		if (l->known[i].tries && l->known[i].retry_ns < next)
			next = l->known[i].retry_ns;
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)((next - now) / 1000000) + 1;
}

/* ---- definitions ---- */

static struct key_table **keys_find(struct labelling *l, const struct owner *o, uint64_t addr)
{
	struct key_table **at = &l->keys[bucket(o, addr, 1024)];
	while (*at && !((*at)->addr == addr && same_owner(&(*at)->owner, o)))
		at = &(*at)->next;
	return at;
}

static void add_keys(struct labelling *l, const struct wire_record *rec, const void *text)
{
	struct owner o = owner_of(rec);
	struct key_table **at = keys_find(l, &o, rec->key_table), *old = *at;
	if (!old && l->n_keys >= KEY_TABLES_MAX)
		return;
	struct key_table *t = malloc(sizeof(*t) + rec->size);
	if (!t)
		return;
	*t = (struct key_table){ .next = old ? old->next : NULL, .owner = o, .addr = rec->key_table,
				 .generation = rec->generation, .len = rec->size };
	memcpy(t->text, text, rec->size);
	*at = t;
	if (old)
		free(old);
	else
		l->n_keys++;
}

static struct definition *definition_find(const struct labelling *l, const struct owner *o, uint64_t id)
{
	struct definition *d = l->definitions[bucket(o, id, BUCKETS)];
	while (d && !(d->set_id == id && same_owner(&d->owner, o)))
		d = d->next;
	return d;
}

/* One block: labels, then their text. */
static struct label *labels_copy(const struct label *v, size_t n)
{
	size_t bytes = n * sizeof(*v);
	for (size_t i = 0; i < n; i++)
		bytes += v[i].key_len + (v[i].type == LABEL_STRING ? v[i].str_len : 0);
	struct label *out = malloc(bytes ? bytes : 1);
	if (!out)
		return NULL;
	char *text = (char *)(out + n);
	for (size_t i = 0; i < n; i++) {
		out[i] = v[i];
		memcpy(text, v[i].key, v[i].key_len);
		out[i].key = text;
		text += v[i].key_len;
		if (v[i].type != LABEL_STRING)
			continue;
		if (v[i].str_len)
			memcpy(text, v[i].str, v[i].str_len);
		out[i].str = text;
		text += v[i].str_len;
	}
	return out;
}

/* Remember the keys, for (other). */
static void note_keys(struct labelled *p, const struct label *v, size_t n)
{
	for (size_t i = 0; i < n && p->n_other < PROC_KEYS_MAX; i++) {
		size_t k = 0;
		if (v[i].key_len > ASCRIBE_KEY_MAX)
			continue;
		while (k < p->n_other && (p->other[k].key_len != v[i].key_len ||
					  memcmp(p->key[k], v[i].key, v[i].key_len) != 0))
			k++;
		if (k < p->n_other)
			continue;
		memcpy(p->key[k], v[i].key, v[i].key_len);
		p->other[k] = (struct label){ .key = p->key[k], .key_len = v[i].key_len, .str = "(other)", .str_len = 7,
					      .type = LABEL_STRING };
		p->n_other++;
	}
}

/* Is there room for one more set of this process? When there is not, it is told to send no more. */
static bool has_room(struct labelling *l, struct labelled *p, const struct owner *o)
{
	if (l->n_definitions >= DEFINITIONS_MAX || l->bytes >= DEFINITIONS_BYTES)
		return false;
	if (!p || (p->n_sets < l->sets_max && p->bytes < PROC_BYTES_MAX))
		return true;
	p->full = l->any_full = true;
	sampler_stop_labels(l->sampler, o->tgid, o->start_ns, true);
	return false;
}

static struct labelled *labelled_of(struct labelling *l, const struct owner *o)
{
	struct known *k = known_find(l, o->tgid);
	return k && same_owner(&k->owner, o) ? k->labelled : NULL;
}

static struct definition *definition_add(struct labelling *l, struct labelled *p, const struct owner *o, uint64_t id)
{
	struct definition *d = has_room(l, p, o) ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	struct definition **b = &l->definitions[bucket(o, id, BUCKETS)];
	d->owner = *o;
	d->set_id = id;
	d->next = *b;
	*b = d;
	d->bytes = sizeof(*d);
	l->bytes += d->bytes;
	l->n_definitions++;
	if (p) {
		p->n_sets++;
		p->bytes += d->bytes;
	}
	return d;
}

/* Labels of the parts before, when this is not the first one; then come those of this part. */
static size_t earlier_parts(const struct definition *d, const struct wire_record *rec, struct label *v)
{
	if (!d || !rec->part)
		return 0;
	memcpy(v, d->labels, d->n_labels * sizeof(*v));
	return d->n_labels;
}

/* The parts of one set come in order; labels of an earlier part (slot) win. */
static void define(struct labelling *l, const struct wire_record *rec, struct definition *d, struct label *v, size_t n,
		   uint64_t flags)
{
	struct owner o = owner_of(rec);
	struct labelled *p = labelled_of(l, &o);
	n = labels_normalize(v, n);
	if (n > LABELS_MAX)
		n = LABELS_MAX;
	struct label *copy = labels_copy(v, n);
	if (!copy)
		return;
	if (!d)
		d = definition_add(l, p, &o, rec->set_id);
	if (!d) {
		free(copy);
		return;
	}
	size_t bytes = sizeof(*d) + n * sizeof(*v) + d->capture_len;
	for (size_t i = 0; i < n; i++)
		bytes += v[i].key_len + v[i].str_len;
	l->bytes += bytes - d->bytes;
	if (p) {
		p->bytes += bytes - d->bytes;
		note_keys(p, copy, n);
	}
	d->flags = flags | (rec->part ? d->flags : 0);
	d->bytes = bytes;
	free(d->labels);
	d->labels = copy;
	d->n_labels = (uint32_t)n;
	d->generation = rec->generation;
}

static void add_definition(struct labelling *l, const struct wire_record *rec, const void *record)
{
	struct owner o = owner_of(rec);
	struct key_table *keys = *keys_find(l, &o, rec->key_table);
	struct definition *d = definition_find(l, &o, rec->set_id);
	struct label v[LABELS_MAX + RECORD_LABELS_MAX];
	char redacted[RECORD_LABELS_MAX * REDACTED_LEN];
	struct record_side side;
	size_t n = earlier_parts(d, rec, v), more = 0;
	if (record_decode(record, rec->size, keys ? keys->text : NULL, keys ? keys->len : 0, v + n, &more, &side))
		return;
	more = filter_apply(l->filter, &l->redactor, v + n, more, redacted);
	define(l, rec, d, v, n + more, 0);
}

static uint64_t flag_bit(unsigned counter)
{
	return 1ull << (counter - COUNTER_labels_cut);
}

/* A program may publish the names of its attributes after it has used them: it is kept until they are there. */
static void keep_capture(struct labelling *l, struct labelled *p, const struct wire_record *rec, const void *capture)
{
	struct owner o = owner_of(rec);
	struct definition *d = definition_find(l, &o, rec->set_id);
	void *copy = d && !d->capture ? malloc(rec->size) : NULL;
	if (!copy)
		return;
	memcpy(copy, capture, rec->size);
	d->capture = copy;
	d->capture_len = rec->size;
	d->otel_ns = p->sources.otel_published_ns;
	d->bytes += rec->size;
	l->bytes += rec->size;
	p->bytes += rec->size;
}

struct absent_reader {
	struct labelling *l;
	uint32_t tgid;
};

/* A page may have to be read from a disk for it: a program that makes every value absent shall not keep us busy. */
static int read_absent(void *ctx, uint64_t at, void *out, size_t len)
{
	struct absent_reader *r = ctx;
	uint64_t second = proc_now_ns() / 1000000000u;
	if (second != r->l->absent_second) {
		r->l->absent_second = second;
		r->l->absent_reads = 0;
	}
	if (r->l->absent_reads >= ABSENT_READS_A_SECOND)
		return -EBUSY;
	r->l->absent_reads++;
	return proc_read_memory(r->tgid, at, out, len);
}

static void add_capture(struct labelling *l, const struct wire_record *rec, const void *capture)
{
	struct owner o = owner_of(rec);
	struct labelled *p = labelled_of(l, &o);
	struct definition *d = definition_find(l, &o, rec->set_id);
	struct label v[LABELS_MAX + FOREIGN_LABELS_MAX];
	char redacted[FOREIGN_LABELS_MAX * REDACTED_LEN];
	struct absent_reader reader = { l, o.tgid };
	struct foreign_side side = { .read = read_absent, .ctx = &reader };
	size_t n = earlier_parts(d, rec, v);
	uint64_t flags = 0;
	if (!p)
		return;
	size_t more = foreign_decode(capture, rec->size, p->sources.decoder, p->sources.n, v + n, &side);
	if (side.unknown_keys) {
		sources_read_otel(&p->sources, o.tgid);
		more = foreign_decode(capture, rec->size, p->sources.decoder, p->sources.n, v + n, &side);
	}
	if (side.unknown_keys)
		flags |= flag_bit(COUNTER_unknown_key);
	for (uint32_t i = 0; i < p->sources.n; i++) {
		if (side.unread >> i & 1)
			flags |= flag_bit(p->sources.source[i].fault);
		if (side.invalid >> i & 1)
			flags |= flag_bit(p->sources.source[i].fault + 1u);
	}
	more = filter_apply(l->filter, &l->redactor, v + n, more, redacted);
	define(l, rec, d, v, n + more, flags);
	if (side.unknown_keys)
		keep_capture(l, p, rec, capture);
}

/* The names may have come meanwhile. */
static void define_again(struct labelling *l, struct definition *d)
{
	struct labelled *p = labelled_of(l, &d->owner);
	const struct wire_record rec = { .kind = WIRE_FOREIGN, .tgid = d->owner.tgid, .exec_id = d->owner.exec_id,
					 .start_ns = d->owner.start_ns, .set_id = d->set_id, .generation = d->generation,
					 .part = 1, .size = d->capture_len };
	void *capture = d->capture;
	if (!p)
		return;
	sources_read_otel(&p->sources, d->owner.tgid);
	if (p->sources.otel_published_ns == d->otel_ns)
		return;
	d->capture = NULL;
	d->bytes -= d->capture_len;
	l->bytes -= d->capture_len;
	p->bytes -= d->capture_len;
	d->capture_len = 0;
	d->flags &= ~flag_bit(COUNTER_unknown_key);
	add_capture(l, &rec, capture);
	free(capture);
}

void labelling_record(struct labelling *l, const struct wire_record *rec, const void *payload)
{
	switch (rec->kind) {
	case WIRE_NEW_PROCESS:
		new_process(l, rec);
		break;
	case WIRE_KEYS:
		add_keys(l, rec, payload);
		break;
	case WIRE_DEFINITION:
		add_definition(l, rec, payload);
		break;
	case WIRE_FOREIGN:
		add_capture(l, rec, payload);
		break;
	default:
		break;
	}
}

size_t labelling_find(struct labelling *l, const struct row *row, const struct label **ret, uint64_t *ret_flags)
{
	struct owner o = { .start_ns = row->start_ns, .tgid = row->tgid, .exec_id = row->exec_id };
	struct definition *d = row->set_id ? definition_find(l, &o, row->set_id) : NULL;
	*ret = NULL;
	*ret_flags = 0;
	if (!row->set_id)
		return 0;
	if (d && d->capture)
		define_again(l, d);
	if (d) {
		*ret = d->labels;
		*ret_flags = d->flags;
		return d->n_labels;
	}
	struct labelled *p = labelled_of(l, &o);
	if (!p || !p->n_other || !(p->full || sampler_labels_limited(l->sampler, o.tgid, o.start_ns))) {
		*ret_flags = LABELLING_UNKNOWN;
		return 0;
	}
	*ret = p->other;
	*ret_flags = flag_bit(COUNTER_labels_other);
	return p->n_other;
}

/* ---- forgetting ---- */

static bool is_alive(struct labelling *l, const struct owner *o)
{
	return proc_image_alive(procs_find(l->procs, o->tgid, UINT64_MAX));
}

/* What was made before the generation that is asked for now. */
static void drop_old_definitions(struct labelling *l)
{
	for (size_t b = 0; b < BUCKETS; b++) {
		for (struct definition **at = &l->definitions[b]; *at;) {
			struct definition *d = *at;
			if (d->generation >= l->generation) {
				at = &d->next;
				continue;
			}
			struct labelled *p = labelled_of(l, &d->owner);
			if (p) {
				p->n_sets--;
				p->bytes -= d->bytes;
			}
			*at = d->next;
			l->bytes -= d->bytes;
			free(d->labels);
			free(d->capture);
			free(d);
			l->n_definitions--;
		}
	}
	for (size_t b = 0; b < 1024; b++) {
		for (struct key_table **at = &l->keys[b]; *at;) {
			struct key_table *t = *at;
			if (t->generation >= l->generation) {
				at = &t->next;
				continue;
			}
			*at = t->next;
			free(t);
			l->n_keys--;
		}
	}
}

/* Those whose sets were too many have a new chance, if that has made room. */
static void let_send_again(struct labelling *l)
{
	l->any_full = false;
	for (size_t i = 0; i < l->n_known; i++) {
		struct labelled *p = l->known[i].labelled;
		if (!p || !p->full)
			continue;
		p->full = p->n_sets >= l->sets_max || p->bytes >= PROC_BYTES_MAX;
		l->any_full |= p->full;
		sampler_stop_labels(l->sampler, l->known[i].owner.tgid, l->known[i].owner.start_ns, p->full);
	}
}

void labelling_forget(struct labelling *l)
{
	size_t keep = 0;
	for (size_t i = 0; i < l->n_known; i++) {
		struct known k = l->known[i];
		if (was_asked(&k) || is_alive(l, &k.owner)) { /* news of what was just asked about may still come */
			l->known[keep++] = k;
			continue;
		}
		sampler_withdraw(l->sampler, k.owner.tgid, k.owner.start_ns);
		labelled_free(k.labelled);
	}
	l->n_known = keep;
	/*
	 * Two steps: first new definitions are asked for, and only what is older than that by the time of the next call is
	 * thrown away. Rows of the half that is active now may still need the old ones.
	 */
	if (l->n_definitions > DEFINITIONS_MAX / 2 || l->n_keys > KEY_TABLES_MAX / 2 || l->bytes > DEFINITIONS_BYTES / 2 ||
	    l->any_full || (l->any_missed && l->n_known < PROC_PUBLISHED_MAX / 2)) {
		l->any_missed = false;
		drop_old_definitions(l);
		l->generation = sampler_new_generation(l->sampler);
		let_send_again(l);
	}
}

const char *labelling_warning(const struct labelling *l)
{
	return sources_warning(l->sources);
}

void labelling_free(struct labelling *l)
{
	if (!l)
		return;
	l->generation = UINT32_MAX;
	drop_old_definitions(l);
	for (size_t i = 0; i < l->n_known; i++)
		labelled_free(l->known[i].labelled);
	free(l->known);
	sources_free(l->sources);
	filter_free(l->filter);
	free(l);
}
