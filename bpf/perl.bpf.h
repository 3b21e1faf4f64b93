/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Perl's contexts (include/perl_wire.h), for script.bpf.h alone. A call from Perl code takes a
 * context, and no new loop in C. A call from C runs a loop of its own, and its context has no
 * operation to go back to.
 */
#ifndef ASCRIBE_PERL_BPF_H
#define ASCRIBE_PERL_BPF_H

#define PERL_FILE_PARTS 16 /* of SCRIPT_TEXT_MAX bytes, of the longest name of a file */

static __always_inline const struct perl_layout *perl_layout(__u64 i)
{
	i &= PERL_LAYOUTS - 1;
	barrier_var(i); /* the verifier must see the mask */
	return &perl_layouts[i];
}

/* Begin with the stack of contexts at `at`. Return it, 0 for none. */
static __always_inline __u64 perl_stack(struct script_cpu *c, __u64 at)
{
	c->perl.follows = 0;
	return at && !bpf_probe_read_user(&c->perl.stack, sizeof(c->perl.stack), (void *)at) ? at
											     : 0;
}

/* Return the innermost stack of contexts of the current thread, 0 for none. */
__noinline __u64 perl_first(__u64 at, __u32 layout)
{
	struct script_cpu *c = script_cpu();
	__u32 phase = 0;
	at = script_local(at, SCRIPT_LAYOUT_WAY(layout) & ~PERL_IS_PROGRAM);
	if (!c || !at ||
	    bpf_probe_read_user(&c->perl.now, sizeof(c->perl.now), (void *)(at + PERL_NOW_AT)))
		return 0;
	bpf_probe_read_user(&phase, sizeof(phase), (void *)(at + perl_layout(layout)->phase));
	c->perl.outer_cop = c->perl.now.cop;
	c->perl.is_program =
		SCRIPT_LAYOUT_WAY(layout) & PERL_IS_PROGRAM && phase == PERL_PHASE_IS_RUN;
	c->perl.entry = 0;
	return perl_stack(c, c->perl.now.stack);
}

/* ---- names ---- */

/*
 * What is read goes to script_cpu: a chain of calls has a stack of 512 bytes on Linux 6.1, and at
 * most 8 functions.
 */

/* Copy the name at `at` into a text of the record. */
__noinline int perl_text(__u64 at, __u32 which)
{
	struct script_cpu *c = script_cpu();
	__u8 flags = 0;
	if (!c || !at || bpf_probe_read_user(&c->perl.name, sizeof(c->perl.name), (void *)at) ||
	    c->perl.name.length > 0xffff)
		return -1;
	at += sizeof(c->perl.name);
	if (bpf_probe_read_user(&flags, sizeof(flags), (void *)(at + c->perl.name.length + 1)))
		return -1;
	return script_copy(c, which, at, c->perl.name.length, flags & PERL_NAME_IS_UTF8 ? 0 : 1);
}

/* Return where the name of a package is, 0: unknown. */
__noinline __u64 perl_package(__u64 at)
{
	struct script_cpu *c = script_cpu();
	at = user_word(at);
	if (!c || !at ||
	    bpf_probe_read_user(&c->perl.stash, sizeof(c->perl.stash), (void *)(at + PERL_BODY_AT)))
		return 0;
	if (c->perl.stash.names > 0)
		return user_word(c->perl.stash.name);
	return c->perl.stash.names < -1 ? user_word(c->perl.stash.name + 8) : c->perl.stash.name;
}

/* Copy the name of a file, or its end. */
__noinline int perl_file(__u64 at)
{
	struct script_cpu *c = script_cpu();
	__u32 n = 0;
	if (!c)
		return -1;
	for (int i = 0; at && i < PERL_FILE_PARTS; i++) {
		long part = bpf_probe_read_user_str(c->code.text[SCRIPT_FILE].text, SCRIPT_TEXT_MAX,
						    (void *)(at + n));
		if (part < 0)
			return -1;
		n += part - 1; /* without the NUL */
		if (part < SCRIPT_TEXT_MAX)
			break;
	}
	return script_copy(c, SCRIPT_FILE, at, n, 0);
}

/* Describe the code that was read to user space: c->code has its id, line and kind. */
__noinline int perl_describe(const struct image *im)
{
	struct script_cpu *c = script_cpu();
	if (!im || !c)
		return -1;
	if (perl_text(c->perl.glob.name, SCRIPT_NAME))
		script_copy(c, SCRIPT_NAME, 0, 0, 0);
	if (perl_text(perl_package(c->perl.glob.stash), SCRIPT_CLASS))
		script_copy(c, SCRIPT_CLASS, 0, 0, 0);
	if (perl_file(c->perl.cop.file))
		return -1;
	return script_send(c, im, SCRIPT_TEXTS);
}

/* Find the names of the code at `at`. Return what tells them from others. */
__noinline __u64 perl_code(__u64 at)
{
	struct script_cpu *c = script_cpu();
	if (!c)
		return 0;
	c->perl.glob = (struct perl_glob){ 0 };
	if (!at)
		return 0;
	at = user_word(at);
	if (!at ||
	    bpf_probe_read_user(&c->perl.code, sizeof(c->perl.code), (void *)(at + PERL_BODY_AT)))
		return 0;
	c->perl.glob = (struct perl_glob){ c->perl.code.name, c->perl.code.stash };
	if (!(c->perl.code.flags & PERL_CODE_IS_NAMED)) {
		at = user_word(c->perl.code.name);
		if (!at || bpf_probe_read_user(&c->perl.glob, sizeof(c->perl.glob),
					       (void *)(at + PERL_BODY_AT)))
			c->perl.glob.name = 0;
	}
	return mix(mix(user_word(c->perl.glob.name), c->perl.glob.name), c->perl.glob.stash);
}

