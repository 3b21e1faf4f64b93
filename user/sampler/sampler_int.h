/* SPDX-License-Identifier: Apache-2.0 */
/* What sampler.c (programs, events, draining) and published.c (what the programs read) share. */
#ifndef ASCRIBE_SAMPLER_INT_H
#define ASCRIBE_SAMPLER_INT_H

#include "sampler/programs.h"

#include "sample.skel.h"

#define SAMPLER_SCHED_LINKS 11
#define SAMPLER_SWITCH_LINKS 7 /* from here on those of sched_switch */

struct cpu {
	int fd[MAX_EVENTS];   /* -1: not open */
	int link[MAX_EVENTS]; /* of the program to the event; -1: none */
	bool online, counted;
	uint64_t base[MAX_EVENTS]; /* counts of descriptors that were closed with their CPU */
	/* Of the event, just before the last drain: what ran since then is not drained yet */
	uint64_t count[MAX_EVENTS];
	uint64_t look_covered, look_count; /* of the clock, when the CPUs were last looked at */
	uint64_t ran[MAX_EVENTS], covered[MAX_EVENTS], idle; /* of struct half, drained so far */
};

/* The estimate of sampler_bpf_ns. */
struct sampler_bpf_time {
	uint64_t at_ns; /* the last call */
	unsigned calls;
	struct sampler_bpf_part {
		uint64_t ns;	     /* up to then */
		uint64_t counted_ns; /* by the kernel, when counting began */
		double share;	     /* of one CPU, when it was measured last */
	} part[2];		     /* of the programs that sample, of all others */
	int stats_fd;		     /* the kernel counts while it is open; 0: it is not */
};

struct sampler {
	struct sampler_config cfg;
	struct programs programs;
	struct sample_bpf__bss *bss; /* variables of the programs */
	struct sample_bpf__data *data;
	struct ring_buffer *ring, *copies; /* records; samples that come as copies */
	int rings;			   /* of epoll: either has something */
	unsigned n_cpus;
	unsigned unknown_cpus; /* the most at a time */
	bool running;
	uint8_t *halves;	     /* sizes.n_halves of sizes.half_bytes */
	uint32_t *spare, n_spares;   /* ids of halves that no CPU has */
	struct sampler_taken *taken; /* of each CPU, in a drain */
	uint32_t *place;	     /* where rows of the half in hand went, by their index in it */
	struct cpu_state *states;
	uint32_t n_procs; /* entries of procs and labels, a power of two */
	struct proc_entry *procs;
	struct proc_labels *labels; /* by the index in procs */
	struct label_step *steps;
	uint64_t *selected;
	struct chosen_cell *chosen;
	struct sampler_unwind unwind;
	uint32_t *shards[UNWIND_SHARDS]; /* NULL: not mapped now */
	bool shard_made[UNWIND_SHARDS];
	int shard_fd[UNWIND_SHARDS];
	struct open_probe *probes; /* those of one link side by side */
	size_t n_probes;
	struct probe_arguments *places; /* PROBE_PLACES, by the index in probes; NULL: no probes */
	/* Links of programs; -1: none */
	int tracepoint[MAX_EVENTS], fork, ended, calls_exit, sched[SAMPLER_SCHED_LINKS], threads;
	bool waits, wakers, latency;  /* the scheduler is watched; who wakes; weights */
	struct wait_others *others;   /* of each half; NULL: no waits */
	struct latency_group *groups; /* LATENCY_GROUPS; NULL: no weights */
	struct latency_flaws flaws;   /* told already */
	void (*on_record)(void *ctx, const struct wire_record *r, const void *payload);
	void *record_ctx;
	void (*on_copy)(void *ctx, const struct wire_copy *c, const uint8_t *stack);
	void *copy_ctx;
	struct sampler_bpf_time bpf_time;
	struct cpu *cpu;
};

struct open_probe {
	struct sampler_probe at; /* its file is open until the probe ends */
	enum probe_part part;
	struct probe_written { /* when the file was written last, and how long it is then */
		int64_t at_s;
		uint64_t at_ns, size;
	} written;
	int fd, link; /* of the perf event, and of the program; -1: none */
};

/* A table and where to put the address of its memory, which user space shares with the programs. */
struct sampler_table {
	enum program_fd map;
	size_t size;
	void **ret;
};

/* Map n tables. 0 or -errno, with those mapped that came before; sampler_close unmaps them. */
int sampler_map_tables(struct sampler *s, const struct sampler_table *table, size_t n,
		       struct err *err);

/*
 * Attach a program that is loaded: to its tracepoint of the kernel; as its iterator. The link's
 * descriptor in *ret_fd. 0 or -errno.
 */
int sampler_attach_traced(const struct sampler *s, enum program_fd program, int *ret_fd);
int sampler_attach_iterator(const struct sampler *s, enum program_fd program, int *ret_fd);
/* And to a perf event, with its cookie, which the program reads. */
int sampler_attach_event(const struct sampler *s, enum program_fd program, int event_fd,
			 uint64_t cookie, int *ret_fd);
/* Detach it; *fd is -1 then. */
void sampler_detach(int *fd);

/* The half that a CPU writes. */
struct half *sampler_half_of(const struct sampler *s, unsigned cpu);
/* Give each CPU a half before anything runs (drain.c). 0 or -ENOMEM; to be released either way. */
int sampler_give_halves(struct sampler *s);
void sampler_free_drain(struct sampler *s);

/*
 * The events of a CPU (cpus.c): open them, not yet enabled; close them, what they counted is kept;
 * PERF_EVENT_IOC_ENABLE or PERF_EVENT_IOC_DISABLE for all. After an error of the first the second
 * is due.
 */
int sampler_attach_cpu(struct sampler *s, unsigned cpu, struct err *err);
void sampler_detach_cpu(struct sampler *s, unsigned cpu);
void sampler_set_cpu(struct sampler *s, unsigned cpu, unsigned long what);

/* Open all places of probes; attach the program, by which hits begin; detach it; close them. */
int sampler_open_probes(struct sampler *s, struct err *err);
int sampler_attach_probes(struct sampler *s, struct err *err);
void sampler_detach_probes(struct sampler *s);
void sampler_close_probes(struct sampler *s);

/* Let the kernel count no run times any more (cost.c). */
void sampler_end_bpf_time(struct sampler *s);

/* The tables of unwind rules. */
int sampler_map_unwind(struct sampler *s, struct err *err);
void sampler_unmap_unwind(struct sampler *s);

/*
 * The scheduler (sampler_waits.c): the programs that are needed, attached in an order in which no
 * thread is missed; detached.
 */
int sampler_map_waits(struct sampler *s, struct err *err);
void sampler_unmap_waits(struct sampler *s);
int sampler_attach_waits(struct sampler *s, struct err *err);
void sampler_begin_waits(struct sampler *s); /* what is waited for counts from now on */
void sampler_end_waits(struct sampler *s);   /* what is waited for counts until now */
void sampler_detach_waits(struct sampler *s);

/* The groups of weights (sampler_latency.c). */
int sampler_map_latency(struct sampler *s, struct err *err);
void sampler_unmap_latency(struct sampler *s);

#endif
