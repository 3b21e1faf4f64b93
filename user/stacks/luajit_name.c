/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/luajit_name.h"

#include "luajit_wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* A list of names in the memory of a function, or the beginning of it. */
struct list {
	uint8_t bytes[2 * SCRIPT_TEXT_MAX];
	size_t n, at;
};

static void list_of(const struct wire_script *w, struct list *ret)
{
	const struct wire_script_text *a = &w->text[SCRIPT_NAME], *b = &w->text[SCRIPT_CLASS];
	memcpy(ret->bytes, a->text, a->bytes);
	memcpy(ret->bytes + a->bytes, b->text, b->bytes);
	ret->n = a->bytes + b->bytes;
	ret->at = 0;
}

/* Take a text up to a NUL. NULL: the list ends before it does. */
static const char *take_text(struct list *l)
{
	const uint8_t *text = l->bytes + l->at, *end = memchr(text, 0, l->n - l->at);
	if (!end)
		return NULL;
	l->at = (size_t)(end + 1 - l->bytes);
	return (const char *)text;
}

/* Take a number in ULEB128. False: the list ends before. */
static bool take_number(struct list *l, uint32_t *ret)
{
	uint32_t v = 0;
	for (unsigned shift = 0; shift < 32 && l->at < l->n; shift += 7) {
		const uint8_t byte = l->bytes[l->at++];
		v |= (uint32_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = v;
			return true;
		}
	}
	return false;
}

/*
 * Find the variable in a slot, as debug_varname of lj_debug.c does. NULL: not found.
 * *ret_parameter: it may be any function.
 */
static const char *find_local(struct list *l, uint32_t slot, uint32_t position, bool *ret_parameter)
{
	static const char *const own[] = { "", /* VARNAMEDEF of lj_debug.h */
					   "(for index)",
					   "(for limit)",
					   "(for step)",
					   "(for generator)",
					   "(for state)",
					   "(for control)" };
	uint32_t from = 0, more, length;
	while (l->at < l->n && l->bytes[l->at]) {
		const uint8_t first = l->bytes[l->at];
		const char *name;
		if (first < sizeof(own) / sizeof(own[0])) {
			name = own[first];
			l->at++;
		} else {
			name = take_text(l);
		}
		if (!name || !take_number(l, &more) || !take_number(l, &length))
			return NULL;
		from += more;
		if (from > position)
			return NULL;
		*ret_parameter = !from;
		if (position - from < length && !slot--)
			return name;
	}
	return NULL;
}

static const char *find_upvalue(struct list *l, uint32_t i)
{
	const char *name = take_text(l);
	while (name && i--)
		name = take_text(l);
	return name;
}

/* The metamethod that an operation calls: lj_bc.h. */
static const char *metamethod(uint32_t op)
{
	static const char *const arithmetic[] = { "__add", "__sub", "__mul", "__div", "__mod" };
	static const struct {
		uint8_t last;
		const char *name;
	} of[] = {
		{ 1, "__lt" },	    { 3, "__le" },	  { 11, "__eq" },    { 19, NULL },
		{ 20, "__unm" },    { 21, "__len" },	  { 36, NULL },	     { 37, "__pow" },
		{ 38, "__concat" }, { 53, NULL },	  { 54, "__index" }, { 55, "__newindex" },
		{ 59, "__index" },  { 64, "__newindex" },
	};
	if (op >= 22 && op < 37)
		return arithmetic[(op - 22) % 5];
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (op <= of[i].last)
			return of[i].name;
	return NULL;
}

/* Add what the call calls its function. Adds nothing where that is not known. */
static int add_called(const struct wire_script *w, struct buf *function, bool *ret_parameter)
{
	const struct wire_script_text *a = &w->text[SCRIPT_NAME], *b = &w->text[SCRIPT_CLASS];
	struct list l;
	const char *name = NULL;
	if (a->bytes > SCRIPT_TEXT_MAX || b->bytes > SCRIPT_TEXT_MAX)
		return -EBADMSG;
	list_of(w, &l);
	switch (w->kind & 0xff) {
	case LUAJIT_NAMED:
		return buf_add(function, a->text, a->bytes);
	case LUAJIT_UPVALUE:
		name = find_upvalue(&l, a->width);
		break;
	case LUAJIT_LOCAL:
		name = find_local(&l, a->width, b->width, ret_parameter);
		break;
	case LUAJIT_METAMETHOD:
		name = metamethod(a->width);
		break;
	}
	return name ? buf_add(function, name, strlen(name)) : 0;
}

/* Of code from a string the beginning of that, as lj_debug_shortname does. */
int luajit_name_file(const struct wire_script *w, struct buf *out)
{
	const struct wire_script_text *f = &w->text[SCRIPT_FILE];
	const char first = (char)f->width;
	if (f->bytes > SCRIPT_TEXT_MAX)
		return -EBADMSG;
	if (!f->width)
		return 0;
	if (first == '@' || first == '=')
		return buf_add(out, f->text, f->bytes);
	const uint8_t *end = memchr(f->text, '\n', f->bytes);
	return buf_printf(out, "[string \"%c%.*s%s\"]", first,
			  end ? (int)(end - f->text) : (int)f->bytes, (const char *)f->text,
			  end ? "..." : "");
}

/* Add where a function is that its call does not name. */
static int add_place(const struct wire_script *w, const char *file, struct buf *out)
{
	const char *slash = file[0] == '[' ? NULL : strrchr(file, '/');
	switch (w->kind >> 8 & 0xff) {
	case LUAJIT_C:
		return buf_printf(out, "[C]");
	case LUAJIT_BUILTIN:
		return buf_printf(out, "[builtin#%u]", w->kind >> 16);
	case LUAJIT_CHUNK:
		return buf_printf(out, "main chunk");
	}
	return buf_printf(out, "%s:%u", slash ? slash + 1 : file, w->text[SCRIPT_FILE].width >> 8);
}

int luajit_name_function(const struct wire_script *w, const char *file, struct buf *out)
{
	bool parameter = false;
	int rc = add_called(w, out, &parameter);
	if (rc || (out->len && !parameter))
		return rc;
	if (!out->len)
		return add_place(w, file, out);
	rc = buf_add(out, " <", 2);
	rc = rc ? rc : add_place(w, file, out);
	return rc ? rc : buf_add_u8(out, '>');
}
