/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Halves: the BPF programs of a CPU write one half, user space takes it and gives a spare one.
 *
 * Stands for
 *   bpf/common.bpf.h           cpu_state_step
 *   bpf/sample.bpf.c           sample, is_inside
 *   bpf/offcpu_account.bpf.h   half_enter, half_leave
 *   bpf/copy.bpf.h             copy_send (the id that a copy names)
 *   user/sampler/drain.c       take_some, wait_outside, take, sampler_drain
 *   user/stacks/copies.c       copies_take
 *
 * Two CPUs and one spare half, so a half wanders from CPU to CPU. On CPU 0 an interrupt samples at
 * any time, also inside of a program of the scheduler. A half is one word, the number of its rows.
 *
 * Proved: user space never takes a half while a program is inside; each sample is drained once, as
 * a row or as a copy; a copy is stored with the half that it began in.
 *
 * Loads keep their order: the first step is a full barrier, what a program loads of its half
 * depends on `active`, and user space loads a half behind a load of `seq` with acquire order.
 */
#define CPUS 3 /* the last one runs user space */
#define USER 2
#define HALVES 3
#define RUNS (2 - c) /* of the scheduler's program on CPU c */

#define ACTIVE(c) (c)
#define SEQ(c) (2 + (c))
#define ROWS(id) (4 + (id) % 4)
#define ID(id) (7 + (id) % 4)
#define PLACES 10
#define ROOM 4
#include "memory.pml"

#if BROKEN == 5 /* an id is an index alone */
#define GIVEN_OUT 0
#else
#define GIVEN_OUT 4
#endif

byte i_;
bool interrupted;	/* CPU 0: its program stands still */
byte inside[HALVES];	/* programs that write the half, whatever seq says */
byte fired, drained;
byte ended;

/* Copies on their way, by the id of their half: how many, and of which CPU. */
#define IDS 32
byte copies[IDS], kept[IDS], of_cpu[IDS];

/* SEQ + 1, as a full barrier or without any order. */
inline step(c, weak, may_run)
{
	if
	:: weak ->
		load(c, SEQ(c), seq);
		store(c, SEQ(c), seq + 1)
	:: else ->
		atomic { may_run && DRAINED(c) -> memory[SEQ(c)]++ }
	fi
}

/* One more row, or a copy that names the id which the half has. */
inline write_half(c, may_run)
{
	step(c, BROKEN == 2, may_run);
	atomic { may_run; load(c, ACTIVE(c), id); inside[id % 4]++ }
	atomic {
		may_run;
		if
		:: load(c, ROWS(id), rows); store(c, ROWS(id), rows + 1)
		:: load(c, ID(id), rows); copies[rows]++; of_cpu[rows] = c
		fi;
		fired++;
		inside[id % 4]--
	}
	step(c, BROKEN == 3, may_run)
}

/* The scheduler's programs, and samples beside none of them. */
proctype program(byte c)
{
	byte n, id, rows, seq;
	for (n : 1 .. RUNS) {
		write_half(c, (c || !interrupted))
	}
	atomic { DRAINED(c) -> n = 0; id = 0; rows = 0; seq = 0; ended++ }
}

/* A sample in an interrupt on CPU 0. */
proctype interrupt()
{
	byte id, rows, seq;
	interrupted = true;
	load(0, SEQ(0), seq);
	if
	:: seq % 2 && BROKEN != 7 /* counted as not_run: accounting.pml */
	:: else -> write_half(0, true)
	fi;
	atomic { id = 0; rows = 0; seq = 0; interrupted = false; ended++ }
}

byte spare = 2;
byte taken[2];

inline give(c)
{
	id = spare + GIVEN_OUT;
	load(USER, ACTIVE(c), spare);
	store(USER, ID(id), id);
#if BROKEN == 4
	store(USER, ACTIVE(c), id);
#else
	store_release(USER, ACTIVE(c), id);
#endif
#if BROKEN != 1
	DRAINED(USER)
#endif
}

inline wait_outside(c)
{
	load(USER, SEQ(c), seq);
	if
	:: seq % 2 && BROKEN != 6 -> memory[SEQ(c)] != seq
	:: else
	fi
}

inline take(c)
{
	atomic {
		load(USER, ROWS(spare), rows);
		drained = drained + rows;
		taken[c] = spare;
		assert(!inside[spare % 4])
	}
	store(USER, ROWS(spare), 0)
}

/* The ring, then the copies of each half that was taken. */
inline poll()
{
	d_step {
		for (i_ : 0 .. IDS - 1) {
			kept[i_] = kept[i_] + copies[i_];
			copies[i_] = 0
		}
		for (c : 0 .. 1) {
			assert(!kept[taken[c]] || of_cpu[taken[c]] == c);
			drained = drained + kept[taken[c]];
			kept[taken[c]] = 0
		}
		i_ = 0;
		c = 0
	}
}

active proctype user()
{
	byte c, id, seq, rows;
	atomic {
		for (c : 0 .. 1) {
			memory[ACTIVE(c)] = c;
			memory[ID(c)] = c
		}
		memory[ID(2)] = 2;
		c = 0;
		run drain_buffer(0);
		run drain_buffer(1);
		run drain_buffer(USER);
		run program(0);
		run program(1);
		run interrupt()
	}
	for (c : 0 .. 1) {
		give(c);
		wait_outside(c);
		take(c)
	}
	poll();
	/* What the next drain would find */
	atomic {
		ended == 3 && DRAINED(USER);
		for (c : 0 .. 1) {
			id = memory[ACTIVE(c)];
			drained = drained + memory[ROWS(id)];
			taken[c] = id
		}
		poll();
		assert(drained == fired)
	}
}
