/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The frames on LuaJIT's own stacks (include/luajit_wire.h), for script.bpf.h alone, of the states
 * that luajit_native.bpf.h found on the native stack. A function has no name: it is what its caller
 * calls it, as in LuaJIT's own stack traces. So a frame is told apart by the function, its line and
 * the call.
 */
#ifndef ASCRIBE_LUAJIT_BPF_H
#define ASCRIBE_LUAJIT_BPF_H

/* Read a function. One that cannot be read is of no type. */
static __always_inline void luajit_read_code(struct luajit_code *to, __u64 at)
{
	struct luajit_function *f = &to->function;
	to->chunk.id = 0;
	if (!bpf_probe_read_user(f, sizeof(*f), (void *)LUAJIT_POINTER(at)) &&
	    f->type == LUAJIT_FUNCTION &&
	    (f->builtin != LUAJIT_IS_LUA ||
	     (!bpf_probe_read_user(&to->proto, sizeof(to->proto),
				   (void *)(f->code - sizeof(to->proto))) &&
	      !bpf_probe_read_user(&to->chunk, sizeof(to->chunk), (void *)to->proto.chunk))))
		return;
	f->type = 0;
}

static __always_inline bool luajit_is_lua(const struct luajit_code *f)
{
	return f->function.type == LUAJIT_FUNCTION && f->function.builtin == LUAJIT_IS_LUA;
}

/* Return what tells a function from others. Its memory may be reused. */
static __always_inline __u64 luajit_hash(const struct luajit_code *f)
{
	const struct luajit_proto *p = &f->proto;
	if (!luajit_is_lua(f))
		return f->function.c;
	return mix(mix(mix(f->function.code, f->chunk.id), (__u64)p->n_code << 32 | p->line),
		   p->n_lines);
}

/* Continue at the innermost frame of the next state. Its address; 0: there is none. */
__noinline __u64 luajit_next(void)
{
	struct script_cpu *c = script_cpu();
	struct luajit_cpu *l = luajit_cpu();
	if (!c || !l)
		return 0;
	__u64 i = c->luajit.i;
	barrier_var(i);
	if (i >= LUAJIT_STATES || i >= l->n)
		return 0;
	c->luajit.state = l->state[i];
	c->luajit.i = i + 1;
	if (luajit_read(l, c->luajit.state))
		return 0;
	c->luajit.bottom = l->read.stack + 8;
	c->luajit.top = l->read.max + 8;
	const __u64 base = i || !l->base ? l->read.base : l->base;
	c->luajit.pc = i ? 0 : l->pc;
	c->at = base - 8;
	if (bpf_probe_read_user(&c->luajit.frame, sizeof(c->luajit.frame), (void *)(base - 16)))
		c->at = 0;
	else
		luajit_read_code(&c->luajit.code, c->luajit.frame.function);
	return c->at;
}

static __always_inline __u64 luajit_first(void)
{
	struct script_cpu *c = script_cpu();
	if (!c)
		return 0;
	c->luajit.i = 0;
	return luajit_next();
}

/* Copy the beginning of the list at `at` of a function's memory into two texts. */
static __always_inline int luajit_list(struct script_cpu *c, __u64 at, __u64 end, __u32 first,
				       __u32 second)
{
	__u64 n = end - at, more = 0;
	if (!at || at > end)
		return -1;
	if (n > SCRIPT_TEXT_MAX) {
		more = n - SCRIPT_TEXT_MAX;
		n = SCRIPT_TEXT_MAX;
		if (more > SCRIPT_TEXT_MAX)
			more = SCRIPT_TEXT_MAX;
	}
	return script_copy(c, SCRIPT_NAME, at, n, first) ||
			       script_copy(c, SCRIPT_CLASS, at + n, more, second)
		       ? -1
		       : 0;
}

