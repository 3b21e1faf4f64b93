/* SPDX-License-Identifier: Apache-2.0 */
/* What this process itself costs, and may use. Any thread. */
#ifndef ASCRIBE_UTIL_OWN_H
#define ASCRIBE_UTIL_OWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* User and system time of all its threads, in ns. */
uint64_t own_cpu_ns(void);

/* Give up a raised priority: the calling thread runs at nice 0 if its nice value was below. */
void own_thread_be_nice(void);

/* Resident memory in bytes; 0 when /proc does not say. */
uint64_t own_rss_bytes(void);

/* Of it, what is no file's and no map's: what was allocated. */
uint64_t own_private_bytes(void);
/* The same of a child. 0 when /proc does not say. */
uint64_t own_child_bytes(int pid);

/*
 * Memory of this process and of its children. Children have the program's pages in common with us,
 * so of them only what is their own counts.
 */
struct own_memory {
	uint64_t anonymous; /* of this process, shared memory included */
	uint64_t files;	    /* pages of files and of BPF maps that are mapped */
	/* That this process had at its peak, beyond what it has now: own_begin_peak */
	uint64_t more;
	uint64_t children; /* anonymous memory of all descendants */
	unsigned n_children;
	uint64_t first_children_cpu_ns; /* CPU time of the direct children themselves */
};

/* Cost: reads some files of /proc. Children of the main thread alone are found. */
void own_memory(struct own_memory *ret);

/* Peaks count from now on. False: the peak stays that of the whole life. One thread. */
bool own_begin_peak(void);

/* As many descriptors as the hard limit allows. */
void own_raise_file_limit(void);

/*
 * Return the least of the memory limits of this process's cgroups and those above them, as far as
 * they can be seen from here; 0: none.
 */
uint64_t own_memory_limit(void);

/* Children with budgets of their own. */
enum own_child { OWN_CAPTURE, OWN_SERVER, N_OWN_CHILDREN };

/* Count this process as our child, whoever started it, and its children as if they were our own. */
void own_count_through(pid_t pid);

/* Leave a child with its descendants out of own_memory; 0: none. One thread. */
void own_leave_out(enum own_child which, pid_t pid);

#endif
