/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/script_name.h"

#include "stacks/luajit_name.h"

#include "perl_wire.h"
#include "php_wire.h"
#include "ruby_wire.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

void script_name_fini(struct script_name *n)
{
	buf_fini(&n->function);
	buf_fini(&n->file);
	buf_fini(&n->raw);
}

/* Add characters of 1, 2 or 4 bytes as UTF-8, and invalid ones as question marks. */
static int add_wide(struct buf *out, const uint8_t *text, size_t bytes, size_t width)
{
	int rc = 0;
	for (size_t i = 0; !rc && i + width <= bytes; i += width) {
		char utf8[4];
		uint32_t c = text[i];
		if (width > 1)
			c |= (uint32_t)text[i + 1] << 8;
		if (width > 2)
			c |= (uint32_t)text[i + 2] << 16 | (uint32_t)text[i + 3] << 24;
		if (c < 0x20 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			c = '?';
		rc = buf_add(out, utf8, utf8_put(utf8, c));
	}
	return rc;
}

/*
 * Add bytes that should be UTF-8, up to a NUL: behind it PHP puts what tells anonymous classes
 * apart.
 */
static int add_bytes(struct buf *out, const uint8_t *text, size_t bytes)
{
	char clean[SCRIPT_TEXT_MAX];
	size_t n = strnlen((const char *)text, bytes);
	for (size_t i = 0; i < n; i++)
		clean[i] = text[i] < 0x20 || text[i] == 0x7f ? '?' : (char)text[i];
	return utf8_repair(out, clean, n);
}

static int add_text(struct buf *out, const struct wire_script *w, enum script_text which)
{
	uint32_t bytes = w->text[which].bytes, width = w->text[which].width;
	const uint8_t *text = w->text[which].text;
	if (bytes > SCRIPT_TEXT_MAX || (width != 1 && width != 2 && width != 4 && width))
		return -EBADMSG;
	return width ? add_wide(out, text, bytes, width) : add_bytes(out, text, bytes);
}

/* Add what code without a function's name is called. */
static int add_kind(struct buf *out, const struct wire_script *w, const struct buf *file)
{
	const char *path = (const char *)file->data, *slash = strrchr(path, '/');
	if (SCRIPT_LANGUAGE(w->id) == SCRIPT_PERL && w->kind == PERL_FILE)
		return buf_printf(out, "require(%s)", slash ? slash + 1 : path);
	if (SCRIPT_LANGUAGE(w->id) == SCRIPT_PERL && w->kind != PERL_SUB)
		return buf_printf(out, "%s",
				  w->kind == PERL_MAIN	 ? "{main}"
				  : w->kind == PERL_EVAL ? "{eval}"
				  : w->kind == PERL_SORT ? "{sort}"
							 : "{regex}");
	if (SCRIPT_LANGUAGE(w->id) != SCRIPT_PHP || w->kind == PHP_FUNCTION)
		return buf_printf(out, "[unknown]");
	if (w->kind == PHP_INCLUDE)
		return buf_printf(out, "include(%s)", slash ? slash + 1 : path);
	return buf_printf(out, "%s", w->kind == PHP_EVAL ? "{eval}" : "{main}");
}

/* Code outside of methods: "<main>", "<class:A>". The operators are "<", "<<", "<=" and "<=>". */
static bool is_body(const uint8_t *text, size_t bytes)
{
	return bytes > 3 && text[0] == '<' && text[bytes - 1] == '>';
}

/* Add a label of Ruby's code, with the class in it, as Ruby 3.4 has it: "block in A#b". */
static int add_ruby(struct buf *f, const struct wire_script *w)
{
	const struct wire_script_text *label = &w->text[SCRIPT_NAME];
	const uint8_t *text = label->text, *in;
	if (label->bytes > SCRIPT_TEXT_MAX || label->width)
		return -EBADMSG;
	in = memmem(text, label->bytes, " in ", 4);
	const size_t before = in ? (size_t)(in + 4 - text) : 0;
	int rc = add_bytes(f, text, before);
	const size_t scope = f->len;
	if (!is_body(text + before, label->bytes - before))
		rc = rc ? rc : add_text(f, w, SCRIPT_CLASS);
	if (!rc && f->len != scope)
		rc = buf_add_u8(f, w->kind == RUBY_OF_CLASS ? '.' : '#');
	rc = rc ? rc : add_bytes(f, text + before, label->bytes - before);
	return rc || label->bytes ? rc : buf_printf(f, "[unknown]");
}

/* Add a function of PHP, Perl or Python, with its class. */
static int add_function(struct script_name *n, const struct wire_script *w)
{
	struct buf *f = &n->function;
	int rc = add_text(f, w, SCRIPT_CLASS);
	if (!rc && f->len)
		rc = buf_add(f, "::", 2);
	size_t scope = f->len;
	rc = rc ? rc : add_text(f, w, SCRIPT_NAME);
	if (!rc && f->len == scope) {
		f->len = 0;
		rc = add_kind(f, w, &n->file);
	}
	return rc;
}

/* Add what was read as it is, but all that follows a NUL. */
static int add_raw(struct buf *out, struct buf *raw)
{
	const size_t n = raw->len ? strnlen((const char *)raw->data, raw->len) : 0;
	for (size_t i = 0; i < n; i++)
		if (raw->data[i] < 0x20 || raw->data[i] == 0x7f)
			raw->data[i] = '?';
	return n ? utf8_repair(out, (const char *)raw->data, n) : 0;
}

static int read_luajit(struct script_name *n, const struct wire_script *w)
{
	n->raw.len = 0;
	int rc = luajit_name_file(w, &n->raw);
	rc = rc ? rc : add_raw(&n->file, &n->raw);
	rc = rc ? rc : buf_add_u8(&n->file, 0);
	n->raw.len = 0;
	rc = rc ? rc : luajit_name_function(w, (const char *)n->file.data, &n->raw);
	rc = rc ? rc : add_raw(&n->function, &n->raw);
	return rc ? rc : buf_add_u8(&n->function, 0);
}

int script_name_read(struct script_name *n, const struct wire_script *w)
{
	struct buf *f = &n->function;
	f->len = n->file.len = 0;
	if (SCRIPT_LANGUAGE(w->id) == SCRIPT_LUAJIT)
		return read_luajit(n, w);
	int rc = add_text(&n->file, w, SCRIPT_FILE);
	rc = rc ? rc : buf_add_u8(&n->file, 0);
	if (!rc && SCRIPT_LANGUAGE(w->id) == SCRIPT_RUBY)
		rc = add_ruby(f, w);
	else
		rc = rc ? rc : add_function(n, w);
	return rc ? rc : buf_add_u8(f, 0);
}
