/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parse what sources of pods answer. These functions see foreign bytes: they run in the parser's
 * process (parser.h), which holds nothing and may do nothing.
 */
#ifndef ASCRIBE_PODS_PARSE_H
#define ASCRIBE_PODS_PARSE_H

#include "pods/record.h"

#include <stddef.h>

enum pods_format {
	PODS_JSON_LIST,	     /* a PodList of the API server, or of the kubelet's /pods */
	PODS_JSON_WATCH,     /* whole lines: events of a watch */
	PODS_CRI_CONTAINERS, /* runtime.v1.ListContainersResponse */
	PODS_CRI_SANDBOXES,  /* runtime.v1.ListPodSandboxResponse */
	PODS_DOCKER,	     /* GET /containers/json, of docker and podman */
	PODS_FORMATS
};

/* What a document says besides its pods. version and next are percent-encoded for addresses. */
struct pods_page {
	char version[64];  /* resourceVersion to go on from; "": none */
	char next[4096];   /* "continue" of a list; "": this is its last page */
	int32_t status;	   /* of a Status object: 410, 403, ...; 0: none */
	char message[256]; /* text of the Status object */
	/* Pods, containers, owners, values left out: wrong characters, too long, too deep */
	uint32_t refused;
};

/* r is the parser's own until the next call. */
typedef void (*pods_emit)(void *ctx, const struct pod_record *r);

/*
 * 0; -EBADMSG: it is not of this format; -ENOMEM. Records that came before an error are valid.
 * node: pods of other nodes are left out of the JSON formats; "" takes all.
 *
 * A confined process calls json_object_seed before its confinement: jansson opens /dev/urandom.
 */
int pods_parse(enum pods_format f, const struct pods_wanted *want, const char *node,
	       const uint8_t *bytes, size_t len, pods_emit emit, void *ctx, struct pods_page *ret);

#endif
