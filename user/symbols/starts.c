/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/starts.h"

#include "elf/image.h"
#include "symbols/dwarf_name.h"
#include "symbols/lines.h"
#include "symbols/names.h"
#include "util/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_MS 60000u
#define REPLY_MAX (64u << 20)
#define WORKER_BYTES (1ul << 30)
#define ID_TEXT_MAX (2 * ELF_BUILD_ID_MAX + 1)

/* ---- in a worker: build id, then linked name, file, line of each function ---- */

static int add_text(struct buf *out, const char *s, size_t len)
{
	int rc = buf_add_u32(out, (uint32_t)len);
	return rc ? rc : buf_add(out, s, len);
}

static const char *base_of(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path ? path : "";
}

struct listing {
	struct buf *out;
	int rc;
};

static int list_function(Dwarf_Die *die, void *ctx)
{
	struct listing *l = ctx;
	const char *name = dwarf_function_name(die), *file = base_of(dwarf_decl_file(die));
	const size_t len = strlen(name), file_len = strnlen(file, LINE_TEXT_MAX);
	int line;
	if (dwarf_decl_line(die, &line) || line <= 0 || !len || len > LINE_TEXT_MAX)
		return DWARF_CB_OK;
	if (l->out->len > REPLY_MAX - 3 * LINE_TEXT_MAX)
		l->rc = -E2BIG;
	l->rc = l->rc ? l->rc : add_text(l->out, name, len);
	l->rc = l->rc ? l->rc : add_text(l->out, file, file_len);
	l->rc = l->rc ? l->rc : buf_add_u32(l->out, (uint32_t)line);
	return l->rc ? DWARF_CB_ABORT : DWARF_CB_OK;
}

static int list_build_id(int fd, struct buf *out)
{
	struct elf_image img;
	char text[ID_TEXT_MAX] = "";
	int rc = elf_image_open(&img, fd, "file", NULL);
	if (rc)
		return rc;
	for (size_t i = 0; i < img.build_id_len; i++)
		snprintf(text + 2 * i, 3, "%02x", img.build_id[i]);
	elf_image_fini(&img);
	return add_text(out, text, strlen(text));
}

int starts_op(const struct sandbox_request *q, struct buf *out)
{
	struct listing l = { .out = out };
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	Dwarf *dwarf;
	int more = 0;
	if (!q->n_fds)
		return -EINVAL;
	l.rc = list_build_id(q->fds[0], out);
	if (l.rc)
		return l.rc;
	l.rc = lines_dwarf(q->fds[0], &dwarf);
	if (l.rc)
		return l.rc == -E2BIG ? l.rc : -ENODATA;
	while (!l.rc && !(more = dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, NULL)))
		if (dwarf_getfuncs(&die, list_function, &l, 0) < 0 && !l.rc)
			l.rc = -EBADMSG;
	return more < 0 ? -EBADMSG : l.rc;
}

/* ---- who asks ---- */

struct starts {
	char build_id[ID_TEXT_MAX];
	struct start *v; /* by their shown name */
	size_t n, cap;
};

static int by_shown(const void *pa, const void *pb)
{
	const struct start *a = pa, *b = pb;
	int c = strcmp(a->shown, b->shown);
	c = c ? c : strcmp(a->file, b->file);
	return c ? c : (a->line > b->line) - (a->line < b->line);
}

/* NULL: it lies. Texts have no zeros. */
static char *take_text(struct cursor *c)
{
	const size_t len = cursor_u32(c);
	const uint8_t *p = len <= LINE_TEXT_MAX ? cursor_bytes(c, len) : NULL;
	return p && !memchr(p, 0, len) ? strndup((const char *)p, len) : NULL;
}

static int take_function(struct starts *s, struct cursor *c)
{
	char long_name[LINE_TEXT_MAX * 4], name[LINE_TEXT_MAX * 4];
	if (ARRAY_RESERVE(s->v, s->cap, s->n + 1))
		return -ENOMEM;
	struct start *f = &s->v[s->n++];
	*f = (struct start){ .linked = take_text(c) };
	f->file = f->linked ? take_text(c) : NULL;
	f->line = cursor_u32(c);
	if (!f->file || c->bad)
		return -EBADMSG;
	symbol_demangle(f->linked, long_name, sizeof(long_name));
	name_fold_clones(long_name, name, sizeof(name));
	f->shown = strdup(name);
	return f->shown ? 0 : -ENOMEM;
}

int starts_decode(struct starts **ret, const struct buf *answer)
{
	struct starts *s = calloc(1, sizeof(*s));
	struct cursor c = cursor_of(answer);
	char *id = take_text(&c);
	int rc = !s ? -ENOMEM : id && strlen(id) < sizeof(s->build_id) ? 0 : -EBADMSG;
	if (!rc)
		strcpy(s->build_id, id);
	free(id);
	while (!rc && cursor_left(&c))
		rc = take_function(s, &c);
	rc = rc || s->n ? rc : -ENODATA;
	if (rc) {
		starts_free(s);
		return rc;
	}
	qsort(s->v, s->n, sizeof(*s->v), by_shown);
	*ret = s;
	return 0;
}

static int ask(int fd, struct buf *reply, struct err *err)
{
	static const sandbox_op ops[] = { starts_op };
	const struct sandbox_config cfg = {
		.ops = ops, .n_ops = 1, .memory = WORKER_BYTES, .serves = 1
	};
	const struct sandbox_call call = { .lane = SANDBOX_KEEPING_LANE,
					   .fds = &fd,
					   .n_fds = 1,
					   .deadline_ms = READ_MS,
					   .max_reply = REPLY_MAX };
	struct sandbox *s = NULL;
	int rc = sandbox_new(&s, &cfg, err);
	if (rc)
		return rc;
	rc = sandbox_ask(s, &call, reply);
	sandbox_free(s);
	return rc;
}

int starts_read(struct starts **ret, int fd, struct err *err)
{
	struct buf reply = BUF_INIT;
	int rc = ask(fd, &reply, err);
	rc = rc ? rc : starts_decode(ret, &reply);
	buf_fini(&reply);
	if (rc == -ENODATA)
		return err_set(err, rc,
			       "it has no DWARF that says in which lines functions begin: compile "
			       "with -g (Go: 1.20 or newer), or name its debug file");
	return rc ? err_sys(err, rc, "cannot read its functions") : 0;
}

void starts_free(struct starts *s)
{
	for (size_t i = 0; s && i < s->n; i++) {
		free((char *)s->v[i].linked);
		free((char *)s->v[i].shown);
		free((char *)s->v[i].file);
	}
	if (s)
		free(s->v);
	free(s);
}

const char *starts_build_id(const struct starts *s)
{
	return s->build_id;
}

const struct start *starts_find(const struct starts *s, const char *shown, const char *file)
{
	char name[LINE_TEXT_MAX * 4];
	size_t low = 0, high = s->n;
	name_fold_clones(shown, name, sizeof(name));
	while (low < high) {
		const size_t mid = low + (high - low) / 2;
		if (strcmp(s->v[mid].shown, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	const struct start *first = NULL;
	for (; low < s->n && !strcmp(s->v[low].shown, name); low++) {
		if (!strcmp(s->v[low].file, base_of(file)))
			return &s->v[low];
		first = first ? first : &s->v[low];
	}
	return first;
}
