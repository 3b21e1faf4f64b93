/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BPF side: programs loaded and attached to the events of every online CPU, and the shared
 * memory through which samples come out. After sampler_start no bpf() system call is made, because
 * they make the kernel skip samples, but for those of sampler_add_shard and sampler_drop_shard.
 */
#ifndef ASCRIBE_SAMPLER_H
#define ASCRIBE_SAMPLER_H

#include "sampler/events.h"
#include "sampler/probe.h"
#include "util/err.h"

#include <linux/types.h>
#include <stddef.h>
#include "hotspot_wire.h"
#include "v8_wire.h"
#include "wire.h"

#define SAMPLER_PROCESSES 16384u
#define INSTANT_WAIT_NS 1000000u

/* A place of an event that is a probe. */
struct sampler_probe {
	unsigned event; /* its index */
	bool frees;	/* of an event of allocations: hits are no samples, but free one */
	int file;	/* open for reading; the caller's */
	struct probe_place place;
};

#define SAMPLER_LATENCY_KEY 64

struct sampler_config {
	struct event event[MAX_EVENTS];
	unsigned n_events;
	unsigned hz;
	unsigned window_s;	/* the longest time between two drains */
	uint32_t pid_namespace; /* proc_namespace */
	const struct sampler_probe
		*probes; /* of all events that are probes; read by sampler_open */
	size_t n_probes;
	enum selection selection;
	const uint32_t *ids; /* SELECTION_TGIDS, SELECTION_TIDS */
	size_t n_ids;
	const struct selected_cgroup *cgroups; /* SELECTION_CGROUP; the deepest first */
	size_t n_cgroups;		       /* at most CGROUPS_MAX */
	/*
	 * Cgroups are chosen while recording: sampler_choose. selects: by this choice some are not
	 * recorded, and neither are idle CPUs
	 */
	bool chooses, selects;
	struct selection_rules *selection_rules; /* for user/attribute/chooser; NULL: none */
	/*
	 * Rates in Hz, up to those of event[]: rates[0], and those of sampler_choose. 0: all have
	 * the rate of event[]
	 */
	unsigned rates[RATES_MAX], n_rates;
	bool no_labels;		       /* for measuring what they cost */
	size_t label_sets;	       /* kept of one process; 0: 32,768 */
	const struct recipes *recipes; /* for user/attribute/labelling; NULL: none */
	/*
	 * Samples that each one stands for in the store; 0: 1. The period of event[] is that many
	 * times what its ns_per_sample says
	 */
	unsigned weight;
	bool waits_saved; /* waits were given up to save CPU time: windows say so */
	/* This process recorded before: what it used until now is counted already */
	bool resumed;
	/* For user/attribute/sets: read the command lines of processes that are sampled */
	bool cmdline;
	bool jvm_attach; /* for user/stacks/resolve: ask JVMs for the names of their code */
	bool wakers;	 /* with waits: who ends them */
	/* When each sample was taken is kept, and of waits those from INSTANT_WAIT_NS on */
	bool instants;
	/*
	 * With waits: the key of a label. Weigh samples and waits by how many threads are active
	 * for the same value of it; "": do not
	 */
	char latency[SAMPLER_LATENCY_KEY];
	/*
	 * With waits: how long labels that were read count, and the shortest wait whose waker has a
	 * stack; 0: 1 ms
	 */
	uint64_t wait_ns;
	unsigned claim_cpus; /* for tests: make tables for so many CPUs though there are fewer */
	/*
	 * Of a CPU's table to begin with; 0: by table_bytes. In the end the budget of sizes.h
	 * counts
	 */
	uint32_t table_rows;
	/* Of all CPUs' tables to begin with; 0: as many rows as a window may need */
	size_t table_bytes;
	uint32_t processes;   /* that the BPF programs know at a time; 0: SAMPLER_PROCESSES */
	size_t unwind_bytes;  /* budget of the unwind rows; 0: 64 MiB, made as they are needed */
	size_t symbols_bytes; /* of symbol tables that are kept; 0: SYMBOLIZER_TABLE_BYTES */
};

/*
 * Weigh by the label with this key; NULL: do not. -EINVAL: there cannot be such a label, or no
 * event is a clock.
 */
int sampler_set_latency(struct sampler_config *cfg, const char *key, struct err *err);

struct sampler;

/*
 * Load and attach, events disabled. Errors say what the host lacks (right, BTF, kernel feature) and
 * what to do.
 */
int sampler_open(struct sampler **ret, const struct sampler_config *cfg, struct err *err);
void sampler_close(struct sampler *s);

int sampler_start(struct sampler *s, struct err *err);
/* Disable the events; what was sampled stays to be drained. */
void sampler_stop(struct sampler *s);

/*
 * Select one more process (SELECTION_TGIDS), e.g. a child just made. -E2BIG when there is no place.
 */
int sampler_select(struct sampler *s, uint32_t id);

