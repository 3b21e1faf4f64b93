/* SPDX-License-Identifier: Apache-2.0 */
#include "attribute/sets.h"
#include "store/writer.h"

#include <stdio.h>
#include <string.h>

static void add_text(struct sets_labels *l, const char *key, const char *s, size_t len)
{
	if (!len)
		return;
	l->v[l->n++] = (struct label){ .key = key,
				       .key_len = (uint32_t)strlen(key),
				       .str = s,
				       .str_len = (uint32_t)len,
				       .type = LABEL_STRING };
}

static void add_int(struct sets_labels *l, const char *key, int64_t num)
{
	l->v[l->n++] = (struct label){
		.key = key, .key_len = (uint32_t)strlen(key), .num = num, .type = LABEL_INT
	};
}

/*
 * Return the cgroup: the v2 one in the row, or the one from /proc where the v2 one is only the
 * root.
 */
static const char *row_cgroup(const struct sets *s, uint64_t cgroup, const struct proc_image *im)
{
	const char *path = procs_cgroup_path(s->procs, cgroup);
	if (procs_in_cgroup(s->procs, cgroup))
		return path;
	return im && im->cgroup ? im->cgroup : path;
}

/*
 * Name the service: the systemd unit, else the workload or container, else the process. Sessions
 * and the manager of a user are no services. comm and not exe: a link to a program of many names,
 * and a script, have the name of something else as their exe.
 */
static void add_service(bool kernel, const char *cgroup, const char *comm,
			const struct pod_labels *pod, struct sets_labels *l)
{
	static const char end[] = ".service";
	const size_t cut = sizeof(end) - 1;
	const char *id = NULL;
	size_t len = cgroup ? proc_unit(cgroup, &id) : 0;
	if (len > cut && !memcmp(id + len - cut, end, cut) && strncmp(id, "user@", 5))
		add_text(l, "service", id, len - cut);
	else if (pod->service)
		add_text(l, "service", pod->service, pod->service_len);
	else if (kernel)
		add_text(l, "service", "[kernel]", 8);
	else
		add_text(l, "service", comm, strlen(comm));
}

static void add_system(const struct sets *s, const struct row *row, const struct proc_image *im,
		       const char *cgroup, enum sets_detail detail, char *thread,
		       struct pod_labels *pod, struct sets_labels *l)
{
	const char *id;
	pod_labels_of(s->pods, cgroup, pod);
	memcpy(thread, row->comm, COMM_SIZE);
	thread[COMM_SIZE] = 0;
	const char *comm = im && im->comm[0] ? im->comm : thread;
	bool kernel = row->kind == ROW_KTHREAD || (im && proc_image_is_kernel(im));
	add_text(l, "comm", comm, strlen(comm));
	if (detail == SETS_THREAD) {
		add_int(l, "tgid", row->tgid & ~ID_HIDDEN);
		if (row->kind != ROW_IDLE) {
			add_int(l, "tid", row->tid & ~ID_HIDDEN);
			add_text(l, "thread", thread, strlen(thread));
		}
	}
	if (detail == SETS_THREAD && im && !kernel)
		add_text(l, "parent", im->parent_comm, strlen(im->parent_comm));
	if (im && im->exe)
		add_text(l, "exe", im->exe->path, strlen(im->exe->path));
	if (row->kind != ROW_IDLE)
		add_service(kernel, cgroup, comm, pod, l);
	if (!cgroup)
		return;
	add_text(l, "cgroup", cgroup, strlen(cgroup));
	size_t len = proc_unit(cgroup, &id);
	if (len)
		add_text(l, "unit", id, len);
	for (size_t i = 0; i < pod->n; i++)
		l->v[l->n++] = pod->v[i];
	l->late |= pod->late;
}

/* Add the command line, unless a rule drops it. */
static void add_cmdline(const struct sets *s, const struct proc_image *im, struct sets_labels *l,
			uint64_t *io_flags)
{
	size_t from = l->n;
	if (!s->cmdline || !im)
		return;
	l->late |= im->cmdline_late;
	if (im->cmdline)
		add_text(l, "cmdline", im->cmdline, strlen(im->cmdline));
	l->n = from +
	       labelling_filter(s->labelling, l->v + from, l->n - from, l->cmdline, io_flags);
}

