/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server_int.h"

#include "http/clock.h"
#include "http/fleet.h"
#include "util/own.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* What tells questions apart: who sees how much, path, parameters, and the body. */
static int write_question(struct request *r)
{
	struct buf *q = &r->question;
	q->len = 0;
	const char *where = r->grant->where ? r->grant->where : "";
	int rc = buf_add(q, where, strlen(where) + 1);
	rc = rc ? rc : buf_add(q, r->path, strlen(r->path) + 1);
	for (size_t i = 0; !rc && i < r->n_params; i++) {
		rc = buf_add(q, r->params[i].name, strlen(r->params[i].name) + 1);
		rc = rc ? rc : buf_add(q, r->params[i].value, strlen(r->params[i].value) + 1);
	}
	rc = rc ? rc : buf_add(q, r->content_type, strlen(r->content_type) + 1);
	return rc ? rc : buf_add(q, r->body.data, r->body.len);
}

/*
 * With a handle of the store; when retention has taken away what was to be read, once more with a
 * new one.
 */
static int ask_store(struct http_server *s, struct request *r, uint64_t *ret_state, struct err *err)
{
	int rc = -ESTALE;
	for (int tries = 0; rc == -ESTALE && tries < 3; tries++) {
		struct snapshot *snap;
		rc = snapshots_take(s->snapshots, tries > 0, r->grant->where, &snap, err);
		if (rc)
			return rc == -ENOENT || rc == -ENOTDIR
				       ? err_set(err, -EAGAIN,
						 "the store is not there: "
						 "nothing was recorded yet, or it was deleted")
				       : rc;
		r->out.len = 0;
		rc = r->route->handle(r, snap->store, err);
		*ret_state = snap->state;
		snapshots_give(s->snapshots, snap);
	}
	return rc;
}

#define FLEET_FRESH_NS (10 * HTTP_NS) /* an answer of ClickHouse is kept so long */

/* What makes the answer to a question another one. */
static uint64_t state_of(struct http_server *s)
{
	return s->cfg.clickhouse.url ? http_now_ns() / FLEET_FRESH_NS
				     : snapshots_state(s->snapshots);
}

static int ask_fleet(struct http_server *s, struct request *r, uint64_t *ret_state, struct err *err)
{
	const struct store_limits limits = { .bytes = s->cfg.question_bytes, .stop = &s->stopping };
	if (r->grant->where)
		return err_set(err, -EACCES, "tokens that read by a selector read stores alone");
	*ret_state = state_of(s);
	return fleet_answer(r, &s->cfg.clickhouse, s->cfg.scratch, &limits, err);
}

static void answer(struct http_server *s, struct request *r)
{
	struct err err = { 0 };
	uint64_t state = 0, began = http_now_ns();
	bool cached = false;
	int rc = request_check_params(r, &err);
	if (!rc && (r->route->flags & ROUTE_CACHE)) {
		rc = r->question.len ? 0 : write_question(r); /* others read it by now */
		cached = !rc && cache_find(s->cache, &r->question, state_of(s), &r->out, &r->type);
	}
	if (!rc && !cached)
		rc = r->route->flags & ROUTE_STORE
			     ? (s->cfg.clickhouse.url ? ask_fleet : ask_store)(s, r, &state, &err)
			     : r->route->handle(r, NULL, &err);
	if (rc) {
		request_fail(r, request_status(rc), err.text[0] ? err.text : strerror(-rc));
		r->retry_after = r->status == 503   ? 1
				 : r->status == 429 ? intake_delay_s(&s->intake, http_now_ns())
						    : 0;
	} else if (!r->status) {
		r->status = 200;
	}
	if (!rc && !cached && r->status == 200 && (r->route->flags & ROUTE_CACHE))
		cache_put(s->cache, &r->question, state, &r->out, r->type, http_now_ns() - began);
}

void work_answer(struct http_server *s, struct request *r)
{
	const uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	answer(s, r);
	r->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
	if (r->asker)
		quota_charge(s->quota, r->asker, QUOTA_CPU, r->cpu_ns);
}

/* One asker has at most three quarters of the queue. With the lock. */
static bool has_room(const struct http_server *s, const struct asker *a)
{
	unsigned own = 0;
	for (const struct task *t = s->first; t; t = t->next)
		own += t->r->asker == a;
	return s->waiting < s->cfg.queue && own < s->cfg.queue - s->cfg.queue / 4;
}

