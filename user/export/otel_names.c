/* SPDX-License-Identifier: Apache-2.0 */
#include "export/otel_names.h"

#include "query/query.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *ours, *theirs;
} names[] = {
	{ "tgid", "process.pid" },
	{ "exe", "process.executable.path" },
	{ "cmdline", "process.command_line" },
	{ "tid", "thread.id" },
	{ "thread", "thread.name" },
	{ "container_id", "container.id" },
	{ "container", "k8s.container.name" },
	{ "pod", "k8s.pod.name" },
	{ "pod_uid", "k8s.pod.uid" },
	{ "namespace", "k8s.namespace.name" },
	{ "node", "k8s.node.name" },
	{ "cluster", "k8s.cluster.name" },
	{ "host", "host.name" },
	{ "service", "service.name" },
}, prefixes[] = {
	{ "pod_label_", "k8s.pod.label." },
	{ "pod_annotation_", "k8s.pod.annotation." },
}, workloads[] = {
	{ "Deployment", "k8s.deployment.name" },
	{ "StatefulSet", "k8s.statefulset.name" },
	{ "DaemonSet", "k8s.daemonset.name" },
	{ "Job", "k8s.job.name" },
	{ "CronJob", "k8s.cronjob.name" },
};

#define COUNT(v) (sizeof(v) / sizeof((v)[0]))

static bool is(const char *text, size_t len, const char *name)
{
	return len == strlen(name) && !memcmp(text, name, len);
}

static const struct label *named(const struct label *labels, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (is(labels[i].key, labels[i].key_len, key) && labels[i].type == LABEL_STRING)
			return &labels[i];
	return NULL;
}

/* What the kind makes of a workload's name; NULL: nothing, they stay two labels. */
static const char *workload_name(const struct label *labels, size_t n)
{
	const struct label *kind = named(labels, n, "workload_kind");
	for (size_t i = 0; kind && named(labels, n, "workload") && i < COUNT(workloads); i++)
		if (is(kind->str, kind->str_len, workloads[i].ours))
			return workloads[i].theirs;
	return NULL;
}

const char *otel_name(const struct label *labels, size_t n, size_t i, char buf[OTEL_NAME_MAX],
		      size_t *ret_len)
{
	const struct label *l = &labels[i];
	const char *name = NULL;
	*ret_len = l->key_len;
	for (size_t k = 0; !name && k < COUNT(names); k++)
		name = is(l->key, l->key_len, names[k].ours) ? names[k].theirs : NULL;
	if (is(l->key, l->key_len, "workload_kind") && workload_name(labels, n))
		return NULL;
	if (is(l->key, l->key_len, "service_name") && !named(labels, n, "service"))
		name = "service.name"; /* profiles of others */
	if (is(l->key, l->key_len, "workload"))
		name = workload_name(labels, n);
	for (size_t k = 0; !name && k < COUNT(prefixes); k++) {
		size_t len = strlen(prefixes[k].ours);
		if (l->key_len < len || memcmp(l->key, prefixes[k].ours, len))
			continue;
		snprintf(buf, OTEL_NAME_MAX, "%s%.*s", prefixes[k].theirs, (int)(l->key_len - len),
			 l->key + len);
		name = buf;
	}
	if (!name)
		return l->key;
	*ret_len = strlen(name);
	return name;
}

bool otel_is_wanted(const char *const *keys, size_t n, const struct label *l)
{
	for (size_t i = 0; i < n; i++)
		if (is(l->key, l->key_len, keys[i]))
			return true;
	return !n;
}

bool otel_is_of_resource(const char *name, size_t len)
{
	static const char *const groups[] = { "service.", "host.", "container.", "k8s." };
	for (size_t i = 0; i < COUNT(groups); i++) {
		size_t n = strlen(groups[i]);
		if (len >= n && !memcmp(name, groups[i], n))
			return true;
	}
	return false;
}

bool otel_is_published(const struct label *l, const char *name)
{
	char key[OTEL_NAME_MAX];
	snprintf(key, sizeof(key), "%.*s", (int)l->key_len, l->key);
	return name == l->key && !query_is_system_key(key);
}

const char *otel_label(const char *name, char buf[OTEL_NAME_MAX], const char **ret_kind)
{
	*ret_kind = NULL;
	if (!strncmp(name, OTEL_CONTEXT_LABEL, strlen(OTEL_CONTEXT_LABEL)))
		return name + strlen(OTEL_CONTEXT_LABEL);
	if (!strcmp(name, "service.name"))
		return "service_name";
	for (size_t k = 0; k < COUNT(names); k++)
		if (!strcmp(name, names[k].theirs))
			return names[k].ours;
	for (size_t k = 0; k < COUNT(workloads); k++) {
		if (strcmp(name, workloads[k].theirs))
			continue;
		*ret_kind = workloads[k].ours;
		return "workload";
	}
	for (size_t k = 0; k < COUNT(prefixes); k++) {
		size_t len = strlen(prefixes[k].theirs);
		if (strncmp(name, prefixes[k].theirs, len))
			continue;
		snprintf(buf, OTEL_NAME_MAX, "%s%s", prefixes[k].ours, name + len);
		return buf;
	}
	return name;
}
