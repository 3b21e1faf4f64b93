/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry's process context (OTEP 4719): the protobuf message that a process publishes, of
 * which the names of its thread attributes are wanted (OTEP 4947, "threadlocal.attribute_key_map").
 */
#ifndef ASCRIBE_LABELS_OTEL_H
#define ASCRIBE_LABELS_OTEL_H

#include <stddef.h>
#include <stdint.h>

#define OTEL_CONTEXT_MAX (64u * 1024) /* bytes of a message; real ones have some hundreds */
#define OTEL_KEYS_MAX 256
#define OTEL_KEY_MAX 128 /* bytes of a name; a longer one counts as missing */

/* What stands at the beginning of the mapping. */
struct otel_context_head {
	char signature[8];     /* "OTEL_CTX" */
	uint32_t version;      /* 2 */
	uint32_t size;	       /* of the message */
	uint64_t published_ns; /* BOOTTIME, 0: being changed */
	uint64_t message;      /* its address */
};

struct otel_context {
	char *keys[OTEL_KEYS_MAX]; /* NULL: none of that index */
	size_t n_keys;
	char schema[32]; /* "threadlocal.schema_version", empty when there is none */
};

/*
 * *ret must be empty or hold an earlier context, which is replaced. -EBADMSG, -ENOMEM: *ret is left
 * as it was.
 */
int otel_context_parse(struct otel_context *ret, const void *message, size_t len);
void otel_context_fini(struct otel_context *c);

#endif
