/* SPDX-License-Identifier: Apache-2.0 */
#include "hist/hist.h"
#include "hist/hist_int.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

/* rows begin behind one cache line, so that no place in use is below 64 */
#define FIRST 16u
#define LOCKED_ADD (1u << 16) /* hist_add of more than that at once works under the lock */
#define WAIT_AT (3u << 30)

_Static_assert(HIST_HALF == 1u << 31, "the sign says when to carry");

unsigned hist_bits(double error)
{
	unsigned bits = 0;
	while (bits < HIST_BITS_MAX && 1.0 / (2u << bits) > error)
		bits++;
	return bits;
}

int hist_new(unsigned bits, struct hist **ret)
{
	if (bits > HIST_BITS_MAX)
		return -EINVAL;
	size_t page = 4096,
	       low = sizeof(struct hist) + (FIRST + HIST_BUCKETS(bits)) * sizeof(uint32_t);
	low = (low + page - 1) & ~(page - 1);
	size_t bytes = low + HIST_BUCKETS(bits) * sizeof(uint32_t);
	struct hist *h =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (h == MAP_FAILED)
		return -ENOMEM;
	h->bits = (uint8_t)bits;
	h->map_bytes = bytes;
	h->high = (uint32_t *)(void *)((char *)h + low);
	for (unsigned log = 0; log <= bits; log++)
		h->place[log] = FIRST << 6;
	*ret = h;
	return 0;
}

void hist_free(struct hist *h)
{
	if (h)
		munmap(h, h->map_bytes);
}

size_t hist_bytes(const struct hist *h)
{
	size_t rows = 2;
	for (unsigned i = 0; i < 64 && __atomic_load_n(&h->taken[i], __ATOMIC_RELAXED); i++)
		rows++;
	return sizeof(*h) + (FIRST + (rows << h->bits)) * sizeof(uint32_t);
}

/*
 * Places are taken from the first one on, by writing into them whose they are. All who look for the
 * row of one shift pass the same taken places and stop at the same one, so they agree without
 * waiting for each other. New memory is zero, so nothing needs an order.
 */
uint32_t hist_row(struct hist *h, uint64_t value)
{
	unsigned i = 0, log = hist_log2(value), shift = log - h->bits;
	for (;; i++) {
		uint8_t owner = 0;
		if (__atomic_compare_exchange_n(&h->taken[i], &owner, (uint8_t)shift, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
		    owner == shift)
			break;
	}
	/* Behind the two rows of shift 0; a value that was shifted begins at 1 << bits. */
	uint32_t place = (FIRST + ((1 + i) << h->bits)) << 6 | shift;
	__atomic_store_n(&h->place[log], place, __ATOMIC_RELAXED);
	return place;
}

static bool try_lock(struct hist *h)
{
	return !__atomic_exchange_n(&h->lock, 1, __ATOMIC_ACQUIRE);
}

void hist_lock(struct hist *h)
{
	while (!try_lock(h))
		sched_yield();
}

void hist_unlock(struct hist *h)
{
	__atomic_store_n(&h->lock, 0, __ATOMIC_RELEASE);
}

static void high_add(struct hist *h, uint64_t value, uint64_t n)
{
	uint32_t *high = &h->high[hist_bucket_index(h->bits, value)];
	if (!n)
		return;
	h->carried = 1;
	if (n > UINT32_MAX - *high)
		h->overflow = 1;
	else
		*high += (uint32_t)n;
}

/* Under the lock. An owner's plain stores cannot meet this: it is the owner who is here. */
static void carry_locked(struct hist *h, uint64_t value)
{
	uint32_t *c = hist_counter(h, value);
	if (__atomic_load_n(c, __ATOMIC_RELAXED) < HIST_HALF)
		return;
	high_add(h, value, 1);
	__atomic_fetch_sub(c, HIST_HALF, __ATOMIC_RELAXED);
}

void hist_carry(struct hist *h, uint64_t value)
{
	if (!try_lock(h)) {
		if (__atomic_load_n(hist_counter(h, value), __ATOMIC_RELAXED) < WAIT_AT)
			return;
		hist_lock(h);
	}
	carry_locked(h, value);
	hist_unlock(h);
}

/* By 2^30 at a time, so that others have as much room to record meanwhile. */
static void add_locked(struct hist *h, uint64_t value, uint64_t n)
{
	high_add(h, value, n / HIST_HALF);
	for (uint32_t rest = n % HIST_HALF, piece; rest; rest -= piece) {
		piece = rest < HIST_HALF / 2 ? rest : HIST_HALF / 2;
		carry_locked(h, value);
		__atomic_fetch_add(hist_counter(h, value), piece, __ATOMIC_RELAXED);
	}
	carry_locked(h, value);
}

void hist_add(struct hist *h, uint64_t value, uint64_t n)
{
	if (n > LOCKED_ADD) {
		hist_lock(h);
		add_locked(h, value, n);
		hist_unlock(h);
	} else if ((int32_t)__atomic_add_fetch(hist_counter(h, value), (uint32_t)n,
					       __ATOMIC_RELAXED) < 0) {
		hist_carry(h, value);
	}
}
