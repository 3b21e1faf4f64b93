/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/labelling.h"

#include "collect/python.h"

#include "ascribe/label_abi.h"
#include "labels/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define BUCKETS 65536
#define DEFINITIONS_MAX 65536 /* kept at a time; beyond, all are asked for again after the window */
#define KEY_TABLES_MAX 16384
#define PROC_PUBLISHED_MAX 16384
#define LABELS_MAX 128 /* of one set, all parts */
#define TRIES 12 /* waits of 5 ms, 10 ms, ... 10 s for a constructor to have run */

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
};

struct key_table {
	struct key_table *next;
	struct owner owner;
	uint64_t addr;
	uint32_t generation, len;
	uint8_t text[];
};

/* A process that was asked about. */
struct known {
	struct owner owner;
	uint32_t tries;    /* still to do; 0: nothing is waited for */
	uint64_t retry_ns;
};

struct labelling {
	struct sampler *sampler;
	struct procs *procs;
	struct resolver *resolver;
	struct definition *definitions[BUCKETS];
	struct key_table *keys[1024];
	size_t n_definitions, n_keys;
	uint32_t generation;
	const struct label_filter *filter;
	struct redactor redactor; /* its key is here and nowhere else: it ends with the recording */
	struct known *known;
	size_t n_known, cap_known;
};

int labelling_new(struct labelling **ret, struct sampler *s, struct procs *procs, struct resolver *r)
{
	struct labelling *l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->sampler = s;
	l->procs = procs;
	l->resolver = r;
	l->generation = 1;
	*ret = l;
	return 0;
}

