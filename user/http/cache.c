/* SPDX-License-Identifier: Apache-2.0 */
#include "http/cache.h"

#include "http/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES 64
#define NOW_NS (5 * HTTP_NS)
#define COST_TIMES 20 /* an answer is good for so many times what it took */
#define GOOD_NS (10 * HTTP_NS)
#define OLD_NS (30 * HTTP_NS) /* nobody gets an older one, even while a newer is made */

struct entry {
	struct buf question, answer;
	uint64_t state, used, made_ns, good_ns; /* good_ns: until then whatever the state */
	uint64_t asked_ns; /* somebody makes a newer one since then; 0: nobody */
	const char *type;
	bool moves; /* with the clock */
};

struct cache {
	pthread_mutex_t lock;
	struct entry v[ENTRIES];
	size_t bytes, max_bytes;
	uint64_t clock, hits, misses;
};

int cache_new(struct cache **ret, size_t max_bytes)
{
	struct cache *c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	c->max_bytes = max_bytes;
	*ret = c;
	return 0;
}

static void drop(struct cache *c, struct entry *e)
{
	c->bytes -= e->question.len + e->answer.len;
	buf_fini(&e->question);
	buf_fini(&e->answer);
	memset(e, 0, sizeof(*e));
}

void cache_clear(struct cache *c)
{
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < ENTRIES; i++)
		drop(c, &c->v[i]);
	pthread_mutex_unlock(&c->lock);
}

void cache_free(struct cache *c)
{
	if (!c)
		return;
	cache_clear(c);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static bool is_past(const struct entry *e, uint64_t state, uint64_t now)
{
	return (e->state != state && now > e->good_ns) || (e->moves && now - e->made_ns > NOW_NS);
}

static bool is_of(const struct entry *e, const struct buf *q)
{
	return e->question.len && e->question.len == q->len &&
	       !memcmp(e->question.data, q->data, q->len);
}

static struct entry *find(struct cache *c, const struct buf *q, uint64_t state)
{
	uint64_t now = http_now_ns();
	for (size_t i = 0; i < ENTRIES; i++) {
		struct entry *e = &c->v[i];
		if (!e->question.len)
			continue;
		if (is_past(e, state, now) && now - e->made_ns > OLD_NS)
			drop(c, e);
		else if (is_of(e, q))
			return e;
	}
	return NULL;
}

bool cache_has(struct cache *c, const struct buf *q)
{
	bool has = false;
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < ENTRIES; i++)
		has |= is_of(&c->v[i], q);
	pthread_mutex_unlock(&c->lock);
	return has;
}

bool cache_find(struct cache *c, const struct buf *q, uint64_t state, struct buf *out,
		const char **ret_type)
{
	pthread_mutex_lock(&c->lock);
	uint64_t now = http_now_ns();
	struct entry *e = find(c, q, state);
	/* The first who finds it past makes a newer one; the others take this one meanwhile. */
	if (e && is_past(e, state, now) && (!e->asked_ns || now - e->asked_ns > OLD_NS)) {
		e->asked_ns = now;
		e = NULL;
	}
	bool found = e && !buf_add(out, e->answer.data, e->answer.len);
	if (found) {
		e->used = ++c->clock;
		*ret_type = e->type;
	}
	found ? c->hits++ : c->misses++;
	pthread_mutex_unlock(&c->lock);
	return found;
}

static struct entry *oldest(struct cache *c)
{
	struct entry *e = &c->v[0];
	for (size_t i = 1; i < ENTRIES; i++)
		if (c->v[i].used < e->used)
			e = &c->v[i];
	return e;
}

/* An entry in use, the one that was not used for the longest time. */
static struct entry *oldest_full(struct cache *c)
{
	struct entry *e = NULL;
	for (size_t i = 0; i < ENTRIES; i++)
		if (c->v[i].question.len && (!e || c->v[i].used < e->used))
			e = &c->v[i];
	return e;
}

static bool has(const struct buf *b, const char *text)
{
	return memmem(b->data, b->len, text, strlen(text)) != NULL;
}

void cache_put(struct cache *c, const struct buf *q, uint64_t state, const struct buf *answer,
	       const char *type, uint64_t cost_ns)
{
	size_t need = q->len + answer->len;
	if (!q->len || !answer->len || need > c->max_bytes / 2)
		return;
	pthread_mutex_lock(&c->lock);
	struct entry *e = find(c, q, state);
	if (e)
		drop(c, e);
	while (c->bytes + need > c->max_bytes)
		drop(c, oldest_full(c));
	e = oldest(c);
	if (e->question.len)
		drop(c, e);
	if (!buf_add(&e->question, q->data, q->len) &&
	    !buf_add(&e->answer, answer->data, answer->len)) {
		e->state = state;
		e->type = type;
		e->used = ++c->clock;
		e->made_ns = http_now_ns();
		e->moves = has(q, "now");
		e->good_ns = e->made_ns +
			     (cost_ns < GOOD_NS / COST_TIMES ? cost_ns * COST_TIMES : GOOD_NS);
		c->bytes += need;
	} else {
		buf_fini(&e->question);
		buf_fini(&e->answer);
	}
	pthread_mutex_unlock(&c->lock);
}

void cache_stats(struct cache *c, uint64_t *ret_hits, uint64_t *ret_misses, uint64_t *ret_bytes)
{
	pthread_mutex_lock(&c->lock);
	*ret_hits = c->hits;
	*ret_misses = c->misses;
	*ret_bytes = c->bytes;
	pthread_mutex_unlock(&c->lock);
}
