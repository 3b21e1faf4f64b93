/* SPDX-License-Identifier: Apache-2.0 */
#include "attribute/paths.h"

#include "elf/accessor.h"
#include "symbols/member.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEARCH_MAX (32u << 20)
#define SEARCH_PIECE (1u << 20)

/* ---- matching a recipe ---- */

static bool segment_holds(const struct elf_image *img, const struct elf_segment *s,
			  const char *text, uint64_t *left)
{
	size_t n = strlen(text);
	uint8_t *piece = malloc(SEARCH_PIECE);
	bool found = false;
	for (uint64_t at = 0; piece && !found && at < s->filesz && *left;) {
		size_t some =
			s->filesz - at < SEARCH_PIECE ? (size_t)(s->filesz - at) : SEARCH_PIECE;
		if (elf_image_read(img, s->offset + at, piece, some))
			break;
		found = memmem(piece, some, text, n) != NULL;
		*left -= some < *left ? some : *left;
		/* Pieces overlap: the text may be across two */
		at += some == SEARCH_PIECE ? some - n : some;
	}
	free(piece);
	return found;
}

static bool file_holds(const struct elf_image *img, const char *text)
{
	uint64_t left = SEARCH_MAX;
	for (size_t i = 0; i < img->n_loads; i++)
		if (!(img->loads[i].flags & PF_X) &&
		    segment_holds(img, &img->loads[i], text, &left))
			return true;
	return false;
}

static bool has_build_id(const struct elf_image *img, const char *hex)
{
	char own[2 * ELF_BUILD_ID_MAX + 1] = "";
	for (size_t i = 0; i < img->build_id_len; i++)
		snprintf(own + 2 * i, 3, "%02x", img->build_id[i]);
	return own[0] && !strcmp(own, hex);
}

bool path_is_for(const struct recipe *r, const struct elf_image *img)
{
	bool text = !r->n_texts, id = !r->n_build_ids;
	for (size_t i = 0; !id && i < r->n_build_ids; i++)
		id = has_build_id(img, r->build_id[i]);
	for (size_t i = 0; id && !text && i < r->n_texts; i++)
		text = file_holds(img, r->text[i]);
	return id && text;
}

/* ---- compiling ---- */

struct compiler {
	struct path *out;
	const struct recipe *recipe;
	const struct recipe_line *line;
	const struct elf_image *img;
	const char *path;
	struct err *err;
	/* Words loaded by an earlier function and not used yet. */
	bool pending;
	uint8_t pending_size;
	int64_t pending_at;
};

__attribute__((format(printf, 3, 4))) static int fail(struct compiler *c, int code, const char *fmt,
						      ...)
{
	char text[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(c->err, code, "%s:%u: %s: in %s: %s", c->recipe->source, c->line->line,
		       c->line->key, c->path, text);
}

static int emit(struct compiler *c, struct label_step s)
{
	if (c->out->n_steps == LABEL_PATH_STEPS)
		return fail(c, -E2BIG, "the recipe needs more than %d steps", LABEL_PATH_STEPS);
	c->out->step[c->out->n_steps++] = s;
	return 0;
}

/* Use a loaded word as the next address. */
static int settle(struct compiler *c)
{
	if (!c->pending)
		return 0;
	c->pending = false;
	if (c->pending_size != 8)
		return fail(c, -EINVAL, "a number of %u bytes is no address", c->pending_size);
	return emit(c, (struct label_step){ .op = STEP_DEREF, .imm = c->pending_at });
}

static int find_symbol(struct compiler *c, const char *name, struct elf_variable *ret)
{
	const char *names[] = { name, NULL };
	int n = elf_variables(c->img, names, ret, 1);
	if (n < 0)
		return fail(c, n, "its symbols cannot be read");
	return n ? 0 : fail(c, -ENOENT, "there is no symbol '%s'", name);
}

/* In each thread, variables have the same distances as in the file's thread-local block. */
static int compile_library_tls(struct compiler *c, const struct recipe_word *w,
			       const struct elf_variable *v)
{
	struct elf_variable *start = &c->out->start;
	if (v->access < ELF_ACCESS_TPOFF)
		return fail(c, -EOPNOTSUPP,
			    "nothing in the file says where its thread-local '%s' is", w->name);
	if (start->access == ELF_ACCESS_NONE)
		*start = *v;
	return emit(c, (struct label_step){ .op = STEP_START,
					    .imm = (int64_t)(v->value - start->value) + w->imm });
}

static int compile_symbol(struct compiler *c, const struct recipe_word *w)
{
	struct elf_variable v;
	int rc = find_symbol(c, w->name, &v);
	if (rc)
		return rc;
	if (!v.tls)
		return emit(c, (struct label_step){ .op = STEP_BASE,
						    .imm = (int64_t)v.value + w->imm });
	if (elf_is_executable(c->img))
		return emit(c,
			    (struct label_step){ .op = STEP_TP,
						 .imm = elf_static_tls(c->img, v.value) + w->imm });
	return compile_library_tls(c, w, &v);
}

static int compile_offset(struct compiler *c, const struct recipe_word *w)
{
	uint64_t vaddr;
	if (elf_image_vaddr(c->img, (uint64_t)w->imm, &vaddr))
		return fail(c, -ENOENT, "offset %#llx is not loaded", (unsigned long long)w->imm);
	return emit(c, (struct label_step){ .op = STEP_BASE, .imm = (int64_t)vaddr });
}

static int read_code(const struct elf_image *img, uint64_t vaddr, uint8_t *out, size_t *ret_len)
{
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct elf_segment *s = &img->loads[i];
		if (vaddr < s->vaddr || vaddr - s->vaddr >= s->filesz)
			continue;
		uint64_t at = vaddr - s->vaddr, left = s->filesz - at;
		*ret_len = left < ACCESSOR_CODE_MAX ? (size_t)left : ACCESSOR_CODE_MAX;
		return elf_image_read(img, s->offset + at, out, *ret_len);
	}
	return -ENOENT;
}

