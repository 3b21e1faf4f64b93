/* SPDX-License-Identifier: Apache-2.0 */
/* What a container runtime answers, as records. */
#include "pods_documents.h"
#include "pods/cri.pb-c.h"

#include <errno.h>

static ProtobufCBinaryData bytes_of(const char *text)
{
	return (ProtobufCBinaryData){ strlen(text), (uint8_t *)text };
}

struct labels {
	Ascribe__Cri__Entry entry[8], *v[8];
	size_t n;
};

static void add_label(struct labels *l, const char *key, const char *value)
{
	Ascribe__Cri__Entry *e = &l->entry[l->n];
	ascribe__cri__entry__init(e);
	e->key = bytes_of(key);
	e->value = bytes_of(value);
	l->v[l->n++] = e;
}

static struct parsed *parse_sandbox(const char *name, struct labels *labels, int64_t created_s)
{
	Ascribe__Cri__ListPodSandboxResponse list = ASCRIBE__CRI__LIST_POD_SANDBOX_RESPONSE__INIT;
	Ascribe__Cri__PodSandbox s = ASCRIBE__CRI__POD_SANDBOX__INIT, *items[] = { &s };
	Ascribe__Cri__PodSandboxMetadata m = ASCRIBE__CRI__POD_SANDBOX_METADATA__INIT;
	uint8_t out[4096];
	m.name = bytes_of(name);
	m.uid = bytes_of(UID);
	m.namespace_ = bytes_of("shop");
	s.metadata = &m;
	s.created_at = created_s * 1000000000;
	s.labels = s.annotations = labels->v;
	s.n_labels = s.n_annotations = labels->n;
	list.items = items;
	list.n_items = 1;
	size_t n = ascribe__cri__list_pod_sandbox_response__pack(&list, out);
	struct parsed *p = parse(PODS_CRI_SANDBOXES, &wanted, "node1", out, n);
	assert_int_equal(p->rc, 0);
	assert_int_equal(p->n, 1);
	assert_true(p->r[0].merge);
	assert_string_equal(p->r[0].uid, UID);
	assert_int_equal(p->r[0].n_containers, 0);
	return p;
}

static void assert_guess(const char *name, const char *key, const char *value, const char *kind,
			 const char *workload)
{
	struct labels l = { 0 };
	add_label(&l, "team", "first");
	add_label(&l, "example.com/contact", "Zoë");
	add_label(&l, key, value);
	add_label(&l, "team", "last");
	struct parsed *p = parse_sandbox(name, &l, 29924790 * 60 + 7);
	assert_pod(&p->r[0], "shop", name, kind, workload);
	assert_int_equal(p->r[0].n_extra, 2);
	assert_string_equal(p->r[0].extra[0].value, "last");
	assert_string_equal(p->r[0].extra[1].value, "Zoë");
}

static void cri_sandboxes(void **state)
{
	(void)state;
	assert_guess("web-a-7d9c5b8f6c-x2lkq", "pod-template-hash", "7d9c5b8f6c", "Deployment",
		     "web-a");
	assert_guess("web-7d9c5b8f6c-x2lka", "pod-template-hash", "7d9c5b8f6c", "", "");
	assert_guess("web-7d9c5b8f6-x2lkq", "pod-template-hash", "7d9c5b8f6c", "", "");
	assert_guess("web", "pod-template-hash", "", "", "");
	assert_guess("db-12", "statefulset.kubernetes.io/pod-name", "db-12", "StatefulSet", "db");
	assert_guess("db", "statefulset.kubernetes.io/pod-name", "db", "", "");
	assert_guess("report-29924790-4xzt9", "batch.kubernetes.io/job-name", "report-29924790",
		     "CronJob", "report");
	assert_guess("report-29924790-4xzt9", "job-name", "report-29924790", "CronJob", "report");
	assert_guess("import-4xzt9", "job-name", "import", "Job", "import");
	assert_guess("agent-n5v7d", "controller-revision-hash", "6b7f", "DaemonSet", "agent");
	assert_guess("agent", "controller-revision-hash", "6b7f", "", "");
	assert_guess("bare", "app", "bare", "", "");
}

