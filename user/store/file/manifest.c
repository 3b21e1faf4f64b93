/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file/manifest.h"

#include "store/file/file.h"
#include "store/file/message.h"
#include "store/file/store.pb-c.h"
#include "util/array.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

typedef Ascribe__Store__Manifest Message;
typedef Ascribe__Store__Level Level;
typedef Ascribe__Store__Segment Segment;
typedef Ascribe__Store__WideKey WideKey;
typedef Ascribe__Store__Anchor Anchor;
typedef Ascribe__Store__Event Event;

void manifest_segment_fini(struct manifest_segment *s)
{
	for (size_t i = 0; i < s->n_wide; i++) {
		free(s->wide[i].key);
		free(s->wide[i].unknown.data);
	}
	free(s->wide);
	free(s->unknown.data);
	memset(s, 0, sizeof(*s));
}

void manifest_fini(struct manifest *m)
{
	for (size_t i = 0; i < m->n_events; i++) {
		free((char *)m->events[i].name);
		free((char *)m->events[i].unit);
	}
	free(m->events);
	free(m->anchors);
	free(m->unknown.data);
	message_free_unknowns(&m->levels_unknown);
	message_free_unknowns(&m->anchors_unknown);
	message_free_unknowns(&m->events_unknown);
	memset(m, 0, sizeof(*m));
}

int manifest_add_anchor(struct manifest *m, const struct store_anchor *a)
{
	int rc = ARRAY_RESERVE(m->anchors, m->anchors_cap, m->n_anchors + 1);
	if (!rc)
		m->anchors[m->n_anchors++] = *a;
	return rc;
}

static bool same_event(const struct store_event *a, const struct store_event *b)
{
	return a->ns_per_sample == b->ns_per_sample && a->period == b->period &&
	       !strcmp(a->name, b->name) && !strcmp(a->unit, b->unit);
}

static int append_event(struct manifest *m, const struct store_event *e)
{
	if (m->n_events >= EVENTS_MAX)
		return -E2BIG;
	if (ARRAY_RESERVE(m->events, m->events_cap, m->n_events + 1))
		return -ENOMEM;
	struct store_event copy = { strdup(e->name), strdup(e->unit), e->ns_per_sample, e->period };
	if (!copy.name || !copy.unit) {
		free((char *)copy.name);
		free((char *)copy.unit);
		return -ENOMEM;
	}
	m->events[m->n_events++] = copy;
	return 0;
}

int manifest_add_event(struct manifest *m, const struct store_event *e, bool *ret_new)
{
	*ret_new = false;
	for (size_t i = 0; i < m->n_events; i++)
		if (same_event(&m->events[i], e))
			return 0;
	int rc = append_event(m, e);
	*ret_new = !rc;
	return rc;
}

