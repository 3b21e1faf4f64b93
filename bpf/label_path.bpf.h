/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Label paths: run the steps of a compiled recipe (struct label_step). A step that fails ends its
 * field; the next field begins anew.
 */
#ifndef ASCRIBE_LABEL_PATH_BPF_H
#define ASCRIBE_LABEL_PATH_BPF_H

#include "capture.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LABEL_STEPS);
	__type(key, __u32);
	__type(value, struct label_step);
} label_steps SEC(".maps");

static __always_inline int path_emit(struct capture *c, const struct label_step *s, __u64 addr,
				     __u64 n)
{
	struct label_entry *e = entry_at_end(c);
	__u64 cut = 0;
	if (!e)
		return 1;
	if (n > s->len) {
		n = s->len;
		cut = 1;
		capture_flag(c, COUNTER_labels_cut);
	}
	*e = (struct label_entry){ .source = (__u8)c->n_source,
				   .what = ENTRY_BYTES,
				   .cut = (__u8)cut,
				   .is_key = (__u8)s->is_key,
				   .len = (__u16)n,
				   .len2 = s->field };
	if (n > LABEL_TEXT_BYTES)
		return 1;
	if (n && append_user(e, 0, n, addr)) {
		capture_flag(c, c->source.fault);
		return 1;
	}
	entry_done(c, n);
	return 0;
}

static __always_inline int path_emit_int(struct capture *c, const struct label_step *s)
{
	struct label_entry *e = entry_at_end(c);
	if (!e)
		return 1;
	*e = (struct label_entry){ .source = (__u8)c->n_source,
				   .what = ENTRY_INT,
				   .is_key = (__u8)s->is_key,
				   .len = 8,
				   .len2 = s->field };
	*(__u64 *)(e + 1) = c->acc;
	entry_done(c, 8);
	return 0;
}

/* Pad with zeros: equal texts give equal bytes. */
static __always_inline int path_emit_cstring(struct capture *c, const struct label_step *s)
{
	struct label_entry *e = entry_at_end(c);
	__u64 max = s->len;
	if (!e)
		return 1;
	if (max > LABEL_TEXT_BYTES)
		max = LABEL_TEXT_BYTES;
	max++; /* the NUL */
	barrier_var(max);
	if (max > LABEL_TEXT_BYTES + 1)
		return 1;
	__u8 *to = (__u8 *)(e + 1);
	long n = bpf_probe_read_user_str(to, max, (void *)(c->cur + (__u64)s->imm));
	if (n <= 0) {
		capture_flag(c, c->source.fault);
		return 1;
	}
	__u64 len = (__u64)n - 1, cut = len + 1 == max, last = len & 0x1f8, keep = len & 7;
	barrier_var(last);
	*(__u64 *)(to + last) &= (1ull << (8 * keep)) - 1;
	*e = (struct label_entry){ .source = (__u8)c->n_source,
				   .what = ENTRY_BYTES,
				   .cut = (__u8)cut,
				   .is_key = (__u8)s->is_key,
				   .len = (__u16)len,
				   .len2 = s->field };
	entry_done(c, len);
	return 0;
}

static __always_inline int path_number(struct capture *c, const struct label_step *s, __u64 at)
{
	__u64 v = 0;
	long bad;
	switch (s->len) {
	case 1:
		bad = read_at(&v, 1, at);
		if (s->flags & 1)
			v = (__u64)(__s64)(__s8)v;
		break;
	case 2:
		bad = read_at(&v, 2, at);
		if (s->flags & 1)
			v = (__u64)(__s64)(__s16)v;
		break;
	case 4:
		bad = read_at(&v, 4, at);
		if (s->flags & 1)
			v = (__u64)(__s64)(__s32)v;
		break;
	default:
		bad = read_at(&v, 8, at);
	}
	if (bad) {
		capture_flag(c, c->source.fault);
		return 1;
	}
	c->acc = v;
	return 0;
}

/* Run one step. 0: go on; 1: the field ends here; -1: the source is malformed. */
__noinline int path_step(__u32 i)
{
	struct capture *c = capture();
	const struct label_step *s = bpf_map_lookup_elem(&label_steps, &i);
	if (!c || !s)
		return -1;
	__u64 at = c->cur + (__u64)s->imm;
	switch (s->op) {
	case STEP_FIELD:
		c->cur = c->acc = 0;
		return 0;
	case STEP_TP:
		c->cur = c->tp + (__u64)s->imm;
		return 0;
	case STEP_BASE:
		c->cur = c->source.base + (__u64)s->imm;
		return 0;
	case STEP_START:
		c->cur = c->start + (__u64)s->imm;
		return 0;
	case STEP_DEREF:
		if (!read_at(&c->cur, 8, at))
			return !c->cur;
		capture_flag(c, c->source.fault);
		return 1;
	case STEP_ADD:
		c->cur = at;
		return 0;
	case STEP_SAVE:
		c->saved[s->len & (LABEL_SAVED - 1)] = c->cur;
		return 0;
	case STEP_LOAD:
		c->cur = c->saved[s->len & (LABEL_SAVED - 1)];
		return !c->cur;
	case STEP_NUMBER:
		return path_number(c, s, at);
	case STEP_EXPECT:
		if (s->flags & 2)
			return c->acc == (__u64)s->imm;
		if (c->acc == (__u64)s->imm)
			return 0;
		return s->flags & 1 && c->acc ? capture_invalid(c) : 1; /* 0: not initialized yet */
	case STEP_EXPECT_TP:
		return c->acc != c->tp;
	case STEP_MAIN: {
		const struct task_struct *t = bpf_get_current_task_btf();
		return t->pid != t->tgid;
	}
	case STEP_AND:
		c->acc &= (__u64)s->imm;
		return 0;
	case STEP_SHIFT:
		c->acc >>= s->imm & 63;
		return 0;
	case STEP_INT:
		return path_emit_int(c, s);
	case STEP_CSTRING:
		return path_emit_cstring(c, s);
	case STEP_BYTES:
		return path_emit(c, s, at, s->len);
	case STEP_TEXT:
		return path_emit(c, s, at, c->acc);
	}
	return capture_invalid(c);
}

__noinline int read_path(__u32 first, __u32 n)
{
	struct capture *c = capture();
	int skip = 0;
	if (!c)
		return -1;
	for (int i = 0; i < LABEL_SAVED; i++)
		c->saved[i] = 0;
	for (__u32 i = 0; i < LABEL_PATH_STEPS && i < n; i++) {
		__u32 at = first + i;
		if (skip > 0) {
			const struct label_step *s = bpf_map_lookup_elem(&label_steps, &at);
			if (!s)
				return -1;
			if (s->op != STEP_FIELD)
				continue;
		}
		skip = path_step(at);
		if (skip < 0)
			return -1;
	}
	return 0;
}

#endif
