/* SPDX-License-Identifier: Apache-2.0 */
#include "http/quota.h"

#include "http/clock.h"
#include "http/request.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MINUTE_NS (60 * HTTP_NS)

struct asker {
	char name[QUOTA_NAME_MAX];
	int64_t uid; /* -1: a token, or anybody */
	bool came;
	int64_t left[QUOTA_MEMORY];   /* below 0 after a request that took more */
	uint64_t at_ns[QUOTA_MEMORY]; /* when as much was left */
	uint64_t held, taken[QUOTA_MEMORY], refused[QUOTA_PARTS];
};

struct quota {
	pthread_mutex_t lock;
	uint64_t limits[QUOTA_PARTS];
	const struct access *access;
	/* Tokens in their order, then anybody, other users, and users as they come */
	struct asker *v;
	size_t n;
};

static void init_asker(const struct quota *q, struct asker *a)
{
	for (int i = 0; i < QUOTA_MEMORY; i++) {
		a->left[i] = q->limits[i] > INT64_MAX ? INT64_MAX : (int64_t)q->limits[i];
		a->at_ns[i] = http_now_ns();
	}
}

int quota_new(struct quota **ret, const uint64_t limits[static QUOTA_PARTS],
	      const struct access *access)
{
	struct quota *q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	pthread_mutex_init(&q->lock, NULL);
	for (int i = 0; i < QUOTA_PARTS; i++)
		q->limits[i] = limits[i];
	q->access = access;
	q->n = access->n + 2;
	q->v = calloc(q->n + QUOTA_UIDS_MAX, sizeof(*q->v));
	if (!q->v) {
		quota_free(q);
		return -ENOMEM;
	}
	for (size_t i = 0; i < q->n; i++) {
		struct asker *a = &q->v[i];
		if (i < access->n)
			snprintf(a->name, sizeof(a->name), "%s:%s",
				 access->v[i].token ? "token" : "cert", access->v[i].name);
		else
			snprintf(a->name, sizeof(a->name), "%s",
				 i == access->n ? "anybody" : "uid:others");
		a->uid = -1;
		init_asker(q, a);
	}
	*ret = q;
	return 0;
}

void quota_free(struct quota *q)
{
	if (!q)
		return;
	pthread_mutex_destroy(&q->lock);
	free(q->v);
	free(q);
}

/* With the lock. */
static struct asker *find_user(struct quota *q, int64_t uid)
{
	const size_t first = q->access->n + 2;
	for (size_t i = first; i < q->n; i++)
		if (q->v[i].uid == uid)
			return &q->v[i];
	if (q->n == first + QUOTA_UIDS_MAX)
		return &q->v[first - 1];
	struct asker *a = &q->v[q->n++];
	snprintf(a->name, sizeof(a->name), "uid:%" PRId64, uid);
	a->uid = uid;
	init_asker(q, a);
	return a;
}

struct asker *quota_asker(struct quota *q, const struct access_grant *g, int64_t uid)
{
	const struct access *all = q->access;
	const bool token = all->n && g >= all->v && g < all->v + all->n;
	pthread_mutex_lock(&q->lock);
	struct asker *a = token ? &q->v[g - all->v] : uid < 0 ? &q->v[all->n] : find_user(q, uid);
	a->came = true;
	pthread_mutex_unlock(&q->lock);
	return a;
}

const char *asker_name(const struct asker *a)
{
	return a->name;
}

/* Add what time has brought since. With the lock. */
static void refill(const struct quota *q, struct asker *a, int part)
{
	const double limit = (double)q->limits[part];
	const uint64_t now = http_now_ns();
	const double left =
		(double)a->left[part] + (double)(now - a->at_ns[part]) * limit / MINUTE_NS;
	a->left[part] = (int64_t)(left < limit ? left : limit);
	a->at_ns[part] = now;
}

