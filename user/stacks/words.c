/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/words.h"

#include "util/array.h"
#include "util/clock.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool words_told(struct words_told *t)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC) / 1000000000;
	if (t->second != now)
		*t = (struct words_told){ .second = now };
	return t->n++ < WORDS_TOLD_MAX;
}

void words_init(struct words *w, struct store_writer *store, struct procs *procs)
{
	*w = (struct words){ .store = store, .procs = procs, .quota = { .max = WORDS_MAX } };
}

void words_fini(struct words *w)
{
	free(w->names);
	free(w->frames);
	idhash_fini(&w->hash);
}

static bool same_name(const void *ctx, uint32_t id, const void *key)
{
	const struct word_name *a = &((const struct words *)ctx)->names[id], *b = key;
	return a->word == b->word && a->from_ns == b->from_ns && a->tgid == b->tgid;
}

static uint32_t hash_of(struct words *w, const struct word_name *n)
{
	const uint64_t key[3] = { n->word, n->from_ns, n->tgid };
	return idhash_hash(&w->hash, key, sizeof(key));
}

const uint32_t *words_find(struct words *w, const struct proc_image *im, uint64_t word,
			   size_t *ret_n)
{
	const struct word_name key = { .from_ns = im->from_ns, .word = word, .tgid = im->tgid };
	uint32_t id = idhash_find(&w->hash, hash_of(w, &key), same_name, w, &key);
	if (id == IDHASH_NONE)
		return NULL;
	*ret_n = w->names[id].n;
	return w->frames + w->names[id].first;
}

/* Keep the names that `keep` wants. */
static void keep_names(struct words *w, bool (*keep)(void *ctx, const struct word_name *n),
		       void *ctx)
{
	size_t n = 0, n_frames = 0;
	for (size_t i = 0; i < w->n; i++) {
		struct word_name e = w->names[i];
		if (!keep(ctx, &e)) {
			quota_give(&w->quota, e.user, 1);
			continue;
		}
		memmove(w->frames + n_frames, w->frames + e.first, e.n * sizeof(*w->frames));
		e.first = (uint32_t)n_frames;
		n_frames += e.n;
		w->names[n++] = e;
	}
	w->n = n;
	w->n_frames = n_frames;
	idhash_clear(&w->hash);
	for (size_t i = 0; i < n && !idhash_reserve(&w->hash); i++)
		idhash_put(&w->hash, hash_of(w, &w->names[i]), (uint32_t)i);
}

static bool is_of_other(void *ctx, const struct word_name *n)
{
	return n->user != *(const uint32_t *)ctx;
}

struct alive {
	struct procs *procs;
	uint64_t from_ns;
	uint32_t tgid;
	bool is;
};

static bool is_alive(void *ctx, const struct word_name *n)
{
	struct alive *a = ctx;
	if (a->tgid != n->tgid || a->from_ns != n->from_ns) {
		const struct proc_image *im = procs_find(a->procs, n->tgid, n->from_ns);
		a->tgid = n->tgid;
		a->from_ns = n->from_ns;
		a->is = im && im->from_ns == n->from_ns;
	}
	return a->is;
}

void words_forget(struct words *w)
{
	struct alive a = { .procs = w->procs };
	for (size_t i = 0; i < w->n; i++)
		if (!is_alive(&a, &w->names[i])) {
			keep_names(w, is_alive, &a);
			return;
		}
}

static bool no_name(void *ctx, const struct word_name *n)
{
	(void)ctx;
	(void)n;
	return false;
}

int words_renewed(struct words *w)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < w->n_frames; i++) {
		uint32_t old = w->frames[i];
		const struct wait_frame says =
			w->reasons ? *frame_reasons_get(w->reasons, old) : (struct wait_frame){ 0 };
		rc = store_carry_frame(w->store, old, &w->frames[i]);
		if (!rc && w->reasons)
			frame_reasons_put(w->reasons, w->frames[i], &says);
	}
	if (rc) /* better no names than wrong ones */
		keep_names(w, no_name, NULL);
	return rc;
}

static int add_text(struct words *w, const char *text, struct buf *repaired, uint32_t *ret)
{
	repaired->len = 0;
	int rc = utf8_repair(repaired, text, strlen(text));
	rc = rc ? rc : buf_add_u8(repaired, 0);
	return rc ? rc
		  : store_add_string(w->store, (const char *)repaired->data, repaired->len - 1,
				     ret);
}

int words_add_frame(struct words *w, const char *function, const char *module, const char *file,
		    uint32_t line, uint32_t *ret)
{
	struct store_frame f = { .kind = FRAME_USER, .line = line };
	struct buf path = BUF_INIT, name = BUF_INIT;
	int rc = store_add_string(w->store, module, strlen(module), &f.module);
	if (!rc && file[0])
		rc = add_text(w, file, &path, &f.file);
	rc = rc ? rc : add_text(w, function, &name, &f.function);
	rc = rc ? rc
		: frame_reasons_add(
			  w->reasons, w->store, &f,
			  &(struct frame_names){ (const char *)name.data, module,
						 file[0] ? (const char *)path.data : NULL },
			  ret);
	buf_fini(&path);
	buf_fini(&name);
	return rc;
}

int words_keep(struct words *w, struct proc_image *im, uint64_t word, const uint32_t *frames,
	       size_t n)
{
	struct word_name e = { im->from_ns, word, im->tgid, proc_image_user(im), 0, (uint32_t)n };
	size_t known;
	if (words_find(w, im, word, &known))
		return 0;
	if (!quota_take(&w->quota, e.user, 1)) {
		keep_names(w, is_of_other, &e.user);
		w->forgotten++;
		if (!quota_take(&w->quota, e.user, 1))
			return -ENOSPC;
	}
	if (ARRAY_RESERVE(w->names, w->cap, w->n + 1) ||
	    ARRAY_RESERVE(w->frames, w->frames_cap, w->n_frames + n) || idhash_reserve(&w->hash)) {
		quota_give(&w->quota, e.user, 1);
		return -ENOMEM;
	}
	e.first = (uint32_t)w->n_frames;
	memcpy(w->frames + e.first, frames, n * sizeof(*frames));
	w->n_frames += n;
	w->names[w->n] = e;
	idhash_put(&w->hash, hash_of(w, &e), (uint32_t)w->n++);
	return 0;
}
