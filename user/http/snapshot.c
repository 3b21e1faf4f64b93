/* SPDX-License-Identifier: Apache-2.0 */
#include "http/snapshot.h"

#include "http/clock.h"
#include "util/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#define LOOK_NS (HTTP_NS / 2)
#define FILES_MAX 100000

struct snapshots {
	pthread_mutex_t lock; /* of all below; never held while a store is opened */
	const char *const *dirs;
	size_t n_dirs;
	struct store_limits limits;
	struct snapshot *idle; /* the last used first */
	uint64_t state, looked_ns;
	uint64_t opened, bytes;
};

int snapshots_new(struct snapshots **ret, const char *const *dirs, size_t n_dirs,
		  const struct store_limits *limits)
{
	struct snapshots *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	p->dirs = dirs;
	p->n_dirs = n_dirs;
	p->limits = *limits;
	*ret = p;
	return 0;
}

static void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	store_close(s->store);
	free(s);
}

void snapshots_free(struct snapshots *p)
{
	if (!p)
		return;
	while (p->idle) {
		struct snapshot *s = p->idle;
		p->idle = s->next;
		snapshot_free(s);
	}
	pthread_mutex_destroy(&p->lock);
	free(p);
}

struct sight {
	uint64_t state, bytes;
	unsigned files;
};

/*
 * A window that was added makes a file of seg/ longer, or there is another one; what retention or a
 * parent changes is in MANIFEST.
 */
static void see_dir(int parent, const char *name, bool matters, int depth, struct sight *to)
{
	DIR *d = dir_open(parent, name);
	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d)) && to->files < FILES_MAX;) {
		struct stat st;
		if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (S_ISDIR(st.st_mode) && depth)
			see_dir(dirfd(d), e->d_name, !strcmp(e->d_name, "seg"), depth - 1, to);
		if (!S_ISREG(st.st_mode))
			continue;
		to->files++;
		to->bytes += (uint64_t)st.st_size;
		if (!matters && strcmp(e->d_name, "MANIFEST") && strcmp(e->d_name, "HEADER"))
			continue;
		uint64_t v[5] = { (uint64_t)st.st_ino, (uint64_t)st.st_size,
				  (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec,
				  (uint64_t)st.st_dev };
		/* The order of a directory's names means nothing: a sum. */
		to->state += XXH3_64bits(v, sizeof(v));
	}
	closedir(d);
}

static void look(struct snapshots *p, bool fresh)
{
	uint64_t now = http_now_ns();
	struct sight seen = { 0 };
	if (!fresh && p->looked_ns && now - p->looked_ns < LOOK_NS)
		return;
	for (size_t i = 0; i < p->n_dirs; i++)
		see_dir(AT_FDCWD, p->dirs[i], false, 2, &seen);
	p->state = seen.state;
	p->bytes = seen.bytes;
	p->looked_ns = now;
}

uint64_t snapshots_state(struct snapshots *p)
{
	pthread_mutex_lock(&p->lock);
	look(p, false);
	uint64_t state = p->state;
	pthread_mutex_unlock(&p->lock);
	return state;
}

int snapshots_take(struct snapshots *p, bool fresh, const char *scope, struct snapshot **ret,
		   struct err *err)
{
	struct snapshot *old = NULL;
	pthread_mutex_lock(&p->lock);
	look(p, fresh);
	struct snapshot *s = p->idle;
	if (s)
		p->idle = s->next;
	uint64_t state = p->state;
	pthread_mutex_unlock(&p->lock);
	if (s && s->state == state && !fresh) {
		store_set_scope(s->store, scope);
		*ret = s;
		return 0;
	}
	old = s;
	/* Two in memory at a time only for a moment would still be two: the old one goes first. */
	snapshot_free(old);
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->state = state;
	int rc = store_open_all(&s->store, p->dirs, p->n_dirs, err);
	if (rc) {
		free(s);
		return rc;
	}
	pthread_mutex_lock(&p->lock);
	store_limit(s->store, &p->limits);
	store_set_scope(s->store, scope);
	p->opened++;
	pthread_mutex_unlock(&p->lock);
	*ret = s;
	return 0;
}

void snapshots_give(struct snapshots *p, struct snapshot *s)
{
	pthread_mutex_lock(&p->lock);
	if (!store_is_full(s->store) && store_budget(s->store) == p->limits.bytes) {
		s->used_ns = http_now_ns();
		s->next = p->idle;
		p->idle = s;
		s = NULL;
	}
	pthread_mutex_unlock(&p->lock);
	snapshot_free(s);
}

void snapshots_limit(struct snapshots *p, size_t bytes)
{
	pthread_mutex_lock(&p->lock);
	p->limits.bytes = bytes;
	pthread_mutex_unlock(&p->lock);
	snapshots_tidy(p, 0);
}

bool snapshots_tidy(struct snapshots *p, uint64_t idle_ns)
{
	struct snapshot *gone = NULL;
	pthread_mutex_lock(&p->lock);
	uint64_t now = http_now_ns();
	for (struct snapshot **at = &p->idle; *at;) {
		struct snapshot *s = *at;
		if (now - s->used_ns < idle_ns) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		s->next = gone;
		gone = s;
	}
	bool left = p->idle != NULL;
	pthread_mutex_unlock(&p->lock);
	while (gone) {
		struct snapshot *s = gone;
		gone = s->next;
		snapshot_free(s);
	}
	return left;
}

void snapshots_stats(struct snapshots *p, uint64_t *ret_opened, uint64_t *ret_bytes)
{
	pthread_mutex_lock(&p->lock);
	look(p, false);
	*ret_opened = p->opened;
	*ret_bytes = p->bytes;
	pthread_mutex_unlock(&p->lock);
}
