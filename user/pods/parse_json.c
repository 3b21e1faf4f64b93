/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods of the API server and of the kubelet, as JSON. The fields are those of k8s.io/api,
 * core/v1/types.go, and of k8s.io/apimachinery, pkg/apis/meta/v1/types.go.
 */
#include "pods/parse_int.h"
#include "util/buf.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

/* A value may be any text that Go writes, "\u0000" too. A NUL in one pod must not hide all pods. */
#define LOAD_FLAGS (JSON_ALLOW_NUL | JSON_DECODE_ANY)

struct span parse_member(const void *object, const char *key)
{
	const json_t *v = json_object_get(object, key);
	return (struct span){ json_string_value(v), json_string_length(v) };
}

/* -E2BIG: JSON, but deeper, or with a larger number, than jansson takes. */
static int load(const char *bytes, size_t len, json_t **ret)
{
	json_error_t e = { 0 };
	*ret = json_loadb(bytes, len, LOAD_FLAGS, &e);
	if (*ret)
		return 0;
	switch (json_error_code(&e)) {
	case json_error_unknown: /* jansson had no memory, and says nothing */
		return -ENOMEM;
	case json_error_stack_overflow:
	case json_error_numeric_overflow:
		return -E2BIG;
	default:
		return -EBADMSG;
	}
}

/* A pod that its author made too large must not hide the others. */
static int refuse_large(struct parse *p, int rc)
{
	if (rc != -ENOMEM && rc != -E2BIG)
		return rc;
	p->page.refused++;
	return 0;
}

/* Copy a text as it goes into an address (RFC 3986, 2.3). A missing text is "". */
static int take_opaque(struct span t, char *out, size_t cap)
{
	static const char hex[] = "0123456789ABCDEF";
	static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					 "0123456789-._~";
	size_t n = 0;
	if (t.n >= cap)
		return -EBADMSG;
	for (size_t i = 0; i < t.n; i++) {
		uint8_t c = (uint8_t)t.s[i];
		if (n + 4 > cap)
			return -EBADMSG;
		if (c && strchr(unreserved, c)) {
			out[n++] = (char)c;
		} else {
			out[n++] = '%';
			out[n++] = hex[c >> 4];
			out[n++] = hex[c & 15];
		}
	}
	out[n] = 0;
	return 0;
}

static int take_version(struct parse *p, const json_t *metadata)
{
	return take_opaque(parse_member(metadata, "resourceVersion"), p->page.version,
			   sizeof(p->page.version));
}

/* Why a request failed. */
static int take_status(struct parse *p, const json_t *status)
{
	const json_t *code = json_object_get(status, "code");
	struct span message = parse_member(status, "message");
	json_int_t v = json_integer_value(code);
	p->page.status = v > 0 && v < 1000 ? (int32_t)v : 500;
	if (message.s && !memchr(message.s, 0, message.n))
		span_cut(message, p->page.message, sizeof(p->page.message));
	return 0;
}

static void add_containers(struct parse *p, const json_t *status, const char *list)
{
	size_t i;
	json_t *c;
	json_array_foreach(json_object_get(status, list), i, c)
	{
		const json_t *last = json_object_get(json_object_get(c, "lastState"), "terminated");
		struct span name = parse_member(c, "name"), id = parse_member(c, "containerID");
		struct span before = parse_member(last, "containerID");
		if (id.n) /* it was started */
			parse_container(p, id, name);
		if (before.n)
			parse_container(p, before, name);
	}
}

static void add_owner(struct parse *p, const json_t *metadata)
{
	struct span hash = parse_member(json_object_get(metadata, "labels"), "pod-template-hash");
	int64_t created_s = 0;
	size_t i;
	json_t *o;
	parse_time(parse_member(metadata, "creationTimestamp"), &created_s);
	json_array_foreach(json_object_get(metadata, "ownerReferences"), i, o)
	{
		if (json_is_true(json_object_get(o, "controller"))) {
			parse_owner(p, parse_member(o, "kind"), parse_member(o, "name"), hash,
				    created_s);
			return;
		}
	}
}

