/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by unwinding.c (processes) and codes.c (contents of files and their rules) only. */
#ifndef ASCRIBE_STACKS_UNWINDING_INT_H
#define ASCRIBE_STACKS_UNWINDING_INT_H

#include "stacks/ranges.h"
#include "stacks/unwinding.h"
#include "unwind/pool.h"
#include "util/pace.h"
#include "util/quota.h"

#define CODE_BUCKETS 4096

/* One content of a file. */
struct code {
	struct code *next;
	uint8_t id[RESOLVER_CONTENT];
	uint32_t users;		    /* lists of ranges that lead to it */
	bool wanted;		    /* a stack has led here */
	bool tried;		    /* compiled, or found impossible */
	bool no_room;		    /* to be tried again when there is room */
	struct symbols_again again; /* it is not compiled yet */
	struct symbols_job job;
	uint64_t used_ns; /* when the last user went */
	struct unwind_code part;
};

#define WALKS_SHARE 9	       /* a tenth of our time */
#define WALK_SLOW_NS 200000ull /* a walk that takes longer counts as a look */

/* An image that is sampled: its proc_image.layer[PROC_UNWIND]. */
struct process {
	struct proc_id id;
	struct proc_image *image; /* NULL: it has ended while it was being updated */
	struct range_list *list;  /* published; NULL: none */
	struct list_node waits;	  /* of unwinding.waiting: to be updated */
	/* Of unwinding.lacking: one of its files found no room, or is not compiled yet: */
	struct list_node lacks;
	bool late;
	struct pace walks; /* of its stacks */
	bool slow;	   /* the last one was */
	/* Of unwinding.partial: its list has files that nobody wants yet */
	struct list_node partial;
	uint64_t grace_ns;     /* until when it waits for all of its files; 0: it does not */
	struct list_node used; /* of unwinding.used, while it has a list */
	uint64_t used_ns;      /* when it was last sampled, as far as its rows were read */
};

/* In turn: ourselves last, for we have many files, and others wait. */
enum turn { OTHERS, OURSELVES, TURNS };

struct unwinding {
	struct sampler *sampler;
	struct procs *procs;
	struct resolver *resolver;
	unsigned op;
	struct sampler_unwind shared;
	struct unwind_pool *pool;
	struct range_lists lists;
	struct code *codes[CODE_BUCKETS];
	struct list waiting[TURNS];
	struct list lacking, partial;
	struct list used;	 /* processes that have a list: who was sampled last is last */
	struct process *current; /* which is being updated */
	size_t n_codes;
	struct quota processes; /* of PROCESSES_MAX */
	uint64_t retry_ns;	/* when to look again at those that lack something */
	struct unwinding_stats stats;
};

/*
 * Report processes that have ended before the window does: they use nothing any more. True when
 * there was one.
 */
bool unwinding_let_go(struct unwinding *u);

/* ---- codes.c ---- */

/* Return the code of a mapping's file, NULL when there is none to be had. */
struct code *code_of_map(struct unwinding *u, const struct proc_image *im,
			 const struct proc_map *m);
/* True if no stack has led to it and it is not compiled; false for NULL. */
bool code_is_unwanted(const struct code *c);
/* Ask for the rules of a code, or take them: c->tried says that this is done. */
void code_compile(struct unwinding *u, struct code *c, struct proc_image *im,
		  const struct proc_map *m);
/* Is there a code with rows that nobody uses? */
bool codes_any_unused(const struct unwinding *u);
/* Give back rows that were made for a moment of many programs, in time. */
void codes_give_back(struct unwinding *u);
void codes_free(struct unwinding *u);

#endif