static void cri_containers(void **state)
{
	Ascribe__Cri__ListContainersResponse list = ASCRIBE__CRI__LIST_CONTAINERS_RESPONSE__INIT;
	Ascribe__Cri__Container c = ASCRIBE__CRI__CONTAINER__INIT, *items[] = { &c, &c };
	Ascribe__Cri__ContainerMetadata m = ASCRIBE__CRI__CONTAINER_METADATA__INIT;
	struct labels l = { 0 };
	uint8_t out[4096];
	(void)state;
	add_label(&l, "io.kubernetes.container.name", "web");
	add_label(&l, "io.kubernetes.pod.name", "web-7d9c5b8f6c-x2lkq");
	add_label(&l, "io.kubernetes.pod.namespace", "shop");
	add_label(&l, "io.kubernetes.pod.uid", UID);
	m.name = bytes_of("web");
	c.metadata = &m;
	c.id = bytes_of(ID);
	c.labels = l.v;
	c.n_labels = l.n;
	list.containers = items;
	list.n_containers = 2;
	size_t n = ascribe__cri__list_containers_response__pack(&list, out);
	struct parsed *p = parse(PODS_CRI_CONTAINERS, &wanted, "node1", out, n);
	assert_int_equal(p->rc, 0);
	assert_int_equal(p->n, 2);
	assert_pod(&p->r[1], "shop", "web-7d9c5b8f6c-x2lkq", "", "");
	assert_true(p->r[1].merge);
	assert_string_equal(p->r[1].uid, UID);
	assert_container(&p->r[1], 0, "a1", "web");
	for (size_t i = 0; i < n; i++) { /* every prefix; some are a list of fewer */
		p = parse(PODS_CRI_CONTAINERS, NULL, "", out, i);
		assert_true(p->rc == -EBADMSG || (!p->rc && p->n + p->page.refused <= 2));
	}
	c.n_labels = 0; /* not the kubelet's */
	n = ascribe__cri__list_containers_response__pack(&list, out);
	p = parse(PODS_CRI_CONTAINERS, NULL, "", out, n);
	assert_int_equal(p->n, 0);
	assert_int_equal(p->page.refused, 2);
}

/*
 * The bytes that containerd sends, from the field numbers of api.proto and not from cri.proto.
 * These are 1 id, 2 pod_sandbox_id, 3 metadata, 4 image, 5 image_ref, 6 state, 7 created_at, 8
 * labels.
 */
static void cri_bytes(void **state)
{
	static const char item[] = "\x0a\x02"
				   "ab"
				   "\x12\x02"
				   "cd"
				   "\x1a\x07"
				   "\x0a\x03"
				   "web"
				   "\x10\x01"
				   "\x22\x04"
				   "\x0a\x02"
				   "im"
				   "\x2a\x03"
				   "ref"
				   "\x30\x01"
				   "\x38\x05"
				   "\x42\x22"
				   "\x0a\x16"
				   "io.kubernetes.pod.name"
				   "\x12\x08"
				   "web-pod1"
				   "\x42\x21"
				   "\x0a\x1b"
				   "io.kubernetes.pod.namespace"
				   "\x12\x02"
				   "ns"
				   "\x42\x21"
				   "\x0a\x15"
				   "io.kubernetes.pod.uid"
				   "\x12\x08"
				   "12345678"
				   "\x52\x02"
				   "im";
	uint8_t out[512] = { 0x0a, (sizeof(item) - 1) | 0x80, (sizeof(item) - 1) >> 7 };
	(void)state;
	memcpy(out + 3, item, sizeof(item) - 1);
	struct parsed *p = parse(PODS_CRI_CONTAINERS, NULL, "", out, sizeof(item) + 2);
	assert_int_equal(p->rc, 0);
	assert_int_equal(p->n, 1);
	assert_pod(&p->r[0], "ns", "web-pod1", "", "");
	assert_string_equal(p->r[0].uid, "12345678");
	assert_string_equal(p->r[0].container[0].id, "ab");
	assert_string_equal(p->r[0].container[0].name, "web");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cri_sandboxes),
		cmocka_unit_test(cri_containers),
		cmocka_unit_test(cri_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
