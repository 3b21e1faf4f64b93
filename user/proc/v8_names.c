/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Name a function of JavaScript. SharedFunctionInfo -> ScopeInfo: its name; -> Script: path and
 * source. Nothing stops the process meanwhile, whose garbage collector moves objects: each is
 * proven by its map's type, and what is not as it was when it was sampled has no name.
 *
 * Where a ScopeInfo has the name is published in part: its variables, each with a name and a word.
 * Behind them stand, in all versions from 10.2 on, the function's name, a number, and the name that
 * the compiler inferred. What stands there must be of these types, else there is no name.
 */
#include "proc/pages.h"
#include "proc/reader_int.h"
#include "proc/v8.h"
#include "proc/v8_int.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LOCALS_MAX 65536
#define INLINE_LOCALS 75 /* from this number on a hash table has the names of the variables */
#define STRING_HOPS 256
#define PARTS_MAX 32 /* of a string, that are not read yet */
#define LENGTH_MAX (1u << 30)
#define SOURCE_MAX (1u << 20) /* characters of a source that are searched for lines */
#define LINES_MAX (1u << 20)

struct naming {
	struct pages *m;
	const struct v8_layout *l;
};

static bool is_pointer(uint64_t v)
{
	return (v & V8_TAG_MASK) == V8_TAG;
}

/* A small integer is in the upper half of a word. */
static bool is_number(uint64_t v)
{
	return !(v & 0xffffffff);
}

static uint64_t field(struct naming *g, uint64_t object, uint64_t at)
{
	return is_pointer(object) ? pages_word(g->m, object - V8_TAG + at) : 0;
}

/* The instance type of an object; -1: it is none. */
static int type_of(struct naming *g, uint64_t object)
{
	uint64_t map = field(g, object, 0);
	uint16_t type;
	if (!is_pointer(map) ||
	    !pages_read(g->m, map - V8_TAG + g->l->instance_type, &type, sizeof(type)))
		return -1;
	return type;
}

static bool is_string(const struct naming *g, int type)
{
	return type >= 0 && type < g->l->first_nonstring;
}

/* ---- strings ---- */

/* Takes n characters of a string, of `width` bytes each; a string comes in several parts. */
typedef void take_fn(void *ctx, const uint8_t *bytes, uint32_t n, uint32_t width);

struct part {
	uint64_t string;
	uint32_t from, n; /* characters */
};

static bool take_flat(struct naming *g, const struct part *p, unsigned type, take_fn *take,
		      void *ctx)
{
	bool one = (type & g->l->encoding_mask) == g->l->one_byte_tag;
	uint32_t width = one ? 1 : 2, most = 2048;
	uint64_t at = p->string - V8_TAG + (one ? g->l->one_byte : g->l->two_byte) +
		      (uint64_t)p->from * width;
	for (uint32_t i = 0; i < p->n; i += most) {
		uint8_t bytes[4096];
		uint32_t n = p->n - i < most ? p->n - i : most;
		if (!pages_read(g->m, at + (uint64_t)i * width, bytes, (size_t)n * width))
			return false;
		take(ctx, bytes, n, width);
	}
	return true;
}

static bool length_of(struct naming *g, uint64_t string, uint32_t *ret)
{
	return is_string(g, type_of(g, string)) &&
	       pages_read(g->m, string - V8_TAG + g->l->string_length, ret, sizeof(*ret)) &&
	       *ret <= LENGTH_MAX;
}

