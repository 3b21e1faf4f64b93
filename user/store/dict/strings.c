/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dict/strings.h"

#include "store/file/format.h"
#include "util/array.h"

/* Below this a reference costs more than it saves. */
#define LCP_MIN 3

int strings_init(struct strings *t)
{
	memset(t, 0, sizeof(*t));
	int rc = ARRAY_RESERVE(t->v, t->cap, 1);
	if (rc)
		return rc;
	t->v[0] = (struct string){ .text = (const uint8_t *)"" };
	t->n = 1;
	return 0;
}

size_t strings_bytes(const struct strings *t)
{
	return t->text.bytes + t->cap * sizeof(*t->v) + t->hash.cap * sizeof(*t->hash.slots) +
	       t->nodes_cap * sizeof(*t->nodes);
}

void strings_fini(struct strings *t)
{
	if (!t)
		return;
	chunks_fini(&t->text);
	free(t->v);
	idhash_fini(&t->hash);
	free(t->nodes);
	memset(t, 0, sizeof(*t));
}

const char *strings_get(const struct strings *t, uint32_t id, size_t *ret_len)
{
	bool ok = id < t->n;
	if (ret_len)
		*ret_len = ok ? t->v[id].len : 0;
	return ok ? (const char *)t->v[id].text : "";
}

/*
 * A byte is 0x100 | value and the end is 0, so that a string differs from every longer one, NULs
 * included.
 */
static uint32_t symbol(const uint8_t *s, size_t len, size_t at)
{
	return at < len ? 0x100u | s[at] : 0;
}

static int side(const struct crit_node *n, const uint8_t *s, size_t len)
{
	return (symbol(s, len, n->byte) & n->mask) != 0;
}

/* A stored string with the longest prefix in common; 0 when the tree is empty. */
static uint32_t crit_nearest(const struct strings *t, const uint8_t *s, size_t len)
{
	uint32_t p = t->root;
	while (p && !(p & STRINGS_LEAF))
		p = t->nodes[p - 1].child[side(&t->nodes[p - 1], s, len)];
	return p & ~STRINGS_LEAF;
}

/* Node references are index + 1, so that 0 is the empty tree. Room for the node was reserved. */
static void crit_insert(struct strings *t, uint32_t id, uint32_t near, size_t lcp)
{
	const uint8_t *s = t->v[id].text;
	size_t len = t->v[id].len;
	if (!near) {
		t->root = STRINGS_LEAF | id;
		return;
	}
	uint32_t diff = symbol(s, len, lcp) ^ symbol(t->v[near].text, t->v[near].len, lcp);
	uint32_t mask = 1u << (31 - __builtin_clz(diff));
	uint32_t *link = &t->root;
	while (!(*link & STRINGS_LEAF)) {
		struct crit_node *n = &t->nodes[*link - 1];
		if (n->byte > lcp || (n->byte == lcp && n->mask < mask))
			break;
		link = &n->child[side(n, s, len)];
	}
	struct crit_node new = { .byte = (uint32_t)lcp, .mask = mask };
	int mine = side(&new, s, len);
	new.child[mine] = STRINGS_LEAF | id;
	new.child[!mine] = *link;
	t->nodes[t->n_nodes++] = new;
	*link = t->n_nodes;
}

