/* SPDX-License-Identifier: Apache-2.0 */
/* The table of pods: claims, lists, time, memory. */
#include "pods_table.h"

#include <stdlib.h>

/* A pod named after its uid with these containers, cN of id N; ended by -1. */
static struct pod_record *pod(const char *uid, ...)
{
	struct pod_record *r = record(POD_SEEN, uid);
	va_list v;
	snprintf(r->name, sizeof(r->name), "pod-%s", uid);
	strcpy(r->namespace, "default");
	va_start(v, uid);
	for (int n; (n = va_arg(v, int)) >= 0;) {
		struct pod_container *c = &r->container[r->n_containers++];
		id_of(c->id, (unsigned)n);
		snprintf(c->name, sizeof(c->name), "c%d", n);
	}
	va_end(v);
	return r;
}

static void apply_what(enum pod_what what, const char *uid)
{
	apply(record(what, uid));
}

static void assert_names(int id, const char *uid, const char *pod_uid, const char *container)
{
	struct pods_names n;
	assert_true(find(id, uid, &n));
	assert_string_equal(n.uid, pod_uid);
	if (container)
		assert_string_equal(n.container, container);
	else
		assert_null(n.container);
}

static void assert_unknown(int id, const char *uid)
{
	struct pods_names n;
	assert_false(find(id, uid, &n));
}

static void one_pod(void **state)
{
	struct pods_names n;
	(void)state;
	struct pod_record *r = pod("a", 1, 2, -1);
	strcpy(r->kind, "Deployment");
	strcpy(r->workload, "web");
	strcpy(r->cgroup_uid, "abcd");
	r->n_extra = 1;
	r->extra[0].wanted = 3;
	strcpy(r->extra[0].value, "v");
	apply(r);
	assert_true(find(2, "a", &n));
	assert_string_equal(n.namespace, "default");
	assert_string_equal(n.pod, "pod-a");
	assert_string_equal(n.kind, "Deployment");
	assert_string_equal(n.workload, "web");
	assert_string_equal(n.container, "c2");
	assert_string_equal(n.extra[3], "v");
	assert_null(n.extra[0]);
	assert_names(1, NULL, "a", "c1");
	assert_names(1, "abcd", "a", "c1");
	assert_names(-1, "abcd", "a", NULL);
	assert_names(3, "a", "a", NULL); /* a container that no record named yet */
	assert_unknown(3, NULL);
	assert_unknown(-1, NULL);
	assert_unknown(1, "other"); /* the path says: of another pod */
	apply(pod("a", 2, 3, -1));
	assert_unknown(1, NULL);
	assert_names(3, NULL, "a", "c3");
	assert_unknown(-1, "abcd");
	assert_true(find(2, NULL, &n));
	assert_null(n.kind);
	assert_null(n.extra[3]);
	assert_int_equal(stats().containers, 2);
}

static void merged(void **state)
{
	struct pods_names n;
	(void)state;
	struct pod_record *r = pod("a", 1, -1);
	r->merge = true;
	strcpy(r->kind, "DaemonSet");
	strcpy(r->workload, "w");
	r->n_extra = 2;
	r->extra[0].wanted = 0;
	strcpy(r->extra[0].value, "first");
	r->extra[1].wanted = 1;
	apply(r);
	r = pod("a", 2, 1, -1);
	r->merge = true;
	strcpy(r->container[1].name, "renamed");
	r->n_extra = 1;
	r->extra[0].wanted = 1;
	strcpy(r->extra[0].value, "second");
	apply(r);
	assert_names(1, "a", "a", "renamed");
	assert_names(2, "a", "a", "c2");
	assert_true(find(1, NULL, &n));
	assert_string_equal(n.kind, "DaemonSet");
	assert_string_equal(n.workload, "w");
	assert_string_equal(n.extra[0], "first");
	assert_string_equal(n.extra[1], "second");
	assert_int_equal(stats().containers, 2);
	/* A list that no longer names a container. */
	apply_what(POD_LIST_BEGIN, NULL);
	r = pod("a", 2, -1);
	r->merge = true;
	apply(r);
	assert_names(1, NULL, "a", "renamed");
	apply_what(POD_LIST_END, NULL);
	assert_unknown(1, NULL);
	assert_names(2, NULL, "a", "c2");
}