/* Take characters of a string. False: not all can be read, or V8 does not hold them itself. */
static bool take_string(struct naming *g, uint64_t string, uint32_t from, uint32_t n, take_fn *take,
			void *ctx)
{
	const struct v8_layout *l = g->l;
	struct part stack[PARTS_MAX] = { { string, from, n } };
	size_t depth = 1;
	for (unsigned hop = 0; depth && hop < STRING_HOPS; hop++) {
		struct part *p = &stack[depth - 1];
		int type = type_of(g, p->string);
		uint32_t length, first;
		if (!length_of(g, p->string, &length) || p->from > length ||
		    p->n > length - p->from)
			return false;
		unsigned kind = (unsigned)type & l->representation_mask;
		if (kind == l->thin_tag) {
			p->string = field(g, p->string, l->thin_actual);
		} else if (kind == l->sliced_tag) {
			p->from += (uint32_t)(field(g, p->string, l->sliced_offset) >> 32);
			p->string = field(g, p->string, l->sliced_parent);
		} else if (kind == l->cons_tag) {
			struct part all = *p;
			uint64_t left = field(g, all.string, l->cons_first);
			if (depth == PARTS_MAX || !length_of(g, left, &first))
				return false;
			depth--;
			if (all.from + all.n > first)
				stack[depth++] = (struct part){
					field(g, all.string, l->cons_second),
					all.from > first ? all.from - first : 0,
					all.from > first ? all.n : all.from + all.n - first
				};
			if (all.from < first)
				stack[depth++] = (struct part){ left, all.from,
								all.n < first - all.from
									? all.n
									: first - all.from };
		} else if (kind == l->seq_tag) {
			if (!take_flat(g, p, (unsigned)type, take, ctx))
				return false;
			depth--;
		} else {
			return false;
		}
	}
	return !depth;
}

struct text {
	char *out;
	size_t n;
	uint16_t high; /* the first half of a pair; 0: none */
};

/* Add a character as UTF-8, where there is room. */
static void add_character(struct text *t, uint16_t c)
{
	if (t->n + 5 > V8_TEXT_MAX)
		return;
	uint32_t code = c < 0x20 || c == 0x7f ? '?' : c;
	if (t->high && c >> 10 == 0x37) {
		code = 0x10000 + ((t->high & 0x3ffu) << 10 | (c & 0x3ffu));
	} else if (c >> 10 == 0x36) {
		t->high = c;
		return;
	}
	t->n += utf8_put(t->out + t->n, code);
	t->high = 0;
}

static uint16_t character_at(const uint8_t *bytes, uint32_t i, uint32_t width)
{
	uint16_t c;
	if (width == 1)
		return bytes[i];
	memcpy(&c, bytes + 2 * (size_t)i, sizeof(c));
	return c;
}

static void take_text(void *ctx, const uint8_t *bytes, uint32_t n, uint32_t width)
{
	for (uint32_t i = 0; i < n; i++)
		add_character(ctx, character_at(bytes, i, width));
}

/* Read a string as UTF-8: its beginning, or its end where it is longer and `end` is set. */
static bool read_text(struct naming *g, uint64_t string, bool end, char out[V8_TEXT_MAX])
{
	struct text t = { .out = out };
	uint32_t n, most = V8_TEXT_MAX / 3;
	bool is = length_of(g, string, &n) && take_string(g, string, end && n > most ? n - most : 0,
							  n < most ? n : most, take_text, &t);
	out[is ? t.n : 0] = 0;
	return is;
}

/* ---- functions ---- */

struct function {
	uint64_t scope, script;
	uint64_t name, inferred; /* strings, 0: none */
	uint32_t start;		 /* place in the source */
};

/* The SharedFunctionInfo of a word, if it is still what was sampled. */
static bool find_function(struct naming *g, uint64_t word, struct function *ret)
{
	const struct v8_layout *l = g->l;
	uint64_t shared = V8_SHARED_OF(word) | V8_TAG;
	uint16_t parameters, token;
	if (type_of(g, shared) != l->type_shared)
		return false;
	ret->scope = field(g, shared, l->name_or_scope);
	ret->script = field(g, shared, l->script);
	return pages_read(g->m, shared - V8_TAG + l->parameters, &parameters, 2) &&
	       pages_read(g->m, shared - V8_TAG + l->token, &token, 2) &&
	       v8_word(shared - V8_TAG, ret->scope, ret->script, parameters, token) == word &&
	       type_of(g, ret->scope) == l->type_scope;
}

static uint64_t scope_word(struct naming *g, const struct function *f, uint64_t i)
{
	return field(g, f->scope, 8 * (1 + i));
}

