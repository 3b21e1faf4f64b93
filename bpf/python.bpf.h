/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Read the Python frames of the current thread from the interpreter's own chain
 * (include/python_wire.h), and store them after the user frames of the sample. User space finds the
 * processes that are CPython and the address of their runtime. Each code object is described to
 * user space once, in the sample that first sees it.
 *
 * All of this is the process's own memory: a process can only falsify its own frames. Each loop has
 * a bound.
 */
#ifndef ASCRIBE_PYTHON_BPF_H
#define ASCRIBE_PYTHON_BPF_H

#include "common.bpf.h"
#include "labels.bpf.h"
#include "table.bpf.h"
#include "python_wire.h"

#define PYTHON_THREADS 64 /* to search for the current one */

struct python_cpu {
	__u64 at;	 /* address of the next frame */
	__u32 n;	 /* number of frames so far */
	__u32 end;	 /* limit of words after the arena's tail, with those of other frames */
	__u8 frame[128]; /* PYTHON_FRAME_BYTES; offsets are masked */
	__u64 words[16]; /* of a code object, from PYTHON_CODE_FROM on; the last ones stay unread */
	struct wire_record head;
	struct wire_python code;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct python_cpu);
} python_cpus SEC(".maps");

static __always_inline struct python_cpu *python_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&python_cpus, &zero);
}

static __always_inline const struct python_layout *python_layout(__u64 i)
{
	i &= PYTHON_LAYOUTS - 1;
	barrier_var(i); /* the verifier must see the mask */
	return &python_layouts[i];
}

/* Read the word at `at` of the process; 0 when that fails. */
static __always_inline __u64 python_word(__u64 at)
{
	__u64 v = 0;
	return bpf_probe_read_user(&v, sizeof(v), (void *)at) ? 0 : v;
}

/* Return the interpreter's structure of the current thread, 0 for none. */
__noinline __u64 python_thread(__u64 runtime, __u32 layout)
{
	const struct python_layout *l = python_layout(layout);
	__u64 self = thread_pointer(bpf_get_current_task_btf()), t;
	if (!self)
		return 0;
	if (l->holder != PYTHON_NOWHERE) {
		t = python_word(runtime + l->holder);
		if (t && python_word(t + l->thread_id) == self)
			return t;
	}
	t = python_word(runtime + l->main);
	if (t)
		t = python_word(t + l->threads);
	for (int i = 0; t && i < PYTHON_THREADS; i++) {
		if (python_word(t + l->thread_id) == self)
			return t;
		t = python_word(t + l->thread_next);
	}
	return 0;
}

/*
 * Copy the string at `at` into the record: the name (which == 0) or the file. 0, or an error for an
 * unreadable string.
 */
__noinline int python_text(__u64 at, __u32 layout, __u32 which)
{
	const struct python_layout *l = python_layout(layout);
	struct python_cpu *c = python_cpu();
	__u32 state = 0;
	if (!c || bpf_probe_read_user(&state, sizeof(state), (void *)(at + PYTHON_STRING_STATE)))
		return -1;
	__u64 n = python_word(at + PYTHON_STRING_LENGTH), width = state >> 2 & 7;
	bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
	if (!compact || (width != 1 && width != 2 && width != 4) || n > 0xffffff)
		return -1;
	n *= width;
	at += ascii ? l->ascii : l->wide;
	if (n > PYTHON_TEXT_MAX) {
		at += n - PYTHON_TEXT_MAX;
		n = PYTHON_TEXT_MAX;
	}
	barrier_var(n);
	if (n > PYTHON_TEXT_MAX)
		return -1;
	if (which) {
		c->code.file.bytes = (__u32)n;
		c->code.file.width = (__u32)width;
		return n && bpf_probe_read_user(c->code.file.text, n, (void *)at) ? -1 : 0;
	}
	c->code.name.bytes = (__u32)n;
	c->code.name.width = (__u32)width;
	return n && bpf_probe_read_user(c->code.name.text, n, (void *)at) ? -1 : 0;
}

/* Describe a code object to user space. */
__noinline int python_describe(const struct image *im, __u64 code, __u64 id, __u32 layout)
{
	const struct python_layout *l = python_layout(layout);
	struct python_cpu *c = python_cpu();
	if (!c || !im)
		return -1;
	c->code.id = id;
	c->code.line = 0;
	bpf_probe_read_user(&c->code.line, sizeof(c->code.line), (void *)(code + l->code_line));
	if (python_text(python_word(code + l->code_name), layout, 0) ||
	    python_text(python_word(code + l->code_file), layout, 1))
		return -1;
	c->head = (struct wire_record){ .kind = WIRE_PYTHON,
					.size = sizeof(c->code),
					.tgid = im->tgid,
					.exec_id = im->exec_id,
					.start_ns = im->start_ns };
	return (int)ring_send(&c->head, sizeof(c->head) + sizeof(c->code), false);
}

