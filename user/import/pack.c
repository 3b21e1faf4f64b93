/* SPDX-License-Identifier: Apache-2.0 */
#include "import/pack.h"

#include "util/idhash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x0131636170u /* "pac1" and a version */

struct packed_head {
	uint64_t magic;
	int64_t from_ns, to_ns;
	uint32_t n_types, n_frames, n_labels, n_stacks, n_samples, text_bytes;
};

/* Texts are offsets of strings with a NUL. */
struct packed_frame {
	uint32_t function, module, file, line;
	uint32_t kernel, inlined; /* 0 or 1 */
};

struct packed_label {
	int64_t num;
	uint32_t key, key_len, str, str_len, type, unused;
};

/* Frames are indices as they are; types and samples are the structures of profile.h. */
struct packed_parts {
	struct packed_head head;
	struct profile_type *types;
	struct packed_frame *frames;
	struct packed_label *labels;
	uint32_t *stacks;
	struct profile_sample *samples;
	char *texts;
};

/* ---- packing ---- */

/* Texts that were packed, each once: the ids of `by` are their offsets. */
struct text_pool {
	struct buf bytes;
	struct idhash by;
};

struct text {
	const char *s;
	size_t len;
};

static bool is_same_text(const void *ctx, uint32_t at, const void *key)
{
	const struct text_pool *pool = ctx;
	const struct text *t = key;
	const char *s = (const char *)pool->bytes.data + at;
	return t->len < pool->bytes.len - at && !memcmp(s, t->s, t->len) && !s[t->len];
}

/* Add a text with a NUL. *ret: its offset. */
static int add_text(struct text_pool *pool, const char *s, size_t len, uint32_t *ret)
{
	const struct text t = { s, len };
	const uint32_t hash = idhash_hash(&pool->by, s, len);
	*ret = idhash_find(&pool->by, hash, is_same_text, pool, &t);
	if (*ret != IDHASH_NONE)
		return 0;
	if (pool->bytes.len + len + 1 > PROFILE_PACKED_MAX)
		return -E2BIG;
	*ret = (uint32_t)pool->bytes.len;
	int rc = idhash_reserve(&pool->by);
	rc = rc ? rc : buf_add(&pool->bytes, s, len);
	rc = rc ? rc : buf_add_u8(&pool->bytes, 0);
	if (!rc)
		idhash_put(&pool->by, hash, *ret);
	return rc;
}

static int add_frames(const struct profile *p, struct text_pool *texts, struct buf *out)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < p->n_frames; i++) {
		const struct profile_frame *f = &p->frames[i];
		struct packed_frame to = { .line = f->line,
					   .kernel = f->kernel,
					   .inlined = f->inlined };
		rc = add_text(texts, f->function, strlen(f->function), &to.function);
		rc = rc ? rc : add_text(texts, f->module, strlen(f->module), &to.module);
		rc = rc ? rc : add_text(texts, f->file, strlen(f->file), &to.file);
		rc = rc ? rc : buf_add(out, &to, sizeof(to));
	}
	return rc;
}

static int add_labels(const struct profile *p, struct text_pool *texts, struct buf *out)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < p->n_labels; i++) {
		const struct label *l = &p->labels[i];
		const bool text = l->type == LABEL_STRING;
		struct packed_label to = { .num = text ? 0 : l->num,
					   .key_len = l->key_len,
					   .str_len = text ? l->str_len : 0,
					   .type = l->type };
		rc = add_text(texts, l->key, l->key_len, &to.key);
		rc = rc ? rc : add_text(texts, text ? l->str : "", to.str_len, &to.str);
		rc = rc ? rc : buf_add(out, &to, sizeof(to));
	}
	return rc;
}