/* Find the key, or add it. */
static int find_wide(struct manifest_segment *s, const char *key, size_t len,
		     struct manifest_key **ret)
{
	for (size_t i = 0; i < s->n_wide; i++)
		if (strlen(s->wide[i].key) == len && !memcmp(s->wide[i].key, key, len)) {
			*ret = &s->wide[i];
			return 0;
		}
	struct manifest_key *v = realloc(s->wide, (s->n_wide + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	s->wide = v;
	char *copy = strndup(key, len);
	if (!copy)
		return -ENOMEM;
	*ret = &v[s->n_wide++];
	**ret = (struct manifest_key){ .key = copy };
	return 0;
}

int manifest_set_wide(struct manifest_segment *s, const char *key, size_t len, uint32_t values)
{
	struct manifest_key *k;
	int rc = find_wide(s, key, len, &k);
	if (!rc)
		k->values = values;
	return rc;
}

/* ---- writing ---- */

static int add_bytes(struct buf *b, uint32_t tag, const void *data, size_t len)
{
	int rc = buf_add_varint(b, (uint64_t)tag << 3 | PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED);
	if (!rc)
		rc = buf_add_varint(b, len);
	return rc ? rc : buf_add(b, data, len);
}

/* A message inside another is its bytes behind a tag: what is not known is added at its end. */
static int add_message(struct buf *b, uint32_t tag, const ProtobufCMessage *m,
		       const struct message_unknown *unknown)
{
	struct buf one = BUF_INIT;
	int rc = message_pack(&one, m);
	if (!rc && unknown)
		rc = message_add_unknown(&one, unknown);
	if (!rc)
		rc = add_bytes(b, tag, one.data, one.len);
	buf_fini(&one);
	return rc;
}

static ProtobufCBinaryData bytes_of(const char *s)
{
	return (ProtobufCBinaryData){ strlen(s), (uint8_t *)s };
}

static int add_key(struct buf *b, const struct manifest_key *k)
{
	WideKey p = ASCRIBE__STORE__WIDE_KEY__INIT;
	p.key = bytes_of(k->key);
	p.values = k->values;
	return add_message(b, 12, &p.base, &k->unknown);
}

static int pack_segment(struct buf *b, const struct manifest_segment *s)
{
	Segment p = ASCRIBE__STORE__SEGMENT__INIT;
	p.serial = s->serial;
	p.level = s->level;
	p.state = s->state;
	p.end = s->end;
	p.symbols_at = s->symbols_at;
	p.index_at = s->index_at;
	p.t0_ns = s->t0_ns;
	p.t1_ns = s->t1_ns;
	p.n_blocks = s->n_blocks;
	p.seq_lo = s->seq_lo;
	p.seq_hi = s->seq_hi;
	int rc = message_pack(b, &p.base);
	for (size_t i = 0; !rc && i < s->n_wide; i++)
		rc = add_key(b, &s->wide[i]);
	return rc ? rc : message_add_unknown(b, &s->unknown);
}

static int add_segment(struct buf *b, const struct manifest_segment *s)
{
	struct buf one = BUF_INIT;
	int rc = pack_segment(&one, s);
	if (!rc)
		rc = add_bytes(b, 3, one.data, one.len);
	buf_fini(&one);
	return rc;
}

static int add_level(struct buf *b, const struct manifest *m, int i)
{
	Level p = ASCRIBE__STORE__LEVEL__INIT;
	p.seq = m->seq[i];
	p.covered = m->covered[i];
	p.cut_before_ns = m->cuts[i].before_ns;
	p.cut_blocks = m->cuts[i].blocks;
	p.cut_bytes_by_age = m->cuts[i].bytes_by_age;
	p.cut_bytes_by_size = m->cuts[i].bytes_by_size;
	return add_message(b, 2, &p.base, message_unknown_at(&m->levels_unknown, (size_t)i));
}

static int add_anchor(struct buf *b, const struct manifest *m, size_t i)
{
	const struct store_anchor *a = &m->anchors[i];
	Anchor p = ASCRIBE__STORE__ANCHOR__INIT;
	p.boot_id = (ProtobufCBinaryData){ 16, (uint8_t *)a->boot_id };
	p.real_minus_boot_ns = a->real_minus_boot_ns;
	return add_message(b, 4, &p.base, message_unknown_at(&m->anchors_unknown, i));
}

static int add_event(struct buf *b, const struct manifest *m, size_t i)
{
	const struct store_event *e = &m->events[i];
	Event p = ASCRIBE__STORE__EVENT__INIT;
	p.name = bytes_of(e->name);
	p.unit = bytes_of(e->unit);
	p.ns_per_sample = e->ns_per_sample;
	p.period = e->period;
	return add_message(b, 5, &p.base, message_unknown_at(&m->events_unknown, i));
}

static int encode(struct buf *b, const struct manifest *m,
		  const struct manifest_segment *const *segments, size_t n)
{
	Message p = ASCRIBE__STORE__MANIFEST__INIT;
	p.next_segment = m->next_segment;
	int rc = message_pack(b, &p.base);
	for (int i = 0; !rc && i < N_SEGMENT_LEVELS; i++)
		rc = add_level(b, m, i);
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_segment(b, segments[i]);
	for (size_t i = 0; !rc && i < m->n_anchors; i++)
		rc = add_anchor(b, m, i);
	for (size_t i = 0; !rc && i < m->n_events; i++)
		rc = add_event(b, m, i);
	if (!rc)
		rc = message_add_unknown(b, &m->unknown);
	return rc ? rc : b->len > MANIFEST_PAYLOAD_MAX ? -E2BIG : 0;
}

int manifest_write(const struct manifest *m, const struct manifest_segment *const *segments,
		   size_t n, int dir_fd, const char *dir, uint64_t store_id, struct err *err)
{
	struct buf p = BUF_INIT, b = BUF_INIT;
	int rc = encode(&p, m, segments, n);
	if (!rc)
		rc = message_frame(&b, MANIFEST_MAGIC, store_id, &p);
	if (!rc)
		rc = file_replace(dir_fd, MANIFEST_NAME, b.data, b.len);
	buf_fini(&p);
	buf_fini(&b);
	return rc ? err_sys(err, rc, "cannot write %s/%s", dir, MANIFEST_NAME) : 0;
}

/* ---- reading ---- */

/* A key that comes twice is that of the last time. */
static int take_key(struct manifest_segment *s, const WideKey *p)
{
	const char *text = p->key.len ? (const char *)p->key.data : "";
	if (p->key.len > STRING_MAX || memchr(text, 0, p->key.len))
		return -EBADMSG;
	struct manifest_key *k;
	int rc = find_wide(s, text, p->key.len, &k);
	if (rc)
		return rc;
	free(k->unknown.data);
	k->unknown = (struct message_unknown){ 0 };
	k->values = p->values;
	return message_keep_unknown(&p->base, &k->unknown);
}

static int take_segment(struct manifest_segment *s, const Segment *p)
{
	if (p->level >= N_SEGMENT_LEVELS || p->state > SEGMENT_CLOSED || p->seq_lo > p->seq_hi ||
	    p->n_wide > KEYS_MAX)
		return -EBADMSG;
	*s = (struct manifest_segment){
		.serial = p->serial,
		.level = (uint8_t)p->level,
		.state = (uint8_t)p->state,
		.end = p->end,
		.symbols_at = p->symbols_at,
		.index_at = p->index_at,
		.t0_ns = p->t0_ns,
		.t1_ns = p->t1_ns,
		.n_blocks = p->n_blocks,
		.seq_lo = p->seq_lo,
		.seq_hi = p->seq_hi,
	};
	int rc = message_keep_unknown(&p->base, &s->unknown);
	for (size_t i = 0; !rc && i < p->n_wide; i++)
		rc = take_key(s, p->wide[i]);
	return rc;
}

static int take_levels(struct manifest *m, const Message *p)
{
	if (p->n_levels != N_SEGMENT_LEVELS)
		return -EBADMSG;
	for (size_t i = 0; i < p->n_levels; i++) {
		const Level *l = p->levels[i];
		m->seq[i] = l->seq;
		m->covered[i] = l->covered;
		m->cuts[i] = (struct store_cut){ l->cut_before_ns, l->cut_blocks,
						 l->cut_bytes_by_age, l->cut_bytes_by_size };
	}
	return message_keep_unknowns((ProtobufCMessage *const *)p->levels, p->n_levels,
				     &m->levels_unknown);
}

/* As many as there are: a newer program may tell events apart by a field that is not known. */
static int take_events(struct manifest *m, const Message *p)
{
	int rc = p->n_events > EVENTS_MAX ? -EBADMSG : 0;
	for (size_t i = 0; !rc && i < p->n_events; i++) {
		const Event *e = p->events[i];
		char *name = strndup(e->name.len ? (const char *)e->name.data : "", e->name.len);
		char *unit = strndup(e->unit.len ? (const char *)e->unit.data : "", e->unit.len);
		const struct store_event event = { name, unit, e->ns_per_sample, e->period };
		rc = name && unit ? append_event(m, &event) : -ENOMEM;
		free(name);
		free(unit);
	}
	return rc ? rc
		  : message_keep_unknowns((ProtobufCMessage *const *)p->events, p->n_events,
					  &m->events_unknown);
}

static int take_anchors(struct manifest *m, const Message *p)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < p->n_anchors; i++) {
		struct store_anchor a = { .real_minus_boot_ns = p->anchors[i]->real_minus_boot_ns };
		if (p->anchors[i]->boot_id.len != sizeof(a.boot_id))
			return -EBADMSG;
		memcpy(a.boot_id, p->anchors[i]->boot_id.data, sizeof(a.boot_id));
		rc = manifest_add_anchor(m, &a);
	}
	return rc ? rc
		  : message_keep_unknowns((ProtobufCMessage *const *)p->anchors, p->n_anchors,
					  &m->anchors_unknown);
}

