/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The running thread; see types.h. struct thread_struct and thread_info are the machine's. */
#ifndef ASCRIBE_VMLINUX_TASK_H
#define ASCRIBE_VMLINUX_TASK_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

/* The number of a process or thread in one namespace. */
struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;	/* of the innermost namespace; 0: the initial one */
	struct upid numbers[1]; /* in the namespaces of levels 0 to level */
};

enum pid_type {
	PIDTYPE_PID,
	PIDTYPE_TGID,
	PIDTYPE_PGID,
	PIDTYPE_SID,
	PIDTYPE_MAX
};

struct signal_struct {
	atomic_t live; /* threads that have not exited */
	struct pid *pids[PIDTYPE_MAX];
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

/* kernel/events/uprobes.c: the page of a process where functions return whose return is probed */
struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct file;

struct mm_struct {
	struct file *exe_file; /* opened anew by each exec; fork shares it */
	struct uprobes_state uprobes_state;
	unsigned long arg_start, arg_end; /* the arguments; both 0 in the middle of an exec */
	unsigned long start_stack; /* the main thread's stack pointer at exec: above are arguments and environment */
};

struct rq {
	u64 clock;
};

struct cfs_rq {
	struct rq *rq; /* with CONFIG_FAIR_GROUP_SCHED */
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
	u64 sum_exec_runtime;
	unsigned char sched_delayed; /* since 6.12: it is blocked, and still in its queue for a while */
};

struct sched_info {
	unsigned long pcount; /* how often it came to a CPU */
	unsigned long long run_delay;	/* ns in queues, until it was last taken out of one */
	unsigned long long last_arrival; /* on a CPU, by the clock of its queue */
	unsigned long long last_queued; /* by the clock of its queue; 0: it is in none, or runs */
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	/* Until it has left it altogether. int, u8 in 7.3: libbpf resizes what is unsigned here. */
	unsigned int on_cpu;
	int wake_cpu; /* the CPU whose queue it is in, or was last */
	int pid;  /* what we call tid */
	int tgid;
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct mm_struct *mm;
	unsigned long nvcsw, nivcsw; /* how often it was switched out */
	u64 start_boottime;
	u64 self_exec_id;
	char comm[16];
	struct css_set *cgroups;
	struct signal_struct *signal;
	int softirq_disable_cnt; /* with CONFIG_PREEMPT_RT: the softirq part of preempt_count */
	struct thread_struct thread;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

#pragma clang attribute pop

/* The context of an iterator: part of the user interface. */
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#endif
