/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LLVM's sample profile as text, for clang -fprofile-sample-use and rustc -Zprofile-sample-use:
 *
 *   _Z4workP4item:812:0        a function, its samples, its calls (not known)
 *    3: 500                    so many samples 3 lines behind where it begins
 *    5: _Z4hashm:312           what was inlined there
 *     1: 312
 *
 * A sample counts at its leaf alone, if that lies in the program; frames above say what was inlined
 * where. Each sample is a path, from the function that has the code down to the innermost inlined
 * one. Sorted paths are the tree.
 */
#include "export/export.h"

#include "util/array.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET_MASK 0xffffu /* what LLVM keeps of a line's distance */

struct step {
	const struct start *function;
	uint32_t at; /* lines behind its beginning */
};

struct path {
	size_t first; /* of the steps */
	uint32_t n;
	uint64_t samples;
};

struct profile {
	const struct export_source *src;
	struct step *steps;
	struct path *paths;
	size_t n_steps, cap_steps, n_paths, cap_paths;
	FILE *f;
};

static const struct step *step_of(const struct profile *p, const struct path *of, uint32_t i)
{
	return &p->steps[of->first + i];
}

static int by_steps(const void *pa, const void *pb, void *ctx)
{
	const struct path *a = pa, *b = pb;
	for (uint32_t i = 0; i < a->n && i < b->n; i++) {
		const struct step *x = step_of(ctx, a, i), *y = step_of(ctx, b, i);
		int c = x->function == y->function
				? 0
				: strcmp(x->function->linked, y->function->linked);
		c = c ? c : (x->at > y->at) - (x->at < y->at);
		if (c)
			return c;
	}
	return (a->n > b->n) - (a->n < b->n);
}

/* ---- rows ---- */

/* Is the frame's code of the program? By its build id; without one, by its name. */
static bool is_of(const struct export_source *src, const struct store_frame *f)
{
	const char *id = starts_build_id(src->program->starts), *module;
	if (f->kind != FRAME_USER)
		return false;
	if (*id)
		return !strcmp(store_string(src->store, f->build_id, NULL), id);
	module = store_string(src->store, f->module, NULL);
	const char *slash = strrchr(module, '/');
	return !strcmp(slash ? slash + 1 : module, src->program->name);
}

/* False: the frame has no line, or the program no such function. */
static bool find_step(const struct export_source *src, const struct store_frame *f,
		      struct step *ret)
{
	ret->function = export_start(src, f);
	if (!ret->function || !f->line)
		return false;
	ret->at = (f->line - ret->function->line) & OFFSET_MASK;
	return true;
}

static int add_row(struct profile *p, const struct store_row *row)
{
	uint32_t frames[EXPORT_DEPTH_MAX + 1];
	const size_t depth = export_row_stack(p->src, row, frames);
	const size_t n = depth ? export_inlined(p->src->store, frames, depth) : 0;
	if (!n || !is_of(p->src, export_frame(p->src->store, frames[n - 1])))
		return 0;
	p->src->program->samples += row->samples;
	if (ARRAY_RESERVE(p->steps, p->cap_steps, p->n_steps + n) ||
	    ARRAY_RESERVE(p->paths, p->cap_paths, p->n_paths + 1))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (!find_step(p->src, export_frame(p->src->store, frames[n - 1 - i]),
			       &p->steps[p->n_steps + i])) {
			p->src->program->without += row->samples;
			return 0;
		}
	p->paths[p->n_paths++] = (struct path){ p->n_steps, (uint32_t)n, row->samples };
	p->n_steps += n;
	return 0;
}

/* ---- text ---- */

/* A name ends at a colon, a line at its end. */
static void put_name(const char *name, FILE *f)
{
	for (; *name; name++)
		putc(*name > ' ' && *name != ':' && *name != 0x7f ? *name : '_', f);
}

static uint64_t sum_of(const struct profile *p, size_t from, size_t to)
{
	uint64_t sum = 0;
	for (; from < to; from++)
		sum += p->paths[from].samples;
	return sum;
}

/* The end of the paths that, from `from` on, have the same function at step i; or place in it. */
static size_t end_of(const struct profile *p, size_t from, size_t to, uint32_t i, bool place)
{
	const struct step *a = step_of(p, &p->paths[from], i);
	size_t end = from;
	while (end < to) {
		const struct step *b = step_of(p, &p->paths[end], i);
		if (strcmp(a->function->linked, b->function->linked) != 0 ||
		    (place && a->at != b->at))
			break;
		end++;
	}
	return end;
}

/* The body of a function, which is step i of these paths. */
static void put_body(const struct profile *p, size_t from, size_t to, uint32_t i)
{
	for (size_t at = from, end; at < to; at = end) {
		const uint32_t place = step_of(p, &p->paths[at], i)->at;
		size_t inlined = end = end_of(p, at, to, i, true);
		for (inlined = at; inlined < end && p->paths[inlined].n == i + 1; inlined++)
			;
		if (inlined > at)
			fprintf(p->f, "%*s%u: %" PRIu64 "\n", (int)i + 1, "", place,
				sum_of(p, at, inlined));
		for (size_t next; inlined < end; inlined = next) {
			next = end_of(p, inlined, end, i + 1, false);
			fprintf(p->f, "%*s%u: ", (int)i + 1, "", place);
			put_name(step_of(p, &p->paths[inlined], i + 1)->function->linked, p->f);
			fprintf(p->f, ":%" PRIu64 "\n", sum_of(p, inlined, next));
			put_body(p, inlined, next, i + 1);
		}
	}
}

static void put_functions(const struct profile *p)
{
	for (size_t at = 0, end; at < p->n_paths && !ferror(p->f); at = end) {
		end = end_of(p, at, p->n_paths, 0, false);
		put_name(step_of(p, &p->paths[at], 0)->function->linked, p->f);
		fprintf(p->f, ":%" PRIu64 ":0\n", sum_of(p, at, end));
		put_body(p, at, end, 0);
	}
}

int export_llvm_prof(const struct export_source *src, enum export_unit unit, FILE *f,
		     struct err *err)
{
	struct profile p = { .src = src, .f = f };
	size_t n;
	const struct store_row *rows = query_rows(src->query, &n);
	int rc = 0;
	(void)unit; /* samples */
	errno = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_row(&p, &rows[i]);
	if (rc) {
		err_set(err, rc, "out of memory");
	} else if (!p.n_paths) {
		rc = err_set(err, -ENODATA,
			     src->program->samples
				     ? "%s: no sample in it has a line: were its inlined calls and "
				       "lines recorded?"
				     : "%s: no sample is in its code: is it the build that was "
				       "recorded?",
			     src->program->name);
	} else {
		qsort_r(p.paths, p.n_paths, sizeof(*p.paths), by_steps, &p);
		put_functions(&p);
		if (ferror(f) || fflush(f))
			rc = err_sys(err, errno ? -errno : -EIO, "llvm-prof");
	}
	free(p.paths);
	free(p.steps);
	return rc;
}
