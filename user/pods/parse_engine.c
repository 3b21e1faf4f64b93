/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers of docker and podman: GET /containers/json (Docker Engine API, ContainerList). Under
 * the kubelet they belong to pods: cri-dockerd writes the kubelet's labels, and runs a sandbox as a
 * container that has the pod's labels (cri-dockerd, core/labels.go).
 */
#include "pods/parse_int.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

/* Names begin with '/'. Those with another '/' are links from other containers. */
static struct span name_of(const json_t *container)
{
	struct span name = { NULL, 0 };
	size_t i;
	json_t *v;
	json_array_foreach(json_object_get(container, "Names"), i, v)
	{
		const char *s = json_string_value(v);
		size_t n = json_string_length(v);
		if (n && *s == '/') {
			s++;
			n--;
		}
		if (n && !memchr(s, '/', n) && !name.s)
			name = (struct span){ s, n };
	}
	return name;
}

static void add_container_of_pod(struct parse *p, const json_t *c, const json_t *labels)
{
	p->r.merge = true;
	if (!parse_pod(p, parse_member(labels, "io.kubernetes.pod.uid"),
		       parse_member(labels, "io.kubernetes.pod.namespace"),
		       parse_member(labels, "io.kubernetes.pod.name")))
		return;
	if (span_is(parse_member(labels, "io.kubernetes.docker.type"), "podsandbox")) {
		int64_t created_s = json_integer_value(json_object_get(c, "Created"));
		parse_guess_owner(p, parse_member, labels, created_s);
		parse_labels(p, parse_member, labels);
	} else {
		parse_container(p, parse_member(c, "Id"),
				parse_member(labels, "io.kubernetes.container.name"));
	}
	parse_emit(p);
}

static void add_container(struct parse *p, const json_t *c)
{
	const json_t *labels = json_object_get(c, "Labels");
	parse_begin(p, POD_SEEN);
	if (parse_member(labels, "io.kubernetes.pod.uid").s) {
		add_container_of_pod(p, c, labels);
		return;
	}
	parse_container(p, parse_member(c, "Id"), name_of(c));
	parse_labels(p, parse_member, labels);
	if (p->r.n_containers)
		parse_emit(p);
}

int parse_engine(struct parse *p, const char *bytes, size_t len)
{
	json_error_t e = { 0 };
	json_t *list = json_loadb(bytes, len, JSON_ALLOW_NUL, &e);
	size_t i;
	json_t *c;
	if (!list)
		return json_error_code(&e) == json_error_unknown ? -ENOMEM : -EBADMSG;
	int rc = json_is_array(list) ? 0 : -EBADMSG;
	json_array_foreach(list, i, c) add_container(p, c);
	json_decref(list);
	return rc;
}
