/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A counter of a histogram: threads record values of one bucket, a snapshot is taken meanwhile.
 *
 * Stands for
 *   user/hist/hist.h       hist_record
 *   user/hist/hist.c       hist_carry, carry_locked, try_lock, hist_lock, hist_unlock
 *   user/hist/snapshot.c   read_all, read_row
 *
 * The counter has 3 bits instead of 32: HALF is 4 instead of 2^31, WAIT_AT 6 instead of 3/4 of the
 * range. Two threads record six values each, so the counter carries several times. Both
 * may be between their addition and their carry at once, which WAIT_AT leaves room for. In C there
 * is room for 2^14 threads that add 2^16 each.
 *
 * Proved: no counter wraps around; a snapshot has every value whose recording had ended when it
 * began, and none whose recording begins behind its end; at the end nothing is missing.
 *
 * Each step on the counter is one atomic instruction. What else is shared (high, carried) is read
 * and written under the lock, which is taken with acquire and given back with release order.
 */
#define RANGE 8
#define HALF 4
#define WAIT_AT 6
#define EACH 6

byte count, high;
bool lock;
byte begun, ended; /* recordings */
byte threads = 2;

/* carry_locked: another thread may have carried meanwhile. */
inline carry_locked()
{
#if BROKEN == 1 /* it does not look again */
	high++;
	count = (count + RANGE - HALF) % RANGE
#elif BROKEN == 5 /* the addition to high first, and the subtraction without the lock */
	high++;
	lock = false;
	count = (count + RANGE - HALF) % RANGE
#else
	if
	:: count >= HALF ->
		high++;
		count = (count + RANGE - HALF) % RANGE
	:: else
	fi
#endif
}

active [2] proctype record()
{
	byte n, seen;
	for (n : 1 .. EACH) {
		atomic {
			begun++;
			count++;
			assert(count < RANGE);
			seen = count
		}
		if
		:: seen >= HALF ->
#if BROKEN == 2 /* it works without the lock */
			carry_locked()
#else
			if
			:: atomic { !lock -> lock = true }
			:: atomic { lock -> seen = 0 }
			fi;
			if
			:: !seen ->
#if BROKEN == 3 /* who records never waits */
				seen = 0
#else
				atomic { seen = count }
				if
				:: seen < WAIT_AT -> seen = 0
				:: else -> atomic { !lock -> lock = true }
				fi
#endif
			:: else
			fi;
			if
			:: seen -> carry_locked(); lock = false
			:: else
			fi
#endif
		:: else
		fi;
		atomic { seen = 0; ended++ }
	}
	threads--
}

active proctype snapshot()
{
	byte least, low, sum;
	least = ended;
#if BROKEN != 4 /* without the lock */
	atomic { !lock -> lock = true }
#endif
	low = count;
	sum = low + HALF * high;
#if BROKEN != 4
	lock = false;
#endif
	assert(sum >= least && sum <= begun);
	threads == 0 -> assert(count + HALF * high == 2 * EACH)
}
