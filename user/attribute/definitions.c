/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions of label sets, as the BPF program sends them, by image. */
#include "attribute/labelling_int.h"

#include "labels/foreign.h"
#include "labels/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_MAX 128 /* labels of one set, all parts */
/* Reads of values that were not resident, shared by users (quota.h) */
#define ABSENT_READS_A_SECOND 256

struct definition {
	struct definition *next;
	struct proc_id owner;
	uint32_t user; /* proc_image_user */
	uint64_t set_id;
	uint32_t generation;
	uint32_t n_labels;
	bool charged;	      /* the limits of its process count it */
	struct label *labels; /* [n_labels], followed by their text */
	size_t bytes;
	uint64_t flags; /* counters, from COUNTER_labels_cut on */
	void *capture;	/* kept while names of attributes or values are missing, else NULL */
	bool late;	/* with capture: a value has no answer yet (reader.h) */
	uint32_t capture_len;
	struct label *before; /* with capture: [n_before], the labels of earlier parts, which win */
	uint32_t n_before;
	size_t kept_bytes; /* of capture and before */
	uint64_t otel_ns;  /* time of the process context without these names */
};

struct key_table {
	struct key_table *next;
	struct proc_id owner;
	uint64_t addr;
	uint32_t user; /* proc_image_user */
	uint32_t generation, len;
	uint8_t text[];
};

static bool same_owner(const struct proc_id *a, const struct proc_id *b)
{
	return a->tgid == b->tgid && a->exec_id == b->exec_id && a->start_ns == b->start_ns;
}

static struct proc_id owner_of(const struct wire_record *r)
{
	return (struct proc_id){ .start_ns = r->start_ns, .tgid = r->tgid, .exec_id = r->exec_id };
}

static size_t bucket(const struct proc_id *o, uint64_t id, size_t n)
{
	uint64_t h = (id ^ o->tgid ^ ((uint64_t)o->exec_id << 32)) * 0x9e3779b97f4a7c15ull;
	return (h >> 32) % n;
}

static struct key_table **keys_find(struct labelling *l, const struct proc_id *o, uint64_t addr)
{
	struct key_table **at = &l->keys[bucket(o, addr, LABELLING_KEY_BUCKETS)];
	while (*at && !((*at)->addr == addr && same_owner(&(*at)->owner, o)))
		at = &(*at)->next;
	return at;
}

/* Return the image whose entry was read for that of a record; NULL: its own, or it has ended. */
static struct proc_image *lender_of(struct labelling *l, const struct wire_record *rec)
{
	struct proc_id id = { .exec_id = rec->exec_id };
	return rec->lender && sampler_lender(l->sampler, rec, &id.tgid, &id.start_ns)
		       ? procs_lookup(l->procs, &id)
		       : NULL;
}

/* Return the user that a record is charged to: that of the lender, while the image is not known. */
static uint32_t user_of(struct labelling *l, const struct wire_record *rec)
{
	const struct proc_id o = owner_of(rec);
	struct proc_image *im = procs_lookup(l->procs, &o);
	return proc_image_user(im ? im : lender_of(l, rec));
}

static void add_keys(struct labelling *l, const struct wire_record *rec, const void *text)
{
	struct proc_id o = owner_of(rec);
	struct key_table **at = keys_find(l, &o, rec->key_table), *old = *at;
	const uint32_t user = old ? old->user : user_of(l, rec);
	if (!old && !quota_has(&l->n_keys, user, 1))
		return;
	struct key_table *t = malloc(sizeof(*t) + rec->size);
	if (!t)
		return;
	*t = (struct key_table){ .next = old ? old->next : NULL,
				 .owner = o,
				 .addr = rec->key_table,
				 .user = user,
				 .generation = rec->generation,
				 .len = rec->size };
	memcpy(t->text, text, rec->size);
	*at = t;
	if (old)
		free(old);
	else
		quota_add(&l->n_keys, user, 1);
}

static struct definition *definition_find(const struct labelling *l, const struct proc_id *o,
					  uint64_t id)
{
	struct definition *d = l->definitions[bucket(o, id, LABELLING_BUCKETS)];
	while (d && !(d->set_id == id && same_owner(&d->owner, o)))
		d = d->next;
	return d;
}

