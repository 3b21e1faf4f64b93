/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that clients of Pyroscope send: POST /ingest and push.v1.PusherService/Push. */
#include "http/ingest.h"
#include "http/message.h"
#include "http/push.pb-c.h"
#include "import/folded.h"
#include "import/pprof.h"
#include "import/trie.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PUSH_MEMORY (24u << 20)
#define RATE_MAX 1000000000

/* ---- push ---- */

static int push_series(struct profile *p, const Push__RawProfileSeries *s, struct err *err)
{
	struct profile_labels l = { .n = 0 };
	int rc = 0;
	for (size_t i = 0; !rc && i < s->n_labels; i++)
		rc = profile_labels_add(&l, s->labels[i]->name, s->labels[i]->value, err);
	for (size_t i = 0; !rc && i < s->n_samples; i++)
		rc = profile_add_pprof(p, s->samples[i]->raw_profile.data,
				       s->samples[i]->raw_profile.len, &l, err);
	return rc;
}

int ingest_push(struct request *r, struct store *store, struct err *err)
{
	struct message_memory memory;
	ProtobufCMessage *m = NULL;
	struct profile p = { .prefix = PROFILE_SENT };
	Push__PushResponse out = PUSH__PUSH_RESPONSE__INIT;
	bool json = false;
	(void)store;
	message_memory_init(&memory, PUSH_MEMORY);
	int rc = ingest_begin(r, err);
	rc = rc ? rc : message_read(r, &push__push_request__descriptor, &memory, &m, &json, err);
	const Push__PushRequest *q = (const Push__PushRequest *)m;
	for (size_t i = 0; !rc && i < q->n_series; i++)
		rc = push_series(&p, q->series[i], err);
	rc = rc ? rc : ingest_store(r, &p, err);
	rc = rc ? rc : message_write(r, &out.base, json, err);
	profile_fini(&p);
	message_free(m, &memory);
	return rc;
}

/* ---- ingest ---- */

/*
 * The part of a form that is called name. -EINVAL: the body is no form; -ENOENT: it has no such
 * part.
 */
static int form_part(const struct request *r, const char *name, const uint8_t **ret,
		     size_t *ret_len, struct err *err)
{
	const char *b = strcasestr(r->content_type, "boundary=");
	char mark[90], wanted[40];
	if (!b)
		return err_set(err, -EINVAL, "a form without a boundary");
	b += strlen("boundary=");
	size_t n = strcspn(b, "; ");
	if (n >= 2 && b[0] == '"') {
		b++;
		n -= 2;
	}
	if (!n || n > 70)
		return err_set(err, -EINVAL, "a form without a boundary");
	n = (size_t)snprintf(mark, sizeof(mark), "--%.*s", (int)n, b);
	snprintf(wanted, sizeof(wanted), "name=\"%s\"", name);
	const struct cursor c = cursor_of(&r->body);
	const uint8_t *at = c.p, *end = c.end;
	while (at && (at = memmem(at, (size_t)(end - at), mark, n))) {
		at += n;
		const uint8_t *head_end = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
		if (!head_end)
			break;
		const uint8_t *body = head_end + 4,
			      *next = memmem(body, (size_t)(end - body), mark, n);
		if (!next || next - body < 2)
			break;
		if (memmem(at, (size_t)(head_end - at), wanted, strlen(wanted))) {
			*ret = body;
			/* the end of the line before the mark */
			*ret_len = (size_t)(next - body) - 2;
			return 0;
		}
		at = next;
	}
	return err_set(err, -EINVAL, "the form has no whole part \"%s\"", name);
}

static int take_rate(const struct request *r, uint64_t *ret, struct err *err)
{
	*ret = 100;
	if (request_number(r, "sampleRate", RATE_MAX, ret) >= 0 && *ret)
		return 0;
	return err_set(err, -EINVAL, "sampleRate: 1 to %d", RATE_MAX);
}

