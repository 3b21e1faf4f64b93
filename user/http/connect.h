/* SPDX-License-Identifier: Apache-2.0 */
/*
 * querier.v1.QuerierService over connect: unary calls, unframed, as Grafana's data source and its
 * Profiles Drilldown make them. What the calls share.
 */
#ifndef ASCRIBE_HTTP_CONNECT_H
#define ASCRIBE_HTTP_CONNECT_H

#include "http/message.h"
#include "http/pyroscope.h"
#include "http/pyroscope.pb-c.h"

#define MS 1000000ll
#define SERIES_MAX 1000

struct call {
	struct request *r;
	struct message_memory memory;
	ProtobufCMessage *msg;
	bool json;
};

/* Read the question; call_end in any case. */
int call_begin(struct call *c, struct request *r, const ProtobufCMessageDescriptor *d,
	       struct err *err);
void call_end(struct call *c);

/* Milliseconds since 1970; 0: open. -EINVAL. */
int call_range(struct query_spec *s, int64_t start_ms, int64_t end_ms, struct err *err);

/* A list of texts without NUL. */
struct pyro_list {
	char **v;
	size_t n, cap;
};

/* Add a copy of a text unless it is there. Texts with NUL are left out. -ENOMEM. */
int pyro_list_add(struct pyro_list *s, const char *text, size_t len);
void pyro_list_fini(struct pyro_list *s);

/*
 * The values that a label has by its Pyroscope name, those with the most samples of an event first:
 * of the profile type that the matchers ask for, else of all types.
 */
int pyro_list_values(struct request *r, struct store *s, const struct query_spec *range,
		     const char *name, char *const *matchers, size_t n, struct pyro_list *ret,
		     struct err *err);

#endif
