/* SPDX-License-Identifier: Apache-2.0 */
#include "pods/parse.h"
#include "pods/parse_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool span_is(struct span t, const char *text)
{
	return t.s && t.n == strlen(text) && !memcmp(t.s, text, t.n);
}

void span_cut(struct span t, char *out, size_t cap)
{
	size_t n = t.n;
	if (n >= cap) {
		n = cap - 1;
		while (n && (t.s[n] & 0xc0) == 0x80)
			n--;
	}
	memcpy(out, t.s, n);
	out[n] = 0;
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Copy a text of the right characters that fits. False: out is unchanged. */
static bool take(struct span t, bool (*right)(char c), const char *others, char *out, size_t cap)
{
	if (!t.s || !t.n || t.n >= cap)
		return false;
	for (size_t i = 0; i < t.n; i++)
		if (!right(t.s[i]) && (!t.s[i] || !strchr(others, t.s[i])))
			return false;
	memcpy(out, t.s, t.n);
	out[t.n] = 0;
	return true;
}

/* A name begins and ends with a letter or digit. Upper case is an engine's alone. */
static bool take_name(struct span t, const char *others, char *out, size_t cap)
{
	return t.n && is_alnum(t.s[0]) && take(t, is_alnum, others, out, cap);
}

/* DNS subdomain (RFC 1123): lower case letters, digits, '-', '.'. */
static bool take_dns(struct span t, const char *others, char *out, size_t cap)
{
	for (size_t i = 0; i < t.n; i++)
		if (t.s[i] >= 'A' && t.s[i] <= 'Z')
			return false;
	return t.n && is_alnum(t.s[t.n - 1]) && take_name(t, others, out, cap);
}

void parse_begin(struct parse *p, enum pod_what what)
{
	memset(&p->r, 0, sizeof(p->r));
	p->r.what = (uint8_t)what;
}

bool parse_uid(struct parse *p, struct span uid)
{
	if (take(uid, is_hex, "-", p->r.uid, sizeof(p->r.uid)))
		return true;
	p->page.refused++;
	return false;
}

bool parse_pod(struct parse *p, struct span uid, struct span namespace, struct span name)
{
	if (take_dns(namespace, "-", p->r.namespace, sizeof(p->r.namespace)) &&
	    take_dns(name, "-.", p->r.name, sizeof(p->r.name)))
		return parse_uid(p, uid);
	p->page.refused++;
	return false;
}

void parse_mirror(struct parse *p, struct span hash, struct span mirror)
{
	char out[POD_UID_MAX];
	/* Anybody may annotate a pod with a hash. The kubelet sets both, to the same. */
	if (!hash.s || !mirror.s || hash.n != mirror.n || memcmp(hash.s, mirror.s, hash.n))
		return;
	if (!take(hash, is_hex, "", out, sizeof(out)))
		p->page.refused++;
	else if (strcmp(out, p->r.uid) != 0)
		strcpy(p->r.cgroup_uid, out);
}

void parse_workload(struct parse *p, struct span kind, struct span name)
{
	struct pod_record *r = &p->r;
	if (take(kind, is_alnum, "", r->kind, sizeof(r->kind)) &&
	    take_dns(name, "-.", r->workload, sizeof(r->workload)))
		return;
	r->kind[0] = r->workload[0] = 0;
	p->page.refused++;
}

void parse_container(struct parse *p, struct span id, struct span name)
{
	struct pod_record *r = &p->r;
	struct pod_container c = { 0 }; /* whole records cross sockets */
	const char *scheme = id.n ? memmem(id.s, id.n, "://", 3) : NULL;
	if (scheme) {
		size_t n = (size_t)(scheme + 3 - id.s);
		id = (struct span){ id.s + n, id.n - n };
	}
	if (!take(id, is_hex, "", c.id, sizeof(c.id)) ||
	    !take_name(name, "-_.", c.name, sizeof(c.name))) {
		p->page.refused++;
		return;
	}
	if (r->n_containers == POD_CONTAINERS_MAX) {
		parse_emit(p);
		r->n_containers = 0;
		r->merge = true;
	}
	r->container[r->n_containers++] = c;
}

static void add_extra(struct parse *p, uint32_t wanted, struct span value)
{
	if (!value.s || p->r.n_extra == POD_EXTRA_MAX)
		return;
	if (memchr(value.s, 0, value.n)) {
		p->page.refused++;
		return;
	}
	struct pod_extra *e = &p->r.extra[p->r.n_extra++];
	e->wanted = wanted;
	span_cut(value, e->value, sizeof(e->value));
}

void parse_labels(struct parse *p, parse_label label, const void *labels)
{
	for (uint32_t i = 0; i < p->want->n_labels; i++)
		add_extra(p, i, label(labels, p->want->key[i]));
}

void parse_annotations(struct parse *p, parse_label annotation, const void *annotations)
{
	uint32_t first = p->want->n_labels;
	for (uint32_t i = first; i < first + p->want->n_annotations; i++)
		add_extra(p, i, annotation(annotations, p->want->key[i]));
}

void parse_emit(struct parse *p)
{
	p->emit(p->ctx, &p->r);
}

int pods_parse(enum pods_format f, const struct pods_wanted *want, const char *node,
	       const uint8_t *bytes, size_t len, pods_emit emit, void *ctx, struct pods_page *ret)
{
	struct parse *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->want = want;
	p->node = node;
	p->emit = emit;
	p->ctx = ctx;
	const char *text = (const char *)bytes;
	int rc = -EBADMSG;
	switch (f) {
	case PODS_JSON_LIST:
		rc = parse_json_list(p, text, len);
		break;
	case PODS_JSON_WATCH:
		rc = parse_json_watch(p, text, len);
		break;
	case PODS_CRI_CONTAINERS:
		rc = parse_cri_containers(p, bytes, len);
		break;
	case PODS_CRI_SANDBOXES:
		rc = parse_cri_sandboxes(p, bytes, len);
		break;
	case PODS_DOCKER:
		rc = parse_engine(p, text, len);
		break;
	case PODS_FORMATS:
		break;
	}
	if (!rc)
		*ret = p->page;
	free(p);
	return rc;
}
