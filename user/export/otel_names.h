/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry's names for the labels of the system: the attribute registry of its semantic
 * conventions, 1.37 (groups process, thread, container, k8s, host, service).
 */
#ifndef ASCRIBE_EXPORT_OTEL_NAMES_H
#define ASCRIBE_EXPORT_OTEL_NAMES_H

#include "labels/labels.h"

#include <stddef.h>

#define OTEL_NAME_MAX 320
#define OTEL_CONTEXT_LABEL "process.context.label." /* prefix of labels that programs publish */

/*
 * Return the name of label i of a set of n, in buf or static, and its length. A label without such
 * a name keeps its own. NULL: leave it out, another label of the set says it.
 */
const char *otel_name(const struct label *labels, size_t n, size_t i, char buf[OTEL_NAME_MAX],
		      size_t *ret_len);

/* Whether a label is to become an attribute: its key is one of n; n 0: all are. */
bool otel_is_wanted(const char *const *keys, size_t n, const struct label *l);
/* Whether an attribute is one of a resource: of a service, host, container or pod. */
bool otel_is_of_resource(const char *name, size_t len);
/* Whether a program publishes a label: neither the recorder gives it, nor has it another name. */
bool otel_is_published(const struct label *l, const char *name);

/*
 * Return the label that an attribute of this name becomes: static, in buf, or the end of name.
 * *ret_kind is the value of workload_kind beside a workload ("Deployment"), else NULL. The name of
 * a service becomes service_name, as in all profiles of others.
 */
const char *otel_label(const char *name, char buf[OTEL_NAME_MAX], const char **ret_kind);

#endif
