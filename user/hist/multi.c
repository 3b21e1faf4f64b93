/* SPDX-License-Identifier: Apache-2.0 */
#include "hist/multi.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

_Thread_local uint32_t hist_slot = HIST_SLOT_UNKNOWN;
const struct hist hist_none;

#define NONE ((struct hist *)(uintptr_t)&hist_none)

/* Slots are of the process, not of one histogram: a thread has the same one everywhere. */
static struct {
	pthread_mutex_t lock; /* also brings the last owner's counts to the next one */
	pthread_once_t once;
	pthread_key_t key;
	bool has_key;
	uint64_t used;
} slots = { .lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

_Static_assert(HIST_SLOTS == 64, "slots.used has one bit for each");

/*
 * value: the slot plus one. What the thread's later destructors record goes to the shared
 * histogram.
 */
static void give_back(void *value)
{
	uint32_t slot = (uint32_t)(uintptr_t)value - 1;
	hist_slot = HIST_SLOT_NONE;
	pthread_mutex_lock(&slots.lock);
	slots.used &= ~(1ull << slot);
	pthread_mutex_unlock(&slots.lock);
}

static void make_key(void)
{
	slots.has_key = !pthread_key_create(&slots.key, give_back);
}

/* Without a way to give it back, no slot. */
static uint32_t take_slot(void)
{
	uint32_t slot = HIST_SLOT_NONE;
	pthread_once(&slots.once, make_key);
	if (!slots.has_key)
		return slot;
	pthread_mutex_lock(&slots.lock);
	if (~slots.used)
		slot = (uint32_t)__builtin_ctzll(~slots.used);
	if (slot != HIST_SLOT_NONE && pthread_setspecific(slots.key, (void *)(uintptr_t)(slot + 1)))
		slot = HIST_SLOT_NONE;
	if (slot != HIST_SLOT_NONE)
		slots.used |= 1ull << slot;
	pthread_mutex_unlock(&slots.lock);
	return slot;
}

int hist_multi_new(unsigned bits, struct hist_multi **ret)
{
	struct hist_multi *m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	int rc = hist_new(bits, &m->shared);
	if (rc) {
		free(m);
		return rc;
	}
	for (unsigned i = 0; i < HIST_SLOTS + 2; i++)
		m->own[i] = NONE;
	*ret = m;
	return 0;
}

void hist_multi_free(struct hist_multi *m)
{
	if (!m)
		return;
	for (unsigned i = 0; i < HIST_SLOTS; i++)
		if (m->own[i] != NONE)
			hist_free(m->own[i]);
	hist_free(m->shared);
	free(m);
}

/*
 * The first value of a thread, of a thread in this histogram, of a row; and every one of a thread
 * without a slot.
 */
void hist_multi_slow(struct hist_multi *m, uint64_t value)
{
	struct hist *own;
	if (hist_slot == HIST_SLOT_UNKNOWN)
		hist_slot = take_slot();
	own = m->own[hist_slot];
	if (hist_slot < HIST_SLOTS && own == NONE && !hist_new(m->shared->bits, &own))
		__atomic_store_n(&m->own[hist_slot], own, __ATOMIC_RELEASE);
	if (own == NONE) /* no slot; or no memory now, and the next value tries again */
		hist_record(m->shared, value);
	else
		hist_record_own(own, value);
}

int hist_multi_snapshot(const struct hist_multi *m, struct hist_snapshot *s, struct err *err)
{
	struct hist_snapshot sum;
	hist_snapshot_init(&sum, m->shared->bits);
	int rc = hist_snapshot_add(&sum, m->shared, err);
	for (unsigned i = 0; i < HIST_SLOTS && !rc; i++) {
		const struct hist *own = __atomic_load_n(&m->own[i], __ATOMIC_ACQUIRE);
		if (own != NONE)
			rc = hist_snapshot_add(&sum, own, err);
	}
	if (!rc)
		rc = hist_snapshot_merge(s, &sum, err);
	hist_snapshot_fini(&sum);
	return rc;
}

size_t hist_multi_bytes(const struct hist_multi *m)
{
	size_t n = sizeof(*m) + hist_bytes(m->shared);
	for (unsigned i = 0; i < HIST_SLOTS; i++) {
		const struct hist *own = __atomic_load_n(&m->own[i], __ATOMIC_ACQUIRE);
		n += own != NONE ? hist_bytes(own) : 0;
	}
	return n;
}
