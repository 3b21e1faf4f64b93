/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of one thread: its owner counts by plain instructions, a snapshot is taken meanwhile,
 * and the next thread of the slot goes on with it.
 *
 * Stands for
 *   user/hist/hist.h       hist_record_own, hist_increment
 *   user/hist/hist.c       hist_carry, carry_locked
 *   user/hist/multi.c      give_back, take_slot
 *   user/hist/snapshot.c   read_all, read_row
 *
 * The counter has 3 bits as in hist.pml. Two threads of two CPUs own it in turn.
 *
 * Proved: a value that was recorded is never lost, also across a carry and a change of the owner; a
 * snapshot has no more than what was recorded, and no less than the snapshot before it.
 *
 * Loads keep their order: the owner alone writes the counter; a snapshot reads behind taking the
 * lock with acquire order.
 */
#define CPUS 3
#define READER 2
#define COUNT 0
#define HIGH 1
#define LOCK 2
#define SLOTS 3 /* slots.lock of multi.c: 1 while the slot has an owner */
#define PLACES 4
#define ROOM 4
#include "memory.pml"

#define HALF 4
#define EACH 3

byte i_;
byte begun, threads = 2;

/* An atomic exchange with acquire order. It comes behind the stores before it, as any does. */
#define TRY_LOCK(cpu) (DRAINED(cpu) && !memory[LOCK])

inline give_lock_back(cpu)
{
#if BROKEN == 1 /* without release order */
	store(cpu, LOCK, 0)
#else
	store_release(cpu, LOCK, 0)
#endif
}

proctype owner(byte cpu)
{
	byte n, c, h;
#if BROKEN == 2 /* two owners at once */
#else
	atomic { DRAINED(cpu) && !memory[SLOTS] -> memory[SLOTS] = 1 }
#endif
	for (n : 1 .. EACH) {
		atomic { load(cpu, COUNT, c); begun++ }
		store(cpu, COUNT, c + 1);
		if
		:: c + 1 >= HALF ->
			atomic { TRY_LOCK(cpu) -> memory[LOCK] = 1 }
			load(cpu, HIGH, h);
			store(cpu, HIGH, h + 1);
#if BROKEN == 3 /* a plain subtraction of what was read before the carry */
			store(cpu, COUNT, c - HALF);
#else
			/* A relaxed atomic: it may overtake the store to high */
			load(cpu, COUNT, c);
			store(cpu, COUNT, c - HALF);
#endif
			give_lock_back(cpu)
		:: else
		fi
	}
	atomic { c = 0; h = 0 }
#if BROKEN == 4 /* the slot is given back without release order */
	store(cpu, SLOTS, 0);
#elif BROKEN != 2
	store_release(cpu, SLOTS, 0);
#endif
	threads--
}

active proctype snapshot()
{
	byte n, low, sum, last;
	atomic {
		run drain_buffer(0);
		run drain_buffer(1);
		run drain_buffer(READER);
		run owner(0);
		run owner(1)
	}
	for (n : 1 .. 3) {
		if
		:: n == 3 -> threads == 0 && DRAINED(0) && DRAINED(1)
		:: else
		fi;
		atomic { TRY_LOCK(READER) -> memory[LOCK] = 1 }
		load(READER, COUNT, low);
		load(READER, HIGH, sum);
		sum = low + HALF * sum;
		store_release(READER, LOCK, 0);
		assert(sum >= last && sum <= begun);
		last = sum
	}
	assert(sum == 2 * EACH)
}
