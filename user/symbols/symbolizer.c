/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/symbolizer.h"

#include "proc/reader.h"
#include "symbols/jit.h"
#include "symbols/lines.h"
#include "symbols/parser.h"
#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>

#define WAIT_NS 1000000000ull

const sandbox_op symbols_ops[SYMBOLS_OPS] = { SYMBOLS_OPS_LIST };

_Static_assert(SYMBOLS_OPS == N_OPS, "one list of requests");

int symbolizer_new(struct symbolizer **ret, const struct symbolizer_config *cfg)
{
	struct symbolizer *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->sandbox = cfg->sandbox;
	s->first_op = cfg->first_op;
	s->wait = cfg->wait;
	s->deadline_ms = cfg->deadline_ms ? cfg->deadline_ms : SYMBOLIZER_DEADLINE_MS;
	s->table_bytes = cfg->table_bytes ? cfg->table_bytes : SYMBOLIZER_TABLE_BYTES;
	*ret = s;
	return 0;
}

void symbolizer_free(struct symbolizer *s)
{
	for (unsigned i = 0; s && i < CRCS_KEPT; i++)
		symbolizer_cancel(&s->crc[i].job);
	free(s);
}

void symbolizer_stats(const struct symbolizer *s, struct symbolizer_stats *ret)
{
	*ret = s->stats;
}

/* ---- whose time ---- */

void symbolizer_begin(struct symbolizer *s, unsigned drain_ms)
{
	spending_begin(&s->spending, drain_ms, clock_ns(CLOCK_MONOTONIC));
}

void symbolizer_for(struct symbolizer *s, uint32_t tgid)
{
	if (!s || s->tgid == tgid)
		return;
	s->tgid = tgid;
	s->user_known = false;
}

static uint32_t symbolizer_user(struct symbolizer *s)
{
	if (!s->user_known)
		s->user = proc_user(s->tgid);
	s->user_known = true;
	return s->user;
}

bool symbolizer_may(struct symbolizer *s)
{
	if (!s || spending_may(&s->spending, symbolizer_user(s), clock_ns(CLOCK_MONOTONIC)))
		return true;
	s->stats.put_off++;
	return false;
}

/* ---- asking ---- */

static int ask_here(const struct symbols_request *q, struct buf *reply)
{
	struct sandbox_request r = { q->bytes, q->len, q->fds, q->n_fds };
	reply->len = 0;
	return symbols_ops[q->op](&r, reply);
}

static int submit(struct symbolizer *s, struct symbols_job *io_job, const struct sandbox_call *call)
{
	struct sandbox_call c = *call;
	if (!symbolizer_may(s))
		return -EBUSY;
	c.deadline_ms = c.deadline_ms ? c.deadline_ms : s->deadline_ms;
	c.user = io_job->user = symbolizer_user(s);
	return sandbox_submit(s->sandbox, &c, &io_job->job);
}

int symbolizer_run(struct symbolizer *s, struct symbols_job *io_job,
		   const struct sandbox_call *call, struct buf *reply)
{
	reply->len = 0;
	if (!s || !s->sandbox)
		return -ENOSYS;
	int rc = io_job->job ? 0 : submit(s, io_job, call);
	if (rc)
		return rc;
	while (s->wait && (rc = sandbox_take(&io_job->job, reply, &io_job->cpu_ns)) == -EINPROGRESS)
		sandbox_wait(s->sandbox, clock_ns(CLOCK_MONOTONIC) + WAIT_NS);
	if (!s->wait)
		rc = sandbox_take(&io_job->job, reply, &io_job->cpu_ns);
	if (rc == -EINPROGRESS)
		return rc;
	spending_add(&s->spending, io_job->user, io_job->cpu_ns, clock_ns(CLOCK_MONOTONIC));
	return rc == -ECHILD || rc == -ETIMEDOUT ? -EIO : rc;
}

void symbolizer_cancel(struct symbols_job *io_job)
{
	sandbox_cancel(&io_job->job);
}

int symbolizer_ask(struct symbolizer *s, struct symbols_job *io_job,
		   const struct symbols_request *q, struct buf *reply)
{
	if (!s || !s->sandbox)
		return ask_here(q, reply);
	struct sandbox_call c = {
		.lane = q->op == OP_LINES ? SANDBOX_KEEPING_LANE : 0, /* it keeps files open */
		.op = s->first_op + q->op,
		.bytes = q->bytes,
		.len = q->len,
		.fds = q->fds,
		.n_fds = q->n_fds,
		/* Labels and rules need an open file, too */
		.priority = q->op == OP_OPEN ? PRIORITY_LABELS : PRIORITY_NAMES,
		.max_reply = q->max_reply,
	};
	return symbolizer_run(s, io_job, &c, reply);
}

/* ---- not now ---- */

bool symbols_is_late(int rc)
{
	return rc == -EAGAIN || rc == -EBUSY || rc == -EINPROGRESS;
}

bool symbols_put_off(struct symbols_again *a, int rc)
{
	if (rc == -EINPROGRESS) {
		a->at_ns = 1; /* the past */
		return true;
	}
	if (rc == -EBUSY) {
		a->at_ns = clock_ns(CLOCK_MONOTONIC) + SYMBOLS_SOON_NS;
		return true;
	}
	a->at_ns = a->n < SYMBOLS_AGAIN_MAX
			   ? clock_ns(CLOCK_MONOTONIC) + (SYMBOLS_AGAIN_NS << 2 * a->n)
			   : 0;
	return a->n++ < SYMBOLS_AGAIN_MAX;
}

bool symbols_is_due(const struct symbols_again *a)
{
	return !a->at_ns || clock_ns(CLOCK_MONOTONIC) >= a->at_ns;
}

/* ---- which tables stay ---- */

static void unlink_table(struct symbolizer *s, struct symbolizer_table *t)
{
	*(t->newer ? &t->newer->older : &s->newest) = t->older;
	*(t->older ? &t->older->newer : &s->oldest) = t->newer;
	t->newer = t->older = NULL;
}

static void link_table(struct symbolizer *s, struct symbolizer_table *t)
{
	t->older = s->newest;
	*(t->older ? &t->older->newer : &s->oldest) = t;
	s->newest = t;
}

void symbolizer_remove(struct symbolizer *s, struct symbolizer_table *t)
{
	if (!s || !t->bytes)
		return;
	unlink_table(s, t);
	s->stats.bytes -= t->bytes;
	t->bytes = 0;
}

/* Those that were not used for longest, as far as needed; never `keep`. */
static void evict_tables(struct symbolizer *s, const struct symbolizer_table *keep)
{
	while (s->stats.bytes > s->table_bytes && s->oldest && s->oldest != keep) {
		struct symbolizer_table *old = s->oldest;
		symbolizer_remove(s, old);
		old->evict(old);
	}
}

void symbolizer_add(struct symbolizer *s, struct symbolizer_table *t, size_t bytes)
{
	if (!s || !bytes)
		return;
	t->bytes = bytes;
	s->stats.bytes += bytes;
	link_table(s, t);
	evict_tables(s, t);
}

void symbolizer_limit_tables(struct symbolizer *s, size_t bytes)
{
	s->table_bytes = bytes;
	evict_tables(s, NULL);
}

void symbolizer_used(struct symbolizer *s, struct symbolizer_table *t)
{
	if (!s || !t->bytes || s->newest == t)
		return;
	unlink_table(s, t);
	link_table(s, t);
}
