/* SPDX-License-Identifier: Apache-2.0 */
/* OpenTelemetry's names of labels: of a set of a pod, of one without a kind, of long keys. */
#include "export/otel_names.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct label text(const char *key, const char *value)
{
	return (struct label){ .key = key,
			       .str = value,
			       .key_len = (uint32_t)strlen(key),
			       .str_len = (uint32_t)strlen(value),
			       .type = LABEL_STRING };
}

/* "" where the label is left out. */
static void check(const struct label *set, size_t n, const char *const *expected)
{
	for (size_t i = 0; i < n; i++) {
		char buf[OTEL_NAME_MAX];
		size_t len = 0;
		const char *name = otel_name(set, n, i, buf, &len);
		if (!name != !*expected[i] ||
		    (name && (len != strlen(expected[i]) || memcmp(name, expected[i], len))))
			fail_msg("%s is called %.*s, not '%s'", set[i].key, name ? (int)len : 1,
				 name ? name : "-", expected[i]);
	}
}

static void of_a_pod(void **state)
{
	static const char *const kinds[][2] = { { "Deployment", "k8s.deployment.name" },
						{ "StatefulSet", "k8s.statefulset.name" },
						{ "DaemonSet", "k8s.daemonset.name" },
						{ "Job", "k8s.job.name" },
						{ "CronJob", "k8s.cronjob.name" } };
	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct label set[] = { text("pod", "web-1"),
					     text("workload", "web"),
					     text("workload_kind", kinds[i][0]),
					     text("tenant", "acme"),
					     text("pod_label_app", "web"),
					     text("exe", "/bin/web"),
					     text("pod_uid", "1-2-3") };
		check(set, 7,
		      (const char *const[]){ "k8s.pod.name", kinds[i][1], "", "tenant",
					     "k8s.pod.label.app", "process.executable.path",
					     "k8s.pod.uid" });
	}
}

/* What has no name of theirs stays as it is. */
static void of_others(void **state)
{
	char key[256], expected[300];
	struct label number = text("tid", "");
	(void)state;
	number.type = LABEL_INT;
	memset(key, 'k', 255);
	key[255] = 0;
	memcpy(key, "pod_annotation_", 15);
	snprintf(expected, sizeof(expected), "k8s.pod.annotation.%s", key + 15);
	const struct label set[] = { text("workload", "x"),
				     text("workload_kind", "Rollout"),
				     number,
				     text(key, "v"),
				     text("podx", "v"),
				     text("", "v") };
	check(set, 5,
	      (const char *const[]){ "workload", "workload_kind", "thread.id", expected, "podx" });
	check(set, 1, (const char *const[]){ "workload" });
}

static void check_label(const char *name, const char *key, const char *kind)
{
	char buf[OTEL_NAME_MAX];
	const char *got_kind, *got = otel_label(name, buf, &got_kind);
	assert_string_equal(got, key);
	assert_string_equal(got_kind ? got_kind : "", kind);
}

static void from_attributes(void **state)
{
	char name[400], key[OTEL_NAME_MAX];
	(void)state;
	check_label("service.name", "service_name", "");
	check_label("k8s.pod.name", "pod", "");
	check_label("k8s.cluster.name", "cluster", "");
	check_label("process.pid", "tgid", "");
	check_label("k8s.statefulset.name", "workload", "StatefulSet");
	check_label("k8s.pod.label.app", "pod_label_app", "");
	check_label("process.context.label.tenant", "tenant", "");
	check_label("process.context.label.", "", "");
	check_label("http.route", "http.route", "");
	/* A longer name is cut to what fits. */
	memset(name, 'k', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	memcpy(name, "k8s.pod.label.", 14);
	snprintf(key, sizeof(key), "pod_label_%.*s", OTEL_NAME_MAX - 11, name + 14);
	check_label(name, key, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(of_a_pod), cmocka_unit_test(of_others),
					    cmocka_unit_test(from_attributes) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
