/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The key of a label set in BPF: the hash of every text in `texts`, and the key of all of them. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include <ascribe/label_key.h>

#include "key_bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct key_task);
} tasks SEC(".maps");

__attribute__((noinline)) __u64 hash_text(__u32 i)
{
	__u32 zero = 0;
	struct key_task *t = bpf_map_lookup_elem(&tasks, &zero);
	if (!t || i >= KEY_TEXTS)
		return 0;
	__u64 len = t->text[i].len;
	if (len > KEY_TEXT_MAX)
		return 0;
	return ascribe_hash_in(t->seed, t->text[i].bytes, len, KEY_TEXT_MAX);
}

SEC("raw_tp")
int make_key(void *ctx)
{
	__u32 zero = 0;
	__u64 x = 0;
	struct key_task *t = bpf_map_lookup_elem(&tasks, &zero);
	if (!t)
		return 0;
	for (__u32 i = 0; i < KEY_TEXTS; i++) {
		__u64 hash = hash_text(i);
		x = ascribe_xor_unique(x, hash, t->hash, i);
		t->hash[i] = hash;
	}
	t->key = ascribe_key_of_xor(x);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