static int compile_via(struct compiler *c, const struct recipe_word *w, bool first)
{
	struct accessor_step step[ACCESSOR_STEPS_MAX];
	uint8_t code[ACCESSOR_CODE_MAX];
	struct elf_variable v;
	size_t len;
	int rc = find_symbol(c, w->name, &v);
	if (rc)
		return rc;
	if (c->img->machine != EM_X86_64 || read_code(c->img, v.value, code, &len))
		return fail(c, -EOPNOTSUPP, "the code of '%s' cannot be read", w->name);
	int n = accessor_decode(code, len, v.value, step);
	bool starts = n > 0 && (step[0].op == ACCESSOR_TP || step[0].op == ACCESSOR_BASE);
	if (n < 0 || starts != first)
		return fail(c, -EOPNOTSUPP, "'%s' does more than follow pointers", w->name);
	for (int i = 0; !rc && i < n; i++) {
		rc = settle(c);
		if (rc)
			break;
		switch (step[i].op) {
		case ACCESSOR_TP:
			rc = emit(c, (struct label_step){ .op = STEP_TP, .imm = step[i].imm });
			break;
		case ACCESSOR_BASE:
			rc = emit(c, (struct label_step){ .op = STEP_BASE, .imm = step[i].imm });
			break;
		case ACCESSOR_ADD:
			rc = emit(c, (struct label_step){ .op = STEP_ADD, .imm = step[i].imm });
			break;
		default:
			c->pending = true;
			c->pending_size = step[i].size;
			c->pending_at = step[i].imm;
		}
	}
	return rc;
}

static int compile_field(struct compiler *c, const struct recipe_word *w)
{
	char type[RECIPE_NAME_MAX];
	const char *dot = strchr(w->name, '.');
	uint64_t offset;
	memcpy(type, w->name, (size_t)(dot - w->name));
	type[dot - w->name] = 0;
	int rc = member_offset(c->img->fd, type, dot + 1, &offset);
	if (rc)
		return fail(c, rc,
			    rc == -ENOENT ? "its DWARF has no '%s'"
					  : "the DWARF that should have '%s' cannot be read",
			    w->name);
	return emit(c, (struct label_step){ .op = STEP_ADD, .imm = (int64_t)offset });
}

/* The saved addresses are those of the lets, in order. */
static uint16_t let_number(const struct recipe *r, uint32_t line)
{
	uint16_t n = 0;
	for (uint32_t i = 0; i < line; i++)
		n += !r->line[i].is_label;
	return n;
}

static int compile_number(struct compiler *c, const struct recipe_word *w)
{
	return emit(c, (struct label_step){ .op = STEP_NUMBER,
					    .len = w->len,
					    .flags = w->is_signed,
					    .imm = w->imm });
}

