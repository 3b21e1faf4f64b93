/* SPDX-License-Identifier: Apache-2.0 */
#include "labels/filter.h"

#include "labels/credential.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILTER_NONE 0xff
#define FILTER_TEXT 1
#define FILTER_HIGH 2	  /* the high 6 bits of the first byte */
#define FILTER_FROM_END 4 /* << 1 for the second byte */
/* By how much the second byte goes left, in the bits from this one on; 6: it does not count */
#define FILTER_LEFT 4
#define NODES_MAX UINT16_MAX

/* ---- looking up ---- */

static inline __attribute__((always_inline)) uint64_t load(const uint8_t *p, size_t n)
{
	uint64_t v = 0;
	memcpy(&v, p, n);
	return v;
}

/* Names are of many lengths: the usual ones in as many steps each, some of which overlap. */
static inline __attribute__((always_inline)) int same(const uint8_t *a, const uint8_t *b, size_t n)
{
	if (__builtin_expect(n >= 8 && n <= 32, 1)) {
		size_t second = n >= 16 ? 8 : n - 8, third = n >= 16 ? n - 16 : 0;
		return !((load(a, 8) ^ load(b, 8)) | (load(a + second, 8) ^ load(b + second, 8)) |
			 (load(a + third, 8) ^ load(b + third, 8)) |
			 (load(a + n - 8, 8) ^ load(b + n - 8, 8)));
	}
	if (n > 32)
		return !memcmp(a, b, n);
	if (n >= 4)
		return !((load(a, 4) ^ load(b, 4)) | (load(a + n - 4, 4) ^ load(b + n - 4, 4)));
	return !n || !((a[0] ^ b[0]) | (a[n / 2] ^ b[n / 2]) | (a[n - 1] ^ b[n - 1]));
}

/* The 6 bits; the key is long enough. */
static inline __attribute__((always_inline)) unsigned int sextet(const struct filter_node *n,
								 const uint8_t *key, size_t len)
{
	const uint8_t *first = key + n->at[0] + (n->kind & FILTER_FROM_END ? len : 0);
	const uint8_t *second = key + n->at[1] + (n->kind & FILTER_FROM_END << 1 ? len : 0);
	return (((unsigned int)*first >> (n->kind & FILTER_HIGH)) +
		((unsigned int)*second << (n->kind >> FILTER_LEFT))) &
	       63;
}

static inline __attribute__((always_inline)) uint8_t walk(const struct label_filter *f,
							  const uint8_t *key, size_t len)
{
	const uint8_t *text = (const uint8_t *)f + f->text;
	const struct filter_node *n = f->node;
	uint8_t best = f->other;
	for (;;) {
		if (len < n->need)
			return best;
		if (!(n->kind & FILTER_TEXT)) {
			uint64_t bit = 1ull << sextet(n, key, len);
			if (!(n->mask & bit))
				return best;
			n = &f->node[n->next + (unsigned)__builtin_popcountll(n->mask & (bit - 1))];
			continue;
		}
		if (!same(key, text + n->mask, n->need))
			return best;
		if (len == n->need && n->action[0] != FILTER_NONE)
			return n->action[0];
		if (n->action[1] != FILTER_NONE)
			best = n->action[1];
		if (!n->next || len == n->need)
			return best;
		n = &f->node[n->next];
	}
}

static uint8_t walk_plain(const struct label_filter *f, const uint8_t *key, size_t len)
{
	return walk(f, key, len);
}

/* Counting bits is one instruction that the first x86-64 did not have. */
#ifdef __x86_64__
__attribute__((target("popcnt"))) static uint8_t walk_popcnt(const struct label_filter *f,
							     const uint8_t *key, size_t len)
{
	return walk(f, key, len);
}
#endif

/* ---- compiling ---- */

struct pattern {
	const uint8_t *p;
	size_t len;
	int prefix;
	uint8_t action;
	uint32_t text; /* where its text stands */
};

struct compiler {
	struct pattern *v; /* sorted by text, prefixes behind equal texts */
	size_t n;
	struct pattern *room; /* for as many */
	struct filter_node node[NODES_MAX];
	size_t n_nodes;
};

static int pattern_cmp(const void *x, const void *y)
{
	const struct pattern *a = x, *b = y;
	size_t n = a->len < b->len ? a->len : b->len;
	int c = n ? memcmp(a->p, b->p, n) : 0;
	if (c)
		return c;
	return a->len != b->len ? (a->len > b->len) - (a->len < b->len) : a->prefix - b->prefix;
}

