/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Arguments of a probe as labels of its hit. Each is an entry of the capture, behind those of the
 * process's own sources: so it is a part of the set's hash, and is sent with the definition.
 *
 *   on_probe -> argument_note: the capture has them -> read_labels -> argument_append of each
 *                                                   -> argument_drop
 */
#ifndef ASCRIBE_ARGUMENT_BPF_H
#define ASCRIBE_ARGUMENT_BPF_H

#include "capture.bpf.h"

#define PROBE_COOKIE(word) (*(const struct probe_cookie *)&(word))

#define ARGUMENT_NONE 0
#define ARGUMENT_UNREAD 0xff /* no ENTRY_* */

/* By place; only user space writes, before the probes are attached. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PROBE_PLACES);
	__type(key, __u32);
	__type(value, struct probe_arguments);
} probe_places SEC(".maps");

static __always_inline const struct probe_arguments *arguments_of(__u64 cookie)
{
	__u32 place = PROBE_COOKIE(cookie).place;
	return bpf_map_lookup_elem(&probe_places, &place);
}

static __always_inline long read_register(__u32 word, __u64 *ret)
{
	const __u64 *saved = (const void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return bpf_probe_read_kernel(ret, sizeof(*ret), saved + word);
}

/* Read an argument, widened to 64 bits. False: it cannot be read. */
static __always_inline bool read_argument(const struct probe_argument *a, __u64 *ret)
{
	const struct probe_argument c = *a;
	__u64 bytes = 1ull << c.size, unused = 64 - 8 * bytes;
	__u64 v = (__u64)(__s64)c.offset, at = 0, index = 0;
	if (c.arg != ARG_CONSTANT && read_register(c.base, &at))
		return false;
	if (c.arg == ARG_REGISTER)
		v = at;
	if (c.arg == ARG_MEMORY) {
		if (c.indexed && read_register(c.index, &index))
			return false;
		at += v + (index << c.scale);
		v = 0;
		barrier_var(bytes); /* the verifier does not see how large a shift's result is */
		if (bytes > sizeof(v) || bpf_probe_read_user(&v, (__u32)bytes, (const void *)at))
			return false;
	}
	v <<= unused;
	*ret = c.is_signed ? (__u64)((__s64)v >> unused) : v >> unused;
	return true;
}

/* Note label i of the arguments for the hit that is being sampled. */
static __always_inline void argument_note_one(struct capture *c, const struct probe_arguments *a,
					      __u32 i)
{
	__u32 how = a->label[i].label;
	__u64 v = 0;
	if (how)
		how = read_argument(&a->label[i], &v) ? how | (__u32)a->label[i].number << 8
						      : ARGUMENT_UNREAD;
	c->argument[i] = v;
	c->argument_how[i] = how;
}

/* The hit that is being sampled has the arguments of its place as labels. */
__noinline int argument_note(__u64 cookie)
{
	const struct probe_arguments *a = arguments_of(cookie);
	struct capture *c = capture();
	if (!a || !c)
		return 0;
	for (__u32 i = 0; i < PROBE_LABELS; i++)
		argument_note_one(c, a, i);
	return 0;
}

static __always_inline void argument_drop(void)
{
	struct capture *c = capture();
	for (__u32 i = 0; c && i < PROBE_LABELS; i++)
		c->argument_how[i] = ARGUMENT_NONE;
}

/* Append the text at `at`, padded with zeros, as the value of entry e. */
static __always_inline void argument_append_text(struct capture *c, struct label_entry *e, __u64 at)
{
	__u8 *to = (__u8 *)(e + 1);
	long n = bpf_probe_read_user_str(to, ARGUMENT_TEXT_BYTES + 1, (const void *)at);
	__u64 len = (__u64)n - 1, last = len & 0x78;
	if (n <= 0) {
		capture_flag(c, COUNTER_value_unknown);
		return;
	}
	barrier_var(last);
	if (len & 7)
		*(__u64 *)(to + (last & 0x78)) &= (1ull << (8 * (len & 7))) - 1;
	e->len = (__u16)len;
	e->cut = len == ARGUMENT_TEXT_BYTES;
	if (e->cut)
		capture_flag(c, COUNTER_labels_cut);
	entry_done(c, len);
}

/* Append label i of the hit's arguments to the capture. */
__noinline int argument_append(__u32 i)
{
	struct capture *c = capture();
	if (!c || i >= PROBE_LABELS)
		return 0;
	const __u32 how = c->argument_how[i];
	if (how == ARGUMENT_UNREAD)
		capture_flag(c, COUNTER_value_unknown);
	if (how == ARGUMENT_NONE || how == ARGUMENT_UNREAD)
		return 0;
	struct label_entry *e = entry_at_end(c);
	if (!e)
		return 0;
	*e = (struct label_entry){
		.source = ENTRY_ARGUMENT, .what = (__u8)how, .len = 8, .len2 = (__u16)(how >> 8)
	};
	if (e->what == ENTRY_INT) {
		*(__u64 *)(e + 1) = c->argument[i];
		entry_done(c, 8);
	} else {
		argument_append_text(c, e, c->argument[i]);
	}
	return 0;
}

#endif