int profile_pack(const struct profile *p, struct buf *out)
{
	struct text_pool texts = { .bytes = BUF_INIT };
	struct packed_head head = { .magic = MAGIC,
				    .from_ns = p->from_ns,
				    .to_ns = p->to_ns,
				    .n_types = (uint32_t)p->n_types,
				    .n_frames = (uint32_t)p->n_frames,
				    .n_labels = (uint32_t)p->n_labels,
				    .n_stacks = (uint32_t)p->n_stacks,
				    .n_samples = (uint32_t)p->n_samples };
	const size_t at = out->len;
	int rc = buf_add(out, &head, sizeof(head));
	rc = rc ? rc : buf_add(out, p->type, p->n_types * sizeof(*p->type));
	rc = rc ? rc : add_frames(p, &texts, out);
	rc = rc ? rc : add_labels(p, &texts, out);
	/* An odd number of indices would leave the samples at an odd place. */
	rc = rc ? rc : buf_add(out, p->samples, p->n_samples * sizeof(*p->samples));
	rc = rc ? rc : buf_add(out, p->stacks, p->n_stacks * sizeof(*p->stacks));
	rc = rc ? rc : buf_add(out, texts.bytes.data, texts.bytes.len);
	if (!rc && out->len - at > PROFILE_PACKED_MAX)
		rc = -E2BIG;
	head.text_bytes = (uint32_t)texts.bytes.len;
	if (!rc)
		memcpy(out->data + at, &head, sizeof(head));
	buf_fini(&texts.bytes);
	idhash_fini(&texts.by);
	return rc;
}

/* ---- unpacking ---- */

/* The next n elements, if so many are there. */
static void *take(uint8_t *bytes, size_t len, size_t *at, size_t n, size_t size)
{
	if (n > (len - *at) / size)
		return NULL;
	void *p = bytes + *at;
	*at += n * size;
	return p;
}

/* Find the parts: they fill the bytes. */
static int find_parts(uint8_t *bytes, size_t len, struct packed_parts *ret)
{
	const struct profile_limits *most = &profile_sent;
	struct packed_head *h = &ret->head;
	size_t at = sizeof(*h);
	if (len < sizeof(*h))
		return -EBADMSG;
	memcpy(h, bytes, sizeof(*h));
	if (h->magic != MAGIC)
		return -EBADMSG;
	if (h->n_types > PROFILE_TYPES_MAX || h->n_frames > most->frames ||
	    h->n_labels > most->labels || h->n_stacks > most->stacks ||
	    h->n_samples > most->samples)
		return -E2BIG;
	ret->types = take(bytes, len, &at, h->n_types, sizeof(*ret->types));
	ret->frames = ret->types ? take(bytes, len, &at, h->n_frames, sizeof(*ret->frames)) : NULL;
	ret->labels = ret->frames ? take(bytes, len, &at, h->n_labels, sizeof(*ret->labels)) : NULL;
	ret->samples =
		ret->labels ? take(bytes, len, &at, h->n_samples, sizeof(*ret->samples)) : NULL;
	ret->stacks =
		ret->samples ? take(bytes, len, &at, h->n_stacks, sizeof(*ret->stacks)) : NULL;
	ret->texts = ret->stacks ? take(bytes, len, &at, h->text_bytes, 1) : NULL;
	if (!ret->texts || at != len || (h->text_bytes && ret->texts[h->text_bytes - 1]))
		return -EBADMSG;
	return 0;
}

/* A text of at most max bytes; the last text has a NUL, so all have one. */
static int take_text(const struct packed_parts *parts, uint32_t at, size_t max, const char **ret)
{
	if (at >= parts->head.text_bytes)
		return -EBADMSG;
	*ret = parts->texts + at;
	return strnlen(*ret, max + 1) > max ? -E2BIG : 0;
}

static int take_types(const struct packed_parts *parts, struct profile *p)
{
	for (uint32_t i = 0; i < parts->head.n_types; i++) {
		struct profile_type *t = &p->type[i];
		*t = parts->types[i];
		if (!memchr(t->event, 0, sizeof(t->event)) ||
		    !memchr(t->unit, 0, sizeof(t->unit)) ||
		    strncmp(t->event, PROFILE_SENT, strlen(PROFILE_SENT)) != 0)
			return -EBADMSG;
		profile_clean_event(t->event);
	}
	p->n_types = parts->head.n_types;
	return 0;
}

