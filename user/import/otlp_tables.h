/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dictionary of an OpenTelemetry request while profiles are made of it. An element is decoded
 * when a sample first refers to it, and kept for the samples that follow. Indices come from the
 * sender: each one is checked.
 *
 * Results are 0; -ENOMEM; -E2BIG at a limit of the profile; -EINVAL with a text for an index
 * outside of its table or an element that cannot be decoded.
 */
#ifndef ASCRIBE_IMPORT_OTLP_TABLES_H
#define ASCRIBE_IMPORT_OTLP_TABLES_H

#include "export/otlp.pb-c.h"
#include "import/message_memory.h"
#include "import/profile.h"

/* Frames of a location, stack entries of a stack. */
struct otlp_range {
	uint32_t first, n;
	bool known;
};

/* The labels that an attribute becomes: none, one, or a workload and its kind. */
struct otlp_labels {
	struct label v[2];
	uint8_t n;
	bool known;
};

struct otlp_tables {
	const Otlp__Dictionary *m;
	struct message_memory memory; /* of one decoded element */
	size_t memory_max;
	struct profile *p; /* has the texts, frames and stacks */
	const char **strings;
	struct otlp_labels *attributes;
	struct otlp_range *locations, *stacks;
};

/* m must outlive the tables. All zero is a state that otlp_tables_fini takes. */
int otlp_tables_init(struct otlp_tables *t, const Otlp__Dictionary *m, size_t memory_max);
/* What is decoded from now on goes to p. */
void otlp_tables_begin(struct otlp_tables *t, struct profile *p);
void otlp_tables_fini(struct otlp_tables *t);

/* Decode an element or another part; NULL: it is damaged. Free it with otlp_tables_free. */
ProtobufCMessage *otlp_tables_decode(struct otlp_tables *t, const ProtobufCMessageDescriptor *d,
				     const ProtobufCBinaryData *bytes);
void otlp_tables_free(struct otlp_tables *t, ProtobufCMessage *msg);

/* A text of the profile. */
int otlp_tables_string(struct otlp_tables *t, int32_t i, const char **ret, struct err *err);
/* The labels of an attribute of a sample or a profile, valid as long as the profile. */
int otlp_tables_labels(struct otlp_tables *t, int32_t i, const struct otlp_labels **ret,
		       struct err *err);
/* The same of an attribute of a resource, which is in no table. */
int otlp_tables_resource(struct otlp_tables *t, const Otlp__KeyValue *kv, struct otlp_labels *ret,
			 struct err *err);
/* Give a sample the stack; the first sample of a stack must be the profile's last one. */
int otlp_tables_stack(struct otlp_tables *t, int32_t i, struct profile_sample *s, struct err *err);
/* The labels trace_id and span_id of a link; none of link 0. */
int otlp_tables_link(struct otlp_tables *t, int32_t i, struct otlp_labels *ret, struct err *err);

#endif
