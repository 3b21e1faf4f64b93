/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ids of processes and threads in the recorder's PID namespace, as /proc and the side-band show
 * them. A task itself has those of the initial namespace.
 *
 *   task --> struct pid: level 2, numbers: | initial | recorder's | innermost |
 *                                               ^           '-- the id in rows and records
 *                                               '-- for a process outside: this | ID_HIDDEN
 */
#ifndef ASCRIBE_IDS_BPF_H
#define ASCRIBE_IDS_BPF_H

#include "common.bpf.h"

#define PID_LEVELS 33 /* include/linux/pid_namespace.h: MAX_PID_NS_LEVEL and the initial one */

/*
 * Translate the struct pid at this address, a scalar as global functions want it. `initial` is its
 * id in the initial namespace.
 */
__noinline __u32 id_in_namespace(__u64 pid, __u32 initial)
{
	struct pid *p = (void *)pid;
	__u64 numbers = pid + bpf_core_field_offset(struct pid, numbers);
	__u32 level = p ? BPF_CORE_READ(p, level) : PID_LEVELS;
	for (int i = 0; i < PID_LEVELS && level < PID_LEVELS; i++, level--) {
		struct upid *u = (void *)(numbers + level * bpf_core_type_size(struct upid));
		if (BPF_CORE_READ(u, ns, ns.inum) == cfg.pid_namespace)
			return (__u32)BPF_CORE_READ(u, nr);
	}
	return initial | ID_HIDDEN;
}

static __always_inline __u32 process_id(struct task_struct *t)
{
	if (!cfg.pid_namespace)
		return (__u32)t->tgid;
	return id_in_namespace((__u64)BPF_CORE_READ(t, signal, pids[PIDTYPE_TGID]), (__u32)t->tgid);
}

static __always_inline __u32 thread_id(struct task_struct *t)
{
	if (!cfg.pid_namespace)
		return (__u32)t->pid;
	return id_in_namespace((__u64)BPF_CORE_READ(t, thread_pid), (__u32)t->pid);
}

static __always_inline bool is_hidden(__u32 id)
{
	return cfg.pid_namespace && id & ID_HIDDEN;
}

#endif
