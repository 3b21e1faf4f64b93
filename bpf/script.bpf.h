/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Read the frames of an interpreter from its own chain, and store them after the user frames of the
 * sample: CPython's (python.bpf.h), PHP's (php.bpf.h), Ruby's (ruby.bpf.h), Perl's (perl.bpf.h) and
 * LuaJIT's (luajit.bpf.h). User space finds the processes that are one, and where the chain begins.
 * Each piece of code is described to user space once, in the sample that first sees it.
 *
 * All of this is the process's own memory: a process can only falsify its own frames. Each loop has
 * a bound.
 */
#ifndef ASCRIBE_SCRIPT_BPF_H
#define ASCRIBE_SCRIPT_BPF_H

#include "common.bpf.h"
#include "labels.bpf.h"
#include "luajit_native.bpf.h"
#include "table.bpf.h"
#include "perl_wire.h"
#include "luajit_wire.h"
#include "php_wire.h"
#include "python_wire.h"
#include "ruby_wire.h"
#include "script_wire.h"

/* Descriptions for one stack, so that a process with ever new functions leaves room for others. */
#define SCRIPT_SENT_MAX 256

#define LUAJIT_INSNS 32 /* before a call, to search for what its function was called */

struct script_cpu {
	__u64 at;     /* address of the next frame */
	__u32 n;      /* number of frames so far */
	__u32 end;    /* limit of words after the arena's tail, with those of other frames */
	__u32 n_sent; /* descriptions of this stack */
	__u32 layout; /* SCRIPT_LAYOUT of the process */
	union {
		struct {
			__u8 frame[128]; /* PYTHON_FRAME_BYTES; offsets are masked */
			/* Of a code object, from PYTHON_CODE_FROM on; the last ones stay unread */
			__u64 words[16];
		};
		__u8 thread[PYTHON_THREAD_BYTES]; /* offsets are masked */
		struct {
			struct php_frame call;
			union {
				struct php_function function;
				__u8 code[272]; /* PHP_CODE_BYTES; offsets are masked */
			};
			struct php_string string;
			__u64 file, file_hash; /* of the frame before */
		} php;
		struct {
			struct ruby_context context;
			__u64 end; /* of the frames */
			struct ruby_frame frame;
			__u64 env; /* its flags */
			struct ruby_location location;
			struct ruby_object object;
		} ruby;
		struct {
			struct perl_now now;
			struct perl_stack stack; /* in hand; sub: the next one */
			__u64 outer_cop;	 /* where the next frame is at */
			__u32 is_program;
			__u32 entry;   /* the frame before was called from C */
			__u32 follows; /* the frame before was of the stack in hand, too */
			__u32 unused;
			struct perl_context context;
			struct perl_cop cop;
			struct perl_code code;
			struct perl_glob glob; /* with the names of the code; 0: it has none */
			struct perl_stash stash;
			struct perl_name name;
		} perl;
		struct {
			__u64 state, bottom, top; /* of its stack */
			__u64 i;		  /* the next state */
			__u64 next;		  /* the caller's frame */
			__u64 pc;		  /* of the bytecode; 0: not known */
			__u64 call;		  /* the bytecode that called; 0: none did */
			struct luajit_frame frame, caller;
			struct luajit_code code, from; /* of both */
			struct luajit_string string;
			__u32 insn[LUAJIT_INSNS];
			__u32 insn_call;
			__u8 first; /* byte of the chunk's name */
		} luajit;
	};
	struct wire_record head;
	struct wire_script code;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct script_cpu);
} script_cpus SEC(".maps");

static __always_inline struct script_cpu *script_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&script_cpus, &zero);
}

/*
 * Copy n bytes at `at` into a text of the record, or their end. 0, or an error where they are
 * unreadable.
 */
static __always_inline int script_copy(struct script_cpu *c, __u64 which, __u64 at, __u64 n,
				       __u32 width)
{
	if (n > SCRIPT_TEXT_MAX) {
		at += n - SCRIPT_TEXT_MAX;
		n = SCRIPT_TEXT_MAX;
	}
	/* Checked in the registers that are used */
	barrier_var(n);
	barrier_var(which);
	if (n > SCRIPT_TEXT_MAX || which >= SCRIPT_TEXTS)
		return -1;
	struct wire_script_text *to = &c->code.text[which];
	to->bytes = (__u32)n;
	to->width = width;
	return n && bpf_probe_read_user(to->text, n, (void *)at) ? -1 : 0;
}

/* Is this code new to user space, and may it be described? *ret_cell: where to note `what`. */
static __always_inline bool script_is_new(struct script_cpu *c, __u64 what, __u64 **ret_cell)
{
	return !was_sent(what, ret_cell) && *ret_cell && c->n_sent++ < SCRIPT_SENT_MAX;
}

