/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest.h"

#include "import/write.h"
#include "proc/proc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define WAIT_S 5
#define NS 1000000000ll
#define YEAR_2000_NS (946684800 * NS)
#define NOW_NS (60 * NS) /* clients send a profile some seconds after its end */

int ingest_init(struct ingest *i)
{
	*i = (struct ingest){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	pthread_mutex_init(&i->lock, NULL);
	pthread_cond_init(&i->done, NULL);
	return i->fd < 0 ? -errno : 0;
}

void ingest_fini(struct ingest *i)
{
	if (i->fd >= 0)
		close(i->fd);
	pthread_mutex_destroy(&i->lock);
	pthread_cond_destroy(&i->done);
}

int ingest_put(struct ingest *i, const struct profile *p, struct err *err)
{
	uint64_t one = 1;
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	pthread_mutex_lock(&i->lock);
	while (i->waiting)
		if (pthread_cond_timedwait(&i->done, &i->lock, &until)) {
			i->refused++;
			pthread_mutex_unlock(&i->lock);
			return err_set(err, -EAGAIN, "other profiles are being stored");
		}
	i->waiting = p;
	i->taken = i->finished = false;
	if (write(i->fd, &one, sizeof(one)) != sizeof(one))
		i->taken = false; /* the counter is full: it is readable all the same */
	int late = 0;
	while (!i->finished && (i->taken || !late))
		late = i->taken ? pthread_cond_wait(&i->done, &i->lock)
				: pthread_cond_timedwait(&i->done, &i->lock, &until);
	int rc = i->finished ? i->rc : -EAGAIN;
	i->waiting = NULL;
	pthread_cond_broadcast(&i->done); /* the next one's turn */
	i->refused += rc != 0;
	pthread_mutex_unlock(&i->lock);
	if (rc == -EAGAIN)
		return err_set(err, rc, "nothing is written now");
	return rc ? err_set(err, -EAGAIN, "it could not be stored: %s", strerror(-rc)) : 0;
}

/* ---- the writing thread ---- */

struct late {
	const struct profile *profile;
	const struct profile_rules *rules;
};

static int fill(struct store_writer *w, void *ctx)
{
	const struct late *l = ctx;
	return profile_write(w, l->profile, l->rules);
}

/*
 * A profile of the past gets a window of its own. One of now is part of the open window, as are
 * those without a time, or with one that cannot be.
 */
static int store(struct store_writer *w, const struct profile *p, const struct profile_rules *rules)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	int64_t now = t.tv_sec * NS + t.tv_nsec;
	if (p->from_ns < YEAR_2000_NS || p->to_ns <= p->from_ns || p->to_ns > now - NOW_NS)
		return profile_write(w, p, rules);
	struct late late = { p, rules };
	struct err err = { 0 };
	return store_commit_apart(w, p->from_ns, p->to_ns, (int64_t)proc_now_ns(), fill, &late,
				  &err);
}

void ingest_take(struct ingest *i, struct store_writer *w, const struct label_filter *f,
		 const struct redactor *r)
{
	const struct profile_rules rules = { f, r };
	uint64_t n;
	if (read(i->fd, &n, sizeof(n)) != sizeof(n))
		return;
	pthread_mutex_lock(&i->lock);
	const struct profile *p = i->finished || i->taken ? NULL : i->waiting;
	i->taken = p != NULL;
	pthread_mutex_unlock(&i->lock);
	if (!p)
		return;
	int rc = w ? store(w, p, &rules) : -EAGAIN;
	pthread_mutex_lock(&i->lock);
	i->profiles += !rc;
	i->samples += rc ? 0 : p->n_samples;
	i->rc = rc;
	i->finished = true;
	i->taken = false;
	pthread_cond_broadcast(&i->done);
	pthread_mutex_unlock(&i->lock);
}
