/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An argument of a probe as a label of its hit. It is an entry of the capture, behind those of the
 * process's own sources: so it is a part of the set's hash, and is sent with the definition.
 *
 *   on_probe -> argument_note: the capture has the argument -> read_labels -> argument_append
 *                                                           -> argument_drop
 */
#ifndef ASCRIBE_ARGUMENT_BPF_H
#define ASCRIBE_ARGUMENT_BPF_H

#include "capture.bpf.h"

#define PROBE_COOKIE(word) (*(const struct probe_cookie *)&(word))

static __always_inline long read_register(__u32 word, __u64 *ret)
{
	const __u64 *saved = (const void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return bpf_probe_read_kernel(ret, sizeof(*ret), saved + word);
}

/* Read the argument that a cookie describes, widened to 64 bits. False: it cannot be read. */
static __always_inline bool read_argument(struct probe_cookie c, __u64 *ret)
{
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

/* The hit that is being sampled has this argument as a label. Return 0 when it cannot be read. */
__noinline int argument_note(__u64 cookie, __u32 how)
{
	struct capture *c = capture();
	__u64 v;
	if (!c || !read_argument(PROBE_COOKIE(cookie), &v))
		return 0;
	c->argument = v;
	c->argument_how = how;
	return 1;
}

static __always_inline void argument_drop(void)
{
	struct capture *c = capture();
	if (c)
		c->argument_how = 0;
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

/* Append the argument of the hit to the capture. */
__noinline int argument_append(void)
{
	struct capture *c = capture();
	if (!c || !c->argument_how)
		return 0;
	struct label_entry *e = entry_at_end(c);
	if (!e)
		return 0;
	*e = (struct label_entry){ .source = ENTRY_ARGUMENT,
				   .what = (__u8)c->argument_how,
				   .len = 8,
				   .len2 = (__u16)(c->argument_how >> 8) };
	if (e->what == ENTRY_INT) {
		*(__u64 *)(e + 1) = c->argument;
		entry_done(c, 8);
	} else {
		argument_append_text(c, e, c->argument);
	}
	return 0;
}

#endif
