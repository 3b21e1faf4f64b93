/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/locks.h"

#include "collect/pairs.h"
#include "util/idhash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_MAX (LOCKS_MAX / 2) /* over the end of a window */
#define TEXT_MAX 448

/* glibc: where in a pthread_rwlock_t its threads wait (sysdeps/nptl/bits/struct_rwlock.h). */
#define RWLOCK_PHASE 8	  /* __wrphase_futex */
#define RWLOCK_WRITERS 12 /* __writers_futex */
/* and how large a pthread_cond_t is, of which threads wait on one of two words */
#define CONDVAR_BYTES 48

_Static_assert(LOCKS_MAX <= PAIRS_MAX, "locks are limited as pairs");

struct lock_key {
	uint64_t start_ns, futex;
	uint32_t tgid, exec_id;
};

struct lock {
	struct lock_key key;
	struct lock_place place;
	uint64_t ns; /* of the window */
	uint8_t kind;
	bool disagree, cut;
};

struct locks {
	struct lock_names *names;
	struct lock v[LOCKS_MAX];
	size_t n;
	struct idhash hash;
	struct pairs limit;
	char text[TEXT_MAX];
};

int locks_new(struct locks **ret, struct procs *procs, struct resolver *resolver)
{
	struct locks *l = calloc(1, sizeof(*l));
	int rc = l ? lock_names_new(&l->names, procs, resolver) : -ENOMEM;
	if (rc) {
		free(l);
		return rc;
	}
	*ret = l;
	return 0;
}

static void clear(struct locks *l)
{
	lock_names_forget(l->names);
	for (size_t i = 0; i < l->n; i++)
		lock_place_fini(&l->v[i].place);
	l->n = 0;
	idhash_clear(&l->hash);
	pairs_clear(&l->limit);
}

void locks_free(struct locks *l)
{
	if (!l)
		return;
	clear(l);
	idhash_fini(&l->hash);
	lock_names_free(l->names);
	free(l);
}

void locks_window(struct locks *l)
{
	if (l->n > KEEP_MAX)
		clear(l);
	for (size_t i = 0; i < l->n; i++) {
		l->v[i].ns = 0;
		l->v[i].cut = false;
	}
}

/* ---- while the window is open ---- */

static bool same_lock(const void *ctx, uint32_t id, const void *key)
{
	return !memcmp(&((const struct locks *)ctx)->v[id].key, key, sizeof(struct lock_key));
}

/* Find or add a lock; NULL: there is no room. */
static struct lock *find(struct locks *l, const struct lock_key *key)
{
	uint32_t hash = idhash_hash(&l->hash, key, sizeof(*key));
	uint32_t id = idhash_find(&l->hash, hash, same_lock, l, key);
	uint64_t process = key->start_ns ^ (uint64_t)key->tgid << 40;
	if (id != IDHASH_NONE)
		return &l->v[id];
	if (l->n == LOCKS_MAX || idhash_reserve(&l->hash) ||
	    !pairs_fit(&l->limit, LOCKS_MAX, (uint64_t)hash << 32 | (uint32_t)key->futex, process,
		       process))
		return NULL;
	l->v[l->n] = (struct lock){ .key = *key,
				    .place = { .id = { key->start_ns, key->tgid, key->exec_id },
					       .at = key->futex } };
	idhash_put(&l->hash, hash, (uint32_t)l->n);
	return &l->v[l->n++];
}

uint32_t locks_id(struct locks *l, const struct proc_id *id, uint64_t futex, uint64_t ns,
		  bool *ret_known)
{
	const struct lock_key key = { id->start_ns, futex, id->tgid, id->exec_id };
	struct lock *k = find(l, &key);
	*ret_known = !k || lock_name_find(l->names, &k->place, ns) != -EINPROGRESS;
	return k ? LOCK_ID_FIRST + (uint32_t)(k - l->v) : LOCK_ID_OTHER;
}

static struct lock *lock_of(const struct locks *l, uint32_t id)
{
	return id >= LOCK_ID_FIRST && id - LOCK_ID_FIRST < l->n
		       ? (struct lock *)&l->v[id - LOCK_ID_FIRST]
		       : NULL;
}

void locks_note_kind(struct locks *l, uint32_t lock, enum lock_kind kind)
{
	struct lock *k = lock_of(l, lock);
	if (!k || kind == LOCK_NONE || kind >= LOCK_KERNEL_MUTEX)
		return;
	/*
	 * Where a wait for a condition locks its mutex again, libc's function for that may have no
	 * name: its caller says condvar.
	 */
	if (k->kind == LOCK_MUTEX && kind == LOCK_CONDVAR)
		return;
	if (k->kind == LOCK_CONDVAR && kind == LOCK_MUTEX)
		k->kind = LOCK_MUTEX;
	k->disagree |= k->kind && k->kind != kind;
	k->kind = (uint8_t)kind;
}

/* ---- at its end ---- */

void locks_add_time(struct locks *l, uint32_t lock, uint64_t ns)
{
	struct lock *k = lock_of(l, lock);
	if (k)
		k->ns += ns;
}

/*
 * Return the other futex of a condition variable or read-write lock of glibc, of which one is known
 * to be that; NULL: it has none.
 */