/* Read what the ScopeInfo says of its function. False: it is not laid out as expected. */
static bool read_scope(struct naming *g, struct function *f)
{
	const struct v8_layout *l = g->l;
	uint64_t n = scope_word(g, f, l->n_locals);
	bool has_start = l->first_variable == l->n_locals + 3;
	if (!is_number(n) || n >> 32 > LOCALS_MAX)
		return false;
	n >>= 32;
	uint64_t at = l->first_variable + (n < INLINE_LOCALS ? 2 * n : 1 + n);
	uint64_t name = scope_word(g, f, at), number = scope_word(g, f, at + 1),
		 inferred = scope_word(g, f, at + 2),
		 start = scope_word(g, f, has_start ? l->n_locals + 1u : at + 3);
	bool named = is_string(g, type_of(g, name));
	if (!(named || !name) || !is_number(number) || !is_pointer(inferred) ||
	    type_of(g, inferred) < 0 || !is_number(start) || start >> 63)
		return false;
	f->name = named ? name : 0;
	f->inferred = is_string(g, type_of(g, inferred)) ? inferred : 0;
	f->start = (uint32_t)(start >> 32);
	return true;
}

/* The line of a place, by the ends of lines that V8 has found before. 0: it has not. */
static uint32_t line_of_ends(struct naming *g, const struct function *f)
{
	const struct v8_layout *l = g->l;
	uint64_t ends = field(g, f->script, l->line_ends);
	if (type_of(g, ends) != l->type_array)
		return 0;
	uint64_t lo = 0, hi = field(g, ends, l->array_length) >> 32;
	if (hi > LINES_MAX)
		return 0;
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (field(g, ends, l->array_data + 8 * mid) >> 32 < f->start)
			lo = mid + 1;
		else
			hi = mid;
	}
	return (uint32_t)lo + 1;
}

static void take_lines(void *ctx, const uint8_t *bytes, uint32_t n, uint32_t width)
{
	uint32_t *line = ctx;
	for (uint32_t i = 0; i < n; i++)
		*line += character_at(bytes, i, width) == '\n';
}

/* The same, by counting. */
static uint32_t line_of_source(struct naming *g, const struct function *f)
{
	uint64_t source = field(g, f->script, g->l->script_source);
	uint32_t line = 1;
	return f->start <= SOURCE_MAX && take_string(g, source, 0, f->start, take_lines, &line)
		       ? line
		       : 0;
}

static bool read_name(struct naming *g, uint64_t word, struct v8_name *ret)
{
	struct function f = { 0 };
	*ret = (struct v8_name){ .line = 0 };
	if (!find_function(g, word, &f) || !read_scope(g, &f))
		return false;
	if (f.name && !read_text(g, f.name, false, ret->function))
		return false;
	ret->place = f.start;
	if (!ret->function[0] && f.inferred)
		read_text(g, f.inferred, false, ret->function);
	if (type_of(g, f.script) != g->l->type_script)
		return true;
	read_text(g, field(g, f.script, g->l->script_name), true, ret->file);
	ret->line = line_of_ends(g, &f);
	if (!ret->line)
		ret->line = line_of_source(g, &f);
	return true;
}

int v8_serve_name(const struct reader_request *q, struct buf *out)
{
	struct v8_layout layout;
	struct v8_name name;
	struct function f;
	struct naming g = { pages_of(q->tgid), &layout };
	if (!pages_from_text(q->text, &layout, sizeof(layout)))
		return -EINVAL;
	if (!read_name(&g, q->a, &name))
		return -ESTALE;
	/* What was read counts if the function was the same all the time. */
	struct naming again = { pages_of(q->tgid), &layout };
	if (!find_function(&again, q->a, &f))
		return -ESTALE;
	return buf_add(out, &name, sizeof(name));
}

int proc_v8_name(uint32_t tgid, const struct v8_layout *l, uint64_t word, struct v8_name *ret)
{
	char text[2 * sizeof(*l) + 1];
	const struct reader_request q = { .op = READ_V8_NAME, .tgid = tgid, .a = word };
	struct buf reply = BUF_INIT;
	pages_to_text(l, sizeof(*l), text);
	int rc = reader_ask(&q, text, &reply, NULL);
	if (!rc && reply.len != sizeof(*ret))
		rc = -EFAULT;
	if (!rc) {
		memcpy(ret, reply.data, sizeof(*ret));
		ret->function[V8_TEXT_MAX - 1] = ret->file[V8_TEXT_MAX - 1] = 0;
	}
	buf_fini(&reply);
	return rc;
}