static int take_frames(const struct packed_parts *parts, struct profile *p)
{
	int rc = 0;
	for (uint32_t i = 0, frame; !rc && i < parts->head.n_frames; i++) {
		const struct packed_frame *f = &parts->frames[i];
		struct profile_frame to = { .line = f->line,
					    .kernel = f->kernel == 1,
					    .inlined = f->inlined == 1 };
		rc = take_text(parts, f->function, PROFILE_TEXT_MAX, &to.function);
		rc = rc ? rc : take_text(parts, f->module, PROFILE_TEXT_MAX, &to.module);
		rc = rc ? rc : take_text(parts, f->file, PROFILE_TEXT_MAX, &to.file);
		rc = rc ? rc : profile_new_frame(p, &to, &frame);
	}
	return rc;
}

static bool is_within(uint32_t at, uint32_t len, uint32_t bytes)
{
	return at <= bytes && len <= bytes - at;
}

static int take_labels(const struct packed_parts *parts, struct profile *p)
{
	const uint32_t n = parts->head.n_labels, bytes = parts->head.text_bytes;
	p->labels = calloc((size_t)n + 1, sizeof(*p->labels));
	if (!p->labels)
		return -ENOMEM;
	p->labels_cap = (size_t)n + 1;
	for (uint32_t i = 0; i < n; i++) {
		const struct packed_label *l = &parts->labels[i];
		if ((l->type != LABEL_STRING && l->type != LABEL_INT) || !l->key_len ||
		    l->key_len > PROFILE_KEY_MAX || l->str_len > PROFILE_VALUE_MAX ||
		    !is_within(l->key, l->key_len, bytes) || !is_within(l->str, l->str_len, bytes))
			return -EBADMSG;
		p->labels[p->n_labels++] = (struct label){ .key = parts->texts + l->key,
							   .str = parts->texts + l->str,
							   .num = l->num,
							   .key_len = l->key_len,
							   .str_len = l->str_len,
							   .type = l->type };
	}
	return 0;
}

static int take_stacks(const struct packed_parts *parts, struct profile *p)
{
	const size_t n = parts->head.n_stacks;
	p->stacks = malloc((n + 1) * sizeof(*p->stacks));
	if (!p->stacks)
		return -ENOMEM;
	p->stacks_cap = n + 1;
	memcpy(p->stacks, parts->stacks, n * sizeof(*p->stacks));
	p->n_stacks = n;
	for (size_t i = 0; i < n; i++)
		if (p->stacks[i] >= p->n_frames)
			return -EBADMSG;
	return 0;
}

static int take_samples(const struct packed_parts *parts, struct profile *p)
{
	const size_t n = parts->head.n_samples;
	p->samples = malloc((n + 1) * sizeof(*p->samples));
	if (!p->samples)
		return -ENOMEM;
	p->samples_cap = n + 1;
	memcpy(p->samples, parts->samples, n * sizeof(*p->samples));
	p->n_samples = n;
	for (size_t i = 0; i < n; i++) {
		const struct profile_sample *s = &p->samples[i];
		if (s->depth > PROFILE_DEPTH_MAX || s->n_labels > PROFILE_LABELS_MAX ||
		    !is_within(s->stack, s->depth, parts->head.n_stacks) ||
		    !is_within(s->label, s->n_labels, parts->head.n_labels))
			return -EBADMSG;
	}
	return 0;
}

int profile_unpack(void *bytes, size_t len, struct profile *ret)
{
	struct packed_parts parts = { .types = NULL };
	*ret = (struct profile){ .prefix = PROFILE_SENT };
	int rc = profile_own_text(ret, bytes);
	rc = rc ? rc : find_parts(bytes, len, &parts);
	ret->from_ns = parts.head.from_ns;
	ret->to_ns = parts.head.to_ns;
	rc = rc ? rc : take_types(&parts, ret);
	rc = rc ? rc : take_frames(&parts, ret);
	rc = rc ? rc : take_labels(&parts, ret);
	rc = rc ? rc : take_stacks(&parts, ret);
	return rc ? rc : take_samples(&parts, ret);
}
