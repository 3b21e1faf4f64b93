/* SPDX-License-Identifier: Apache-2.0 */
/* What the parameters of a question mean, as the options of the commands mean it. */
#ifndef ASCRIBE_HTTP_ASKED_H
#define ASCRIBE_HTTP_ASKED_H

#include "export/answer.h"
#include "http/request.h"

#define ASKED_KEYS_MAX 8

struct asked {
	struct query_spec spec;
	const char *keys[ASKED_KEYS_MAX];
	size_t n_keys;
	uint64_t limit, max_nodes;
	int64_t step_ns;
	const char *metric; /* NULL: samples */
	bool inclusive, absolute, changes, exact;
	char *texts; /* what keys point into */
};

/* -EINVAL names the parameter. To be released either way. */
int asked_parse(struct asked *a, const struct request *r, struct err *err);
void asked_fini(struct asked *a);
/* A time that the request gives by this name; without it *ret stays. -EINVAL. */
int asked_time(const struct request *r, const char *name, int64_t *ret, struct err *err);

/* The other side of a comparison: against, against_from, against_to; the rest as in a. */
int asked_against(const struct asked *a, const struct request *r, struct query_spec *ret,
		  struct err *err);

/* What an answer says of the question; spec: one of its sides. */
struct answer asked_answer(const struct asked *a, struct store *s, const struct query_spec *spec);

#endif
