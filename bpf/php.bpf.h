/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * PHP's chain of frames (include/php_wire.h), for script.bpf.h alone. A frame is told apart by what
 * it says, not by its address: a server compiles its files anew for each request, to the same
 * memory.
 */
#ifndef ASCRIBE_PHP_BPF_H
#define ASCRIBE_PHP_BPF_H

static __always_inline const struct php_layout *php_layout(__u64 i)
{
	i &= PHP_LAYOUTS - 1;
	barrier_var(i); /* the verifier must see the mask */
	return &php_layouts[i];
}

/* Return the innermost frame, 0 for none. Without ZTS, PHP runs in one thread of its process. */
static __always_inline __u64 php_first(__u64 globals, __u32 layout)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct script_cpu *c = script_cpu();
	if (c)
		c->php.file = 0;
	return t->pid == t->tgid ? user_word(globals + php_layout(layout)->current) : 0;
}

/* Where the function that was read stands in its file. */
static __always_inline const struct php_place *php_place(const struct script_cpu *c, __u32 layout)
{
	return (const void *)(c->php.code + (php_layout(layout)->place & 0xf8));
}

/* Copy the zend_string at `at` into a text of the record; 0: an empty one. */
__noinline int php_text(__u64 at, __u32 which)
{
	struct script_cpu *c = script_cpu();
	if (!c)
		return -1;
	if (!at)
		return script_copy(c, which, 0, 0, 0);
	if (bpf_probe_read_user(&c->php.string, sizeof(c->php.string), (void *)at))
		return -1;
	return script_copy(c, which, at + sizeof(c->php.string), c->php.string.length, 0);
}

/* The function that was read is the root of a fiber, which PHP's own stacks leave out. */
static __always_inline bool php_is_root(const struct script_cpu *c)
{
	return !PHP_IS_USER(c->php.function.type) && !c->php.function.name;
}

/* Describe the function that was read to user space: c->code has its id, line and kind. */
__noinline int php_describe(const struct image *im)
{
	struct script_cpu *c = script_cpu();
	if (!im || !c)
		return -1;
	if (php_text(c->php.function.name, SCRIPT_NAME) ||
	    php_text(PHP_IS_USER(c->php.function.type) ? c->php.file : 0, SCRIPT_FILE) ||
	    php_text(c->php.function.scope ? user_word(c->php.function.scope + PHP_CLASS_NAME) : 0,
		     SCRIPT_CLASS))
		return -1;
	return script_send(c, im, SCRIPT_TEXTS);
}

/* Return what tells a zend_string from others. */
static __always_inline __u64 php_hash(struct script_cpu *c, __u64 at)
{
	if (!at || bpf_probe_read_user(&c->php.string, sizeof(c->php.string), (void *)at))
		return 0;
	return c->php.string.hash ? mix(c->php.string.hash, c->php.string.length) : at;
}

/* The line that the frame is at. It is stale where PHP keeps it in a register: in the leaf. */
static __always_inline __u32 php_line(const struct script_cpu *c, const struct php_place *p)
{
	__u32 line = 0;
	bpf_probe_read_user(&line, sizeof(line), (void *)(c->php.call.opline + PHP_OP_LINE));
	return line < p->line_start || line > p->line_end ? p->line_start : line;
}

/*
 * Note line and kind of the function in PHP that was read, and return what tells its place from
 * others. A function of its own: the stack of a chain of calls is short on Linux 6.1.
 */
__noinline __u64 php_locate(__u32 layout)
{
	struct script_cpu *c = script_cpu();
	if (!c)
		return 0;
	const struct php_place *p = php_place(c, layout);
	if (!c->php.file || p->file != c->php.file) {
		c->php.file = p->file;
		c->php.file_hash = php_hash(c, p->file);
	}
	c->code.line = php_line(c, p);
	if (!c->php.function.name)
		c->code.kind = c->php.function.type == PHP_EVAL_CODE ? PHP_EVAL
			       : c->php.call.info & PHP_CALL_TOP     ? PHP_MAIN
								     : PHP_INCLUDE;
	return mix(c->php.file_hash, (__u64)c->code.kind << 32 | c->code.line);
}

/* Return the word for the frame that was read, 0 when it is of no function. */
__noinline __u64 php_identify(const struct image *im, __u32 layout)
{
	struct script_cpu *c = script_cpu();
	__u64 *cell;
	if (!im || !c)
		return 0;
	__u64 at = c->php.call.function;
	/* An internal function is shorter: its memory may end before. */
	bool whole = !bpf_probe_read_user(c->php.code, PHP_CODE_BYTES, (void *)at);
	if (!whole && (bpf_probe_read_user(c->php.code, sizeof(c->php.function), (void *)at) ||
		       PHP_IS_USER(c->php.function.type)))
		return 0;
	if (php_is_root(c))
		return 0;
	c->code.line = 0;
	c->code.kind = PHP_FUNCTION;
	if (PHP_IS_USER(c->php.function.type))
		at = php_locate(layout);
	at = mix(mix(at, c->php.function.scope), php_hash(c, c->php.function.name));
	c->code.id = SCRIPT_WORD(at, SCRIPT_PHP);
	at = image_hash(im, c->code.id);
	if (script_is_new(c, at, &cell) && !php_describe(im))
		*cell = at;
	return c->code.id;
}

/*
 * The frame that was read, at `at`, has no function: read that of the generator that it stands for,
 * which runs no loop. 0, or it stands for none.
 */
__noinline int php_delegating(__u64 at)
{
	struct script_cpu *c = script_cpu();
	if (!c || c->php.call.object + PHP_GENERATOR_FAKE != at)
		return -1;
	at = user_word(c->php.call.object + PHP_GENERATOR_FRAME);
	if (bpf_probe_read_user(&c->php.call, sizeof(c->php.call), (void *)at))
		return -1;
	c->php.call.info = 0;
	return c->php.call.function ? 0 : -1;
}

/*
 * Store one frame after the first `from` words of the tail of half `key`, and describe new code. 0:
 * there may be more.
 */
__noinline int php_step(const struct image *im, __u32 key, __u32 from, __u32 layout)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct script_cpu *c = script_cpu();
	if (!im || !h || !c || !c->at ||
	    bpf_probe_read_user(&c->php.call, sizeof(c->php.call), (void *)c->at))
		return 1;
	__u64 *out = arena_ptr(h, h->arena_used), at = c->at;
	c->at = c->php.call.previous;
	if (!c->php.call.function && php_delegating(at))
		return 0;
	at = from + c->n;
	barrier_var(at);
	if (at >= STACK_WORDS_MAX || at >= c->end)
		return 1;
	__u64 word = php_identify(im, layout);
	if (php_is_root(c))
		return 0;
	/* A call from C of an internal function runs no loop */
	bool entry = c->php.call.info & PHP_CALL_TOP && PHP_IS_USER(c->php.function.type);
	out[at] = word | SCRIPT_WORD(0, SCRIPT_PHP) | (entry ? SCRIPT_ENTRY : 0);
	c->n++;
	return c->n >= SCRIPT_FRAMES_MAX;
}

#endif
