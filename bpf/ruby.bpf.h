/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ruby's control frames (include/ruby_wire.h), for script.bpf.h alone. */
#ifndef ASCRIBE_RUBY_BPF_H
#define ASCRIBE_RUBY_BPF_H

#define RUBY_ENVS 16 /* environments of blocks to search for the method around them */

static __always_inline const struct ruby_layout *ruby_layout(__u64 i)
{
	i &= RUBY_LAYOUTS - 1;
	barrier_var(i); /* the verifier must see the mask */
	return &ruby_layouts[i];
}

/* Return the innermost frame of the current thread, 0 for none. */
__noinline __u64 ruby_first(__u64 at, __u32 layout)
{
	struct script_cpu *c = script_cpu();
	at = script_local(at, SCRIPT_LAYOUT_WAY(layout));
	if (!c || !at || bpf_probe_read_user(&c->ruby.context, sizeof(c->ruby.context), (void *)at))
		return 0;
	c->ruby.end = c->ruby.context.stack + 8 * c->ruby.context.words;
	return c->ruby.context.frame < c->ruby.end ? c->ruby.context.frame : 0;
}

/* Read the object at `at`, or as much of it as a short one has. */
static __always_inline int ruby_object(struct script_cpu *c, __u64 at)
{
	return bpf_probe_read_user(&c->ruby.object, sizeof(c->ruby.object), (void *)at) ? -1 : 0;
}

/* Copy the String at `at`, or the first one of the Array, into a text of the record. */
__noinline int ruby_text(__u64 at, __u32 layout, __u32 which)
{
	const __u64 embedded = ruby_layout(layout)->embedded;
	struct script_cpu *c = script_cpu();
	if (!c || ruby_object(c, at))
		return -1;
	if (RUBY_TYPE(c->ruby.object.flags) == RUBY_ARRAY) {
		at = c->ruby.object.flags & RUBY_EMBEDDED ? c->ruby.object.length
							  : user_word(c->ruby.object.elements);
		if (ruby_object(c, at))
			return -1;
	}
	const struct ruby_object *o = &c->ruby.object;
	if (RUBY_TYPE(o->flags) != RUBY_STRING)
		return -1;
	if (o->flags & RUBY_EMBEDDED)
		return script_copy(c, which, o->bytes, o->length, 0);
	return script_copy(c, which, at + embedded,
			   embedded == 16 ? RUBY_LENGTH(o->flags) : o->length, 0);
}

/* Return the method entry that the frame which was read runs in, 0: in none. */
__noinline __u64 ruby_method(void)
{
	struct script_cpu *c = script_cpu();
	if (!c)
		return 0;
	__u64 env = c->ruby.frame.env, flags = c->ruby.env;
	for (int i = 0; i < RUBY_ENVS; i++) {
		__u64 method = user_word(env - RUBY_ENV_METHOD), what = user_word(method);
		bool local = flags & RUBY_ENV_LOCAL;
		if (local && (what & RUBY_IMEMO_MASK) == RUBY_IMEMO_HOLDER) {
			method = user_word(method + RUBY_HOLDER_METHOD);
			what = user_word(method);
		}
		if ((what & RUBY_IMEMO_MASK) == RUBY_IMEMO_METHOD)
			return method;
		if (local)
			return 0;
		env = user_word(env - RUBY_ENV_OUTER) & ~(__u64)RUBY_ENV_TAG;
		flags = user_word(env);
	}
	return 0;
}

/* Return the String that names the class of a method, 0: not known; and note its kind. */
__noinline __u64 ruby_class(__u64 method, __u32 layout)
{
	const struct ruby_layout *l = ruby_layout(layout);
	struct script_cpu *c = script_cpu();
	__u64 class = user_word(method + RUBY_METHOD_OWNER), flags = user_word(class);
	if (!c)
		return 0;
	c->code.kind = RUBY_OF_INSTANCES;
	if (RUBY_TYPE(flags) == RUBY_CLASS && flags & RUBY_SINGLETON) {
		c->code.kind = RUBY_OF_CLASS;
		class = user_word(class + l->class_attached);
		flags = user_word(class);
	}
	if (RUBY_TYPE(flags) != RUBY_CLASS && RUBY_TYPE(flags) != RUBY_MODULE)
		return 0;
	return user_word(class + l->class_name);
}

/* Describe the code that was read to user space: c->code has its id and line. */
__noinline int ruby_describe(const struct image *im, __u32 layout)
{
	struct script_cpu *c = script_cpu();
	if (!im || !c)
		return -1;
	/* Each call from here: a chain of calls has at most 8 functions on Linux 6.1 */
	__u64 class = ruby_layout(layout)->class_name ? ruby_method() : 0;
	if (class)
		class = ruby_class(class, layout);
	if (!class || ruby_text(class, layout, SCRIPT_CLASS))
		script_copy(c, SCRIPT_CLASS, 0, 0, 0);
	if (ruby_text(c->ruby.location.label, layout, SCRIPT_NAME) ||
	    ruby_text(c->ruby.location.path, layout, SCRIPT_FILE))
		return -1;
	return script_send(c, im, SCRIPT_TEXTS);
}

/*
 * Return the word for the frame that was read: a hash of its code's address, line, name and file,
 * because the memory may be reused for another one.
 */
__noinline __u64 ruby_identify(const struct image *im, __u32 layout)
{
	const struct ruby_layout *l = ruby_layout(layout);
	struct script_cpu *c = script_cpu();
	__u64 *cell;
	if (!im || !c)
		return 0;
	__u64 iseq = c->ruby.frame.iseq, body = user_word(iseq + RUBY_ISEQ_BODY);
	const struct ruby_location *at = &c->ruby.location;
	if (!body || bpf_probe_read_user(&c->ruby.location, sizeof(c->ruby.location),
					 (void *)(body + l->location)))
		return 0;
	c->code.line = (__u32)(at->line >> (l->line_shift & 1));
	c->code.id =
		SCRIPT_WORD(mix(mix(mix(iseq, c->code.line), at->path), at->label), SCRIPT_RUBY);
	__u64 what = image_hash(im, c->code.id);
	if (script_is_new(c, what, &cell) && !ruby_describe(im, layout))
		*cell = what;
	return c->code.id;
}

/*
 * Store one frame after the first `from` words of the tail of half `key`, and describe new code. 0:
 * there may be more. Functions in C have no frame: they stand on the native stack.
 */
__noinline int ruby_step(const struct image *im, __u32 key, __u32 from, __u32 layout)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct script_cpu *c = script_cpu();
	if (!im || !h || !c || !c->at ||
	    bpf_probe_read_user(&c->ruby.frame, sizeof(c->ruby.frame), (void *)c->at))
		return 1;
	__u64 *out = arena_ptr(h, h->arena_used), at = from + c->n;
	c->at += ruby_layout(layout)->frame_size;
	if (c->at >= c->ruby.end)
		c->at = 0;
	c->ruby.env = user_word(c->ruby.frame.env);
	if (!c->ruby.frame.iseq || c->ruby.env & RUBY_FRAME_C ||
	    (c->ruby.env & RUBY_FRAME_MASK) == RUBY_FRAME_DUMMY)
		return 0;
	barrier_var(at);
	if (at >= STACK_WORDS_MAX || at >= c->end)
		return 1;
	__u64 word = ruby_identify(im, layout);
	out[at] = word | SCRIPT_WORD(0, SCRIPT_RUBY) |
		  (c->ruby.env & RUBY_FRAME_FINISH ? SCRIPT_ENTRY : 0);
	c->n++;
	return c->n >= SCRIPT_FRAMES_MAX;
}

#endif
