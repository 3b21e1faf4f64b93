/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of a container and its pod, by the cgroup. */
#ifndef ASCRIBE_ATTRIBUTE_POD_LABELS_H
#define ASCRIBE_ATTRIBUTE_POD_LABELS_H

#include "labels/labels.h"
#include "pods/pods.h"

#include <stdbool.h>
#include <stddef.h>

#define POD_LABELS_MAX (8 + POD_EXTRA_MAX)
#define POD_SERVICE_MAX (POD_NAMESPACE_MAX + POD_NAME_MAX)

struct pod_labels {
	struct label v[POD_LABELS_MAX];
	size_t n;
	bool late;	     /* names are on their way */
	const char *profile; /* what its annotations say of profiling; NULL: nothing */
	const char *service; /* "namespace/workload", or the container's name or id; NULL: none */
	size_t service_len;
	char uid[POD_UID_MAX], text[POD_SERVICE_MAX];
};

/*
 * Keys: container_id, pod_uid; with names also container, pod, namespace, workload,
 * workload_kind, node, and pod_label_KEY, pod_annotation_KEY of those that are wanted. A container
 * of LXC has its name alone. Texts are borrowed from cgroup, *ret and p until pods_receive. p and
 * cgroup may be NULL.
 */
void pod_labels_of(struct pods *p, const char *cgroup, struct pod_labels *ret);

#endif
