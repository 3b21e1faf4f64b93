/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/wait_support.h"

#include <bpf/btf.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Where a member of a structure begins, also one of an anonymous part of it. -ENOENT: it has none
 * of that name.
 */
static int64_t type_member_at(const struct btf *btf, const struct btf_type *t, const char *member,
			      unsigned depth)
{
	for (unsigned i = 0; t && i < btf_vlen(t); i++) {
		const struct btf_member *m = &btf_members(t)[i];
		const char *name = btf__name_by_offset(btf, m->name_off);
		int64_t at = (int64_t)btf_member_bit_offset(t, i) / 8, inner;
		if (!strcmp(name, member))
			return at;
		const struct btf_type *part =
			*name || !depth ? NULL : btf__type_by_id(btf, m->type);
		if (part && btf_is_composite(part) &&
		    (inner = type_member_at(btf, part, member, depth - 1)) >= 0)
			return at + inner;
	}
	return -ENOENT;
}

static int64_t member_at(const struct btf *btf, const char *type, const char *member)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);
	return type_member_at(btf, id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL, member, 4);
}

static bool has_member(const struct btf *btf, const char *type, const char *member)
{
	return member_at(btf, type, member) >= 0;
}

/* What the kernel says of its types. For tests: of one that has less. */
static struct btf *kernel_types(void)
{
	const char *path = getenv("ASCRIBE_KERNEL_TYPES");
	return path ? btf__parse(path, NULL) : btf__load_vmlinux_btf();
}

static bool has_tracepoint(const struct btf *btf, const char *tracepoint)
{
	char name[64];
	snprintf(name, sizeof(name), "btf_trace_%s", tracepoint);
	return btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF) >= 0;
}

#if !defined(__aarch64__)
/*
 * The place of a variable of each CPU among all of them. -ENOENT: the kernel's types do not tell.
 */
static int64_t percpu_at(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_VAR),
	    section = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *t = section > 0 ? btf__type_by_id(btf, (uint32_t)section) : NULL;
	for (unsigned i = 0; t && id > 0 && i < btf_vlen(t); i++)
		if (btf_var_secinfos(t)[i].type == (uint32_t)id)
			return btf_var_secinfos(t)[i].offset;
	return -ENOENT;
}

/* Where a CPU keeps its count of interrupts: by itself, from 6.2 to 6.14 in a structure. */
static int64_t preempt_count_at(const struct btf *btf)
{
	int64_t at = percpu_at(btf, "__preempt_count"), hot = percpu_at(btf, "pcpu_hot"),
		member = member_at(btf, "pcpu_hot", "preempt_count");
	return at >= 0 ? at : hot >= 0 && member >= 0 ? hot + member : -ENOENT;
}
#endif

struct kernel_function {
	const char *name;
	__u64 *from, *to; /* 0: not found. The end is where the next function begins */
};

/*
 * Apply a line of /proc/kallsyms, "address type name\n" in the order of addresses. True: the
 * function has its end.
 */
static bool find_function(const struct kernel_function *f, const char *line)
{
	size_t len = strlen(f->name);
	const char *name = strrchr(line, ' ');
	if (*f->to)
		return true;
	if (*f->from) {
		__u64 at = strtoull(line, NULL, 16);
		*f->to = at > *f->from ? at : 0;
	} else if (name && !strncmp(name + 1, f->name, len) && name[1 + len] == '\n') {
		*f->from = strtoull(line, NULL, 16);
	}
	return *f->to;
}

/*
 * Without them who sends to a local socket is an interrupt, too. One pass finds both: the kernel
 * needs tens of milliseconds to print all of its symbols.
 */
static void find_softirqs(struct wait_support *s)
{
	const struct kernel_function functions[] = {
		{ "__local_bh_enable_ip", &s->wake.bottom_half.from, &s->wake.bottom_half.to },
		{ "process_backlog", &s->wake.backlog.from, &s->wake.backlog.to },
	};
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[512];
	bool found = false;
	while (f && !found && fgets(line, sizeof(line), f)) {
		found = find_function(&functions[0], line);
		found &= find_function(&functions[1], line);
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!*functions[i].to)
			*functions[i].from = 0;
	if (f)
		fclose(f);
}

/*
 * Who wakes can only be told where a thread can be told from an interrupt that has stopped it:
 * bpf/waker.bpf.h.
 */
static int check_wakers(struct wait_support *s, const struct btf *btf, struct err *err)
{
	if (!has_tracepoint(btf, "sched_waking"))
		return err_set(
			err, -ENOTSUP,
			"this kernel has no tracepoint sched_waking: who wakes whom (--waker) "
			"cannot be recorded; without it "
			"waits can");
#if defined(__aarch64__)
	bool interrupts = member_at(btf, "thread_info", "preempt_count") >= 0;
#else
	int64_t rq = percpu_at(btf, "runqueues"), at = preempt_count_at(btf);
	bool interrupts = rq >= 0 && at >= 0 && member_at(btf, "cfs_rq", "rq") >= 0;
	s->wake.preempt_count = (uint64_t)(at - rq);
#endif
	return interrupts ? 0
			  : err_set(err, -ENOTSUP,
				    "this kernel's types (BTF) do not say where it counts "
				    "interrupts: who wakes whom (--waker) "
				    "cannot be recorded; without it waits can");
}

int wait_support_find(struct wait_support *ret, bool wakers, struct err *err)
{
	static const char *const tracepoints[] = { "sched_switch", "sched_wakeup_new",
						   "sched_process_fork" };
	struct wait_support found = { 0 };
	struct btf *btf = kernel_types();
	int rc = 0;
	for (size_t i = 0; !rc && btf && i < sizeof(tracepoints) / sizeof(tracepoints[0]); i++) {
		if (!has_tracepoint(btf, tracepoints[i]))
			rc = err_set(
				err, -ENOTSUP,
				"this kernel has no tracepoint %s: waits (--wall, -e "
				"off-cpu,runq) cannot be recorded; without them everything else "
				"can",
				tracepoints[i]);
	}
	if (!rc && btf && wakers)
		rc = check_wakers(&found, btf, err);
	if (!rc && wakers)
		find_softirqs(&found);
	/*
	 * Does it note when a thread came into its queue (CONFIG_SCHED_INFO), by a clock that we
	 * can read?
	 */
	found.queue_times = btf && has_member(btf, "sched_info", "last_queued") &&
			    has_member(btf, "cfs_rq", "rq") &&
			    has_member(btf, "task_struct", "sched_info") &&
			    /* for tests: as on a kernel that does not */
			    !getenv("ASCRIBE_WATCH_WAKEUPS");
	btf__free(btf);
	if (!rc)
		*ret = found;
	return rc;
}
