/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types that our programs touch, and no more: CO-RE finds the real offsets at load time, so that a
 * member's place here means nothing. Written from the BTF of Linux 6.1 and checked on 6.1, 6.12 and 6.18.
 * Members that the programs do not read are left out. What differs between machines stands in <arch>/vmlinux.h,
 * which includes types.h first and task.h last.
 */
#ifndef ASCRIBE_VMLINUX_TYPES_H
#define ASCRIBE_VMLINUX_TYPES_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef __u64 u64;
typedef __u32 u32;
typedef __u16 u16;
typedef __u8 u8;
typedef _Bool bool;
enum { false = 0, true = 1 };

/* include/uapi/linux/bpf.h: values of the system call interface, which do not change. */
enum bpf_map_type {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_F_USER_STACK = 256,
	BPF_F_MMAPABLE = 1024,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
};

#endif
