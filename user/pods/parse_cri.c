/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods and containers of a container runtime (cri.proto). Sandboxes are the pods: they have the
 * pod's labels and annotations. Containers name their pod in labels that the kubelet sets
 * (kubernetes, pkg/kubelet/types/labels.go). Both lists together are all that is known of a pod.
 */
#include "pods/cri.pb-c.h"
#include "pods/parse_int.h"

#include <errno.h>
#include <string.h>

#define SECOND 1000000000

struct entries {
	Ascribe__Cri__Entry **v;
	size_t n;
};

static struct span span_of(const ProtobufCBinaryData *d)
{
	return (struct span){ d->data ? (const char *)d->data : "", d->len };
}

static struct span entry_of(const void *entries, const char *key)
{
	const struct entries *e = entries;
	for (size_t i = e->n; i--;) /* of a key that comes twice the last one counts */
		if (span_is(span_of(&e->v[i]->key), key))
			return span_of(&e->v[i]->value);
	return (struct span){ NULL, 0 };
}

static void add_sandbox(struct parse *p, const Ascribe__Cri__PodSandbox *s)
{
	const Ascribe__Cri__PodSandboxMetadata *m = s->metadata;
	struct entries labels = { s->labels, s->n_labels };
	struct entries annotations = { s->annotations, s->n_annotations };
	parse_begin(p, POD_SEEN);
	p->r.merge = true;
	if (!m) {
		p->page.refused++;
		return;
	}
	if (!parse_pod(p, span_of(&m->uid), span_of(&m->namespace_), span_of(&m->name)))
		return;
	parse_guess_owner(p, entry_of, &labels, s->created_at / SECOND);
	parse_labels(p, entry_of, &labels);
	parse_annotations(p, entry_of, &annotations);
	parse_emit(p);
}

static void add_container(struct parse *p, const Ascribe__Cri__Container *c)
{
	struct entries labels = { c->labels, c->n_labels };
	struct span pod = entry_of(&labels, "io.kubernetes.pod.uid");
	parse_begin(p, POD_SEEN);
	p->r.merge = true;
	if (!c->metadata || !parse_pod(p, pod, entry_of(&labels, "io.kubernetes.pod.namespace"),
				       entry_of(&labels, "io.kubernetes.pod.name"))) {
		p->page.refused += !c->metadata;
		return;
	}
	parse_container(p, span_of(&c->id), span_of(&c->metadata->name));
	parse_emit(p);
}

/* protobuf-c does not tell bytes that are no message from a lack of memory. */
int parse_cri_containers(struct parse *p, const uint8_t *bytes, size_t len)
{
	Ascribe__Cri__ListContainersResponse *list =
		ascribe__cri__list_containers_response__unpack(NULL, len, bytes);
	if (!list)
		return -EBADMSG;
	for (size_t i = 0; i < list->n_containers; i++)
		add_container(p, list->containers[i]);
	ascribe__cri__list_containers_response__free_unpacked(list, NULL);
	return 0;
}

int parse_cri_sandboxes(struct parse *p, const uint8_t *bytes, size_t len)
{
	Ascribe__Cri__ListPodSandboxResponse *list =
		ascribe__cri__list_pod_sandbox_response__unpack(NULL, len, bytes);
	if (!list)
		return -EBADMSG;
	for (size_t i = 0; i < list->n_items; i++)
		add_sandbox(p, list->items[i]);
	ascribe__cri__list_pod_sandbox_response__free_unpacked(list, NULL);
	return 0;
}