static struct lock *other_half(struct locks *l, const struct lock *k)
{
	struct lock_key key = k->key;
	key.futex ^= 4;
	uint32_t hash = idhash_hash(&l->hash, &key, sizeof(key));
	uint32_t id = idhash_find(&l->hash, hash, same_lock, l, &key);
	struct lock *o = id == IDHASH_NONE ? NULL : (struct lock *)&l->v[id];
	enum lock_kind kind = o && o->kind ? o->kind : k->kind;
	bool same = o && (!o->kind || !k->kind || o->kind == k->kind);
	return same && (kind == LOCK_CONDVAR || kind == LOCK_RWLOCK) ? o : NULL;
}

enum lock_kind locks_kind(const struct locks *l, uint32_t lock)
{
	const struct lock *k = lock_of(l, lock);
	return k && !k->disagree ? k->kind : LOCK_NONE;
}

uint32_t locks_group(struct locks *l, uint32_t lock)
{
	const struct lock *k = lock_of(l, lock), *o = k ? other_half(l, k) : NULL;
	return o && o < k ? LOCK_ID_FIRST + (uint32_t)(o - l->v) : lock;
}

static int by_time(const void *pa, const void *pb)
{
	const struct lock *a = *(struct lock *const *)pa, *b = *(struct lock *const *)pb;
	return a->ns != b->ns ? (a->ns < b->ns ? 1 : -1) : (a > b) - (a < b);
}

void locks_rank(struct locks *l)
{
	static struct lock *order[LOCKS_MAX];
	for (size_t i = 0; i < l->n; i++) {
		const struct lock *o = l->v[i].kind ? NULL : other_half(l, &l->v[i]);
		if (o)
			l->v[i].kind = o->kind;
		order[i] = &l->v[i];
	}
	if (l->n > LOCKS_NAMED)
		qsort(order, l->n, sizeof(order[0]), by_time);
	for (size_t i = LOCKS_NAMED; i < l->n; i++)
		order[i]->cut = true;
}

bool locks_is_cut(const struct locks *l, uint32_t lock)
{
	const struct lock *k = lock_of(l, lock);
	return lock == LOCK_ID_OTHER || (k && k->cut);
}

/*
 * Return how far a futex of this kind is behind the beginning of its lock, where one lock has
 * several, so that they have one name.
 */
static uint64_t futex_offset(const struct lock *k, enum lock_kind kind)
{
	uint64_t low = k->key.futex % 8;
	if (kind == LOCK_RWLOCK)
		return low ? RWLOCK_WRITERS : RWLOCK_PHASE;
	return kind == LOCK_CONDVAR ? low : 0;
}

static void print_name(struct locks *l, const struct lock *k, enum lock_kind kind)
{
	const struct lock_place *p = &k->place;
	uint64_t back = futex_offset(k, kind),
		 at = p->offset >= back ? p->offset - back : p->offset;
	if (!p->base || p->state != LOCK_NAMED)
		snprintf(l->text, sizeof(l->text), "0x%" PRIx64 " of %u", p->at - back, p->id.tgid);
	else if (p->base[0] == '[')
		snprintf(l->text, sizeof(l->text), "%s 0x%" PRIx64 " of %u", p->base, p->at - back,
			 p->id.tgid);
	else if (p->size && (!at || (kind == LOCK_CONDVAR && p->size == CONDVAR_BYTES)))
		snprintf(l->text, sizeof(l->text), "%s", p->base);
	else
		snprintf(l->text, sizeof(l->text), "%s+0x%" PRIx64, p->base, at);
}

static struct label label_of(const char *key, const char *value)
{
	return (struct label){ .key = key,
			       .key_len = (uint32_t)strlen(key),
			       .str = value,
			       .str_len = (uint32_t)strlen(value),
			       .type = LABEL_STRING };
}

size_t locks_labels(struct locks *l, uint32_t lock, uint32_t end, struct label out[LOCK_LABELS])
{
	const struct lock *k = lock_of(l, lock);
	const struct lock_end e = { .interrupt = end & LOCK_END_INTERRUPT,
				    .unknown = end & LOCK_END_UNKNOWN,
				    .released = end & LOCK_END_RELEASED,
				    .stack = end & LOCK_END_STACK,
				    .release = end & LOCK_END_RELEASE };
	enum lock_kind kind = (enum lock_kind)(end >> LOCK_END_KIND_SHIFT);
	size_t n = 0;
	if (!kind && lock)
		kind = locks_kind(l, lock) ? locks_kind(l, lock) : LOCK_FUTEX;
	if (kind == LOCK_CONDVAR && k && k->kind == LOCK_MUTEX)
		kind = LOCK_MUTEX;
	if (!kind)
		return 0;
	out[n++] = label_of(LOCK_KIND_KEY, lock_kind_names[kind]);
	out[n++] = label_of(LOCK_BY_KEY, lock_waker_is(kind, &e));
	if (!lock || !lock_kind_is_futex(kind))
		return n;
	if (locks_is_cut(l, lock) || !k)
		snprintf(l->text, sizeof(l->text), "(other)");
	else
		print_name(l, k, kind);
	out[n++] = label_of(LOCK_NAME_KEY, l->text);
	return n;
}