static void gone(void **state)
{
	(void)state;
	apply(pod("a", 1, -1));
	apply_what(POD_GONE, "a");
	apply_what(POD_GONE, "never-seen");
	assert_names(1, "a", "a", "c1");
	assert_int_equal(stats().gone, 1);
	now += PODS_GONE_NS - 1;
	apply_what(POD_STATE, NULL);
	assert_names(1, "a", "a", "c1");
	now++;
	apply_what(POD_STATE, NULL);
	assert_unknown(1, "a");
	assert_int_equal(stats().pods, 0);
	assert_int_equal(stats().forgotten, 0);
	/* Deleted, and there again: it does not end with the first time. */
	apply(pod("b", 1, -1));
	apply_what(POD_GONE, "b");
	now += PODS_GONE_NS / 2;
	apply(pod("b", 1, -1));
	assert_int_equal(stats().gone, 0);
	now += PODS_GONE_NS;
	apply_what(POD_STATE, NULL);
	assert_names(1, "b", "b", "c1");
}

static void lists(void **state)
{
	(void)state;
	apply_what(POD_LIST_END, NULL); /* of no list */
	apply(pod("a", 1, -1));
	apply(pod("b", 2, -1));
	apply_what(POD_LIST_END, NULL);
	assert_int_equal(stats().gone, 0);
	apply_what(POD_LIST_BEGIN, NULL);
	apply(pod("b", 2, -1));
	apply_what(POD_LIST_BEGIN, NULL); /* the first one was cut off */
	apply(pod("a", 1, -1));
	apply(pod("c", 3, -1));
	assert_int_equal(stats().gone, 0);
	apply_what(POD_LIST_END, NULL);
	assert_int_equal(stats().gone, 1);
	apply_what(POD_LIST_BEGIN, NULL);
	apply_what(POD_LIST_END, NULL);
	assert_int_equal(stats().gone, 3);
	assert_names(1, NULL, "a", "c1");
}

static void claims(void **state)
{
	(void)state;
	apply(pod("a", 1, -1));
	apply(pod("b", 1, 2, -1));
	assert_unknown(1, NULL);
	assert_names(1, "a", "a", NULL);
	assert_names(2, "b", "b", "c2");
	/* The one that is there has it. */
	apply_what(POD_GONE, "a");
	assert_names(1, NULL, "b", "c1");
	assert_names(1, "a", "a", NULL);
	/* Neither is there, until one is forgotten. */
	now += SECOND;
	apply_what(POD_GONE, "b");
	assert_unknown(1, NULL);
	now += PODS_GONE_NS - SECOND;
	apply_what(POD_STATE, NULL);
	assert_names(1, NULL, "b", "c1");
	/* An id that is used again after its pod is gone. */
	apply(pod("c", 1, -1));
	assert_names(1, "c", "c", "c1");
	/* A mirror pod that is made anew: both claim the uid of the cgroup. */
	struct pod_record *r = pod("m1", 7, -1);
	strcpy(r->cgroup_uid, "abcd");
	apply(r);
	r = pod("m2", 7, -1);
	strcpy(r->cgroup_uid, "abcd");
	apply(r);
	assert_unknown(7, "abcd");
	apply_what(POD_GONE, "m1");
	assert_names(7, "abcd", "m2", "c7");
	/* The uid of a pod wins over what another one claims. */
	r = pod("thief", -1);
	strcpy(r->cgroup_uid, "c");
	apply(r);
	assert_names(1, "c", "c", "c1");
	assert_names(-1, "c", "c", NULL);
}

static void without_pod(void **state)
{
	struct pods_names n;
	struct pod_record *r;
	(void)state;
	for (int i = 0; i < 2; i++) {
		r = record(POD_SEEN, NULL);
		r->n_containers = 1;
		id_of(r->container[0].id, 5);
		strcpy(r->container[0].name, i ? "new" : "old");
		apply(r);
	}
	assert_int_equal(stats().pods, 1);
	assert_true(find(5, NULL, &n));
	assert_null(n.uid);
	assert_null(n.pod);
	assert_string_equal(n.container, "new");
	assert_true(find(5, "uid-of-a-path", &n));
	r = record(POD_GONE, NULL);
	r->n_containers = 1;
	id_of(r->container[0].id, 5);
	apply(r);
	assert_int_equal(stats().gone, 1);
	/* Ids that are no 64 digits; upper case is another id than lower case. */
	r = record(POD_SEEN, NULL);
	r->n_containers = 1;
	strcpy(r->container[0].id, "ABC");
	strcpy(r->container[0].name, "short");
	apply(r);
	assert_true(pods_table_find(t, "ABC", 3, "", 0, &n));
	assert_string_equal(n.container, "short");
	assert_false(pods_table_find(t, "abc", 3, "", 0, &n));
	assert_false(pods_table_find(t, "AB", 2, "", 0, &n));
	char text[200];
	memset(text, 'a', sizeof(text));
	assert_false(pods_table_find(t, text, sizeof(text), text, sizeof(text), &n));
}

