/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention: whole files go, by age of their level (age.c). Then, while the store is larger than
 * its cap or the disk is full, the finest level goes, and of it what was written first. The
 * manifest says so before anything is unlinked.
 */
#include "store/write/writer_int.h"

#include "store/file/reserve.h"
#include "store/writer.h"
#include "util/array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RETAIN_EVERY_NS (60 * SECOND_NS)
#define CAP_MAX (10ull << 30)
#define RESERVE_MAX (64ull << 20)

int retain_reserve(struct store_writer *w, size_t more)
{
	return ARRAY_RESERVE(w->gone, w->gone_cap, w->n_gone + more);
}

static uint64_t file_bytes(const struct store *s, struct place p)
{
	char name[FILE_NAME_SIZE];
	struct stat st;
	file_name(name, p);
	return fstatat(s->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) ? 0 : (uint64_t)st.st_size;
}

static struct place segment_place(const struct segment *g)
{
	return (struct place){ KIND_BLOCKS, g->m.serial, g->m.level };
}

/* With its dictionaries. */
static uint64_t segment_bytes(const struct store_writer *w, const struct segment *g)
{
	if (g->m.state == SEGMENT_SEALED)
		return g->m.end;
	if (g->m.state == SEGMENT_OPEN)
		return g->file.end + w->out[g->m.level].file.end;
	return file_bytes(&w->s, segment_place(g)) +
	       file_bytes(&w->s, (struct place){ KIND_SYMBOLS, g->m.serial, g->m.level });
}

static uint64_t store_bytes(const struct store_writer *w)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < w->s.n_segments; i++)
		sum += segment_bytes(w, &w->s.segments[i]);
	return sum;
}

static bool complete(const struct segment *g)
{
	return g->m.state != SEGMENT_OPEN;
}

/* Blocks without a parent that lie in it have no parent any more to wait for. */
static void forget_pending(struct store_writer *w, size_t segment)
{
	for (int k = 0; k <= N_LEVELS; k++) {
		struct pending *p = k < N_LEVELS ? &w->pending[k] : &w->unposted;
		size_t n = 0;
		for (size_t i = 0; i < p->n; i++) {
			if (p->v[i].segment == segment)
				continue;
			p->v[n] = p->v[i];
			p->v[n].segment -= p->v[n].segment > segment;
			n++;
		}
		p->n = n;
	}
}

static int cut(struct store_writer *w, size_t i, bool by_age, int64_t now_ns)
{
	struct store *s = &w->s;
	struct segment *g = &s->segments[i];
	struct store_cut *c = &s->manifest.cuts[g->m.level];
	uint64_t bytes = segment_bytes(w, g);
	int rc = retain_reserve(w, 2);
	if (rc)
		return rc;
	w->gone[w->n_gone++] = segment_place(g);
	if (g->m.state != SEGMENT_SEALED)
		w->gone[w->n_gone++] = (struct place){ KIND_SYMBOLS, g->m.serial, g->m.level };
	c->blocks += g->m.n_blocks;
	*(by_age ? &c->bytes_by_age : &c->bytes_by_size) += bytes;
	/* A time to come, of a clock that was wrong, says nothing about what is older than it. */
	if (g->m.n_blocks && g->m.t1_ns > c->before_ns && g->m.t1_ns <= now_ns)
		c->before_ns = g->m.t1_ns;
	forget_pending(w, i);
	store_drop_segment(s, i);
	return 0;
}

static int64_t keep_ns(const struct store_writer *w, uint8_t level)
{
	return w->opt.recent_ns ? w->opt.recent_ns
				: w->opt.keep_ns[level == LEVEL_POSTINGS ? 0 : level];
}

static int cut_by_age(struct store_writer *w, int64_t now_ns, int64_t boot_ns)
{
	int rc = age_date(w);
	int64_t now = age_now(w, boot_ns);
	/* The oldest first: one that cannot be read has the age of the next one. */
	for (size_t i = 0; !rc && i < w->s.n_segments;) {
		const struct segment *g = &w->s.segments[i];
		int64_t keep = keep_ns(w, g->m.level);
		if (complete(g) && keep && age_of_segment(w, i, now) > keep)
			rc = cut(w, i, true, now_ns);
		else
			i++;
	}
	return rc;
}