static size_t labels_bytes(const struct label *v, size_t n)
{
	size_t bytes = n * sizeof(*v);
	for (size_t i = 0; i < n; i++)
		bytes += v[i].key_len + (v[i].type == LABEL_STRING ? v[i].str_len : 0);
	return bytes;
}

/* One block: labels, then their text. */
static struct label *labels_copy(const struct label *v, size_t n)
{
	size_t bytes = labels_bytes(v, n);
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

/* Note the keys, for (other). */
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
		p->other[k] = (struct label){ .key = p->key[k],
					      .key_len = v[i].key_len,
					      .str = "(other)",
					      .str_len = 7,
					      .type = LABEL_STRING };
		p->n_other++;
	}
}

/* True if this process may have one more set. Else tell the BPF program to send no more of them. */
static bool has_room(struct labelling *l, struct labelled *p, const struct proc_id *o,
		     uint32_t user)
{
	if (!quota_has(&l->n_definitions, user, 1) || !quota_has(&l->bytes, user, 1))
		return false;
	if (!p || (p->n_sets < l->sets_max && p->bytes < PROC_BYTES_MAX))
		return true;
	list_set(&l->full, &p->full, true);
	sampler_stop_labels(l->sampler, o->tgid, o->start_ns, true);
	return false;
}

static struct labelled *image_labelled(const struct proc_image *im)
{
	const struct subject *k = im ? im->layer[PROC_LABELS] : NULL;
	return k ? k->labelled : NULL;
}

static struct labelled *labelled_of(struct labelling *l, const struct proc_id *o)
{
	return image_labelled(procs_lookup(l->procs, o));
}

/* Let the limits of the process count a set, which may have come before the process was known. */
static void definition_charge(struct definition *d, struct labelled *p)
{
	if (!p || d->charged)
		return;
	d->charged = true;
	p->n_sets++;
	p->bytes += d->bytes;
}

static void set_bytes(struct labelling *l, struct definition *d, size_t bytes)
{
	quota_give(&l->bytes, d->user, d->bytes);
	quota_add(&l->bytes, d->user, bytes);
	d->bytes = bytes;
}

static struct definition *definition_add(struct labelling *l, struct labelled *p,
					 const struct wire_record *rec)
{
	const struct proc_id o = owner_of(rec);
	const uint32_t user = user_of(l, rec);
	struct definition *d = has_room(l, p, &o, user) ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	struct definition **b = &l->definitions[bucket(&o, rec->set_id, LABELLING_BUCKETS)];
	d->owner = o;
	d->set_id = rec->set_id;
	d->next = *b;
	*b = d;
	d->user = user;
	set_bytes(l, d, sizeof(*d));
	quota_add(&l->n_definitions, user, 1);
	return d;
}

/*
 * Copy the labels of earlier parts, unless this is the first part; then append those of this part.
 */
static size_t earlier_parts(const struct definition *d, const struct wire_record *rec,
			    struct label *v)
{
	if (!d || !rec->part)
		return 0;
	memcpy(v, d->labels, d->n_labels * sizeof(*v));
	return d->n_labels;
}

/* The parts of a set arrive in order; labels of an earlier part (slot) win. */
static void define(struct labelling *l, const struct wire_record *rec, struct definition *d,
		   struct label *v, size_t n, uint64_t flags)
{
	struct proc_id o = owner_of(rec);
	struct labelled *p = labelled_of(l, &o);
	n = labels_normalize(v, n);
	if (n > LABELS_MAX)
		n = LABELS_MAX;
	struct label *copy = labels_copy(v, n);
	if (!copy)
		return;
	if (!d)
		d = definition_add(l, p, rec);
	if (!d) {
		free(copy);
		return;
	}
	size_t bytes = sizeof(*d) + d->kept_bytes + labels_bytes(v, n);
	definition_charge(d, p);
	if (p) {
		p->bytes += bytes - d->bytes;
		note_keys(p, copy, n);
	}
	d->flags = flags | (rec->part ? d->flags : 0);
	set_bytes(l, d, bytes);
	free(d->labels);
	d->labels = copy;
	d->n_labels = (uint32_t)n;
	d->generation = rec->generation;
}

