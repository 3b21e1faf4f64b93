/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/spawner.h"

#include "sandbox/channel.h"
#include "sandbox/kept.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REAP_MS 100 /* that the end of a nursery is waited for */

int spawner_init(struct spawner *sp, const struct sandbox_config *cfg)
{
	*sp = (struct spawner){ .cfg = cfg, .fd = -1 };
	int rc = nursery_start(cfg, &sp->pid, &sp->fd);
	sp->started += !rc;
	return rc;
}

/* Reap a killed nursery, unless it needs longer than ms. */
static void reap_killed(struct spawner *sp, unsigned ms)
{
	for (unsigned i = 0; sp->killed; i++) {
		if (kept_has_ended(sp->killed, NULL))
			sp->killed = 0;
		else if (i >= ms)
			return;
		else
			poll(NULL, 0, 1);
	}
}

/* Its children end with it. It has our user, and is not reaped: the number is its own. */
static void kill_nursery(struct spawner *sp)
{
	if (sp->fd < 0)
		return;
	close(sp->fd);
	sp->fd = -1;
	reap_killed(sp, REAP_MS);
	kill(sp->pid, SIGKILL);
	sp->killed = sp->pid;
	reap_killed(sp, 0);
	for (unsigned i = 0; i < sp->n; i++)
		if (sp->order[i].to)
			sandbox_child_release(sp->order[i].to);
	sp->n = 0;
}

/* A nursery ends by itself when its socket is closed, after its children, unless it is stopped. */
void spawner_free(struct spawner *sp)
{
	reap_killed(sp, REAP_MS);
	if (sp->fd < 0)
		return;
	shutdown(sp->fd, SHUT_RDWR);
	for (unsigned ms = 0; ms < REAP_MS; ms++) {
		if (kept_has_ended(sp->pid, NULL)) {
			close(sp->fd);
			sp->fd = -1;
			return;
		}
		poll(NULL, 0, 1);
	}
	kill_nursery(sp);
	reap_killed(sp, REAP_MS);
}

static void start_clock(struct spawner *sp)
{
	child_clock_start(&sp->clock, sp->pid, SPAWNER_ANSWER_MS * 1000000ull,
			  SPAWNER_ANSWER_MS * 1000000ull);
}

int spawner_order(struct spawner *sp, enum nursery_order order, size_t memory,
		  struct sandbox_child *to)
{
	uint64_t now = channel_now_ns();
	struct channel_head h = { .what = (int32_t)order, .value = memory };
	int pair[2], rc = 0;
	reap_killed(sp, 0);
	if (sp->n == SPAWNER_ORDERS_MAX)
		return -EBUSY;
	if (sp->fd < 0) {
		rc = nursery_start(sp->cfg, &sp->pid, &sp->fd);
		sp->started += !rc;
	}
	if (rc)
		return rc;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	rc = channel_send(sp->fd, &h, NULL, &pair[1], 1, now);
	close(pair[1]);
	if (rc) {
		close(pair[0]);
		kill_nursery(sp);
		return -EPIPE;
	}
	*to = (struct sandbox_child){ .fd = pair[0], .pidfd = -1 };
	sp->order[sp->n++].to = to;
	if (sp->n == 1)
		start_clock(sp);
	return 0;
}

void spawner_forget(struct spawner *sp, const struct sandbox_child *to)
{
	for (unsigned i = 0; i < sp->n; i++)
		if (sp->order[i].to == to)
			sp->order[i].to = NULL;
}

void spawner_kill(struct spawner *sp, const struct sandbox_child *c)
{
	const struct channel_head h = { .what = NURSERY_KILL, .value = (uint64_t)c->pid };
	if (sp->fd >= 0 && c->pidfd >= 0)
		(void)!channel_send(sp->fd, &h, NULL, NULL, 0, channel_now_ns());
}

static void take_answer(struct spawner *sp, const struct channel_head *h, int pidfd)
{
	struct sandbox_child *to = sp->order[0].to;
	struct sandbox_child unwanted = { .fd = -1, .pidfd = pidfd };
	memmove(sp->order, sp->order + 1, --sp->n * sizeof(sp->order[0]));
	if (sp->n)
		start_clock(sp);
	if (!to) {
		unwanted.pid = (pid_t)h->value;
		spawner_kill(sp, &unwanted);
		sandbox_child_release(&unwanted);
	} else if (h->what) {
		sandbox_child_release(to);
	} else {
		to->pidfd = pidfd;
		to->pid = (pid_t)h->value;
	}
}

/* One answer, waited for until then. */
static int read_answer(struct spawner *sp, uint64_t until_ns)
{
	struct channel_head h;
	size_t n_fds = 0;
	int pidfd = -1;
	int rc = channel_recv_head(sp->fd, &h, &pidfd, 1, &n_fds, until_ns);
	if (rc)
		return rc;
	if (!sp->n || (!h.what && !n_fds)) {
		if (pidfd >= 0)
			close(pidfd);
		return -EBADMSG;
	}
	take_answer(sp, &h, pidfd);
	return 0;
}

int spawner_read(struct spawner *sp)
{
	int rc;
	reap_killed(sp, 0);
	if (sp->fd < 0)
		return 0;
	bool late = sp->n && child_clock_is_late(&sp->clock, sp->pid, channel_now_ns());
	while (!(rc = read_answer(sp, channel_now_ns())))
		late = false;
	if (rc == -ETIMEDOUT && !late)
		return 0;
	kill_nursery(sp);
	return -EPIPE;
}

uint64_t spawner_due_ns(const struct spawner *sp)
{
	return sp->n ? sp->clock.look_ns : UINT64_MAX;
}