/*
 * How unevenly a node spreads every step-th of the patterns: the sum of the squares of the
 * children's sizes; or any number above `least`, where it is more than that.
 */
static uint64_t cost(const struct pattern *v, size_t n, size_t step, const struct filter_node *node,
		     uint64_t least)
{
	uint16_t count[64] = { 0 };
	uint64_t sum = 0;
	for (size_t i = 0; i < n && sum <= least; i += step)
		sum += 2u * count[sextet(node, v[i].p, v[i].len)]++ + 1;
	return sum;
}

#define PLACES 16
#define LOOKED_AT 128 /* patterns, to choose a node */

/* The places that alone tell most patterns apart, best first. */
struct places {
	struct filter_node node[PLACES];
	uint64_t cost[PLACES];
	size_t n;
};

static void places_add(struct places *b, const struct filter_node *node, uint64_t c)
{
	size_t at = b->n < PLACES ? b->n++ : PLACES - 1;
	if (at == PLACES - 1 && b->cost[at] && b->cost[at] <= c)
		return;
	for (; at && b->cost[at - 1] > c; at--) {
		b->node[at] = b->node[at - 1];
		b->cost[at] = b->cost[at - 1];
	}
	b->node[at] = *node;
	b->cost[at] = c;
}

/*
 * Bytes that all patterns have and that are not alike in all. Where a prefix ends, the key does
 * not: no place from the end then. The first `alike` bytes are known to be alike.
 */
static void find_places(struct places *b, const struct pattern *v, size_t n, size_t alike,
			size_t step)
{
	const uint64_t looked_at = (n + step - 1) / step, worst = looked_at * looked_at;
	size_t shortest = FILTER_KEY_MAX;
	int ends = 1;
	b->n = 0;
	memset(b->cost, 0, sizeof(b->cost));
	for (size_t i = 0; i < n; i++) {
		shortest = v[i].len < shortest ? v[i].len : shortest;
		ends &= !v[i].prefix;
	}
	for (size_t i = 0; i < shortest; i++)
		for (int way = i < alike ? 2 : 0; way < (ends ? 4 : 2); way++) {
			struct filter_node p = { .need = (uint8_t)(i + 1),
						 .kind = (uint8_t)((way & 1 ? FILTER_HIGH : 0) |
								   (way & 2 ? FILTER_FROM_END : 0) |
								   6 << FILTER_LEFT) };
			p.at[0] = (int16_t)(way & 2 ? -1 - (int)i : (int)i);
			p.at[1] = p.at[0];
			p.kind |= (uint8_t)((p.kind & FILTER_FROM_END) << 1);
			uint64_t c = cost(v, n, step, &p, worst);
			if (c < worst)
				places_add(b, &p, c);
		}
}

/*
 * The node that spreads the patterns best: one place, or two of the best together. Of many patterns
 * some are looked at, but for those that agree. False: all agree everywhere.
 */
static int best_node(const struct pattern *v, size_t n, size_t alike, struct filter_node *ret)
{
	size_t step = 1 + (n - 1) / LOOKED_AT;
	struct places b;
	find_places(&b, v, n, alike, step);
	if (!b.n && step > 1)
		find_places(&b, v, n, alike, step = 1);
	if (!b.n)
		return 0;
	const uint64_t perfect = (n + step - 1) / step;
	uint64_t least = b.cost[0];
	*ret = b.node[0];
	for (size_t i = 0; i < b.n; i++)
		for (size_t k = 0; k < b.n; k++)
			for (int left = 0; left < 4 && least > perfect; left++) {
				struct filter_node p = b.node[i];
				const struct filter_node *other = &b.node[k];
				p.kind = (uint8_t)((p.kind & (FILTER_HIGH | FILTER_FROM_END)) |
						   (other->kind & FILTER_FROM_END) << 1 |
						   left << FILTER_LEFT);
				p.at[1] = other->at[0];
				p.need = p.need > other->need ? p.need : other->need;
				uint64_t c = cost(v, n, step, &p, least);
				if (c < least) {
					least = c;
					*ret = p;
				}
			}
	return 1;
}

static int build(struct compiler *c, size_t node, struct pattern *v, size_t n, size_t alike);

