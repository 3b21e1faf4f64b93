/* SPDX-License-Identifier: Apache-2.0 */
/* What files have of the ABIs, and of recipes: read once for each content, by a worker. */
#include "ascribe/label_key.h"
#include "attribute/sources_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FACTS_MAX 16384 /* contents remembered; beyond, all are found out again */

static void facts_free(struct facts *f)
{
	symbolizer_cancel(&f->job);
	for (struct file_path *p = f->paths, *next; p; p = next) {
		next = p->next;
		free(p);
	}
	free(f);
}

void source_facts_forget(struct sources *s)
{
	for (size_t b = 0; b < FACTS_BUCKETS; b++) {
		for (struct facts *f = s->facts[b], *next; f; f = next) {
			next = f->next;
			facts_free(f);
		}
		s->facts[b] = NULL;
	}
	s->n_facts = 0;
}

static struct file_path *add_file_path(struct sources *s, const struct path *p)
{
	struct file_path *f = malloc(sizeof(*f) + p->n_fields * sizeof(p->field[0]));
	uint32_t n = 0;
	if (!f)
		return NULL;
	*f = (struct file_path){ .step = sources_add_steps(s, p->step, (uint32_t)p->n_steps, &n),
				 .start = p->start,
				 .n_fields = p->n_fields };
	f->n_steps = n;
	memcpy(f->field, p->field, p->n_fields * sizeof(p->field[0]));
	for (uint32_t i = f->step; i < f->step + n; i++) {
		struct label_step *step = &s->steps[i];
		step->is_key = *s->key && step->field < f->n_fields &&
			       !strcmp(f->field[step->field].key, s->key);
	}
	if (!n)
		err_set(&s->warning, -E2BIG, "%s: no room for more label paths", p->recipe->name);
	return f;
}

/* What a recipe's path leads to in this file. Late: not now. */
static int read_path(struct sources *s, const struct proc_image *im, const struct proc_map *m,
		     struct symbols_job *io_job, const struct recipe *r, struct file_path **ret)
{
	struct buf request = BUF_INIT, reply = BUF_INIT;
	struct path *p = malloc(sizeof(*p));
	int rc = p ? file_path_request(r, m->file->path, &request) : -ENOMEM;
	const struct sandbox_call c = { .lane = 1,
					.op = FILE_PATH_OP,
					.priority = PRIORITY_LABELS,
					.bytes = request.data,
					.len = request.len,
					.max_reply = FILE_FACTS_REPLY_MAX };
	rc = rc ? rc : resolver_parse(s->resolver, im, m, io_job, &c, &reply);
	/* Of ours nothing is said: that a program has the name of another is no mistake. */
	if (rc && reply.len && strcmp(r->source, RECIPES_BUILT_IN) != 0)
		err_set(&s->warning, rc, "%.*s", (int)reply.len, (const char *)reply.data);
	rc = rc ? rc : file_path_decode(p, r, &reply);
	*ret = rc ? NULL : add_file_path(s, p);
	buf_fini(&request);
	buf_fini(&reply);
	free(p);
	return rc;
}

static int read_paths(struct sources *s, const struct proc_image *im, const struct proc_map *m,
		      struct facts *f)
{
	struct file_path **last = &f->paths;
	while (*last)
		last = &(*last)->next;
	for (; f->path && f->n_recipes < s->recipes->n; f->n_recipes++) {
		const struct recipe *r = s->recipes->v[f->n_recipes];
		int rc = r->n_lines && recipe_is_for(r, m->file->path)
				 ? read_path(s, im, m, &f->job, r, last)
				 : 0;
		if (symbols_is_late(rc) || rc == -ENODATA)
			return rc;
		if (*last)
			last = &(*last)->next;
	}
	return 0;
}

static int read_file(struct sources *s, const struct proc_image *im, const struct proc_map *m,
		     struct facts *f)
{
	const struct sandbox_call c = { .op = FILE_FACTS_OP,
					.priority = PRIORITY_LABELS,
					.max_reply = FILE_FACTS_REPLY_MAX };
	struct buf reply = BUF_INIT;
	int rc = f->read ? 0 : resolver_parse(s->resolver, im, m, &f->job, &c, &reply);
	if (!rc && !f->read && file_facts_decode(&f->file, &reply))
		f->file = (struct file_facts){ 0 };
	buf_fini(&reply);
	if (symbols_is_late(rc) || rc == -ENODATA)
		return rc;
	f->read = true; /* what cannot be read has nothing */
	return read_paths(s, im, m, f);
}

/* Is there a recipe for files of this path? */
static bool has_recipe(const struct sources *s, const char *path)
{
	for (size_t i = 0; s->recipes && i < s->recipes->n; i++)
		if (s->recipes->v[i]->n_lines && recipe_is_for(s->recipes->v[i], path))
			return true;
	return false;
}

static struct facts *facts_get(struct sources *s, const uint8_t *content, const char *path)
{
	uint64_t hash, seen = ascribe_hash(0, path, strlen(path)) | 1;
	memcpy(&hash, content + 8, sizeof(hash));
	struct facts **b = &s->facts[hash * 0x9e3779b97f4a7c15ull >> 54 & (FACTS_BUCKETS - 1)], *f;
	for (f = *b; f; f = f->next)
		if (f->seen == seen && !memcmp(f->content, content, RESOLVER_CONTENT))
			return f;
	uint64_t of_path = has_recipe(s, path) ? seen : 0;
	for (f = *b; f && (f->path != of_path || memcmp(f->content, content, RESOLVER_CONTENT));)
		f = f->next;
	if (f) {
		f->seen = seen;
		return f;
	}
	if (s->n_facts >= FACTS_MAX)
		source_facts_forget(s);
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	memcpy(f->content, content, RESOLVER_CONTENT);
	f->path = of_path;
	f->seen = seen;
	f->next = *b;
	*b = f;
	s->n_facts++;
	return f;
}

const struct facts *source_facts_of(struct sources *s, const struct proc_image *im,
				    const struct proc_map *m, bool *ret_late)
{
	const uint8_t *content =
		m->file->path[0] == '/' ? resolver_content(s->resolver, im, m) : NULL;
	struct facts *f = content ? facts_get(s, content, m->file->path) : NULL;
	*ret_late = !content && resolver_is_late(m);
	if (!f)
		return NULL;
	bool known = f->read && (!f->path || f->n_recipes == s->recipes->n);
	if (!known && !symbols_is_due(&f->again)) {
		*ret_late = true;
		return NULL;
	}
	int rc = known ? 0 : read_file(s, im, m, f);
	if (symbols_is_late(rc) && !symbols_put_off(&f->again, rc)) {
		/* That was the last time: it has what was found */
		f->read = true;
		f->n_recipes = s->recipes ? s->recipes->n : 0;
		rc = 0;
	}
	*ret_late = symbols_is_late(rc);
	return rc ? NULL : f;
}