unsigned quota_delay_s(struct quota *q, struct asker *a, enum quota_part *ret)
{
	unsigned delay = 0;
	pthread_mutex_lock(&q->lock);
	for (int i = 0; i < QUOTA_MEMORY && !delay; i++) {
		if (q->limits[i] == UINT64_MAX)
			continue;
		refill(q, a, i);
		if (a->left[i] >= 0)
			continue;
		const double wait_s = -(double)a->left[i] * 60 / (double)q->limits[i];
		delay = wait_s < 3600 ? (unsigned)wait_s + 1 : 3600;
		*ret = (enum quota_part)i;
	}
	if (!delay && a->held > q->limits[QUOTA_MEMORY]) {
		delay = 1;
		*ret = QUOTA_MEMORY;
	}
	a->refused[*ret] += delay != 0;
	pthread_mutex_unlock(&q->lock);
	return delay;
}

void quota_charge(struct quota *q, struct asker *a, enum quota_part part, uint64_t n)
{
	pthread_mutex_lock(&q->lock);
	a->taken[part] += n;
	if (q->limits[part] != UINT64_MAX) {
		refill(q, a, part);
		a->left[part] -= (int64_t)n;
	}
	pthread_mutex_unlock(&q->lock);
}

void quota_hold(struct quota *q, struct asker *a, uint64_t bytes)
{
	pthread_mutex_lock(&q->lock);
	a->held += bytes;
	pthread_mutex_unlock(&q->lock);
}

void quota_release(struct quota *q, struct asker *a, uint64_t bytes)
{
	pthread_mutex_lock(&q->lock);
	a->held -= bytes;
	pthread_mutex_unlock(&q->lock);
}

int64_t quota_left(struct quota *q, struct asker *a)
{
	pthread_mutex_lock(&q->lock);
	if (q->limits[QUOTA_CPU] != UINT64_MAX)
		refill(q, a, QUOTA_CPU);
	/* Without a limit those who took the least come first. */
	const int64_t left = q->limits[QUOTA_CPU] == UINT64_MAX ? -(int64_t)a->taken[QUOTA_CPU]
								: a->left[QUOTA_CPU];
	pthread_mutex_unlock(&q->lock);
	return left;
}

/* ---- metrics ---- */

/* With the lock. */
static int add_taken(const struct quota *q, enum quota_part part, const char *name,
		     const char *help, double unit, struct buf *out)
{
	int rc = metrics_family(out, name, "counter", help);
	for (size_t i = 0; !rc && i < q->n; i++)
		if (q->v[i].came)
			rc = buf_printf(out, "%s{who=\"%s\"} %.15g\n", name, q->v[i].name,
					(double)q->v[i].taken[part] / unit);
	return rc;
}

static int add_refused(const struct quota *q, struct buf *out)
{
	static const char *const parts[] = { "cpu", "bytes", "memory" };
	static const char name[] = "ascribe_http_quota_refused_total";
	int rc = metrics_family(out, name, "counter",
				"Requests of an asker who had used up his quota.");
	for (size_t i = 0; !rc && i < q->n; i++)
		for (int k = 0; !rc && q->v[i].came && k < QUOTA_PARTS; k++)
			rc = buf_printf(out, "%s{who=\"%s\",what=\"%s\"} %" PRIu64 "\n", name,
					q->v[i].name, parts[k], q->v[i].refused[k]);
	return rc;
}

int quota_metrics(struct quota *q, struct buf *out)
{
	pthread_mutex_lock(&q->lock);
	int rc = add_taken(q, QUOTA_CPU, "ascribe_http_asker_cpu_seconds_total",
			   "CPU time of answers, by who asked.", 1e9, out);
	rc = rc ? rc
		: add_taken(q, QUOTA_BYTES, "ascribe_http_asker_bytes_total",
			    "Bytes of bodies and answers, by who asked.", 1, out);
	rc = rc ? rc : add_refused(q, out);
	pthread_mutex_unlock(&q->lock);
	return rc;
}