/* Copy the string of number `i` among a function's constants into the name. */
static __always_inline int luajit_constant(struct script_cpu *c, __u32 i)
{
	const __u64 at = user_word(c->luajit.from.proto.constants - 8 * ((__u64)i + 1));
	if (!at || bpf_probe_read_user(&c->luajit.string, sizeof(c->luajit.string), (void *)at))
		return -1;
	return script_copy(c, SCRIPT_NAME, at + sizeof(c->luajit.string), c->luajit.string.length,
			   0);
}

/* Does this bytecode write to the slot? Without branches: the verifier follows each of a loop. */
static __always_inline bool luajit_writes(__u32 insn, __u32 slot)
{
	const __u32 op = insn & 0xff, low = (op - 64) >> 31;
	const __u64 one = LUAJIT_WRITES_A & -(__u64)low,
		    from = low ? LUAJIT_WRITES_FROM_A : LUAJIT_WRITES_FROM_A_64;
	return ((one >> (op & 63)) & (LUAJIT_A(insn) == slot)) |
	       ((from >> (op & 63)) & (slot >= LUAJIT_A(insn)) &
		((op != LUAJIT_KNIL) | (slot <= LUAJIT_D(insn))));
}

/*
 * Find what wrote the function that is called to its slot, as lj_debug_slotname does: search
 * backwards in the n bytecodes that were read. Return its index, or LUAJIT_INSNS.
 */
__noinline __u32 luajit_writer(__u32 n)
{
	struct script_cpu *c = script_cpu();
	__u64 at = n;
	if (!c)
		return LUAJIT_INSNS;
	for (int i = 0; i < LUAJIT_INSNS; i++) {
		at--;
		barrier_var(at);
		if (at >= LUAJIT_INSNS)
			break;
		if (luajit_writes(c->luajit.insn[at], LUAJIT_A(c->luajit.insn_call)))
			return (__u32)at;
	}
	return LUAJIT_INSNS;
}

/* Read the bytecodes before the call. How many; 0: none. */
__noinline __u32 luajit_read_insns(void)
{
	struct script_cpu *c = script_cpu();
	if (!c || !c->luajit.call || !luajit_is_lua(&c->luajit.from))
		return 0;
	const __u64 code = c->luajit.from.function.code, at = (c->luajit.call - code) / 4;
	/* The first bytecode is the function's head */
	__u64 n = at - 1 < LUAJIT_INSNS ? at - 1 : LUAJIT_INSNS;
	if (c->luajit.call <= code || at >= c->luajit.from.proto.n_code || !n)
		return 0;
	barrier_var(n);
	if (n > LUAJIT_INSNS ||
	    bpf_probe_read_user(c->luajit.insn, 4 * n, (void *)(c->luajit.call - 4 * n)))
		return 0;
	return (__u32)n;
}

/*
 * Describe what the call calls its function, which bytecode i of the n that were read wrote. Return
 * how it is named.
 */
__noinline __u32 luajit_named(__u32 n, __u64 i)
{
	struct script_cpu *c = script_cpu();
	if (!c)
		return LUAJIT_UNNAMED;
	const struct luajit_proto *p = &c->luajit.from.proto;
	const __u64 code = c->luajit.from.function.code, end = code - sizeof(*p) + p->bytes;
	const __u32 call = c->luajit.insn_call, op = call & 0xff,
		    at = (__u32)((c->luajit.call - code) / 4);
	int rc = -1;
	if (op < LUAJIT_CALLM || op > LUAJIT_ITERN)
		return script_copy(c, SCRIPT_NAME, 0, 0, op) ? LUAJIT_UNNAMED : LUAJIT_METAMETHOD;
	if (op >= LUAJIT_ITERC) /* of a loop, which LuaJIT names */
		return luajit_list(c, p->local_names, end, LUAJIT_A(call) - 3, at) ? LUAJIT_UNNAMED
										   : LUAJIT_LOCAL;
	barrier_var(i);
	if (i >= LUAJIT_INSNS)
		return LUAJIT_UNNAMED;
	const __u32 insn = c->luajit.insn[i];
	switch (insn & 0xff) {
	case LUAJIT_MOV: /* of a local variable */
		rc = luajit_list(c, p->local_names, end, LUAJIT_D(insn), at - n + (__u32)i);
		return rc ? LUAJIT_UNNAMED : LUAJIT_LOCAL;
	case LUAJIT_UGET:
		rc = luajit_list(c, p->upvalue_names, end, LUAJIT_D(insn), 0);
		return rc ? LUAJIT_UNNAMED : LUAJIT_UPVALUE;
	case LUAJIT_GGET:
		rc = luajit_constant(c, LUAJIT_D(insn));
		break;
	case LUAJIT_TGETS:
		rc = luajit_constant(c, LUAJIT_C(insn));
		break;
	}
	return rc ? LUAJIT_UNNAMED : LUAJIT_NAMED;
}

