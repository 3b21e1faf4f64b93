/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ask ascribe's tables in ClickHouse (`ascribe push --format clickhouse`) by filling a store.
 *
 *   question --> one statement: the engine sums and keeps the largest rows --> store, as long as
 *                frames of the stacks that came --------------------------'   the question lives
 *
 * The code that answers from a store answers from this one, too. Values of a question are bound
 * parameters; a statement has no foreign text.
 */
#ifndef ASCRIBE_FLEET_FLEET_H
#define ASCRIBE_FLEET_FLEET_H

#include "query/found.h"
#include "query/query.h"

/* Texts are borrowed; NULL: none. */
struct fleet_server {
	const char *url;       /* http:// or https://, with ?database=NAME */
	const char *user;      /* NULL: the server's default */
	const char *password;  /* file */
	const char *authority; /* file with the CA's certificates */
};

#define FLEET_KEYS_MAX 64

/* Keys with few values in a fleet: what is kept where a question names none. */
#define FLEET_FEW_KEYS 8
extern const char *const fleet_few_keys[FLEET_FEW_KEYS];

struct fleet_question {
	const char *where;
	bool rest;		/* also what `where` does not admit: its keys are kept */
	int64_t from_ns, to_ns; /* INT64_MIN, INT64_MAX: open */
	/* What that is compared with, in the same store; windows begin in one of the ranges */
	bool compares;
	const char *against;
	int64_t against_from_ns, against_to_ns;
	/* The event or metric; several: all that have profiles */
	const char *event;
	enum query_metric metric;
	bool several;
	bool idle;
	bool no_stacks; /* rows are summed over all stacks */
	bool all_labels;
	bool list_keys; /* count the values and samples of every key */
	/* A table of functions alone, of so many rows; 0: no. In order of samples with callees */
	size_t functions;
	bool by_total;
	const char *const *keys; /* else these, and those of the selector */
	size_t n_keys;
	uint32_t recent_s; /* rows of so many seconds at the end of the range alone; 0: all */
	bool by_start;	   /* no window begins before the range */
	bool blame;	   /* the first key also of who was running or woke (by.KEY, by.comm) */
	bool steps;	   /* windows as short as the range allows; else one window */
	/* Windows of so many seconds, and the range widened to whole ones; 0: no */
	uint32_t step_s;
	size_t memory; /* of the answer; what is beyond is (other) */
	const bool *stop;
};

/* The step_s of a series (query/series.h), whose steps are whole windows of a recorder. */
uint32_t fleet_step_s(int64_t step_ns);

struct fleet_result {
	bool bounded; /* some rows are summed as (other) */
	uint64_t rows, stacks;
	struct found_key *keys; /* of list_keys, by name */
	size_t n_keys, cap_keys;
	bool by_function; /* the store has no stacks: these are the functions */
	struct query_counted functions;
	char *names;			   /* of these */
	const struct fleet_server *server; /* that was asked; borrowed */
	char **texts;			   /* of later answers */
	size_t n_texts, cap_texts;
};
void fleet_result_fini(struct fleet_result *r);

/*
 * Write a store with what the question needs in dir, which is empty. No data is no error: the store
 * has no window then. -EINVAL: a selector, event or URL that makes no sense; -ENOENT: there are no
 * tables of ascribe; -EPROTO: the server's answer; else as web_ask and the store.
 */
int fleet_fill(const char *dir, const struct fleet_server *server,
	       const struct fleet_question *question, struct fleet_result *ret, struct err *err);

#endif