/*
 * The finest level that has a file to spare, and the first that was made of it; postings go with
 * the windows they are about.
 */
static bool finest(const struct store *s, size_t *ret)
{
	bool found = false;
	for (size_t i = 0; i < s->n_segments; i++) {
		const struct manifest_segment *m = &s->segments[i].m, *best = &s->segments[*ret].m;
		int level = m->level == LEVEL_POSTINGS ? 0 : m->level;
		int best_level = best->level == LEVEL_POSTINGS ? 0 : best->level;
		if (!complete(&s->segments[i]))
			continue;
		if (!found || level < best_level ||
		    (level == best_level && m->serial < best->serial))
			*ret = i;
		found = true;
	}
	return found;
}

uint64_t retain_cap(const struct store_writer *w)
{
	struct statvfs v;
	if (w->opt.max_bytes)
		return w->opt.max_bytes;
	if (fstatvfs(w->s.dir_fd, &v))
		return CAP_MAX;
	uint64_t tenth = (uint64_t)v.f_blocks * v.f_frsize / 10;
	return tenth < CAP_MAX ? tenth : CAP_MAX;
}

static int cut_by_size(struct store_writer *w, int64_t now_ns)
{
	uint64_t bytes = store_bytes(w);
	int rc = 0;
	while (!rc && bytes > w->cap) {
		size_t i = 0;
		if (!finest(&w->s, &i))
			break;
		bytes -= segment_bytes(w, &w->s.segments[i]);
		rc = cut(w, i, false, now_ns);
	}
	return rc;
}

void retain_unlink(struct store_writer *w)
{
	size_t left = 0;
	for (size_t i = 0; i < w->n_gone; i++) {
		char name[FILE_NAME_SIZE];
		const struct place p = w->gone[i];
		file_name(name, p);
		if (unlinkat(w->s.dir_fd, name, 0) && errno != ENOENT)
			w->gone[left++] = p;
	}
	w->n_gone = left;
}

static int retain(struct store_writer *w, int64_t now_ns, int64_t boot_ns, struct err *err)
{
	int rc = cut_by_age(w, now_ns, boot_ns);
	if (!rc)
		rc = cut_by_size(w, now_ns);
	if (rc)
		rc = err_sys(err, rc, "cannot cut %s", w->s.dir);
	/*
	 * They are off the lists of this writer: the manifest must follow, at the next time if not
	 * now.
	 */
	if (w->n_gone) {
		int saved = writer_save_manifest(w, err);
		if (!saved)
			retain_unlink(w);
		rc = rc ? rc : saved;
	}
	return rc;
}

int retain_due(struct store_writer *w, int64_t now_ns, int64_t boot_ns, struct err *err)
{
	bool soon = w->retain_after_ns > now_ns && w->retain_after_ns - now_ns <= RETAIN_EVERY_NS;
	if (soon && store_bytes(w) <= w->cap)
		return 0;
	w->cap = retain_cap(w);
	w->retain_after_ns = now_ns + RETAIN_EVERY_NS;
	int rc = retain(w, now_ns, boot_ns, err);
	reserve_keep(w->s.dir_fd);
	return rc;
}

static uint64_t reserve_of(const struct store_writer *w, const struct statvfs *v)
{
	uint64_t hundredth = (uint64_t)v->f_blocks * v->f_frsize / 100;
	return w->opt.reserve_bytes	 ? w->opt.reserve_bytes
	       : hundredth < RESERVE_MAX ? hundredth
					 : RESERVE_MAX;
}

bool retain_make_room(struct store_writer *w, int64_t now_ns)
{
	struct statvfs v;
	for (;;) {
		size_t i = 0;
		if (fstatvfs(w->s.dir_fd, &v) ||
		    (uint64_t)v.f_bavail * v.f_frsize >= reserve_of(w, &v))
			return true;
		if (!finest(&w->s, &i) || cut(w, i, false, now_ns) || writer_save_manifest(w, NULL))
			return false;
		retain_unlink(w);
		w->state.shed++;
	}
}
