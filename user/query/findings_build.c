/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which programs and libraries run in another build than before, by the build ids of their frames.
 */
#include "query/findings_int.h"
#include "util/array.h"
#include "util/idset.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BUILDS_MAX 4096 /* files that are looked at */
#define TOLD_MAX 8	/* new builds that are told */

/* A file as it was seen: both are strings of the store. */
struct build {
	uint32_t file, id;
};

struct builds {
	struct build *v;
	size_t n, cap;
};

static int add(struct builds *b, uint32_t file, uint32_t id)
{
	for (size_t i = b->n; i-- > 0;)
		if (b->v[i].file == file && b->v[i].id == id)
			return 0;
	if (b->n == BUILDS_MAX)
		return 0;
	int rc = ARRAY_RESERVE(b->v, b->cap, b->n + 1);
	if (!rc)
		b->v[b->n++] = (struct build){ file, id };
	return rc;
}

static int by_file(const void *pa, const void *pb)
{
	const struct build *a = pa, *b = pb;
	return a->file != b->file ? (a->file < b->file ? -1 : 1)
				  : (a->id > b->id) - (a->id < b->id);
}

/* Add the files of all frames in the stacks of a query; each node is visited once. */
static int see(struct looking *l, struct query *q, struct builds *b)
{
	struct idset nodes, frames;
	size_t n;
	const struct store_row *rows = query_rows(q, &n);
	int rc = idset_init(&nodes, store_n_stacks(l->store));
	int rc2 = idset_init(&frames, store_n_frames(l->store));
	rc = rc ? rc : rc2;
	for (size_t i = 0; !rc && i < n; i++) {
		uint32_t at = rows[i].stack, frame;
		while (!rc && at && at < store_n_stacks(l->store) && !idset_has(&nodes, at)) {
			idset_add(&nodes, at);
			store_stack(l->store, at, &at, &frame);
			const struct store_frame *f = store_frame(l->store, frame);
			if (!f || idset_has(&frames, frame))
				continue;
			idset_add(&frames, frame);
			if (f->kind == FRAME_USER && f->build_id &&
			    *store_string(l->store, f->module, NULL) == '/')
				rc = add(b, f->module, f->build_id);
		}
	}
	idset_fini(&nodes);
	idset_fini(&frames);
	return rc ? err_set(l->err, rc, "out of memory") : 0;
}

static int read_builds(struct looking *l, int64_t from_ns, int64_t to_ns, struct builds *b)
{
	struct query *q = NULL;
	struct query_spec spec = { .where = l->spec->where,
				   .from_ns = from_ns,
				   .to_ns = to_ns,
				   .labels = QUERY_NO_LABELS,
				   .by_start = true };
	int rc = query_open(&q, l->store, &spec, l->err);
	rc = rc ? rc : see(l, q, b);
	query_close(q);
	return rc;
}

/* Return another build of the same file. NULL: there is none, or this build was there, too. */
static const struct build *other_build(const struct builds *before, const struct build *b)
{
	const struct build *other = NULL;
	for (size_t i = 0; i < before->n; i++) {
		if (before->v[i].file != b->file)
			continue;
		if (before->v[i].id == b->id)
			return NULL;
		other = &before->v[i];
	}
	return other;
}

int findings_builds(struct looking *l)
{
	struct builds now = { 0 }, before = { 0 };
	size_t told = 0;
	uint32_t last = 0; /* a file that has several new builds is told once */
	int rc = read_builds(l, l->from_ns, l->to_ns, &now);
	rc = rc ? rc : read_builds(l, l->before_ns, l->from_ns, &before);
	if (now.n)
		qsort(now.v, now.n, sizeof(*now.v), by_file);
	for (size_t i = 0; !rc && i < now.n && told < TOLD_MAX; i++) {
		const struct build *other = other_build(&before, &now.v[i]);
		struct finding f = { .kind = FINDING_BUILD, .now = NAN, .before = NAN, .day = NAN };
		if (!other || now.v[i].file == last)
			continue;
		last = now.v[i].file;
		rc = findings_keep(l, store_string(l->store, now.v[i].file, NULL), &f.value);
		rc = rc ? rc
			: findings_keep(l, store_string(l->store, now.v[i].id, NULL), &f.build[0]);
		rc = rc ? rc
			: findings_keep(l, store_string(l->store, other->id, NULL), &f.build[1]);
		rc = rc ? rc : findings_add(l, &f);
		told++;
	}
	free(now.v);
	free(before.v);
	return rc;
}