/* All agree as far as the shortest reaches: that one is the beginning of the others. */
static int build_text(struct compiler *c, size_t node, struct pattern *v, size_t n)
{
	size_t shortest = 0, used = 0;
	for (size_t i = 1; i < n; i++)
		if (v[i].len < v[shortest].len)
			shortest = i;
	struct filter_node *t = &c->node[node];
	const struct pattern s = v[shortest];
	*t = (struct filter_node){ .mask = s.text,
				   .kind = FILTER_TEXT,
				   .need = (uint8_t)s.len,
				   .action = { FILTER_NONE, FILTER_NONE } };
	for (size_t i = 0; i < n; i++) {
		if (v[i].len > s.len)
			v[used++] = v[i];
		else
			t->action[v[i].prefix] = v[i].action;
	}
	if (!used)
		return 0;
	if (c->n_nodes >= NODES_MAX)
		return -E2BIG;
	t->next = (uint16_t)c->n_nodes++;
	return build(c, t->next, v, used, s.len);
}

/* Bring the patterns into the order of their sextets; ret_end: behind the last one of each. */
static void spread(const struct compiler *c, const struct filter_node *node, struct pattern *v,
		   size_t n, size_t ret_end[64])
{
	size_t count[64] = { 0 }, end = 0;
	for (size_t i = 0; i < n; i++)
		count[sextet(node, v[i].p, v[i].len)]++;
	for (unsigned int bit = 0; bit < 64; bit++) {
		ret_end[bit] = end;
		end += count[bit];
	}
	for (size_t i = 0; i < n; i++)
		c->room[ret_end[sextet(node, v[i].p, v[i].len)]++] = v[i];
	memcpy(v, c->room, n * sizeof(*v));
}

