/* SPDX-License-Identifier: Apache-2.0 */
#include "push/identity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BITS 15
_Static_assert(IDENTITY_STACKS == 1u << STACK_BITS, "the upper bits of a hash");

int identity_init(struct identity *i)
{
	*i = (struct identity){ .stacks = calloc(IDENTITY_STACKS, sizeof(*i->stacks)) };
	return i->stacks ? 0 : -ENOMEM;
}

void identity_fini(struct identity *i)
{
	free(i->stacks);
	buf_fini(&i->text);
	*i = (struct identity){ 0 };
}

void identity_forget(struct identity *i)
{
	memset(i->stacks, 0, IDENTITY_STACKS * sizeof(*i->stacks));
}

static int add_text(struct buf *b, const char *s, size_t len)
{
	int rc = buf_add_varint(b, len);
	return rc ? rc : buf_add(b, s, len);
}

static int add_string(struct buf *b, const struct store *s, uint32_t id)
{
	size_t len;
	const char *text = store_string(s, id, &len);
	return add_text(b, text, len);
}

static int add_frame(struct buf *b, const struct store *s, const struct store_frame *f)
{
	int rc = buf_add_u8(b, (uint8_t)f->kind);
	rc = rc ? rc : buf_add_u8(b, (uint8_t)f->flags);
	rc = rc ? rc : buf_add_u32(b, f->line);
	rc = rc ? rc : buf_add_u64(b, f->offset);
	rc = rc ? rc : add_string(b, s, f->function);
	rc = rc ? rc : add_string(b, s, f->module);
	rc = rc ? rc : add_string(b, s, f->build_id);
	return rc ? rc : add_string(b, s, f->file);
}

/* A parent's hash, and the frame's bytes in `text`. */
static XXH128_hash_t join(const struct identity *i, XXH128_hash_t parent)
{
	XXH128_canonical_t pair[2];
	XXH128_canonicalFromHash(&pair[0], parent);
	XXH128_canonicalFromHash(&pair[1], XXH3_128bits(i->text.data, i->text.len));
	return XXH3_128bits(pair, sizeof(pair));
}

static struct identity_stack *place_of(struct identity *i, uint32_t stack)
{
	return &i->stacks[stack * 2654435761u >> (32 - STACK_BITS)];
}

/*
 * From the nearest ancestor that is known down to the stack. Those on the way are known then: most
 * stacks share them.
 */
int identity_of_stack(struct identity *i, const struct store *s, uint32_t stack, XXH128_hash_t *ret)
{
	XXH128_hash_t hash = { 0, 0 };
	uint32_t parent, frame, *way = NULL;
	size_t n = 0;
	for (uint32_t at = stack; at; at = parent) {
		const struct identity_stack *known = place_of(i, at);
		if (known->id == at) {
			hash = known->hash;
			break;
		}
		n++;
		store_stack(s, at, &parent, &frame);
	}
	if (n && !(way = malloc(n * sizeof(*way))))
		return -ENOMEM;
	for (size_t k = n, at = stack; k; at = parent) {
		way[--k] = (uint32_t)at;
		store_stack(s, (uint32_t)at, &parent, &frame);
	}
	int rc = 0;
	for (size_t k = 0; !rc && k < n; k++) {
		store_stack(s, way[k], &parent, &frame);
		const struct store_frame *f = store_frame(s, frame);
		i->text.len = 0;
		rc = f ? add_frame(&i->text, s, f) : -EBADMSG;
		hash = join(i, hash);
		*place_of(i, way[k]) = (struct identity_stack){ way[k], hash };
	}
	free(way);
	*ret = hash;
	return rc;
}

int identity_of_other(struct identity *i, const struct store *s, uint32_t below, XXH128_hash_t *ret)
{
	XXH128_hash_t parent;
	int rc = identity_of_stack(i, s, below, &parent);
	i->text.len = 0;
	rc = rc ? rc : buf_printf(&i->text, "(other)");
	*ret = join(i, parent);
	return rc;
}

int identity_of_labels(struct identity *i, const struct label *v, size_t n,
		       bool (*keep)(const void *ctx, const struct label *l), const void *ctx,
		       XXH128_hash_t *ret)
{
	char digits[32];
	int rc = 0;
	i->text.len = 0;
	for (size_t k = 0; !rc && k < n; k++) {
		const struct label *l = &v[k];
		bool text = l->type == LABEL_STRING;
		if (keep && !keep(ctx, l))
			continue;
		size_t len = text ? l->str_len : label_text(l, digits, sizeof(digits));
		rc = add_text(&i->text, l->key, l->key_len);
		rc = rc ? rc : add_text(&i->text, text ? l->str : digits, len);
		rc = rc ? rc : buf_add_u8(&i->text, !text);
	}
	*ret = XXH3_128bits(i->text.data, i->text.len);
	return rc;
}
