/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod as its source describes it. The same structure crosses both sockets, one packet each:
 *
 *   parser (confined) --> watcher (holds the token, speaks HTTP) --> recorder (table.h)
 *
 * All ends are this program on this machine, so it is a C structure. What the parser sends is not
 * trusted: pod_record_check makes every text end and every count fit.
 *
 * A container of docker or podman belongs to no pod. Its record has no uid and exactly one
 * container, whose id identifies the record. Other texts but extra are empty.
 */
#ifndef ASCRIBE_PODS_RECORD_H
#define ASCRIBE_PODS_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define POD_NAME_MAX 254      /* DNS subdomain of 253 characters, NUL */
#define POD_NAMESPACE_MAX 64  /* DNS label of 63, NUL */
#define POD_CONTAINER_MAX 128 /* name of a container: a DNS label, longer for an engine's */
#define POD_UID_MAX 64	      /* 36 characters; of a static pod 32 */
#define POD_ID_MAX 65	      /* container id: 64 hexadecimal digits */
#define POD_KIND_MAX 64	      /* Deployment, StatefulSet, ... */
#define POD_CONTAINERS_MAX 64 /* of one record: a pod with more has several */
#define POD_EXTRA_MAX 18      /* labels and annotations that are asked for */
#define POD_KEY_MAX 318	      /* prefix of 253, '/', name of 63, NUL */
#define POD_VALUE_MAX 257     /* bytes of UTF-8; what is longer is cut at a character */

enum pod_what {
	POD_SEEN = 1,	/* it is there: add it, or replace what is known */
	POD_GONE,	/* it was deleted: uid alone counts, without it container[0].id */
	POD_LIST_BEGIN, /* a list of all pods follows, as POD_SEEN */
	POD_LIST_END,	/* what the list did not name is gone */
	POD_STATE,	/* text: what the watcher does now; ok: it knows all pods of the node */
};

struct pod_container {
	char id[POD_ID_MAX]; /* without "containerd://" */
	char name[POD_CONTAINER_MAX];
};

struct pod_extra {
	uint32_t wanted; /* index in pods_wanted */
	char value[POD_VALUE_MAX];
};

struct pod_record {
	uint8_t what;
	bool ok;
	bool merge; /* POD_SEEN: add to what is known: other records have the rest */
	uint16_t n_containers, n_extra;
	char uid[POD_UID_MAX];
	char cgroup_uid[POD_UID_MAX]; /* of a static pod, in cgroup paths; "" elsewhere */
	char namespace[POD_NAMESPACE_MAX];
	char name[POD_NAME_MAX];
	char kind[POD_KIND_MAX]; /* of the workload; "": the pod has no owner */
	char workload[POD_NAME_MAX];
	char text[256]; /* POD_STATE */
	struct pod_container container[POD_CONTAINERS_MAX];
	struct pod_extra extra[POD_EXTRA_MAX];
};

/*
 * Make a received record of len bytes safe to read: texts end, counts and indices fit. False: it is
 * no record. The table takes any record that passes.
 */
bool pod_record_check(struct pod_record *r, uint64_t len);

/* Labels and annotations of pods that become labels of samples. */
struct pods_wanted {
	uint32_t n_labels, n_annotations; /* labels come first; POD_EXTRA_MAX together */
	char key[POD_EXTRA_MAX][POD_KEY_MAX];
	/* Of the samples' label: pod_label_KEY; "": it is no label of samples */
	char name[POD_EXTRA_MAX][POD_KEY_MAX + 16];
};

#endif