static int compile_word(struct compiler *c, const struct recipe_word *w, bool first)
{
	int rc = w->op == RECIPE_VALUE || w->op == RECIPE_VIA ? 0 : settle(c);
	if (rc)
		return rc;
	switch (w->op) {
	case RECIPE_SYMBOL:
		return compile_symbol(c, w);
	case RECIPE_FILE:
		return compile_offset(c, w);
	case RECIPE_VIA:
		return compile_via(c, w, first);
	case RECIPE_LET:
		return emit(c, (struct label_step){ .op = STEP_LOAD,
						    .len = let_number(c->recipe, w->arg) });
	case RECIPE_DEREF:
		return emit(c, (struct label_step){ .op = STEP_DEREF, .imm = w->imm });
	case RECIPE_ADD:
		return emit(c, (struct label_step){ .op = STEP_ADD, .imm = w->imm });
	case RECIPE_FIELD:
		return compile_field(c, w);
	case RECIPE_NUMBER:
		return compile_number(c, w);
	case RECIPE_VALUE:
		if (!c->pending)
			return fail(c, -EINVAL, "value: no function returns one here");
		c->pending = false;
		return emit(c, (struct label_step){ .op = STEP_NUMBER,
						    .len = c->pending_size,
						    .imm = c->pending_at });
	case RECIPE_CSTRING:
		return emit(
			c, (struct label_step){ .op = STEP_CSTRING, .len = w->len, .imm = w->imm });
	case RECIPE_BYTES:
		return emit(c,
			    (struct label_step){ .op = STEP_BYTES, .len = w->len, .imm = w->imm });
	case RECIPE_TEXT:
		rc = emit(c, (struct label_step){ .op = STEP_NUMBER, .len = 8, .imm = w->imm2 });
		rc = rc ? rc : emit(c, (struct label_step){ .op = STEP_DEREF, .imm = w->imm });
		return rc ? rc : emit(c, (struct label_step){ .op = STEP_TEXT, .len = w->len });
	case RECIPE_REQUIRE:
		rc = compile_number(c, w);
		if (!rc && w->arg)
			rc = emit(c, (struct label_step){ .op = STEP_AND, .imm = w->arg });
		return rc ? rc : emit(c, (struct label_step){ .op = STEP_EXPECT, .imm = w->imm2 });
	case RECIPE_REQUIRE_TP:
		rc = compile_number(c, w);
		return rc ? rc : emit(c, (struct label_step){ .op = STEP_EXPECT_TP });
	case RECIPE_MAIN:
		return emit(c, (struct label_step){ .op = STEP_MAIN });
	case RECIPE_AND:
		return emit(c, (struct label_step){ .op = STEP_AND, .imm = w->imm });
	case RECIPE_NONZERO:
		return emit(c, (struct label_step){ .op = STEP_EXPECT, .flags = 2 });
	case RECIPE_SHIFT:
		return emit(c, (struct label_step){ .op = STEP_SHIFT, .imm = w->imm });
	default:
		return fail(c, -EINVAL, "a step that is not known");
	}
}

static bool ends_in_number(const struct recipe_line *l)
{
	unsigned op = l->word[l->n_words - 1].op;
	return op == RECIPE_NUMBER || op == RECIPE_VALUE || op == RECIPE_AND ||
	       op == RECIPE_SHIFT || op == RECIPE_NONZERO;
}

static int compile_line(struct compiler *c, size_t number)
{
	const struct recipe_line *l = &c->recipe->line[number];
	uint16_t field = (uint16_t)c->out->n_fields;
	c->line = l;
	c->pending = false;
	if (l->is_label && field == FOREIGN_FIELDS_MAX)
		return fail(c, -E2BIG, "more than %d labels", FOREIGN_FIELDS_MAX);
	size_t begin = c->out->n_steps;
	int rc = emit(c, (struct label_step){ .op = STEP_FIELD });
	for (size_t i = 0; !rc && i < l->n_words; i++)
		rc = compile_word(c, &l->word[i], i == 0);
	rc = rc ? rc : settle(c);
	if (!rc && !l->is_label) {
		uint16_t n = let_number(c->recipe, (uint32_t)number);
		if (n >= LABEL_SAVED)
			return fail(c, -E2BIG, "more than %d lets", LABEL_SAVED);
		return emit(c, (struct label_step){ .op = STEP_SAVE, .len = n });
	}
	if (!rc && ends_in_number(l))
		rc = emit(c, (struct label_step){ .op = STEP_INT });
	for (size_t i = begin; i < c->out->n_steps; i++)
		c->out->step[i].field = field;
	struct foreign_field *f = &c->out->field[c->out->n_fields++];
	*f = (struct foreign_field){ .form = l->form, .names = l->names, .n_names = l->n_names };
	memcpy(f->key, l->key, sizeof(f->key));
	return rc;
}

int path_compile(struct path *ret, const struct recipe *r, const struct elf_image *img,
		 const char *path, struct err *err)
{
	struct compiler c = { .out = ret, .recipe = r, .img = img, .path = path, .err = err };
	int rc = 0;
	memset(ret, 0, sizeof(*ret));
	ret->recipe = r;
	for (size_t i = 0; !rc && i < r->n_lines; i++)
		rc = compile_line(&c, i);
	return rc;
}
