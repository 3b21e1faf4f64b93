/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/live.h"

#include "collect/rights.h"
#include "proc/proc.h"
#include "store/writer.h"
#include "util/memfs.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000ull
/* Limit of the file system; only the busiest hosts come near it */
#define MEMORY_MAX (512ull << 20)
#define STORE_MAX (256ull << 20)
#define SYMBOLS_BYTES (8ull << 20)
#define BEHIND_NS 2000000ull /* after the end of a window, while it is written */
#define RECORDER_NICE (-20)

struct live {
	int dir_fd, news, stop;
	char path[64];
	unsigned window_s;
	struct store_writer *writer;
	struct collector *collector;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* of state */
	struct live_state state;
};

int live_open(struct live **ret, const struct sampler_config *cfg,
	      const struct collector_detail *detail, const char *what, int64_t recent_ns,
	      struct err *ret_warning, struct err *err)
{
	struct store_options o;
	struct live *l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	l->dir_fd = -1;
	l->window_s = cfg->window_s;
	pthread_mutex_init(&l->lock, NULL);
	l->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int rc = l->news < 0 || l->stop < 0 ? err_sys(err, -errno, "eventfd")
					    : memfs_new(MEMORY_MAX, &l->dir_fd, err);
	snprintf(l->path, sizeof(l->path), "/proc/self/fd/%d/live", l->dir_fd);
	store_options_default(&o);
	o.windows_only = true;
	o.recent_ns = recent_ns;
	o.max_bytes = STORE_MAX;
	o.symbols_bytes = SYMBOLS_BYTES;
	rc = rc ? rc : collector_keep_rights(err);
	rc = rc ? rc : collector_open_store(&l->writer, l->path, what, &o, err);
	rc = rc ? rc : collector_open(&l->collector, cfg, l->writer, ret_warning, err);
	if (rc) {
		live_close(l);
		return rc;
	}
	collector_set_detail(l->collector, detail);
	*ret = l;
	return 0;
}

static void tell(struct live *l, int rc, const struct err *err)
{
	uint64_t one = 1;
	pthread_mutex_lock(&l->lock);
	collector_progress(l->collector, &l->state.progress);
	l->state.ended = rc != 0;
	if (rc)
		l->state.err = *err;
	pthread_mutex_unlock(&l->lock);
	if (write(l->news, &one, sizeof(one)) < 0)
		return; /* already readable */
}

/* Return the BOOTTIME at which the open window ends: a multiple of the window's length. */
static uint64_t window_end(const struct live *l)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	uint64_t now = (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec, window = l->window_s * NS;
	return proc_now_ns() + window - now % window + BEHIND_NS;
}

static void *run(void *ctx)
{
	struct live *l = ctx;
	struct err err = { 0 };
	int rc = -ETIME;
	while (rc == -ETIME) {
		rc = collector_run(l->collector, window_end(l), &l->stop, 1, &err);
		if (rc)
			tell(l, rc == -ETIME ? 0 : rc, &err);
	}
	return NULL;
}

int live_start(struct live *l, struct err *err)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
	sigset_t all, before;
	int rc = collector_start(l->collector, err);
	/* As in record: a drain that waits for a CPU comes too late. For the thread only. */
	const int nice = getpriority(PRIO_PROCESS, 0);
	setpriority(PRIO_PROCESS, 0, RECORDER_NICE);
	rc = rc ? rc : collector_drop_rights(l->path, err);
	if (rc)
		return rc;
	l->state.started_ns = proc_now_ns();
	sigfillset(&all);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&all, faults[i]); /* their handlers restore the terminal */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&l->thread, NULL, run, l);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	setpriority(PRIO_PROCESS, 0, nice);
	if (rc)
		return err_sys(err, -rc, "a thread to record in");
	l->started = true;
	return 0;
}

const char *live_store(const struct live *l)
{
	return l->path;
}

int live_fd(const struct live *l)
{
	return l->news;
}

void live_look(struct live *l, struct live_state *ret)
{
	uint64_t n;
	if (read(l->news, &n, sizeof(n)) < 0)
		n = 0; /* nothing new */
	pthread_mutex_lock(&l->lock);
	*ret = l->state;
	pthread_mutex_unlock(&l->lock);
}

int live_stop(struct live *l, struct err *err)
{
	uint64_t one = 1;
	struct err e = { 0 };
	if (!l->started)
		return 0;
	if (write(l->stop, &one, sizeof(one)) < 0)
		return err_sys(err, -errno, "stopping the recorder");
	pthread_join(l->thread, NULL);
	l->started = false;
	int rc = collector_stop(l->collector, &e);
	if (l->state.ended) {
		rc = l->state.err.code ? l->state.err.code : -EIO;
		e = l->state.err;
	}
	tell(l, 0, NULL);
	if (rc && err)
		*err = e;
	return rc;
}

void live_close(struct live *l)
{
	if (!l)
		return;
	live_stop(l, NULL);
	collector_close(l->collector);
	keeper_end();
	store_writer_close(l->writer);
	if (l->news >= 0)
		close(l->news);
	if (l->stop >= 0)
		close(l->stop);
	if (l->dir_fd >= 0)
		close(l->dir_fd);
	pthread_mutex_destroy(&l->lock);
	free(l);
}
