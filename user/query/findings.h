/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is worth a look in a range of time, beside the same length of time before it, and beside the
 * same hours of the day before. That is who needs more or less CPU, who waits longer, whether the
 * CPUs are saturated, and which programs are of a new build.
 *
 * Of every value of a few keys, the rate in each step is tested (query/change.h). The p-values of
 * all tests together are adjusted by Benjamini and Hochberg (query/stats.h). Only findings with q
 * <= FINDINGS_RATE are told. Rates are seconds per second: CPUs used, or threads that waited.
 */
#ifndef ASCRIBE_QUERY_FINDINGS_H
#define ASCRIBE_QUERY_FINDINGS_H

#include "query/query.h"

#define FINDINGS_RATE 0.05
#define FINDINGS_KEYS_MAX 8		       /* that may be asked for */
#define FINDINGS_CHOSEN_MAX 12		       /* that are chosen where none is */
#define FINDINGS_RANGE_NS (900 * 1000000000ll) /* where none is given: the last 15 minutes */

enum finding_kind {
	FINDING_SATURATED, /* the CPUs of the host: in at least 95% of `span_ns` */
	FINDING_BUILD,	   /* a program or library has a build that it did not have before */
	FINDING_MORE,	   /* more CPU, from since_ns to the end */
	FINDING_BURST,	   /* more CPU for a moment, from since_ns for span_ns */
	FINDING_RUNQ,	   /* waits longer for a CPU, from since_ns for span_ns */
	FINDING_OFF,	   /* is blocked longer, likewise */
	FINDING_LESS,	   /* less CPU */
	FINDING_KINDS
};

extern const char *const finding_names[FINDING_KINDS];

#define FINDING_PLACES 8

/* A value of a label. */
struct finding_place {
	const char *key, *value;
};

struct finding {
	enum finding_kind kind;
	/*
	 * Who; of FINDING_SATURATED who waits most for a CPU, of FINDING_BUILD key NULL and value
	 * the file. NULL: nobody
	 */
	const char *key, *value;
	/*
	 * Of the same cause: values of other labels that the same samples have, of RUNQ others who
	 * wait longer. n_places counts all
	 */
	struct finding_place places[FINDING_PLACES];
	size_t n_places;
	/* Seconds per second from since_ns for span_ns, which is to the end where it goes on */
	double now, before;
	double day; /* the same, a day before; NAN: not recorded */
	bool usual; /* a day before, it was at least as much */
	int64_t since_ns, span_ns;
	double q;
	size_t n_values;  /* of the key, among the samples of what it was merged with */
	const char *wait; /* OFF: the class of the wait */
	/*
	 * MORE and BURST: the one nearest to the leaf that has more than half of what grew, with
	 * what it calls. OFF: the program's function that waits most. BUILD of a fleet: the
	 * function of the file that grew on most hosts (fleet/grown.h). NULL: there is none
	 */
	const char *function, *module;
	double function_now, function_before; /* CPUs, or threads that waited */
	/* Of who is new: the comm that has more than half of it, and who started that; or NULL */
	const char *comm, *parent;
	/* OFF, of locks: in which function, and by which comm, they were held; or NULL */
	const char *holder, *holder_comm;
	const char *build[2]; /* FINDING_BUILD: now and before */
	/* BUILD of a fleet: hosts that have it, and those on which the function grew */
	size_t n_hosts, n_grew;
};

struct findings_spec {
	const char *where;
	/* INT64_MIN: FINDINGS_RANGE_NS before the end; INT64_MAX: the newest */
	int64_t from_ns, to_ns;
	const char *const *keys; /* n_keys 0: findings_keys */
	size_t n_keys;
	size_t limit; /* findings; 0: all */
};

struct findings {
	struct finding *v;		   /* the largest first, those that are usual last */
	size_t n, n_all;		   /* n_all: before the limit */
	int64_t from_ns, to_ns, before_ns; /* the range, and the begin of what was before */
	int64_t step_ns;
	bool has_before, has_day, has_waits;
	size_t n_cpus;
	size_t n_tested;
	const char *keys[FINDINGS_CHOSEN_MAX];
	size_t n_keys;
	bool bounded;		  /* the budget cut something: small values were not tested */
	int64_t without_waits_ns; /* of the range: the recorder gave them up */
};

/*
 * -EINVAL: a bad selector or a range without an end; -EAGAIN: as query_open. No data is no error:
 * from_ns == to_ns.
 */
int query_findings(struct findings **ret, struct store *s, const struct findings_spec *spec,
		   struct err *err);
void query_findings_free(struct findings *f);

#endif
