/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* CPython's chain of frames (include/python_wire.h), for script.bpf.h alone. */
#ifndef ASCRIBE_PYTHON_BPF_H
#define ASCRIBE_PYTHON_BPF_H

#define PYTHON_THREADS 256     /* to search for the current one */
#define PYTHON_FOUND_MAX 4096u /* a power of two */

/*
 * Where threads were found, by a hash of each. What is there may be of another thread, or of one
 * that is gone: python_is_listed.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PYTHON_FOUND_MAX);
	__type(key, __u32);
	__type(value, __u64);
} python_found SEC(".maps");

static __always_inline const struct python_layout *python_layout(__u64 i)
{
	i &= PYTHON_LAYOUTS - 1;
	barrier_var(i); /* the verifier must see the mask */
	return &python_layouts[i];
}

/* Is the structure of the thread `self` at `at`, in the list that begins at `head`? */
static __always_inline bool python_is_listed(const struct python_layout *l, __u64 at, __u64 self,
					     __u64 head)
{
	if (!at || user_word(at + l->thread_id) != self)
		return false;
	const __u64 before = user_word(at + PYTHON_THREAD_BEFORE);
	return before ? user_word(before + l->thread_next) == at : head == at;
}

/* Search the list that begins at `t` for the thread `self`. 0: not among the first ones. */
__noinline __u64 python_search(__u64 t, __u64 self, __u32 layout)
{
	const struct python_layout *l = python_layout(layout);
	struct script_cpu *c = script_cpu();
	if (!c)
		return 0;
	const __u64 *id = (__u64 *)(c->thread + (l->thread_id & 0xf8));
	const __u64 *next = (__u64 *)(c->thread + (l->thread_next & 0xf8));
	barrier_var(id); /* computed once */
	barrier_var(next);
	for (int i = 0; t && i < PYTHON_THREADS; i++) {
		if (bpf_probe_read_user(c->thread, sizeof(c->thread), (void *)t))
			return 0;
		if (*id == self)
			return t;
		t = *next;
	}
	return 0;
}

/* Return the interpreter's structure of the current thread, 0 for none. */
__noinline __u64 python_thread(__u64 runtime, __u32 layout)
{
	const struct python_layout *l = python_layout(layout);
	__u64 self = thread_pointer(bpf_get_current_task_btf()), t, head;
	__u32 key = mix(self, bpf_get_current_pid_tgid()) % PYTHON_FOUND_MAX;
	__u64 *found = bpf_map_lookup_elem(&python_found, &key);
	if (!self || !found)
		return 0;
	if (l->holder != PYTHON_NOWHERE) {
		t = user_word(runtime + l->holder);
		if (t && user_word(t + l->thread_id) == self)
			return t;
	}
	t = user_word(runtime + l->main);
	head = t ? user_word(t + 8 * SCRIPT_LAYOUT_WAY(layout)) : 0;
	t = *found;
	if (python_is_listed(l, t, self, head))
		return t;
	t = python_search(head, self, layout);
	if (t)
		*found = t;
	return t;
}

/* Copy the string at `at` into a text of the record. 0, or an error for an unreadable string. */
__noinline int python_text(__u64 at, __u32 layout, __u32 which)
{
	const struct python_layout *l = python_layout(layout);
	struct script_cpu *c = script_cpu();
	__u32 state = 0;
	if (!c || bpf_probe_read_user(&state, sizeof(state), (void *)(at + l->string_state)))
		return -1;
	state >>= l->width_bit & 31;
	__u64 n = user_word(at + l->string_length), width = state & 7;
	bool compact = state >> 3 & 1, ascii = state >> 4 & 1;
	if (!compact || (width != 1 && width != 2 && width != 4) || n > 0xffffff)
		return -1;
	return script_copy(c, which, at + (ascii ? l->ascii : l->wide), n * width, (__u32)width);
}

/* Describe a code object to user space: c->code has its id. */
__noinline int python_describe(const struct image *im, __u64 code, __u32 layout)
{
	const struct python_layout *l = python_layout(layout);
	struct script_cpu *c = script_cpu();
	if (!c || !im)
		return -1;
	c->code.line = 0;
	bpf_probe_read_user(&c->code.line, sizeof(c->code.line), (void *)(code + l->code_line));
	if (python_text(user_word(code + l->code_name), layout, SCRIPT_NAME) ||
	    python_text(user_word(code + l->code_file), layout, SCRIPT_FILE))
		return -1;
	return script_send(c, im, SCRIPT_CLASS);
}

/*
 * Return the word for a code object: a hash of its address, line, name and file, because its memory
 * may be reused for another one.
 */
__noinline __u64 python_identify(const struct image *im, __u64 code, __u32 layout)
{
	const struct python_layout *l = python_layout(layout);
	struct script_cpu *c = script_cpu();
	__u64 *cell;
	if (!im || !c ||
	    bpf_probe_read_user(c->words, PYTHON_CODE_BYTES, (void *)(code + PYTHON_CODE_FROM)))
		return 0;
	__u64 line = c->words[((l->code_line - PYTHON_CODE_FROM) / 8) & 15],
	      file = c->words[((l->code_file - PYTHON_CODE_FROM) / 8) & 15];
	__u64 name = c->words[((l->code_name - PYTHON_CODE_FROM) / 8) & 15];
	__u64 id = SCRIPT_WORD(mix(mix(mix(code, line), file), name), SCRIPT_PYTHON),
	      what = image_hash(im, id);
	c->code.id = id;
	if (script_is_new(c, what, &cell) && !python_describe(im, code, layout))
		*cell = what;
	return id;
}

/*
 * Store one frame after the first `from` words of the tail of half `key`, and describe new code. 0:
 * there may be more.
 */
__noinline int python_step(const struct image *im, __u32 key, __u32 from, __u32 layout)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	const struct python_layout *l = python_layout(layout);
	struct script_cpu *c = script_cpu();
	if (!im || !h || !c || !c->at ||
	    bpf_probe_read_user(c->frame, PYTHON_FRAME_BYTES, (void *)c->at))
		return 1;
	__u64 code = *(__u64 *)(c->frame + (l->frame_code & 0x38)) & ~PYTHON_TAG,
	      *out = arena_ptr(h, h->arena_used), at = from + c->n;
	bool shim = l->frame_owner != PYTHON_NOWHERE &&
		    c->frame[l->frame_owner & 0x7f] >= PYTHON_OWNER_C;
	bool entry = l->frame_entry != PYTHON_NOWHERE && c->frame[l->frame_entry & 0x7f] == 1;
	c->at = *(__u64 *)(c->frame + (l->frame_previous & 0x38));
	if (shim) { /* continue with the caller of the C code */
		at--;
		barrier_var(at);
		if (c->n && at < STACK_WORDS_MAX)
			out[at] |= SCRIPT_ENTRY;
		return 0;
	}
	barrier_var(at);
	if (at >= STACK_WORDS_MAX || at >= c->end)
		return 1;
	code = python_identify(im, code, layout);
	out[at] = code | (entry ? SCRIPT_ENTRY : 0);
	c->n++;
	return c->n >= SCRIPT_FRAMES_MAX;
}

/* Return the innermost frame of the current thread, 0 for none. */
__noinline __u64 python_first(__u64 runtime, __u32 layout)
{
	const struct python_layout *l = python_layout(layout);
	__u64 t = python_thread(runtime, layout), at = t ? user_word(t + l->thread_frame) : 0;
	return at && l->cframe_frame != PYTHON_NOWHERE ? user_word(at + l->cframe_frame) : at;
}

#endif