/* ---- frames ---- */

/*
 * Return the word for a frame of this kind, at this statement, of this code or 0. Return 0 for a
 * sub that is being entered: its context says nothing yet.
 */
__noinline __u64 perl_identify(const struct image *im, __u32 kind, __u64 cop, __u64 code)
{
	struct script_cpu *c = script_cpu();
	__u64 *cell;
	if (!im || !c)
		return 0;
	if (bpf_probe_read_user(&c->perl.cop, sizeof(c->perl.cop), (void *)(cop + PERL_COP_AT)))
		c->perl.cop = (struct perl_cop){ 0 };
	c->code.kind = kind;
	c->code.line = c->perl.cop.line;
	code = perl_code(code);
	if (kind == PERL_SUB && !c->perl.glob.name && !c->n)
		return 0;
	code = mix(mix(code, c->perl.cop.file), (__u64)kind << 32 | c->code.line);
	c->code.id = SCRIPT_WORD(code, SCRIPT_PERL);
	code = image_hash(im, c->code.id);
	if (script_is_new(c, code, &cell) && !perl_describe(im))
		*cell = code;
	return c->code.id;
}

/* Read the context number i of the stack in hand. */
static __always_inline int perl_read(struct script_cpu *c, __s32 i)
{
	__u64 at = c->perl.stack.contexts + (__u64)PERL_CONTEXT_BYTES * (__u32)i;
	return bpf_probe_read_user(&c->perl.context, sizeof(c->perl.context), (void *)at) ? -1 : 0;
}

/* Take the next context of the stack in hand. Return what its frame is. */
__noinline __u32 perl_next(void)
{
	struct script_cpu *c = script_cpu();
	__u32 kind = PERL_NOTHING;
	if (!c)
		return kind;
	const struct perl_context *x = &c->perl.context;
	if (perl_read(c, c->perl.stack.sub)) {
		c->at = 0;
		return kind;
	}
	c->perl.stack.sub = x->outer;
	switch (PERL_TYPE(x->type)) {
	case PERL_IS_SUB:
		kind = x->type & PERL_OF_REGEX ? PERL_REGEX : PERL_SUB;
		break;
	case PERL_IS_FORMAT:
		kind = PERL_SUB;
		break;
	case PERL_IS_EVAL:
		if (!(x->type & PERL_OF_BLOCK))
			kind = x->type & PERL_OF_STRING ? PERL_EVAL : PERL_FILE;
		break;
	default:
		c->at = 0;
	}
	if (kind == PERL_NOTHING)
		return kind;
	c->perl.outer_cop = x->cop;
	c->perl.entry = !x->back;
	return kind;
}

/* The stack in hand has no more subs: go on with the one before. Return what frame it ends with. */
__noinline __u32 perl_end(void)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct script_cpu *c = script_cpu();
	if (!c)
		return PERL_NOTHING;
	if (c->perl.stack.type == PERL_STACK_MAIN) {
		c->at = 0;
		/* A call from C in the main thread is of the program, in others of the thread */
		return c->perl.is_program && (!c->perl.entry || t->pid == t->tgid) ? PERL_MAIN
										   : PERL_NOTHING;
	}
	bool sorts = c->perl.stack.type == PERL_STACK_SORT && c->perl.stack.top >= 0 &&
		     !perl_read(c, 0) && PERL_TYPE(c->perl.context.type) == PERL_IS_BLOCK_OF_SORT;
	c->at = perl_stack(c, c->perl.stack.previous);
	if (!sorts)
		return PERL_NOTHING;
	c->perl.outer_cop = c->perl.context.cop;
	c->perl.entry = 1;
	return PERL_SORT;
}

/*
 * Store one frame after the first `from` words of the tail of half `key`, and describe new code. 0:
 * there may be more.
 */
__noinline int perl_step(const struct image *im, __u32 key, __u32 from)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct script_cpu *c = script_cpu();
	if (!im || !h || !c || !c->at)
		return 1;
	__u64 *out = arena_ptr(h, h->arena_used), at = from + c->n, cop = c->perl.outer_cop;
	__u32 follows = c->perl.follows, kind = c->perl.stack.sub >= 0 ? perl_next() : perl_end();
	if (kind == PERL_NOTHING)
		return 0;
	barrier_var(at);
	if (at >= STACK_WORDS_MAX || at >= c->end)
		return 1;
	c->perl.follows = kind != PERL_SORT; /* the end of its stack */
	/* What such a block calls last has no operation to go back to, either. */
	if (follows && at && (kind == PERL_SORT || kind == PERL_REGEX))
		out[at - 1] &= ~SCRIPT_ENTRY;
	__u64 word = perl_identify(im, kind, cop, kind == PERL_SUB ? c->perl.context.code : 0);
	if (!word)
		return 0;
	out[at] = word | SCRIPT_WORD(0, SCRIPT_PERL) | (c->perl.entry ? SCRIPT_ENTRY : 0);
	c->n++;
	return c->n >= SCRIPT_FRAMES_MAX;
}

#endif