bool work_add(struct http_server *s, struct MHD_Connection *conn, struct request *r)
{
	struct task *t = calloc(1, sizeof(*t));
	if (!t || ((r->route->flags & ROUTE_CACHE) && write_question(r))) {
		free(t);
		return false;
	}
	*t = (struct task){ .conn = conn, .r = r };
	pthread_mutex_lock(&s->lock);
	bool ok = !s->stopping && has_room(s, r->asker);
	if (ok) {
		MHD_suspend_connection(conn);
		*s->last = t;
		s->last = &t->next;
		s->waiting++;
		pthread_cond_signal(&s->wake);
	}
	pthread_mutex_unlock(&s->lock);
	if (!ok)
		free(t);
	return ok;
}

/* Somebody is at the same question, and there is no earlier answer: his will do. */
static bool is_asked_already(struct http_server *s, const struct task *t)
{
	const struct buf *q = &t->r->question;
	const struct task *d = s->doing;
	while (d && (d->r->question.len != q->len || !q->len ||
		     memcmp(d->r->question.data, q->data, q->len)))
		d = d->doing;
	return d && !s->stopping && !cache_has(s->cache, q);
}

/* Whose turn it is: of who has the fewest questions being answered, then the most CPU time left. */
struct turn {
	unsigned doing;
	int64_t left;
};

static struct turn turn_of(const struct http_server *s, const struct task *t)
{
	struct turn v = { 0, quota_left(s->quota, t->r->asker) };
	for (const struct task *d = s->doing; d; d = d->doing)
		v.doing += d->r->asker == t->r->asker;
	return v;
}

static bool is_before(struct turn a, struct turn b)
{
	return a.doing != b.doing ? a.doing < b.doing : a.left > b.left;
}

/* The next that is worth the while, of one asker in order; with the lock. */
static struct task *take_task(struct http_server *s)
{
	struct task **at = NULL;
	struct turn best = { 0 };
	for (struct task **i = &s->first; *i; i = &(*i)->next) {
		if (is_asked_already(s, *i))
			continue;
		const struct turn turn = turn_of(s, *i);
		if (at && !is_before(turn, best))
			continue;
		at = i;
		best = turn;
	}
	struct task *t = at ? *at : NULL;
	if (!t)
		return NULL;
	*at = t->next;
	if (!t->next)
		s->last = at;
	t->next = NULL;
	t->doing = s->doing;
	s->doing = t;
	s->waiting--;
	s->working++;
	return t;
}

static struct task *next_task(struct http_server *s)
{
	struct task *t;
	pthread_mutex_lock(&s->lock);
	while (!(t = take_task(s)) && !s->stopping)
		pthread_cond_wait(&s->wake, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return t;
}

static void end_task(struct http_server *s, struct task *t)
{
	struct task **at = &s->doing;
	pthread_mutex_lock(&s->lock);
	while (*at != t)
		at = &(*at)->doing;
	*at = t->doing;
	s->working--;
	s->answered = true;
	if (s->first) /* those who waited for this answer */
		pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

static void *run_worker(void *arg)
{
	struct http_server *s = arg;
	prctl(PR_SET_NAME, "ascribe-query");
	own_thread_be_nice();
	for (struct task *t; (t = next_task(s)); free(t)) {
		if (__atomic_load_n(&s->stopping, __ATOMIC_RELAXED))
			request_fail(t->r, 503,
				     "the server ends or begins anew; ask again in some seconds");
		else
			work_answer(s, t->r);
		end_task(s, t);
		MHD_resume_connection(t->conn);
	}
	return NULL;
}

int work_start(struct http_server *s)
{
	s->last = &s->first;
	for (; s->n_workers < s->cfg.workers; s->n_workers++) {
		int rc = pthread_create(&s->worker[s->n_workers], NULL, run_worker, s);
		if (rc)
			return -rc;
	}
	return 0;
}

void work_stop(struct http_server *s)
{
	pthread_mutex_lock(&s->lock);
	__atomic_store_n(&s->stopping, true, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
	while (s->n_workers)
		pthread_join(s->worker[--s->n_workers], NULL);
}
