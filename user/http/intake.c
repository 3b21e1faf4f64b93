/* SPDX-License-Identifier: Apache-2.0 */
#include "http/intake.h"

#define NS 1000000000ull

void intake_init(struct intake *i)
{
	*i = (struct intake){ .credit = INTAKE_BURST };
	pthread_mutex_init(&i->lock, NULL);
}

void intake_fini(struct intake *i)
{
	pthread_mutex_destroy(&i->lock);
}

/* With the lock: add what time has brought since. */
static void refill(struct intake *i, uint64_t now_ns)
{
	uint64_t passed = now_ns - i->at_ns,
		 full = (uint64_t)(INTAKE_BURST - i->credit) * NS / INTAKE_RATE;
	if (passed >= full) {
		i->credit = INTAKE_BURST;
		i->at_ns = now_ns;
		return;
	}
	int64_t more = (int64_t)(passed * INTAKE_RATE / NS);
	i->credit += more;
	if (more) /* fractions of a byte are not lost */
		i->at_ns += (uint64_t)more * NS / INTAKE_RATE;
}

unsigned intake_delay_s(struct intake *i, uint64_t now_ns)
{
	pthread_mutex_lock(&i->lock);
	refill(i, now_ns);
	int64_t credit = i->credit;
	pthread_mutex_unlock(&i->lock);
	return credit > 0 ? 0 : (unsigned)(1 - credit / INTAKE_RATE);
}

void intake_charge(struct intake *i, size_t bytes, uint64_t now_ns)
{
	pthread_mutex_lock(&i->lock);
	refill(i, now_ns);
	i->credit -= (int64_t)bytes;
	pthread_mutex_unlock(&i->lock);
}

bool intake_hold(struct intake *i, size_t bytes)
{
	if (__atomic_add_fetch(&i->held, bytes, __ATOMIC_RELAXED) <= INTAKE_HELD_MAX)
		return true;
	intake_release(i, bytes);
	return false;
}

void intake_release(struct intake *i, size_t bytes)
{
	__atomic_sub_fetch(&i->held, bytes, __ATOMIC_RELAXED);
}