/* Return flags as of labelling_find; set l->late and leave LABELLING_LATE out. */
static uint64_t add_application(const struct sets *s, const struct row *row, size_t max,
				struct sets_labels *l)
{
	const struct label *app;
	uint64_t flags;
	size_t n = labelling_find(s->labelling, row, &app, &flags);
	for (size_t i = 0; i < n && l->n < max; i++)
		l->v[l->n++] = app[i];
	if (flags == LABELLING_UNKNOWN)
		return flags;
	l->late |= (flags & LABELLING_LATE) != 0;
	return flags & ~LABELLING_LATE;
}

/* Add the labels by rules. Copy their texts: the next process overwrites them. */
static void add_ruled(const struct sets *s, const struct proc_image *im, const char *cgroup,
		      char *text, char *redacted, struct sets_labels *l, uint64_t *io_flags)
{
	const struct label *ruled;
	struct label *v = l->v + l->n;
	bool late;
	size_t n = ruled_labels(s->ruled, im, cgroup, &ruled, &late), used = 0;
	for (size_t i = 0; i < n; i++) {
		v[i] = ruled[i];
		v[i].str = memcpy(text + used, ruled[i].str, ruled[i].str_len);
		used += ruled[i].str_len;
	}
	l->n += labelling_filter(s->labelling, v, n, redacted, io_flags);
	l->late |= late;
}

void sets_of(const struct sets *s, const struct row *row, const struct proc_image *im,
	     enum sets_detail detail, bool kthread, struct sets_labels *ret)
{
	const char *cgroup = kthread ? NULL : row_cgroup(s, row->cgroup, im);
	uint64_t flags = 0;
	ret->n = 0;
	ret->late = false;
	add_system(s, row, im, cgroup, detail, ret->thread, &ret->pod, ret);
	if (detail == SETS_THREAD)
		add_cmdline(s, im, ret, &flags);
	ret->flags = add_application(s, row, SETS_LABELS_MAX - RULE_LABELS_MAX, ret);
	if (!kthread)
		add_ruled(s, im, cgroup, ret->ruled[0], ret->redacted[0], ret, &flags);
	if (ret->flags != LABELLING_UNKNOWN)
		ret->flags |= flags;
}

int sets_store(struct sets_labels *l, struct store_writer *w, uint32_t *ret)
{
	if (l->n > STORE_SET_MAX) {
		l->n = labels_normalize(l->v, l->n);
		l->n = l->n < STORE_SET_MAX ? l->n : STORE_SET_MAX;
	}
	return store_add_set(w, l->v, l->n, ret);
}

/* Prefix the keys with "by."; leave out those without room. */
static void prefix_keys(struct sets_labels *l, size_t from)
{
	const size_t by = strlen(SETS_BY);
	size_t used = 0, n = from;
	for (size_t i = from; i < l->n; i++) {
		size_t len = by + l->v[i].key_len;
		if (used + len > sizeof(l->keys))
			break;
		char *key = l->keys + used;
		memcpy(key, SETS_BY, by);
		memcpy(key + by, l->v[i].key, l->v[i].key_len);
		used += len;
		l->v[n] = l->v[i];
		l->v[n].key = key;
		l->v[n++].key_len = (uint32_t)len;
	}
	l->n = n;
}

void sets_add_occupant(const struct sets *s, const struct occupant *who,
		       const struct proc_image *im, const char *name, struct sets_labels *l)
{
	size_t from = l->n;
	if (!who) {
		add_text(l, SETS_BY "comm", name, strlen(name));
	} else {
		struct row row = { .set_id = who->set_id,
				   .start_ns = who->start_ns,
				   .cgroup = who->cgroup,
				   .tgid = who->tgid,
				   .exec_id = who->exec_id,
				   .kind = ROW_TASK };
		const char *cgroup = row_cgroup(s, who->cgroup, im);
		uint64_t flags = 0; /* those of the row count */
		memcpy(row.comm, who->comm, sizeof(row.comm));
		add_system(s, &row, im, cgroup, SETS_WORK, l->by_thread, &l->by_pod, l);
		add_application(s, &row, from + SETS_LABELS_MAX - RULE_LABELS_MAX, l);
		add_ruled(s, im, cgroup, l->ruled[1], l->redacted[1], l, &flags);
		prefix_keys(l, from);
	}
}
