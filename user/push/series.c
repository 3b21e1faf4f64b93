/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Pyroscope and Parca take: profiles of series. A series is a set of labels; its profiles have
 * no labels of their own, since each value of one would be another series. Rows come by label set,
 * so the rows of a series stand together.
 *
 * Concatenated messages are one message in which repeated fields are joined: each series is packed
 * as a request of its own.
 */
#include "push/message.h"
#include "push/series.pb-c.h"
#include "util/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 30	 /* label names of a series at Pyroscope */
#define VALUE_MAX 2048	 /* bytes of a value */
#define NAME_MAX_LEN 256 /* bytes of a name; Pyroscope has 1,024 */

/* The labels of a series. */
struct pairs {
	Series__Pair pair[NAMES_MAX], *ptr[NAMES_MAX];
	char name[NAMES_MAX][NAME_MAX_LEN];
	struct buf value[NAMES_MAX];
	size_t n;
};

static void pairs_fini(struct pairs *p)
{
	for (size_t i = 0; i < p->n; i++)
		buf_fini(&p->value[i]);
}

/* A name as Prometheus has them: letters, digits and '_'. */
static void copy_name(char *to, const char *name, size_t len)
{
	size_t n = 0;
	if (len && isdigit((unsigned char)name[0]))
		to[n++] = '_';
	for (size_t i = 0; i < len && n < NAME_MAX_LEN - 1; i++)
		to[n++] = isalnum((unsigned char)name[i]) ? name[i] : '_';
	to[n] = 0;
}

/* Cut behind a character. */
static size_t cut_value(const struct buf *b)
{
	size_t n = b->len;
	if (n <= VALUE_MAX)
		return n;
	for (n = VALUE_MAX; n && (b->data[n] & 0xc0) == 0x80;)
		n--;
	return n;
}

/* Of two labels of one name the first counts. What is beyond the limit is left out. */
static int add_pair(struct pairs *p, const char *name, size_t len, const struct label *l)
{
	char digits[32];
	char *to = p->name[p->n];
	if (p->n == NAMES_MAX)
		return 0;
	copy_name(to, name, len);
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->name[i], to))
			return 0;
	struct buf *value = &p->value[p->n];
	*value = (struct buf)BUF_INIT;
	bool text = l->type == LABEL_STRING;
	size_t n = text ? l->str_len : label_text(l, digits, sizeof(digits));
	int rc = utf8_repair(value, text ? l->str : digits, n);
	if (rc || !value->len) { /* an empty value is none to them */
		buf_fini(value);
		return rc;
	}
	series__pair__init(&p->pair[p->n]);
	p->pair[p->n].name = (ProtobufCBinaryData){ strlen(to), (uint8_t *)to };
	p->pair[p->n].value = (ProtobufCBinaryData){ cut_value(value), value->data };
	p->ptr[p->n] = &p->pair[p->n];
	p->n++;
	return 0;
}

static int add_text(struct pairs *p, const char *name, const char *s)
{
	const struct label l = { .str = s, .str_len = (uint32_t)strlen(s) };
	return add_pair(p, name, strlen(name), &l);
}

static const struct label *find(const struct label *labels, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (labels[i].key_len == strlen(key) &&
		    !memcmp(labels[i].key, key, labels[i].key_len))
			return &labels[i];
	return NULL;
}

/* Rows also have the labels of the selector. */
static bool is_wanted(const struct push_target *t, const struct label *l)
{
	for (size_t i = 0; i < t->n_keys; i++)
		if (l->key_len == strlen(t->keys[i]) && !memcmp(l->key, t->keys[i], l->key_len))
			return true;
	return false;
}