static void add_pod(struct parse *p, const json_t *pod, enum pod_what what)
{
	const json_t *metadata = json_object_get(pod, "metadata");
	const json_t *annotations = json_object_get(metadata, "annotations");
	const json_t *status = json_object_get(pod, "status");
	if (p->node[0] && !span_is(parse_member(json_object_get(pod, "spec"), "nodeName"), p->node))
		return;
	parse_begin(p, what);
	if (what == POD_GONE) {
		if (parse_uid(p, parse_member(metadata, "uid")))
			parse_emit(p);
		return;
	}
	if (!parse_pod(p, parse_member(metadata, "uid"), parse_member(metadata, "namespace"),
		       parse_member(metadata, "name")))
		return;
	parse_mirror(p, parse_member(annotations, "kubernetes.io/config.hash"),
		     parse_member(annotations, "kubernetes.io/config.mirror"));
	add_owner(p, metadata);
	parse_labels(p, parse_member, json_object_get(metadata, "labels"));
	parse_annotations(p, parse_member, annotations);
	add_containers(p, status, "initContainerStatuses");
	add_containers(p, status, "containerStatuses");
	add_containers(p, status, "ephemeralContainerStatuses");
	parse_emit(p);
}

/* A list whose items were taken out. */
static int take_list(struct parse *p, const json_t *list)
{
	const json_t *metadata = json_object_get(list, "metadata");
	const json_t *items = json_object_get(list, "items");
	if (span_is(parse_member(list, "kind"), "Status"))
		return take_status(p, list);
	if (!span_is(parse_member(list, "kind"), "PodList") || json_array_size(items) ||
	    (items && !json_is_array(items) && !json_is_null(items)))
		return -EBADMSG;
	int rc = take_version(p, metadata);
	if (rc)
		return rc;
	return take_opaque(parse_member(metadata, "continue"), p->page.next, sizeof(p->page.next));
}

static int take_items(struct parse *p, struct span items)
{
	struct span item;
	json_t *pod;
	int more;
	while ((more = parse_next_item(&items, &item)) > 0) {
		int rc = load(item.s, item.n, &pod);
		if (!rc)
			add_pod(p, pod, POD_SEEN);
		json_decref(pod);
		rc = refuse_large(p, rc);
		if (rc)
			return rc;
	}
	return more ? -EBADMSG : 0;
}

int parse_json_list(struct parse *p, const char *bytes, size_t len)
{
	struct buf around = BUF_INIT;
	struct span items = { bytes + len, 0 };
	json_t *list = NULL;
	bool has_items = parse_find_items(bytes, len, &items);
	int rc = buf_add(&around, bytes, (size_t)(items.s - bytes));
	if (!rc && has_items)
		rc = buf_add(&around, "[]", 2);
	rc = rc ? rc
		: buf_add(&around, items.s + items.n, (size_t)(bytes + len - items.s) - items.n);
	rc = rc ? rc : load((const char *)around.data, around.len, &list);
	rc = rc ? rc : take_list(p, list);
	if (!rc && has_items && !p->page.status)
		rc = take_items(p, items);
	json_decref(list);
	buf_fini(&around);
	return rc == -E2BIG ? -EBADMSG : rc;
}

static int take_event(struct parse *p, const json_t *event)
{
	struct span type = parse_member(event, "type");
	const json_t *object = json_object_get(event, "object");
	if (span_is(parse_member(event, "kind"), "Status")) /* the watch was refused */
		return take_status(p, event);
	if (span_is(type, "ERROR"))
		return take_status(p, object);
	bool gone = span_is(type, "DELETED");
	bool seen = span_is(type, "ADDED") || span_is(type, "MODIFIED");
	if ((!gone && !seen && !span_is(type, "BOOKMARK")) || !json_is_object(object))
		return -EBADMSG;
	if (gone || seen)
		add_pod(p, object, gone ? POD_GONE : POD_SEEN);
	return take_version(p, json_object_get(object, "metadata"));
}

static int take_line(struct parse *p, const char *line, size_t len)
{
	json_t *event;
	int rc = load(line, len, &event);
	if (rc)
		return refuse_large(p, rc);
	rc = take_event(p, event);
	json_decref(event);
	return rc;
}

int parse_json_watch(struct parse *p, const char *bytes, size_t len)
{
	for (const char *line = bytes, *end = bytes + len; line < end;) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		size_t n = (size_t)((stop ? stop : end) - line);
		int rc = n && (n != 1 || *line != '\r') ? take_line(p, line, n) : 0;
		if (rc)
			return rc;
		line += n + (stop != NULL);
	}
	return 0;
}