/*
 * Return the word for a code object: a hash of its address, line, name and file, because its memory
 * may be reused for another one.
 */
__noinline __u64 python_identify(const struct image *im, __u64 code, __u32 layout)
{
	const struct python_layout *l = python_layout(layout);
	struct python_cpu *c = python_cpu();
	__u64 *cell;
	if (!im || !c ||
	    bpf_probe_read_user(c->words, PYTHON_CODE_BYTES, (void *)(code + PYTHON_CODE_FROM)))
		return 0;
	__u64 line = c->words[((l->code_line - PYTHON_CODE_FROM) / 8) & 15],
	      file = c->words[((l->code_file - PYTHON_CODE_FROM) / 8) & 15];
	__u64 name = c->words[((l->code_name - PYTHON_CODE_FROM) / 8) & 15];
	__u64 id = mix(mix(mix(code, line), file), name) & ~PYTHON_ENTRY, what = image_hash(im, id);
	if (!was_sent(what, &cell) && cell && !python_describe(im, code, id, layout))
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
	struct python_cpu *c = python_cpu();
	if (!im || !h || !c || !c->at ||
	    bpf_probe_read_user(c->frame, PYTHON_FRAME_BYTES, (void *)c->at))
		return 1;
	__u64 code = *(__u64 *)(c->frame + (l->frame_code & 0x38)),
	      *out = arena_ptr(h, h->arena_used), at = from + c->n;
	bool shim = l->frame_owner != PYTHON_NOWHERE &&
		    c->frame[l->frame_owner & 0x7f] == PYTHON_OWNER_C;
	bool entry = l->frame_entry != PYTHON_NOWHERE && c->frame[l->frame_entry & 0x7f] == 1;
	c->at = *(__u64 *)(c->frame + (l->frame_previous & 0x38));
	if (shim) { /* continue with the caller of the C code */
		at--;
		barrier_var(at);
		if (c->n && at < STACK_WORDS_MAX)
			out[at] |= PYTHON_ENTRY;
		return 0;
	}
	barrier_var(at);
	if (at >= STACK_WORDS_MAX || at >= c->end)
		return 1;
	code = python_identify(im, code, layout);
	out[at] = code | (entry ? PYTHON_ENTRY : 0);
	c->n++;
	return c->n >= PYTHON_FRAMES_MAX;
}

#define PYTHON_PART 256 /* frames per call: the verifier follows each iteration of a loop */

/* Read the next frames. 0: there may be more. */
__noinline int python_part(const struct image *im, __u32 key, __u32 from, __u32 layout)
{
	for (int i = 0; i < PYTHON_PART; i++)
		if (!im || python_step(im, key, from, layout))
			return 1;
	return 0;
}

/* Read the frames, leaf first. Return their number. */
__noinline __u32 python_frames(const struct image *im, __u32 key, __u32 from, __u64 runtime,
			       __u32 layout)
{
	const struct python_layout *l = python_layout(layout);
	struct python_cpu *c = python_cpu();
	__u64 t = c ? python_thread(runtime, layout) : 0;
	if (!im || !c || !t)
		return 0;
	c->n = 0;
	c->at = python_word(t + l->thread_frame);
	if (c->at && l->cframe_frame != PYTHON_NOWHERE)
		c->at = python_word(c->at + l->cframe_frame);
	for (int i = 0; i < 2 * PYTHON_FRAMES_MAX / PYTHON_PART; i++)
		if (python_part(im, key, from, layout))
			break;
	return c->n <= PYTHON_FRAMES_MAX ? c->n : 0;
}

/*
 * Store the Python frames of the current thread after `from` words at the tail of half `key`, below
 * word `end`. Return their number.
 */
static __always_inline __u32 python_stack(const struct image *im, __u32 key, __u32 from, __u32 end)
{
	struct proc_entry *e = proc_find(im);
	struct python_cpu *c = python_cpu();
	/* Exiting: without memory */
	if (!c || !e || !e->python_runtime || !bpf_get_current_task_btf()->mm)
		return 0;
	c->end = end;
	return python_frames(im, key, from, e->python_runtime, (__u32)e->python_layout);
}

/*
 * The same for the stack of a wait, in a stack frame of its own: its callers have little room left
 * in theirs.
 */
__noinline __u32 python_behind(const struct image *im, __u32 key, __u32 from)
{
	return im ? python_stack(im, key, from, WAIT_WORDS) : 0;
}

#endif