/* The labels that receivers want come first, then ours from outside, then those of the rows. */
static int add_labels(struct pairs *p, const struct push_message *m, uint32_t set)
{
	const struct push_config *c = m->to->c;
	const struct store_event *e = query_info(m->src.query)->event;
	const struct label *labels;
	size_t n = query_set(m->src.query, set, &labels);
	const struct label *service = find(labels, n, "service_name");
	service = service ? service : find(labels, n, "service");
	char name[NAME_MAX_LEN];
	bool times = e->ns_per_sample > 1;
	copy_name(name, times ? "process_cpu" : e->name, strlen(times ? "process_cpu" : e->name));
	int rc = add_text(p, "__name__", name);
	if (!rc)
		rc = service ? add_pair(p, "service_name", 12, service)
			     : add_text(p, "service_name", "unknown_service");
	for (size_t i = 0; !rc && i < c->n_external; i++)
		rc = add_pair(p, c->external[i].key, c->external[i].key_len, &c->external[i]);
	for (size_t i = 0; !rc && i < n; i++)
		if (&labels[i] != service && is_wanted(m->to, &labels[i]))
			rc = add_pair(p, labels[i].key, labels[i].key_len, &labels[i]);
	return rc ? rc : add_text(p, "host", store_meta(m->src.store)->host);
}

typedef int (*pack_series)(struct push_message *m, struct pairs *p, ProtobufCBinaryData raw);

static int add_message(struct push_message *m, const ProtobufCMessage *request)
{
	size_t n = protobuf_c_message_get_packed_size(request);
	struct buf *b = &m->posts[0].body;
	int rc = buf_reserve(b, n);
	if (!rc)
		b->len += protobuf_c_message_pack(request, b->data + b->len);
	return rc;
}

static int pack_pyroscope(struct push_message *m, struct pairs *p, ProtobufCBinaryData raw)
{
	Series__RawSample sample = SERIES__RAW_SAMPLE__INIT, *samples = &sample;
	Series__PushSeries one = SERIES__PUSH_SERIES__INIT, *all = &one;
	Series__PushRequest request = SERIES__PUSH_REQUEST__INIT;
	sample.raw_profile = raw;
	one.n_labels = p->n;
	one.labels = p->ptr;
	one.n_samples = 1;
	one.samples = &samples;
	request.n_series = 1;
	request.series = &all;
	return add_message(m, &request.base);
}

static int pack_parca(struct push_message *m, struct pairs *p, ProtobufCBinaryData raw)
{
	Series__RawSample sample = SERIES__RAW_SAMPLE__INIT, *samples = &sample;
	Series__LabelSet labels = SERIES__LABEL_SET__INIT;
	Series__WriteSeries one = SERIES__WRITE_SERIES__INIT, *all = &one;
	Series__WriteRawRequest request = SERIES__WRITE_RAW_REQUEST__INIT;
	sample.raw_profile = raw;
	labels.n_labels = p->n;
	labels.labels = p->ptr;
	one.labels = &labels;
	one.n_samples = 1;
	one.samples = &samples;
	request.n_series = 1;
	request.series = &all;
	return add_message(m, &request.base);
}

/* One profile of the series whose rows begin at part->from. */
static int add_series(struct push_message *m, struct export_part *part, pack_series pack,
		      struct err *err)
{
	struct pairs *p = calloc(1, sizeof(*p));
	size_t n;
	const struct store_row *rows = query_rows(m->src.query, &n);
	const uint32_t set = rows[part->from].set;
	const size_t most = m->to->format->max_rows;
	for (part->to = part->from; part->to < n && rows[part->to].set == set; part->to++)
		if (most && part->to - part->from == most)
			break;
	int rc = p ? add_labels(p, m, set) : -ENOMEM;
	m->packed.len = 0;
	if (rc)
		err_sys(err, rc, "cannot push");
	rc = rc ? rc : push_add_pprof(m, part, err);
	if (!rc && pack(m, p, (ProtobufCBinaryData){ m->packed.len, m->packed.data }))
		rc = err_sys(err, -ENOMEM, "cannot push");
	if (p)
		pairs_fini(p);
	free(p);
	return rc;
}

static int add_all(struct push_message *m, pack_series pack, struct err *err)
{
	size_t bytes = 0;
	int rc = 0;
	m->part.end = m->part.from;
	while (!rc && m->part.end < m->part.to && bytes < m->part.max_bytes) {
		struct export_part part = { .from = m->part.end,
					    .max_bytes = m->part.max_bytes - bytes };
		rc = add_series(m, &part, pack, err);
		m->part.end = part.end;
		bytes += part.bytes;
	}
	return rc;
}

int push_encode_pyroscope(struct push_message *m, struct err *err)
{
	return add_all(m, pack_pyroscope, err);
}

int push_encode_parca(struct push_message *m, struct err *err)
{
	return add_all(m, pack_parca, err);
}
