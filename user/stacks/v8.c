/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/v8.h"

#include "proc/v8.h"
#include "stacks/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A process that runs V8: its proc_image.layer[PROC_V8]. */
struct state {
	struct v8s *of;
	uint32_t layout; /* 1 + index; 0: none */
	struct words_told told;
};

struct place {
	struct v8_layout layout;
	uint32_t refs; /* processes */
	uint32_t user; /* who is charged */
};

struct v8s {
	struct words words;
	struct place place[V8_LAYOUTS];
	struct quota quota;	 /* of places */
	struct v8_layout *table; /* NULL: none */
	struct v8s_stats stats;
};

/* ---- life ---- */

static void on_end(void *ctx, struct proc_image *im)
{
	(void)ctx;
	struct state *s = im->layer[PROC_V8];
	struct place *p = s->layout ? &s->of->place[s->layout - 1] : NULL;
	if (p && !--p->refs)
		quota_give(&s->of->quota, p->user, 1);
	free(s);
	im->layer[PROC_V8] = NULL;
}

int v8s_new(struct v8s **ret, struct store_writer *w, struct procs *procs)
{
	struct v8s *v = calloc(1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	words_init(&v->words, w, procs);
	v->quota.max = V8_LAYOUTS;
	procs_on_end(procs, PROC_V8, on_end, v);
	*ret = v;
	return 0;
}

void v8s_note_reasons(struct v8s *v, struct frame_reasons *r)
{
	v->words.reasons = r;
}

void v8s_share(struct v8s *v, struct v8_layout *table)
{
	v->table = table;
}

void v8s_free(struct v8s *v)
{
	if (!v)
		return;
	words_fini(&v->words);
	free(v);
}

void v8s_stats(const struct v8s *v, struct v8s_stats *ret)
{
	*ret = v->stats;
	ret->forgotten = v->words.forgotten;
}

/* ---- processes ---- */

/*
 * 1 + the index of a layout, which has one reference more; 0: there is no place. A program that
 * still reads a place which another one gets finds no functions by it: it looks at their types.
 */
static uint32_t take_place(struct v8s *v, const struct v8_layout *l, uint32_t user)
{
	struct place *unused = NULL;
	for (struct place *p = v->place; p < v->place + V8_LAYOUTS; p++) {
		if (p->refs && !memcmp(&p->layout, l, sizeof(*l))) {
			p->refs++;
			return (uint32_t)(p - v->place) + 1;
		}
		unused = p->refs || unused ? unused : p;
	}
	if (!unused || !quota_take(&v->quota, user, 1))
		return 0;
	*unused = (struct place){ *l, 1, user };
	v->table[unused - v->place] = *l;
	return (uint32_t)(unused - v->place) + 1;
}

void v8s_found(struct v8s *v, struct proc_image *im, const struct binary_v8 *b)
{
	struct state *s = im->layer[PROC_V8];
	if (s || !v->table || !(s = calloc(1, sizeof(*s))))
		return;
	s->of = v;
	im->layer[PROC_V8] = s;
	if (b->missing[0]) {
		memcpy(v->stats.missing, b->missing, sizeof(b->missing));
		v->stats.unknown++;
		return;
	}
	s->layout = take_place(v, &b->layout, proc_image_user(im));
	v->stats.programs += s->layout != 0;
	v->stats.no_room += !s->layout;
}

bool v8s_knows(const struct proc_image *im)
{
	return im->layer[PROC_V8];
}

uint32_t v8s_layout(const struct proc_image *im)
{
	const struct state *s = im->layer[PROC_V8];
	return s ? s->layout : 0;
}

/* ---- names ---- */

int v8s_unnamed(struct v8s *v, uint32_t *ret)
{
	return words_add_frame(&v->words, "[node]", "[node]", "", 0, ret);
}

static int add_frame(struct v8s *v, const struct v8_name *n, uint32_t *ret)
{
	const char *file = strncmp(n->file, "file://", 7) != 0 ? n->file : n->file + 7,
		   *base = strrchr(file, '/');
	char anonymous[V8_TEXT_MAX + 32];
	base = base ? base + 1 : file;
	/* There are many of these: told apart by their place, as with V8's own maps */
	snprintf(anonymous, sizeof(anonymous), n->line ? "(anonymous %s:%u)" : "(anonymous %s@%u)",
		 base, n->line ? n->line : n->place);
	return words_add_frame(&v->words, n->function[0] ? n->function : anonymous, "[node]", file,
			       n->line, ret);
}

int v8s_frame(struct v8s *v, const struct proc_image *im, uint64_t word, uint32_t *ret)
{
	const struct state *s = im->layer[PROC_V8];
	struct v8_name name;
	size_t n;
	const uint32_t *known = words_find(&v->words, im, word, &n);
	if (known) {
		*ret = *known;
		return 0;
	}
	if (!s || !s->layout)
		return -ENOENT;
	int rc = proc_v8_name(im->tgid, &v->place[s->layout - 1].layout, word, &name);
	if (rc == -EINPROGRESS)
		return rc;
	v->stats.stale += rc != 0;
	if (rc || add_frame(v, &name, ret))
		return -ENOENT;
	v->stats.names++;
	words_keep(&v->words, (struct proc_image *)im, word, ret, 1);
	return 0;
}

void v8s_told(struct v8s *v, const struct proc_image *im, uint64_t word)
{
	struct state *s = im ? im->layer[PROC_V8] : NULL;
	uint32_t frame;
	if (s && V8_IS_FRAME(word) && words_told(&s->told))
		v8s_frame(v, im, word, &frame);
}

int v8s_renewed(struct v8s *v)
{
	return words_renewed(&v->words);
}

void v8s_forget(struct v8s *v)
{
	words_forget(&v->words);
}