static void add_definition(struct labelling *l, const struct wire_record *rec, const void *record)
{
	struct proc_id o = owner_of(rec);
	struct key_table *keys = *keys_find(l, &o, rec->key_table);
	struct definition *d = definition_find(l, &o, rec->set_id);
	struct label v[LABELS_MAX + RECORD_LABELS_MAX];
	char redacted[RECORD_LABELS_MAX * REDACTED_LEN];
	struct record_side side;
	uint64_t flags = 0;
	size_t n = earlier_parts(d, rec, v), more = 0;
	if (record_decode(record, rec->size, keys ? keys->text : NULL, keys ? keys->len : 0, v + n,
			  &more, &side))
		return;
	more = labelling_filter(l, v + n, more, redacted, &flags);
	define(l, rec, d, v, n + more, flags);
}

static uint64_t flag_bit(unsigned counter)
{
	return 1ull << (counter - COUNTER_labels_cut);
}

/*
 * A program may publish the names of its attributes after their first use, and a value that was not
 * resident may come late. Keep the capture until then, and `before`, the n labels of earlier parts.
 * Both then belong to the definition.
 */
static void keep_capture(struct labelling *l, struct labelled *p, const struct wire_record *rec,
			 const void *capture, struct label *before, size_t n, bool late)
{
	struct proc_id o = owner_of(rec);
	struct definition *d = definition_find(l, &o, rec->set_id);
	void *copy = d && before && !d->capture ? malloc(rec->size) : NULL;
	if (!copy) {
		free(before);
		return;
	}
	memcpy(copy, capture, rec->size);
	d->late = late;
	d->capture = copy;
	d->capture_len = rec->size;
	d->before = before;
	d->n_before = (uint32_t)n;
	d->kept_bytes = rec->size + labels_bytes(before, n);
	d->otel_ns = p->sources.otel_published_ns;
	set_bytes(l, d, d->bytes + d->kept_bytes);
	p->bytes += d->kept_bytes;
}

struct absent_reader {
	struct labelling *l;
	uint32_t tgid, user;
	bool late; /* a read has no answer yet */
};

/* Limit these reads, which may wait for a disk: a program can make every value absent. */
static int read_absent(void *ctx, uint64_t at, void *out, size_t len)
{
	struct absent_reader *r = ctx;
	uint64_t second = proc_now_ns() / 1000000000u;
	if (second != r->l->absent_second) {
		r->l->absent_second = second;
		r->l->absent_reads = (struct quota){ .max = ABSENT_READS_A_SECOND };
	}
	if (!quota_take(&r->l->absent_reads, r->user, 1))
		return -EBUSY;
	int rc = proc_read_memory(r->tgid, at, out, len);
	if (rc == -EINPROGRESS) {
		r->late = true;
		quota_give(&r->l->absent_reads, r->user, 1);
	}
	return rc;
}

/*
 * Of a process that is not known (yet) and has no lender, arguments and calls are decoded, and
 * nothing else. Names of attributes that a lender has published since the fork are not the child's.
 */
static void add_capture(struct labelling *l, const struct wire_record *rec, const void *capture)
{
	static const struct source_list none;
	struct proc_id o = owner_of(rec);
	struct labelled *p = rec->lender ? image_labelled(lender_of(l, rec)) : labelled_of(l, &o);
	const struct source_list *of = p ? &p->sources : &none;
	struct definition *d = definition_find(l, &o, rec->set_id);
	struct label v[LABELS_MAX + FOREIGN_LABELS_MAX];
	char redacted[FOREIGN_LABELS_MAX * REDACTED_LEN];
	struct absent_reader reader = { l, o.tgid, user_of(l, rec), false };
	struct foreign_side side = {
		.read = read_absent, .ctx = &reader, .calls = l->calls, .n_calls = MAX_EVENTS
	};
	size_t n = earlier_parts(d, rec, v);
	uint64_t flags = 0;
	if (!p && foreign_has_sources(capture, rec->size))
		return;
	if (p && rec->lender && p->sources.otel_published_ns >= rec->start_ns)
		return;
	size_t more = foreign_decode(capture, rec->size, of->decoder, of->n, v + n, &side);
	if (p && !rec->lender && side.unknown_keys) {
		sources_read_otel(&p->sources, o.tgid);
		more = foreign_decode(capture, rec->size, of->decoder, of->n, v + n, &side);
	}
	if (side.unknown_keys)
		flags |= flag_bit(COUNTER_unknown_key);
	const bool late = reader.late && !rec->lender;
	for (uint32_t i = 0; i < of->n; i++) {
		if (side.unread >> i & 1 && !late)
			flags |= flag_bit(of->source[i].fault);
		if (side.invalid >> i & 1)
			flags |= flag_bit(of->source[i].fault + 1u);
	}
	more = labelling_filter(l, v + n, more, redacted, &flags);
	bool again = p && !rec->lender && (side.unknown_keys || late);
	struct label *before = again ? labels_copy(v, n) : NULL;
	define(l, rec, d, v, n + more, flags);
	if (again)
		keep_capture(l, p, rec, capture, before, n, late);
}

