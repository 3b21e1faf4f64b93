/* SPDX-License-Identifier: Apache-2.0 */
#include "attribute/file_facts.h"

#include "elf/go.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 256u /* of the file's path, for messages and patterns */

static const char *const variable_names[] = {
	"otel_thread_ctx_v1",
	"otel_thread_ctx_nodejs_v1",
	"custom_labels_abi_version",
	"custom_labels_current_set",
	"custom_labels_thread_local_data",
	"elastic_apm_profiling_correlation_tls_v1",
	"context_tls_v1",
	"perforator_tls_*",
	NULL,
};

/* Both ends are this program on this machine: structures travel as they stand in memory. */

/* ---- variables and Go ---- */

static void read_facts(const struct elf_image *img, struct file_facts *f)
{
	/* All variables are thread-local, or stand beside one: most files need not be searched. */
	int n = img->tls.memsz ? elf_variables(img, variable_names, f->v, ELF_VARIABLES_MAX) : 0;
	f->n = n > 0 ? (uint32_t)n : 0;
	f->executable = elf_is_executable(img);
	f->musl = elf_uses_musl(img);
	f->go = f->executable ? elf_go_version(img) : 0;
	f->go_tls = f->go && elf_go_tls(img, &f->go_g);
	f->tls_size = img->tls.memsz;
	f->tls_align = img->tls_align ? img->tls_align : 1;
	f->machine = img->machine;
}

int file_facts_op(const struct sandbox_request *q, struct buf *out)
{
	struct elf_image img;
	int rc = q->n_fds ? elf_image_open(&img, q->fds[0], "file", NULL) : -EINVAL;
	if (rc)
		return rc;
	struct file_facts *f = calloc(1, sizeof(*f));
	if (f && !img.is_32)
		read_facts(&img, f);
	elf_image_fini(&img);
	rc = f ? buf_add(out, f, sizeof(*f)) : -ENOMEM;
	free(f);
	return rc;
}

static bool is_flag(const bool *b)
{
	unsigned char c;
	memcpy(&c, b, 1); /* any other byte is no bool */
	return c <= 1;
}

static bool is_variable(const struct elf_variable *v)
{
	return is_flag(&v->tls) && memchr(v->name, 0, sizeof(v->name)) &&
	       (unsigned)v->access <= ELF_ACCESS_MODULE;
}

int file_facts_decode(struct file_facts *ret, const struct buf *in)
{
	if (in->len != sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, in->data, sizeof(*ret));
	bool sound = is_flag(&ret->executable) && is_flag(&ret->musl) && is_flag(&ret->go_tls) &&
		     ret->n <= ELF_VARIABLES_MAX;
	for (uint32_t i = 0; sound && i < ret->n; i++)
		sound = is_variable(&ret->v[i]);
	return sound ? 0 : -EBADMSG;
}

/* ---- recipes ---- */

struct path_request {
	char path[PATH_BYTES];
	struct recipe recipe;
};

struct path_reply {
	struct elf_variable start;
	uint32_t n_steps;
	struct label_step step[LABEL_PATH_STEPS];
};

_Static_assert(sizeof(struct path_request) <= SANDBOX_REQUEST_MAX, "a recipe fits into a request");
_Static_assert(sizeof(struct path_reply) <= FILE_FACTS_REPLY_MAX, "a path fits into an answer");

int file_path_request(const struct recipe *r, const char *path, struct buf *out)
{
	char name[PATH_BYTES] = "";
	size_t len = strlen(path);
	memcpy(name, path, len < PATH_BYTES - 1 ? len : PATH_BYTES - 1);
	int rc = buf_add(out, name, sizeof(name));
	return rc ? rc : buf_add(out, r, sizeof(*r));
}

/* Names of numbers stay with the recorder. */
static void drop_pointers(struct recipe *r)
{
	for (size_t i = 0; i < RECIPE_LINES_MAX; i++) {
		r->line[i].names = NULL;
		r->line[i].n_names = 0;
	}
}

static int compile(const struct path_request *q, int fd, struct path *p, struct path_reply *reply,
		   struct err *err)
{
	struct elf_image img;
	if (elf_image_open(&img, fd, q->path, NULL))
		return -ENXIO;
	int rc = !img.is_32 && path_is_for(&q->recipe, &img)
			 ? path_compile(p, &q->recipe, &img, q->path, err)
			 : -ENXIO;
	elf_image_fini(&img);
	reply->start = p->start;
	reply->n_steps = (uint32_t)p->n_steps;
	memcpy(reply->step, p->step, p->n_steps * sizeof(p->step[0]));
	return rc;
}

int file_path_op(const struct sandbox_request *q, struct buf *out)
{
	struct err err = { 0 };
	if (!q->n_fds || q->len != sizeof(struct path_request))
		return -EINVAL;
	struct path_request *request = malloc(sizeof(*request));
	struct path *p = calloc(1, sizeof(*p));
	struct path_reply *reply = calloc(1, sizeof(*reply));
	int rc = request && p && reply ? 0 : -ENOMEM;
	if (!rc) {
		memcpy(request, q->bytes, sizeof(*request));
		drop_pointers(&request->recipe);
		rc = compile(request, q->fds[0], p, reply, &err);
	}
	int added =
		rc ? buf_add(out, err.text, strlen(err.text)) : buf_add(out, reply, sizeof(*reply));
	free(request);
	free(p);
	free(reply);
	return rc ? rc : added;
}

/* Fields are the labels of the recipe, in their order. */
static void set_fields(struct path *p, const struct recipe *r)
{
	for (size_t i = 0; i < r->n_lines; i++) {
		const struct recipe_line *l = &r->line[i];
		if (!l->is_label || p->n_fields == FOREIGN_FIELDS_MAX)
			continue;
		struct foreign_field *f = &p->field[p->n_fields++];
		*f = (struct foreign_field){ .form = l->form,
					     .names = l->names,
					     .n_names = l->n_names };
		memcpy(f->key, l->key, sizeof(f->key));
	}
}

int file_path_decode(struct path *ret, const struct recipe *r, const struct buf *in)
{
	struct path_reply *reply = in->len == sizeof(*reply) ? malloc(sizeof(*reply)) : NULL;
	if (!reply)
		return -EBADMSG;
	memcpy(reply, in->data, sizeof(*reply));
	memset(ret, 0, sizeof(*ret));
	ret->recipe = r;
	set_fields(ret, r);
	bool sound = reply->n_steps <= LABEL_PATH_STEPS && is_variable(&reply->start);
	for (uint32_t i = 0; sound && i < reply->n_steps; i++) {
		const struct label_step *s = &reply->step[i];
		/* A let behind the last label has the number of the next one. */
		sound = s->op >= STEP_FIELD && s->op <= STEP_TEXT && s->field <= ret->n_fields &&
			((s->op != STEP_SAVE && s->op != STEP_LOAD) || s->len < LABEL_SAVED);
	}
	if (sound) {
		ret->start = reply->start;
		ret->n_steps = reply->n_steps;
		memcpy(ret->step, reply->step, reply->n_steps * sizeof(ret->step[0]));
	}
	free(reply);
	return sound ? 0 : -EBADMSG;
}