int labelling_set_filter(struct labelling *l, const struct label_filter *f)
{
	l->filter = f;
	return redactor_init(&l->redactor);
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

static int read_process(uint32_t tgid, uint64_t addr, void *out, size_t len)
{
	struct iovec local = { out, len }, remote = { (void *)(uintptr_t)addr, len }; /* NOLINT */
	return process_vm_readv((pid_t)tgid, &local, 1, &remote, 1, 0) == (ssize_t)len ? 0 : -EFAULT;
}

/* Look in every mapped file for the note. 1: some module is not ready yet. */
static int find_slots(struct labelling *l, const struct proc_image *im, struct proc_entry *e)
{
	int waiting = 0;
	e->n_slots = 0;
	for (uint32_t i = 0; i < im->n_maps && e->n_slots < PROC_SLOTS; i++) {
		const struct proc_map *m = &im->maps[i];
		struct binary *b = resolver_binary(l->resolver, l->procs, im, m);
		uint64_t at, vaddr;
		struct ascribe_descriptor d;
		if (!b || binary_label_descriptor(b, &at) || binary_vaddr(b, m->pgoff, &vaddr))
			continue;
		if (read_process(im->tgid, m->start - vaddr + at, &d, sizeof(d)))
			continue;
		if (d.magic == ASCRIBE_DESCRIPTOR_MAGIC && d.abi != ASCRIBE_ABI_VERSION)
			continue;
		if (d.magic != ASCRIBE_DESCRIPTOR_MAGIC || !d.tp_offset) {
			waiting = 1;
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

static void look(struct labelling *l, struct known *k)
{
	struct proc_image *im = procs_find(l->procs, k->owner.tgid, UINT64_MAX);
	if (!im || im->to_ns != UINT64_MAX) {
		if (procs_scan_one(l->procs, k->owner.tgid)) {
			k->tries = 0;
			return;
		}
		im = procs_find(l->procs, k->owner.tgid, UINT64_MAX);
	}
	struct proc_entry e = { .tgid = k->owner.tgid, .exec_id = k->owner.exec_id, .start_ns = k->owner.start_ns };
	int waiting = im ? find_slots(l, im, &e) : 0;
	if (im)
		python_locate(l->resolver, l->procs, im, &e);
	sampler_publish(l->sampler, &e);
	if (!waiting) {
		k->tries = 0;
		return;
	}
	k->tries--;
	k->retry_ns = proc_now_ns() + (5000000ull << (TRIES - k->tries));
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
			if (!v)
				return;
			l->known = v;
			l->cap_known = cap;
		}
		k = &l->known[l->n_known++];
	}
	*k = (struct known){ .owner = owner_of(rec), .tries = TRIES };
	look(l, k);
}

void labelling_mapped(struct labelling *l, uint32_t tgid)
{
	struct known *k = known_find(l, tgid);
	if (!k)
		return;
	k->tries = TRIES;
	look(l, k);
}

int labelling_tick(struct labelling *l)
{
	uint64_t now = proc_now_ns(), next = UINT64_MAX;
	for (size_t i = 0; i < l->n_known; i++) {
		struct known *k = &l->known[i];
		if (k->tries && k->retry_ns <= now)
			look(l, k);
		if (k->tries && k->retry_ns < next)
			next = k->retry_ns;
	}
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 1 : (int)((next - now) / 1000000) + 1;
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

/* The parts of one set come in order; labels of an earlier part (slot) win. */
static void add_definition(struct labelling *l, const struct wire_record *rec, const void *record)
{
	struct owner o = owner_of(rec);
	struct key_table *keys = *keys_find(l, &o, rec->key_table);
	struct definition *d = definition_find(l, &o, rec->set_id);
	struct label v[LABELS_MAX + RECORD_LABELS_MAX];
	char redacted[RECORD_LABELS_MAX * REDACTED_LEN];
	struct record_side side;
	size_t n = 0, more = 0;
	if (d && rec->part) {
		n = d->n_labels;
		memcpy(v, d->labels, n * sizeof(*v));
	}
	if (record_decode(record, rec->size, keys ? keys->text : NULL, keys ? keys->len : 0, v + n, &more, &side))
		return;
	more = filter_apply(l->filter, &l->redactor, v + n, more, redacted);
	n = labels_normalize(v, n + more);
	if (n > LABELS_MAX)
		n = LABELS_MAX;
	struct label *copy = labels_copy(v, n);
	if (!copy)
		return;
	if (!d) {
		d = l->n_definitions < DEFINITIONS_MAX ? calloc(1, sizeof(*d)) : NULL;
		if (!d) {
			free(copy);
			return;
		}
		d->owner = o;
		d->set_id = rec->set_id;
		struct definition **b = &l->definitions[bucket(&o, rec->set_id, BUCKETS)];
		d->next = *b;
		*b = d;
		l->n_definitions++;
	}
	free(d->labels);
	d->labels = copy;
	d->n_labels = (uint32_t)n;
	d->generation = rec->generation;
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
	default:
		break;
	}
}

size_t labelling_find(const struct labelling *l, const struct row *row, const struct label **ret, bool *ret_found)
{
	struct owner o = { .start_ns = row->start_ns, .tgid = row->tgid, .exec_id = row->exec_id };
	const struct definition *d = row->set_id ? definition_find(l, &o, row->set_id) : NULL;
	*ret_found = d || !row->set_id;
	*ret = d ? d->labels : NULL;
	return d ? d->n_labels : 0;
}

/* ---- forgetting ---- */

static bool is_alive(struct labelling *l, const struct owner *o)
{
	const struct proc_image *im = procs_find(l->procs, o->tgid, UINT64_MAX);
	/* Not leader_gone: other threads may go on, and procs_forget ends the image when there are none. */
	return im && im->to_ns == UINT64_MAX;
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
			*at = d->next;
			free(d->labels);
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

void labelling_forget(struct labelling *l)
{
	size_t keep = 0;
	for (size_t i = 0; i < l->n_known; i++) {
		struct known k = l->known[i];
		if (is_alive(l, &k.owner))
			l->known[keep++] = k;
		else
			sampler_withdraw(l->sampler, k.owner.tgid, k.owner.start_ns);
	}
	l->n_known = keep;
	/*
	 * Two steps: first new definitions are asked for, and only what is older than that by the time of the next call is
	 * thrown away. Rows of the half that is active now may still need the old ones.
	 */
	if (l->n_definitions > DEFINITIONS_MAX / 2 || l->n_keys > KEY_TABLES_MAX / 2) {
		drop_old_definitions(l);
		l->generation = sampler_new_generation(l->sampler);
	}
}

void labelling_free(struct labelling *l)
{
	if (!l)
		return;
	l->generation = UINT32_MAX;
	drop_old_definitions(l);
	free(l->known);
	free(l);
}