struct reading {
	struct manifest m;
	struct manifest_segment *segments;
	size_t n;
};

static int take(struct reading *r, const Message *p)
{
	r->m.next_segment = p->next_segment;
	int rc = take_levels(&r->m, p);
	if (!rc)
		rc = message_keep_unknown(&p->base, &r->m.unknown);
	if (!rc && !(r->segments = calloc(p->n_segments, sizeof(*r->segments))))
		rc = -ENOMEM;
	for (size_t i = 0; !rc && i < p->n_segments; i++)
		rc = take_segment(&r->segments[r->n++], p->segments[i]);
	if (!rc)
		rc = take_anchors(&r->m, p);
	return rc ? rc : take_events(&r->m, p);
}

static void reading_fini(struct reading *r)
{
	for (size_t i = 0; i < r->n; i++)
		manifest_segment_fini(&r->segments[i]);
	free(r->segments);
	manifest_fini(&r->m);
}

static int decode(struct reading *r, const struct buf *b, uint64_t store_id, uint32_t *ret_version)
{
	uint64_t id;
	int rc = message_check(b, MANIFEST_MAGIC, FORMAT_VERSION, &id, ret_version);
	if (rc)
		return rc;
	ProtobufCMessage *p;
	rc = id != store_id ? -EBADMSG
			    : message_unpack(&ascribe__store__manifest__descriptor, b, &p);
	if (rc)
		return rc;
	rc = take(r, (Message *)p);
	protobuf_c_message_free_unpacked(p, NULL);
	return rc;
}

int manifest_read(struct manifest *ret, struct manifest_segment **ret_segments, size_t *ret_n,
		  int dir_fd, const char *dir, uint64_t store_id, struct err *err)
{
	struct buf b = BUF_INIT;
	struct reading r = { 0 };
	uint32_t version = 0;
	int rc = file_read_whole(dir_fd, MANIFEST_NAME, HEADER_SIZE,
				 HEADER_SIZE + MANIFEST_PAYLOAD_MAX, &b);
	if (!rc)
		rc = decode(&r, &b, store_id, &version);
	buf_fini(&b);
	if (!rc) {
		*ret = r.m;
		*ret_segments = r.segments;
		*ret_n = r.n;
		return 0;
	}
	reading_fini(&r);
	if (rc == -EPROTONOSUPPORT)
		return file_other_version(dir, version, err);
	if (rc == -EBADMSG)
		return err_set(err, rc, "%s/%s is damaged (offset 0)", dir, MANIFEST_NAME);
	if (rc == -ENOENT)
		return err_set(err, rc, "%s/%s is missing: the store is damaged", dir,
			       MANIFEST_NAME);
	return err_sys(err, rc, "cannot read %s/%s", dir, MANIFEST_NAME);
}
