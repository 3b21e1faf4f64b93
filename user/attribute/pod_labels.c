/* SPDX-License-Identifier: Apache-2.0 */
#include "attribute/pod_labels.h"

#include "proc/proc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ID_SHORT 12 /* digits of a container id, as container tools print it */

static void add(struct pod_labels *l, const char *key, const char *s, size_t len)
{
	if (s && len)
		l->v[l->n++] = (struct label){ .key = key,
					       .key_len = (uint32_t)strlen(key),
					       .str = s,
					       .str_len = (uint32_t)len,
					       .type = LABEL_STRING };
}

static void add_text(struct pod_labels *l, const char *key, const char *s)
{
	add(l, key, s, s ? strlen(s) : 0);
}

static void set_service(struct pod_labels *l, const char *s, size_t len)
{
	l->service = s;
	l->service_len = len;
}

static void add_names(struct pods *p, const struct pods_names *n, struct pod_labels *l)
{
	const struct pods_wanted *want = pods_wanted(p);
	add_text(l, "container", n->container);
	add_text(l, "pod", n->pod);
	add_text(l, "namespace", n->namespace);
	add_text(l, "workload", n->workload);
	add_text(l, "workload_kind", n->kind);
	for (uint32_t i = 0; i < want->n_labels + want->n_annotations; i++) {
		if (*want->name[i])
			add_text(l, want->name[i], n->extra[i]);
		else if (!l->profile)
			l->profile = n->extra[i];
	}
	const char *who = n->workload && *n->workload ? n->workload : n->pod;
	if (who && n->namespace)
		set_service(l, l->text,
			    (size_t)snprintf(l->text, sizeof(l->text), "%s/%s", n->namespace, who));
	else if (n->container)
		set_service(l, n->container, strlen(n->container));
}

/* LXC has no ids: the path has the name. */
static void add_lxc(const char *cgroup, struct pod_labels *l)
{
	const char *name;
	size_t len = cgroup ? proc_lxc_name(cgroup, &name) : 0;
	if (!len)
		return;
	add(l, "container", name, len);
	set_service(l, name, len);
}

void pod_labels_of(struct pods *p, const char *cgroup, struct pod_labels *ret)
{
	struct pods_names names = { 0 };
	const char *id = NULL;
	ret->n = 0;
	ret->late = false;
	ret->service = ret->profile = NULL;
	size_t id_len = cgroup ? proc_container_id(cgroup, &id) : 0;
	size_t uid_len = cgroup ? proc_pod_uid(cgroup, ret->uid, sizeof(ret->uid)) : 0;
	if (!id_len && !uid_len) {
		add_lxc(cgroup, ret);
		return;
	}
	int rc = p ? pods_find(p, id, id_len, ret->uid, uid_len, &names) : -ENOENT;
	ret->late = rc == -EINPROGRESS;
	add(ret, "container_id", id, id_len);
	if (names.uid && *names.uid) /* that of the API, also for a static pod */
		add_text(ret, "pod_uid", names.uid);
	else
		add(ret, "pod_uid", ret->uid, uid_len);
	if (id_len)
		set_service(ret, id, id_len < ID_SHORT ? id_len : ID_SHORT);
	if (!rc || names.pod)
		add_names(p, &names, ret);
	if (names.pod)
		add_text(ret, "node", pods_node(p));
}