/* ---- memory ---- */

static struct pod_record *usual_pod(unsigned n, unsigned containers)
{
	char uid[POD_UID_MAX];
	snprintf(uid, sizeof(uid), "0b5e3a52-6f0e-4c1e-9a7b-%012x", n);
	struct pod_record *r = pod(uid, -1);
	snprintf(r->name, sizeof(r->name), "some-service-name-7d9c5b8f6c-%05x", n);
	strcpy(r->namespace, "team-namespace");
	strcpy(r->kind, "Deployment");
	strcpy(r->workload, "some-service-name");
	for (; r->n_containers < containers; r->n_containers++) {
		struct pod_container *c = &r->container[r->n_containers];
		snprintf(c->id, sizeof(c->id), "%032x%032x", n, r->n_containers);
		snprintf(c->name, sizeof(c->name), "container-%u", r->n_containers);
	}
	r->n_extra = 4;
	for (uint32_t i = 0; i < 4; i++) {
		r->extra[i].wanted = i;
		strcpy(r->extra[i].value, "value of a label");
	}
	return r;
}

static void five_hundred(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 500; i++)
		apply(usual_pod(i, 4));
	struct pods_table_stats s = stats();
	printf("500 pods, 4 containers and 4 labels each: %zu bytes\n", s.bytes);
	assert_int_equal(s.pods, 500);
	assert_int_equal(s.refused, 0);
	assert_true(s.bytes < PODS_TABLE_BYTES);
	for (unsigned i = 500; i < 10500; i++)
		apply(usual_pod(i, 4));
	s = stats();
	printf("room for %zu of them\n", (size_t)s.pods);
	assert_int_equal(s.pods + s.refused, 10500);
	assert_true(s.bytes <= PODS_TABLE_BYTES && s.refused);
	/* Those that are known stay up to date in a full table. */
	uint64_t refused = s.refused;
	for (unsigned i = 0; i < 500; i++)
		apply(usual_pod(i, 4));
	assert_int_equal(stats().refused, refused);
	/* Pods that are gone give way, the oldest first. */
	for (unsigned i = 0; i < 10; i++) {
		struct pod_record *r = usual_pod(i, 0);
		r->what = POD_GONE;
		apply(r);
	}
	for (unsigned i = 20000; i < 20005; i++)
		apply(usual_pod(i, 4));
	s = stats();
	assert_int_equal(s.refused, refused);
	assert_true(s.forgotten >= 4 && s.forgotten <= 6);
	struct pods_names n;
	const char *uid = usual_pod(9, 0)->uid;
	assert_true(pods_table_find(t, "", 0, uid, strlen(uid), &n));
	uid = usual_pod(0, 0)->uid;
	assert_false(pods_table_find(t, "", 0, uid, strlen(uid), &n));
	/* A record that finds no room leaves its pod as it was, in a list, too. */
	for (unsigned i = 30000; i < 30100; i++)
		apply(usual_pod(i, 4));
	assert_int_equal(stats().gone, 0);
	apply_what(POD_LIST_BEGIN, NULL);
	struct pod_record *r = usual_pod(100, 64);
	for (uint32_t i = 0; i < 4; i++)
		memset(r->extra[i].value, 'v', POD_VALUE_MAX - 1);
	refused = stats().refused;
	apply(r);
	assert_int_equal(stats().refused, refused + 1);
	apply_what(POD_LIST_END, NULL);
	r = usual_pod(100, 4);
	assert_true(pods_table_find(t, r->container[3].id, 64, r->uid, strlen(r->uid), &n));
	assert_string_equal(n.container, "container-3");
	assert_int_equal(stats().pods - stats().gone, 1);
	/* All memory is given back. */
	now += 2 * PODS_GONE_NS;
	struct pod_record *last = usual_pod(100, 0);
	last->what = POD_GONE;
	apply(last);
	now += 2 * PODS_GONE_NS;
	apply_what(POD_STATE, NULL);
	assert_int_equal(stats().pods, 0);
	assert_int_equal(stats().containers, 0);
	printf("empty again: %zu bytes\n", stats().bytes);
	assert_true(stats().bytes < 512 << 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_pod, setup, teardown),
		cmocka_unit_test_setup_teardown(merged, setup, teardown),
		cmocka_unit_test_setup_teardown(gone, setup, teardown),
		cmocka_unit_test_setup_teardown(lists, setup, teardown),
		cmocka_unit_test_setup_teardown(claims, setup, teardown),
		cmocka_unit_test_setup_teardown(without_pod, setup, teardown),
		cmocka_unit_test_setup_teardown(five_hundred, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