/* Decode a kept capture again, once the names are there. */
static void define_again(struct labelling *l, struct definition *d)
{
	struct labelled *p = labelled_of(l, &d->owner);
	const struct wire_record rec = { .kind = WIRE_FOREIGN,
					 .tgid = d->owner.tgid,
					 .exec_id = d->owner.exec_id,
					 .start_ns = d->owner.start_ns,
					 .set_id = d->set_id,
					 .generation = d->generation,
					 .part = 1,
					 .size = d->capture_len };
	void *capture = d->capture;
	if (!p)
		return;
	sources_read_otel(&p->sources, d->owner.tgid);
	if (p->sources.otel_published_ns == d->otel_ns && !d->late)
		return;
	d->capture = NULL;
	set_bytes(l, d, d->bytes - d->kept_bytes);
	p->bytes -= d->kept_bytes;
	d->kept_bytes = 0;
	/*
	 * Decode from the start: labels that other sources gave later must not win over these
	 * names.
	 */
	free(d->labels);
	d->labels = d->before;
	d->n_labels = d->n_before;
	d->before = NULL;
	d->flags &= ~flag_bit(COUNTER_unknown_key);
	add_capture(l, &rec, capture);
	free(capture);
}

void labelling_record(struct labelling *l, const struct wire_record *rec, const void *payload)
{
	switch (rec->kind) {
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

size_t labelling_find(struct labelling *l, const struct row *row, const struct label **ret,
		      uint64_t *ret_flags)
{
	struct proc_id o = { .start_ns = row->start_ns,
			     .tgid = row->tgid,
			     .exec_id = row->exec_id };
	struct definition *d = row->set_id ? definition_find(l, &o, row->set_id) : NULL;
	*ret = NULL;
	*ret_flags = 0;
	if (!row->set_id)
		return 0;
	if (d && d->capture)
		define_again(l, d);
	if (d) {
		*ret = d->labels;
		*ret_flags = d->flags | (d->capture && d->late ? LABELLING_LATE : 0);
		return d->n_labels;
	}
	struct labelled *p = labelled_of(l, &o);
	if (!p || !p->n_other ||
	    !(p->full.listed || sampler_labels_limited(l->sampler, o.tgid, o.start_ns))) {
		*ret_flags = LABELLING_UNKNOWN;
		return 0;
	}
	*ret = p->other;
	*ret_flags = flag_bit(COUNTER_labels_other);
	return p->n_other;
}

/* Remove definitions from before the current generation. */
void labelling_drop_definitions(struct labelling *l)
{
	for (size_t b = 0; b < LABELLING_BUCKETS; b++) {
		for (struct definition **at = &l->definitions[b]; *at;) {
			struct definition *d = *at;
			if (d->generation >= l->generation) {
				at = &d->next;
				continue;
			}
			struct labelled *p = labelled_of(l, &d->owner);
			if (p && d->charged) {
				p->n_sets--;
				p->bytes -= d->bytes;
			}
			*at = d->next;
			set_bytes(l, d, 0);
			quota_give(&l->n_definitions, d->user, 1);
			free(d->labels);
			free(d->before);
			free(d->capture);
			free(d);
		}
	}
	for (size_t b = 0; b < LABELLING_KEY_BUCKETS; b++) {
		for (struct key_table **at = &l->keys[b]; *at;) {
			struct key_table *t = *at;
			if (t->generation >= l->generation) {
				at = &t->next;
				continue;
			}
			*at = t->next;
			quota_give(&l->n_keys, t->user, 1);
			free(t);
		}
	}
}