/* Describe the function of the frame in hand to user space: c->code has its id and line. */
__noinline int luajit_describe(const struct image *im)
{
	struct script_cpu *c = script_cpu();
	if (!im || !c)
		return -1;
	__u8 *first = &c->luajit.first;
	const struct luajit_code *f = &c->luajit.code;
	const __u8 builtin = f->function.builtin;
	__u32 what = builtin == LUAJIT_IS_C ? LUAJIT_C : LUAJIT_BUILTIN;
	script_copy(c, SCRIPT_FILE, 0, 0, 0);
	if (builtin == LUAJIT_IS_LUA) {
		const __u64 text = f->proto.chunk + sizeof(f->chunk);
		const __u32 line = f->proto.line;
		what = line ? LUAJIT_LUA : LUAJIT_CHUNK;
		__u64 n = f->chunk.length;
		if (n && bpf_probe_read_user(first, 1, (void *)text))
			return -1;
		if (*first != '@' && n > SCRIPT_TEXT_MAX) /* its end matters of a path alone */
			n = SCRIPT_TEXT_MAX;
		if (n &&
		    script_copy(c, SCRIPT_FILE, text + 1, n - 1, LUAJIT_FILE_WIDTH(*first, line)))
			return -1;
	}
	script_copy(c, SCRIPT_CLASS, 0, 0, 0);
	/* Each call from here: a chain of calls has at most 8 functions on Linux 6.1 */
	const __u32 n = luajit_read_insns();
	const __u32 named = n ? luajit_named(n, luajit_writer(n)) : LUAJIT_UNNAMED;
	if (named == LUAJIT_UNNAMED)
		script_copy(c, SCRIPT_NAME, 0, 0, 0);
	c->code.kind = LUAJIT_KIND(named, what, builtin);
	return script_send(c, im, SCRIPT_TEXTS);
}

/* The line of the frame in hand, at its bytecode or where the function begins. */
static __always_inline __u32 luajit_line(const struct script_cpu *c)
{
	const struct luajit_proto *p = &c->luajit.code.proto;
	const __u64 code = c->luajit.code.function.code, at = (c->luajit.pc - code) / 4;
	__u32 line = 0;
	if (!luajit_is_lua(&c->luajit.code) || p->line == LUAJIT_NO_LINE)
		return 0;
	/* pc is behind the bytecode that runs, and the function's head has no line of its own. */
	if (!p->lines || c->luajit.pc < code + 8 || at > p->n_code)
		return p->line;
	const __u32 width = p->n_lines < 256 ? 1 : p->n_lines < 65536 ? 2 : 4;
	bpf_probe_read_user(&line, width, (void *)(p->lines + (at - 2) * width));
	return p->line + line;
}

/* Return the word for the frame in hand. The call names the function. */
__noinline __u64 luajit_identify(const struct image *im)
{
	struct script_cpu *c = script_cpu();
	__u64 *cell;
	if (!im || !c)
		return 0;
	c->code.line = luajit_line(c);
	__u64 what = mix(luajit_hash(&c->luajit.code), c->code.line);
	if (c->luajit.call)
		what = mix(mix(what, c->luajit.call), luajit_hash(&c->luajit.from));
	c->code.id = SCRIPT_WORD(what, SCRIPT_LUAJIT);
	what = image_hash(im, c->code.id);
	if (script_is_new(c, what, &cell) && !luajit_describe(im))
		*cell = what;
	return c->code.id;
}