/* Of n patterns whose first `alike` bytes are the same. */
static int build(struct compiler *c, size_t node, struct pattern *v, size_t n, size_t alike)
{
	struct filter_node *t = &c->node[node];
	size_t end[64];
	if (n == 1 || !best_node(v, n, alike, t))
		return build_text(c, node, v, n);
	spread(c, t, v, n, end);
	for (unsigned int bit = 0; bit < 64; bit++)
		t->mask |= (uint64_t)(end[bit] > (bit ? end[bit - 1] : 0)) << bit;
	size_t child = c->n_nodes, children = (size_t)__builtin_popcountll(t->mask);
	if (children > NODES_MAX - c->n_nodes)
		return -E2BIG;
	t->next = (uint16_t)child;
	c->n_nodes += children;
	for (size_t bit = 0, from = 0; bit < 64; from = end[bit++]) {
		int rc = end[bit] > from ? build(c, child++, v + from, end[bit] - from, alike) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

/* A byte that may be anything, or has to be the pattern's. */
static void allow(uint64_t by_byte[64], const struct pattern *p, size_t at, uint64_t length)
{
	for (unsigned int i = 0; i < 64; i++)
		if (at >= p->len || (p->p[at] & 63) == i)
			by_byte[i] |= length;
}

static void allow_lengths(struct label_filter *f, const struct pattern *p)
{
	size_t last = p->prefix ? 63 : p->len < 63 ? p->len : 63;
	for (size_t len = p->len < 63 ? p->len : 63; len <= last; len++) {
		uint64_t bit = 1ull << len;
		/*
		 * 63 stands for all lengths from there on: only a pattern of known length has a
		 * middle and a last byte.
		 */
		int known = len < 63 || !p->prefix;
		size_t real = len < 63 ? len : p->len;
		if (!len)
			continue; /* the empty key */
		allow(f->first, p, 0, bit);
		allow(f->middle, p, known ? real / 2 : SIZE_MAX, bit);
		allow(f->last, p, known ? real - 1 : SIZE_MAX, bit);
	}
}

static int add_rule(struct compiler *c, const struct filter_rule *r, uint8_t *other,
		    struct err *err)
{
	size_t len = strlen(r->text);
	const char *star = memchr(r->text, '*', len);
	if (!len)
		return err_set(err, -EINVAL, "an empty key is no rule; \"*\" means all keys");
	if (star && star != r->text + len - 1)
		return err_set(err, -EINVAL,
			       "label rule %.100s: a * only means something at the end", r->text);
	len -= star != NULL;
	if (len > FILTER_KEY_MAX)
		return err_set(err, -E2BIG, "label rule %.100s...: longer than %d bytes", r->text,
			       FILTER_KEY_MAX);
	if (!len) {
		if (*other != FILTER_NONE && *other != r->action)
			return err_set(err, -EINVAL, "label rule *: given with two meanings");
		*other = (uint8_t)r->action;
		return 0;
	}
	c->v[c->n++] = (struct pattern){ .p = (const uint8_t *)r->text,
					 .len = len,
					 .prefix = star != NULL,
					 .action = (uint8_t)r->action };
	return 0;
}

/* Each pattern once; where the text of each will stand. Returns the bytes of all texts. */
static int unite(struct compiler *c, uint32_t *ret_bytes, struct err *err)
{
	size_t used = 0;
	uint32_t bytes = 0;
	qsort(c->v, c->n, sizeof(*c->v), pattern_cmp);
	for (size_t i = 0; i < c->n; i++) {
		struct pattern *p = &c->v[i], *before = used ? &c->v[used - 1] : NULL;
		if (before && !pattern_cmp(before, p)) {
			if (before->action != p->action)
				return err_set(err, -EINVAL,
					       "label rule %.*s%s: given with two meanings",
					       p->len < 100 ? (int)p->len : 100, (const char *)p->p,
					       p->prefix ? "*" : "");
			continue;
		}
		p->text = bytes;
		bytes += (uint32_t)p->len;
		c->v[used++] = *p;
	}
	c->n = used;
	*ret_bytes = bytes;
	return 0;
}

static struct label_filter *assemble(const struct compiler *c, uint8_t other, uint32_t text_bytes)
{
	size_t text = sizeof(struct label_filter) + c->n_nodes * sizeof(struct filter_node);
	struct label_filter *f = calloc(1, text + text_bytes);
	if (!f)
		return NULL;
	f->bytes = (uint32_t)(text + text_bytes);
	f->n_rules = (uint32_t)c->n;
	f->text = (uint32_t)text;
	f->other = other;
	f->walk = walk_plain;
#ifdef __x86_64__
	if (__builtin_cpu_supports("popcnt"))
		f->walk = walk_popcnt;
#endif
	memcpy(f->node, c->node, c->n_nodes * sizeof(struct filter_node));
	return f;
}

int filter_new(struct label_filter **ret, const struct filter_rule *rules, size_t n,
	       struct err *err)
{
	uint8_t other = FILTER_NONE;
	uint32_t bytes = 0;
	bool keeps = false;
	if (n > FILTER_RULES_MAX)
		return err_set(
			err, -E2BIG,
			"%zu label rules are more than the %d that a filter takes; a rule with * "
			"stands for many",
			n, FILTER_RULES_MAX);
	struct compiler *c = malloc(sizeof(*c));
	struct pattern *patterns = calloc(3 * n + 1, sizeof(*patterns)),
		       *scratch = patterns ? patterns + n : NULL;
	struct label_filter *f = NULL;
	int rc = c && patterns ? 0 : err_set(err, -ENOMEM, "out of memory for %zu label rules", n);
	if (rc)
		goto out;
	c->v = patterns;
	c->n = 0;
	c->n_nodes = 1;
	for (size_t i = 0; !rc && i < n; i++) {
		keeps |= rules[i].action == FILTER_KEEP;
		rc = add_rule(c, &rules[i], &other, err);
	}
	rc = rc ? rc : unite(c, &bytes, err);
	if (rc)
		goto out;
	if (other == FILTER_NONE)
		other = keeps ? FILTER_DROP : FILTER_KEEP;
	if (c->n) {
		memcpy(scratch, c->v, c->n * sizeof(*scratch)); /* building reorders them */
		c->room = scratch + c->n;
		rc = build(c, 0, scratch, c->n, 0);
	}
	f = rc ? NULL : assemble(c, other, bytes);
	if (!f) {
		rc = err_set(err, rc ? rc : -ENOMEM, "%zu label rules do not fit into a filter", n);
		goto out;
	}
	for (size_t i = 0; i < c->n; i++) {
		memcpy((char *)f + f->text + c->v[i].text, c->v[i].p, c->v[i].len);
		allow_lengths(f, &c->v[i]);
	}
	*ret = f;
out:
	free(patterns);
	free(c);
	return rc;
}

struct label_filter *filter_copy(const struct label_filter *f)
{
	struct label_filter *copy = malloc(f->bytes);
	return copy ? memcpy(copy, f, f->bytes) : NULL;
}

void filter_free(struct label_filter *f)
{
	free(f);
}

size_t filter_apply(const struct label_filter *f, const struct redactor *r, struct label *v,
		    size_t n, char *room, uint64_t *io_credentials)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		enum filter_action action =
			f ? filter_find(f, v[i].key, v[i].key_len) : FILTER_KEEP;
		if (action == FILTER_DROP)
			continue;
		struct label l = v[i];
		const bool credential = action != FILTER_REDACT && !r->credentials &&
					l.type == LABEL_STRING && credential_in(l.str, l.str_len);
		*io_credentials += credential;
		if (action == FILTER_REDACT || credential) {
			redactor_text(r, &l, room);
			l.type = LABEL_STRING;
			l.str = room;
			l.str_len = REDACTED_LEN;
			room += REDACTED_LEN;
		}
		v[kept++] = l;
	}
	return kept;
}