/*
 * With `chooses`: say of a v2 cgroup (or CHOSEN_KTHREADS) that it is not recorded, or at which rate
 * it is: CHOSEN_*, or the index in rates. -E2BIG when there is no place. Until then it is recorded
 * at the highest rate.
 */
int sampler_choose(struct sampler *s, uint64_t cgroup, uint32_t answer);
/* The answer for a cgroup. False: there is none. */
bool sampler_chosen(const struct sampler *s, uint64_t cgroup, uint32_t *ret_answer);
/* Forget the answers for all cgroups. */
void sampler_choose_anew(struct sampler *s);
/* Iterate over the cgroups that have an answer: *at begins with 0. False: no more. */
bool sampler_next_chosen(const struct sampler *s, uint32_t *at, uint64_t *ret_cgroup);
/*
 * What a sample of an event stands for in ns at the rate with this index; 0 where a sample is not a
 * time.
 */
uint64_t sampler_rate_ns(const struct sampler_config *cfg, unsigned event, unsigned rate);

unsigned sampler_n_cpus(const struct sampler *s);
/* Bytes of kernel memory. */
struct sampler_memory {
	size_t tables; /* arrays, of all CPUs */
	size_t rings;
	size_t threads; /* storage of the host's threads, where waits are watched */
	size_t unwind_rows;
};
void sampler_memory(const struct sampler *s, struct sampler_memory *ret);

/*
 * CPU time of the programs since the start, in ns; 0 where the kernel does not count it. Call it
 * every few seconds: the time is measured in some of the intervals and estimated for the others.
 */
struct sampler_bpf_ns {
	uint64_t sampling; /* of the programs that take samples */
	uint64_t others;   /* that measure waits, and that follow processes */
};
struct sampler_bpf_ns sampler_bpf_ns(struct sampler *s, uint64_t now_ns);

/* Rows of a CPU's table; *ret_may_grow: there is use and room for twice as many. */
uint32_t sampler_table_rows(const struct sampler *s, bool *ret_may_grow);
/* Of a CPU's ring of the side-band, within the same budget. */
size_t sampler_sideband_bytes(const struct sampler *s);

/* The longest time between two drains. */
unsigned sampler_drain_ms(const struct sampler *s);

/* A drained half as it was when it was taken; borrowed during the callback. */
struct sampler_half {
	unsigned cpu;
	uint32_t id; /* wire_copy.half of the copies that belong to it */
	const struct half *head;
	const struct row *rows; /* all in use */
	uint32_t n_rows;
	const uint64_t *arena;
	uint32_t arena_words;
	/* `row` is an index in rows, or UINT32_MAX. In the order in which samples were taken */
	const struct instant *instants;
	uint32_t n_instants;
	/*
	 * What found no row, all 0 but where the head counts wait_rows_full or wait_parts_full;
	 * NULL: no waits
	 */
	const struct wait_others *others;
};

/*
 * Take what all CPUs have written, within milliseconds; then the ring's records; then hand each
 * CPU's part to on_half. So the definition of every label set of a row has been seen before the
 * row.
 */
int sampler_drain(struct sampler *s, void (*on_half)(void *ctx, const struct sampler_half *h),
		  void *ctx);

/*
 * Records of the ring go to on_record, of sampler_poll_ring and sampler_drain alike. payload has
 * record->size bytes, already checked to be there.
 */
void sampler_on_record(struct sampler *s,
		       void (*on_record)(void *ctx, const struct wire_record *r,
					 const void *payload),
		       void *ctx);
/* Samples that user space is to unwind; n_stack bytes at stack. */
void sampler_on_copy(struct sampler *s,
		     void (*on_copy)(void *ctx, const struct wire_copy *c, const uint8_t *stack),
		     void *ctx);
int sampler_poll_ring(struct sampler *s);
int sampler_ring_fd(const struct sampler *s);

/* Words of a row in its arena: of its stack, of its occupant, or of both. */
uint32_t sampler_row_words(const struct row *row);

/*
 * Report the parts of waits that go on, and sums of waits that are in no half. `words` are those of
 * sampler_row_words, and a struct wire_hang where the row says so; futex is that of struct
 * wire_wait. Call it after sampler_drain, at
 * the end of each window and after sampler_stop: what it reported is in no row later. 0 or -errno
 * of the iterator; without waits 0.
 */
typedef void sampler_on_wait(void *ctx, const struct row *row, const uint64_t *words,
			     uint64_t futex);
int sampler_waits(struct sampler *s, sampler_on_wait *on_wait, void *ctx);

/*
 * What went wrong with weights since the last call: threads that found no group, clocks that were
 * not read in time, threads that were counted after their end. Call it after sampler_waits, at the
 * end of each window: it begins the next count.
 */
struct sampler_latency {
	uint64_t alone, locked, recounted;
};
void sampler_latency_end_window(struct sampler *s, struct sampler_latency *ret);

/*
 * The accounting of a CPU since the start: what its events say fired (in samples), and what reached
 * our program. Exact once stopped; while running, one sample of each event may be under way.
 */
