// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The ids of all BPF maps of the host, for user/sampler/lent.c. A map is in the list as long as a
 * descriptor, a mapping or a program refers to it. BPF_MAP_GET_NEXT_ID would tell as much, but
 * takes CAP_SYS_ADMIN; this takes CAP_BPF and CAP_PERFMON.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct bpf_map {
	__u32 id;
} __attribute__((preserve_access_index));

/* The context of the iterator: part of the user interface. */
struct bpf_iter__bpf_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
};

SEC("iter/bpf_map")
int on_maps(struct bpf_iter__bpf_map *ctx)
{
	__u32 id;
	if (!ctx->map) /* the end of the list */
		return 0;
	id = ctx->map->id;
	bpf_seq_write(ctx->meta->seq, &id, sizeof(id));
	return 0;
}