/* Unix time in seconds, milliseconds, microseconds or nanoseconds, by its size; 0: not given. */
static int take_time(const struct request *r, const char *name, int64_t *ret, struct err *err)
{
	static const uint64_t below[] = { 100000000000, 100000000000000,
					  100000000000000000 }; /* in the year 5138 */
	uint64_t v = 0, unit = 1000000000;
	if (request_number(r, name, INT64_MAX, &v) < 0)
		return err_set(err, -EINVAL, "%s: Unix time, in seconds or finer", name);
	for (size_t i = 0; i < 3 && v >= below[i]; i++)
		unit /= 1000;
	if (v > INT64_MAX / unit)
		return err_set(err, -EINVAL, "%s: beyond the year 2262", name);
	*ret = (int64_t)(v * unit);
	return 0;
}

/* The range of the question counts, else the profile's own. */
static int take_range(const struct request *r, struct profile *p, struct err *err)
{
	int64_t from, to;
	int rc = take_time(r, "from", &from, err);
	rc = rc ? rc : take_time(r, "until", &to, err);
	if (rc || to <= from)
		return rc;
	p->from_ns = from;
	p->to_ns = to;
	return 0;
}

/* What an agent says it sends: the parameter, else the type of the body. */
static const char *format_of(const struct request *r, bool form)
{
	static const char *const types[][2] = { { "binary/octet-stream+trie", "trie" },
						{ "binary/octet-stream+lines", "lines" } };
	const char *format = request_param(r, "format");
	if (format && *format)
		return format;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcasecmp(r->content_type, types[i][0]))
			return types[i][1];
	return form ? "pprof" : "folded";
}

static int add_stacks(struct profile *p, const char *format, const uint8_t *data, size_t len,
		      uint64_t rate, const struct profile_labels *l, struct err *err)
{
	struct folded_form form = { rate, strcmp(format, "lines") != 0 };
	struct buf lines = BUF_INIT;
	size_t line = 0;
	int rc = 0;
	if (!strcmp(format, "trie")) {
		rc = trie_unfold(data, len, profile_sent.bytes, &lines, err);
		data = lines.data;
		len = lines.len;
	}
	rc = rc ? rc : profile_add_folded(p, data, len, &form, &line, l, err);
	buf_fini(&lines);
	return rc;
}

static int read_ingest(struct request *r, struct profile *p, const struct profile_labels *l,
		       struct err *err)
{
	static const char *const stacks[] = { "folded", "groups", "lines", "trie" };
	const uint8_t *data = r->body.data;
	size_t len = r->body.len;
	uint64_t rate;
	bool form = !strncasecmp(r->content_type, "multipart/form-data", 19);
	const char *format = format_of(r, form);
	int rc = take_rate(r, &rate, err);
	if (!rc && form)
		rc = form_part(r, "profile", &data, &len, err);
	if (rc)
		return rc;
	if (!strcmp(format, "pprof"))
		return profile_add_pprof(p, data, len, l, err);
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++)
		if (!strcmp(format, stacks[i]))
			return add_stacks(p, format, data, len, rate, l, err);
	return err_set(err, -EOPNOTSUPP,
		       "format '%.40s' is not read here; there are pprof, folded, lines and trie",
		       format);
}

int ingest_pyroscope(struct request *r, struct store *store, struct err *err)
{
	const char *name = request_param(r, "name");
	struct profile_labels l = { .n = 0 };
	struct profile p = { .prefix = PROFILE_SENT };
	(void)store;
	int rc = ingest_begin(r, err);
	char *text = strdup(name ? name : "");
	if (!rc && !text)
		rc = err_set(err, -ENOMEM, "out of memory");
	rc = rc ? rc : profile_labels_of_name(&l, text, err);
	rc = rc ? rc : read_ingest(r, &p, &l, err);
	rc = rc ? rc : take_range(r, &p, err);
	rc = rc ? rc : ingest_store(r, &p, err);
	profile_fini(&p);
	free(text);
	return rc ? rc : request_json(r, json_object(), err);
}