static size_t common_prefix(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
	size_t n = a_len < b_len ? a_len : b_len, i = 0;
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

static void choose_reference(const struct strings *t, struct string *s, uint32_t near, size_t lcp)
{
	uint32_t common = (uint32_t)lcp;
	while (near && t->v[near].depth >= STRING_DEPTH_MAX) {
		if (t->v[near].lcp < common)
			common = t->v[near].lcp;
		near = t->v[near].ref;
	}
	if (!near || common < LCP_MIN)
		return;
	s->ref = near;
	s->lcp = common;
	s->depth = t->v[near].depth + 1;
}

struct key {
	const void *s;
	size_t len;
};

static bool same_string(const void *ctx, uint32_t id, const void *key)
{
	const struct strings *t = ctx;
	const struct key *k = key;
	return t->v[id].len == k->len && !memcmp(t->v[id].text, k->s, k->len);
}

uint32_t strings_find(const struct strings *t, const char *s, size_t len)
{
	struct idhash seeded = t->hash; /* of an empty table the seed may be drawn */
	if (!len || !t->hash.cap)
		return len ? UINT32_MAX : 0;
	return idhash_find(&t->hash, idhash_hash(&seeded, s, len), same_string, t,
			   &(struct key){ s, len });
}

static int reserve(struct strings *t, size_t len)
{
	if (t->n >= IDS_MAX || t->text_len + len + 1 > TEXT_MAX)
		return -E2BIG;
	return ARRAY_RESERVE(t->v, t->cap, (size_t)t->n + 1);
}

/* Room for a string and its NUL; room for its id was reserved. */
static uint8_t *add_text(struct strings *t, size_t len)
{
	uint8_t *text = chunks_alloc(&t->text, len + 1, 1);
	if (!text)
		return NULL;
	text[len] = 0;
	t->text_len += len + 1;
	return text;
}

static int reserve_index(struct strings *t)
{
	int rc = idhash_reserve(&t->hash);
	if (!rc)
		rc = ARRAY_RESERVE(t->nodes, t->nodes_cap, (size_t)t->n_nodes + 1);
	return rc;
}

int strings_add(struct strings *t, const char *s, size_t len, uint32_t *ret_id)
{
	if (!len) {
		*ret_id = 0;
		return 0;
	}
	if (len > STRING_MAX)
		return -E2BIG;
	uint32_t hash = idhash_hash(&t->hash, s, len);
	uint32_t id = idhash_find(&t->hash, hash, same_string, t, &(struct key){ s, len });
	if (id != IDHASH_NONE) {
		*ret_id = id;
		return 0;
	}
	int rc = reserve(t, len);
	if (!rc)
		rc = reserve_index(t);
	uint8_t *text = rc ? NULL : add_text(t, len);
	if (!text)
		return rc ? rc : -ENOMEM;
	memcpy(text, s, len);
	id = t->n;
	uint32_t near = crit_nearest(t, (const uint8_t *)s, len);
	size_t lcp =
		near ? common_prefix(t->v[near].text, t->v[near].len, (const uint8_t *)s, len) : 0;
	t->v[id] = (struct string){ .text = text, .len = (uint32_t)len };
	choose_reference(t, &t->v[id], near, lcp);
	t->n++;
	crit_insert(t, id, near, lcp);
	idhash_put(&t->hash, hash, id);
	*ret_id = id;
	return 0;
}

/*
 * Columns: distance to the referred string (0: none); bytes taken from it, only where there is one;
 * length; bytes.
 */
int strings_encode(const struct strings *t, uint32_t from, uint32_t to, struct buf *columns,
		   uint32_t *ret_next)
{
	uint32_t id = from;
	for (; id < to && id - from < BATCH_IDS && columns[3].len < BATCH_BYTES; id++) {
		const struct string *s = &t->v[id];
		int rc = buf_add_varint(&columns[0], s->ref ? id - s->ref : 0);
		if (s->ref)
			rc |= buf_add_varint(&columns[1], s->lcp);
		rc |= buf_add_varint(&columns[2], s->len - s->lcp);
		rc |= buf_add(&columns[3], t->v[id].text + s->lcp, s->len - s->lcp);
		if (rc)
			return rc;
	}
	*ret_next = id;
	return 0;
}

/*
 * Put a decoded string into the index; one that is there already keeps its id but cannot be found
 * by it.
 */
static int index_string(struct strings *t, uint32_t id)
{
	int rc = reserve_index(t);
	if (rc)
		return rc;
	const uint8_t *s = t->v[id].text;
	size_t len = t->v[id].len;
	uint32_t hash = idhash_hash(&t->hash, s, len);
	if (idhash_find(&t->hash, hash, same_string, t, &(struct key){ s, len }) != IDHASH_NONE)
		return 0;
	uint32_t near = crit_nearest(t, s, len);
	size_t lcp = near ? common_prefix(t->v[near].text, t->v[near].len, s, len) : 0;
	crit_insert(t, id, near, lcp);
	idhash_put(&t->hash, hash, id);
	return 0;
}

static int decode_one(struct strings *t, struct cursor *c)
{
	uint64_t back = cursor_varint(&c[0]);
	uint64_t lcp = back ? cursor_varint(&c[1]) : 0;
	uint64_t rest = cursor_varint(&c[2]);
	if (c[0].bad || c[1].bad || c[2].bad || back >= t->n || rest > STRING_MAX ||
	    lcp > STRING_MAX)
		return -EBADMSG;
	uint32_t ref = back ? t->n - (uint32_t)back : 0;
	if (lcp > t->v[ref].len || lcp + rest > STRING_MAX || !(lcp + rest) ||
	    (ref && t->v[ref].depth >= STRING_DEPTH_MAX))
		return -EBADMSG;
	const uint8_t *suffix = cursor_bytes(&c[3], rest);
	if (!suffix)
		return -EBADMSG;
	int rc = reserve(t, lcp + rest);
	uint8_t *text = rc ? NULL : add_text(t, lcp + rest);
	if (!text)
		return rc ? rc : -ENOMEM;
	memcpy(text, t->v[ref].text, lcp);
	memcpy(text + lcp, suffix, rest);
	t->v[t->n++] = (struct string){ text, (uint32_t)(lcp + rest), ref, (uint32_t)lcp,
					ref ? t->v[ref].depth + 1 : 0 };
	return 0;
}

int strings_decode(struct strings *t, struct cursor *columns, uint32_t n, bool index)
{
	for (uint32_t i = 0; i < n; i++) {
		int rc = decode_one(t, columns);
		if (!rc && index)
			rc = index_string(t, t->n - 1);
		if (rc)
			return rc;
	}
	for (size_t i = 0; i < STRINGS_COLUMNS; i++)
		if (cursor_left(&columns[i]))
			return -EBADMSG;
	return 0;
}