struct sampler_fired {
	uint64_t fired, ran;
	unsigned behind;   /* events with a sample that fired and has not run (yet) */
	uint64_t idle;	   /* of ran: on an idle CPU */
	uint64_t clock_ns; /* time between two samples of a clock event; 0 when there is none */
};
void sampler_fired(struct sampler *s, unsigned cpu, struct sampler_fired *ret);

/*
 * Whether stacks of waits and of wakers are taken, which they are in the beginning. Waits are
 * measured either way.
 */
void sampler_take_wait_stacks(struct sampler *s, bool take);

/* Samples that wait in the tables for the next drain: for progress, not exact. */
uint64_t sampler_pending(const struct sampler *s);

/*
 * CPUs that came or went since the last call: events are opened or closed to match. The number of
 * changes.
 */
int sampler_follow_cpus(struct sampler *s, void (*on_change)(void *ctx, unsigned cpu, bool online),
			void *ctx);

/*
 * End the probes of an event whose file was written to since they were found, also where another
 * program stands in it now: the kernel goes on to put breakpoints at the same offsets. Return the
 * event, NULL: none.
 */
const struct event *sampler_end_stale_probes(struct sampler *s);

/* The events whose probes nobody has hit up to the last drain: 1 << event. */
uint32_t sampler_unhit_probes(const struct sampler *s);

/* CPUs that are online and were not present when recording began: nothing of them is recorded. */
unsigned sampler_unknown_cpus(const struct sampler *s);
/* Samples on CPUs that have no table. */
uint64_t sampler_bad_cpu(const struct sampler *s);

/*
 * Publish the label slots of a process image and e->n_sources sources. Replaces what is there for
 * it, except its ranges, and since_ns where it says the same. -E2BIG: no place.
 */
int sampler_publish(struct sampler *s, const struct proc_entry *e,
		    const struct label_source *sources);
void sampler_withdraw(struct sampler *s, uint32_t tgid, uint64_t start_ns, uint32_t exec_id);
/* Find the published image that a wire_record names as its lender. False: it is withdrawn. */
bool sampler_lender(const struct sampler *s, const struct wire_record *r, uint32_t *ret_tgid,
		    uint64_t *ret_start_ns);

/* The steps of label paths, [LABEL_STEPS], in shared memory. */
struct label_step *sampler_label_steps(const struct sampler *s);

/*
 * What user space keeps of a process's label sets is full: no more of them are sent. And: has a set
 * of it not been sent, for this reason or because there were too many in one second?
 */
void sampler_stop_labels(struct sampler *s, uint32_t tgid, uint64_t start_ns, bool stop);
bool sampler_labels_limited(const struct sampler *s, uint32_t tgid, uint64_t start_ns);

/*
 * The tables of include/unwind_wire.h in shared memory, NULL where the program does not unwind by
 * rules. Rows come in shards, made when they are needed: a bpf() call each, so seldom. A shard's 1
 * << UNWIND_SHARD_BITS rows are where sampler_shard says until sampler_unmap_shards,
 * sampler_drop_shard or sampler_close: their memory is the kernel's, and is resident here only
 * while somebody looks.
 */
struct sampler_unwind {
	struct unwind_range *ranges;  /* [UNWIND_RANGES] */
	struct unwind_page *pages;    /* [UNWIND_PAGES] */
	struct unwind_rule *rules;    /* [UNWIND_RULES] */
	struct hotspot_code *hotspot; /* [HOTSPOT_CODES], include/hotspot_wire.h */
	struct v8_layout *v8;	      /* [V8_LAYOUTS], include/v8_wire.h */
};
void sampler_unwind(const struct sampler *s, struct sampler_unwind *ret);
int sampler_add_shard(struct sampler *s, unsigned shard);
/* NULL: there is no such shard, or no memory. */
uint32_t *sampler_shard(struct sampler *s, unsigned shard);
void sampler_unmap_shards(struct sampler *s);
/* Bytes of the shards that are not mapped now: memory that is ours all the same. */
size_t sampler_unmapped(const struct sampler *s);
/*
 * No row of it is in use. A bpf() call; its memory goes when no program can be reading it any more.
 */
int sampler_drop_shard(struct sampler *s, unsigned shard);

/* The ranges of an image that was published, as in struct proc_entry. */
void sampler_set_ranges(struct sampler *s, uint32_t tgid, uint64_t start_ns, uint32_t exec_id,
			uint64_t ranges);

/*
 * Wait until no CPU is any more in a sample that began before the call: what was replaced may be
 * reused. Microseconds.
 */
void sampler_pass(struct sampler *s);

/*
 * Ask for all definitions again: those made before carry another generation. Returns the new one.
 */
uint32_t sampler_new_generation(struct sampler *s);

/*
 * CPUs in a list file such as /sys/devices/system/cpu/online; calls back for each; -errno when
 * unreadable.
 */
int sampler_cpu_list(const char *path, void (*cb)(void *ctx, unsigned cpu), void *ctx);

#endif
