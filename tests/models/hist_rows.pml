/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a histogram: threads record the first values of some powers of two, and take a row of
 * counters for each from the places that are free, without a lock.
 *
 * Stands for
 *   user/hist/hist.h   hist_place, hist_counter, hist_record
 *   user/hist/hist.c   hist_row
 *
 * Four threads record one value each: two of one power of two, two of another. They start together.
 *
 * Proved: all values of a power of two are counted in the row that its place names, and no other.
 *
 * New memory is zero, and each step is one relaxed atomic instruction on one word: threads agree on
 * the order of the changes to each word.
 */
#define FREE 0
#define ROWS 3

byte taken[ROWS]; /* the shift that has this row */
byte place[3];	  /* by shift, 1 and 2: index of its row plus one */
byte count[ROWS];
byte threads = 4;

proctype record(byte shift)
{
	byte i, at, owner;
	at = place[shift];
	if
	:: at
	:: else ->
		do
		:: assert(i < ROWS);
#if BROKEN == 1 /* it looks and stores in two steps */
			owner = taken[i];
			if
			:: owner == FREE -> taken[i] = shift
			:: else
			fi;
#else
			d_step {
				owner = taken[i];
				if
				:: owner == FREE -> taken[i] = shift
				:: else
				fi
			}
#endif
			if
			:: owner == FREE || (owner == shift && BROKEN != 2) -> break
			:: else -> i++
			fi
		od;
		at = i + 1;
		place[shift] = at
	fi;
	count[at - 1]++;
	threads--
}

init {
	atomic {
		run record(1);
		run record(1);
		run record(2);
		run record(2)
	}
	threads == 0;
	assert(place[1] != place[2]);
	assert(count[place[1] - 1] == 2 && count[place[2] - 1] == 2)
}