/* Find and read the caller of the frame in hand, and the call. 0, or there is none. */
__noinline int luajit_caller(void)
{
	struct script_cpu *c = script_cpu();
	if (!c)
		return -1;
	const __u64 link = c->luajit.frame.link;
	__u64 at = c->at, pc = 0;
	c->luajit.insn_call = 0;
	if (!(link & 3))
		pc = link;
	else if ((link & LUAJIT_LINK_TYPE) == LUAJIT_LINK_CONT &&
		 user_word(at - 24) != LUAJIT_CONT_CALLBACK)
		pc = user_word(at - 16);
	if (pc && bpf_probe_read_user(&c->luajit.insn_call, 4, (void *)(pc - 4)))
		pc = 0;
	if (!(link & 3) && !pc)
		return -1;
	c->luajit.call = pc ? pc - 4 : 0;
	at -= link & 3 ? link & ~(__u64)LUAJIT_LINK_TYPE
		       : 8 * (2 + (__u64)LUAJIT_A(c->luajit.insn_call));
	if (at >= c->at ||
	    bpf_probe_read_user(&c->luajit.caller, sizeof(c->luajit.caller), (void *)(at - 8)))
		return -1;
	luajit_read_code(&c->luajit.from, c->luajit.caller.function);
	c->luajit.next = at;
	return 0;
}

/* Is the frame in hand of a function? Not so of the state itself, or in the middle of a call. */
static __always_inline bool luajit_is_frame(const struct script_cpu *c)
{
	const struct luajit_frame *f = &c->luajit.frame;
	return (f->link & LUAJIT_LINK_TYPE) != LUAJIT_LINK_VARG &&
	       LUAJIT_POINTER(f->function) != c->luajit.state &&
	       (c->n || c->luajit.code.function.type == LUAJIT_FUNCTION);
}

/* SCRIPT_ENTRY where the frame in hand was called from C, also through LuaJIT's FFI. */
static __always_inline __u64 luajit_entry(const struct script_cpu *c)
{
	const __u64 link = c->luajit.frame.link;
	return (link & 3) == LUAJIT_LINK_C ||
			       ((link & LUAJIT_LINK_TYPE) == LUAJIT_LINK_CONT && !c->luajit.call)
		       ? SCRIPT_ENTRY
		       : 0;
}

/*
 * Store one frame after the first `from` words of the tail of half `key`, and describe new code. 0:
 * there may be more.
 */
__noinline int luajit_step(const struct image *im, __u32 key, __u32 from)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct script_cpu *c = script_cpu();
	if (!im || !h || !c || !c->at)
		return 1;
	if (c->at <= c->luajit.bottom || c->at > c->luajit.top)
		return !luajit_next();
	if (luajit_caller()) {
		if (c->n || !c->luajit.pc || c->luajit.frame.link == c->luajit.pc)
			return !luajit_next();
		/* In the middle of a call, whose link is not stored yet: it is the pc */
		c->luajit.frame.link = c->luajit.pc & ~3ull;
		c->luajit.pc = c->luajit.frame.link;
		return 0;
	}
	if (luajit_is_frame(c)) {
		__u64 at = from + c->n;
		barrier_var(at);
		if (at >= STACK_WORDS_MAX || at >= c->end)
			return 1;
		__u64 *out = arena_ptr(h, h->arena_used) + at;
		*out = luajit_identify(im) | SCRIPT_WORD(0, SCRIPT_LUAJIT) | luajit_entry(c);
		c->n++;
		c->luajit.pc = c->luajit.call ? c->luajit.call + 4 : 0;
	}
	c->luajit.frame = c->luajit.caller;
	c->luajit.code = c->luajit.from;
	c->at = c->luajit.next;
	return c->n >= SCRIPT_FRAMES_MAX;
}

#endif