/* Send the record, up to its text number `texts`. */
static __always_inline int script_send(struct script_cpu *c, const struct image *im,
				       const __u32 texts)
{
	const __u32 size =
		__builtin_offsetof(struct wire_script, text[0]) + texts * sizeof(c->code.text[0]);
	c->head = (struct wire_record){ .kind = WIRE_SCRIPT,
					.size = size,
					.tgid = im->tgid,
					.exec_id = im->exec_id,
					.start_ns = im->start_ns };
	return (int)ring_send(&c->head, sizeof(c->head) + size, false);
}

/* Return what a thread-local variable holds in the current thread, 0 for nothing. */
__noinline __u64 script_local(__u64 at, __u64 way)
{
	__u64 tp = thread_pointer(bpf_get_current_task_btf());
	if (!tp)
		return 0;
	if (way == SCRIPT_BY_SLOT)
		at = user_word(at);
	if (way == SCRIPT_BY_SLOT || way == SCRIPT_BY_TP)
		return user_word(tp + at);
	/* The table is glibc's (bpf/tls.bpf.h) */
	__u64 module = user_word(at), offset = user_word(at + 8), table = user_word(tp + 8);
	if (!module || module > user_word(table - 16))
		return 0;
	table = user_word(table + 16 * module);
	return table && table != ~0ull ? user_word(table + offset) : 0;
}

#include "perl.bpf.h"
#include "luajit.bpf.h"
#include "php.bpf.h"
#include "python.bpf.h"
#include "ruby.bpf.h"

/* Frames per call: the verifier follows each iteration of both loops. */
#define SCRIPT_PART 64

static __always_inline int script_step(const struct image *im, __u32 key, __u32 from, __u32 layout)
{
	switch (SCRIPT_LAYOUT_LANGUAGE(layout)) {
	case SCRIPT_PHP:
		return php_step(im, key, from, layout);
	case SCRIPT_RUBY:
		return ruby_step(im, key, from, layout);
	case SCRIPT_PERL:
		return perl_step(im, key, from);
	case SCRIPT_LUAJIT:
		return luajit_step(im, key, from);
	default:
		return python_step(im, key, from, layout);
	}
}

static __always_inline __u64 script_first(__u64 at, __u32 layout)
{
	switch (SCRIPT_LAYOUT_LANGUAGE(layout)) {
	case SCRIPT_PHP:
		return php_first(at, layout);
	case SCRIPT_RUBY:
		return ruby_first(at, layout);
	case SCRIPT_PERL:
		return perl_first(at, layout);
	case SCRIPT_LUAJIT:
		return luajit_first();
	default:
		return python_first(at, layout);
	}
}

/* Read the next frames. 0: there may be more. */
__noinline int script_part(const struct image *im, __u32 key, __u32 from, __u32 layout)
{
	for (int i = 0; i < SCRIPT_PART; i++)
		if (!im || script_step(im, key, from, layout))
			return 1;
	return 0;
}

/*
 * Prepare to read the frames of the current thread, into words below `end` at the arena's tail. 0:
 * it has none.
 */
__noinline int script_begin(const struct image *im, __u32 end)
{
	__u32 index = (__u32)proc_serving(im);
	const struct proc_entry *e = bpf_map_lookup_elem(&procs, &index);
	struct script_cpu *c = script_cpu();
	/* Exiting: without memory */
	if (!c || !e || !e->script_at || !bpf_get_current_task_btf()->mm)
		return 0;
	c->at = e->script_at;
	c->layout = (__u32)e->script_layout;
	c->end = end;
	return 1;
}

/* Read the frames, leaf first. Return their number. */
__noinline __u32 script_frames(const struct image *im, __u32 key, __u32 from)
{
	struct script_cpu *c = script_cpu();
	if (!im || !c)
		return 0;
	const __u32 layout = c->layout;
	c->n = c->n_sent = 0;
	c->at = script_first(c->at, layout);
	for (int i = 0; c->at && i < 2 * SCRIPT_FRAMES_MAX / SCRIPT_PART; i++)
		if (script_part(im, key, from, layout))
			break;
	return c->n <= SCRIPT_FRAMES_MAX ? c->n : 0;
}

/*
 * Store the script frames of the current thread after `from` words at the tail of half `key`, below
 * word `end`. Return their number.
 */
static __always_inline __u32 script_stack(const struct image *im, __u32 key, __u32 from, __u32 end)
{
	return script_begin(im, end) ? script_frames(im, key, from) : 0;
}

/*
 * The same for the stack of a wait, in a stack frame of its own: its callers have little room left
 * in theirs.
 */
__noinline __u32 script_behind(const struct image *im, __u32 key, __u32 from)
{
	return im ? script_stack(im, key, from, WAIT_WORDS) : 0;
}

#endif
