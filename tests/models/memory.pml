/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory as CPUs see it: a store waits in the buffer of its CPU before the others see it.
 *
 *   ARM64 0   x86: stores leave the buffer in their order
 *   ARM64 1   a store overtakes older stores to other places; one with release order overtakes none
 *
 * Loads do not overtake each other here: each model says why its loads cannot, or loads in both
 * orders itself.
 *
 * A model defines CPUS, PLACES (words of memory) and ROOM (stores that a buffer holds at most), and
 * then includes this file.
 */
byte memory[PLACES];

typedef store_buffer {
	byte n;
	byte place[ROOM];
	byte value[ROOM];
	bool release[ROOM];
};
store_buffer buffer[CPUS];

/* Set to what the CPU sees at place p: its own last store, else the memory. */
inline load(cpu, p, to)
{
	d_step {
		to = memory[p];
		for (i_ : 0 .. ROOM - 1) {
			if
			:: i_ < buffer[cpu].n && buffer[cpu].place[i_] == p ->
				to = buffer[cpu].value[i_]
			:: else
			fi
		}
		i_ = 0
	}
}

inline store_ordered(cpu, p, v, r)
{
	d_step {
		buffer[cpu].n < ROOM;
		buffer[cpu].place[buffer[cpu].n] = p;
		buffer[cpu].value[buffer[cpu].n] = v;
		buffer[cpu].release[buffer[cpu].n] = r;
		buffer[cpu].n++
	}
}

inline store(cpu, p, v) { store_ordered(cpu, p, v, false) }
inline store_release(cpu, p, v) { store_ordered(cpu, p, v, true) }

/* A full barrier; it may stand before an atomic step on memory. */
#define DRAINED(cpu) (buffer[cpu].n == 0)

/* May the store at index i leave the buffer before the i older ones? */
#if ARM64
#define DIFFERS(cpu, i, j) ((i) <= (j) || buffer[cpu].place[i] != buffer[cpu].place[j])
#define OVERTAKES(cpu, i) (buffer[cpu].n > (i) && !buffer[cpu].release[i] && \
	DIFFERS(cpu, i, 0) && DIFFERS(cpu, i, 1) && DIFFERS(cpu, i, 2))
#else
#define OVERTAKES(cpu, i) false
#endif

/* Stores leave the buffer of a CPU at any time, one for each CPU. */
proctype drain_buffer(byte cpu)
{
	byte at;
end:
	do
	:: atomic {
		buffer[cpu].n ->
		at = 0;
		if
		:: true
		:: OVERTAKES(cpu, 1) -> at = 1
		:: OVERTAKES(cpu, 2) -> at = 2
		:: OVERTAKES(cpu, 3) -> at = 3
		fi;
		memory[buffer[cpu].place[at]] = buffer[cpu].value[at];
		buffer[cpu].n--;
		do
		:: at < buffer[cpu].n ->
			buffer[cpu].place[at] = buffer[cpu].place[at + 1];
			buffer[cpu].value[at] = buffer[cpu].value[at + 1];
			buffer[cpu].release[at] = buffer[cpu].release[at + 1];
			at++
		:: else ->
			buffer[cpu].place[at] = 0;
			buffer[cpu].value[at] = 0;
			buffer[cpu].release[at] = false;
			at = 0;
			break
		od
	}
	od
}
