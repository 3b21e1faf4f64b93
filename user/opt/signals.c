/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

static void fill_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
}

int signals_take(int more)
{
	sigset_t set;
	fill_set(&set);
	if (more)
		sigaddset(&set, more);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Take the signals that come within SIGNALS_SAME_MS. */
static void skip_same(const sigset_t *set)
{
	struct timespec pause = { .tv_nsec = SIGNALS_SAME_MS * 1000000L }, zero = { 0 };
	while (nanosleep(&pause, &pause))
		;
	while (sigtimedwait(set, NULL, &zero) > 0)
		;
}

/* Report the first signal through the eventfd, and end the process by the second. */
static void *run_watch(void *arg)
{
	int fd = (int)(intptr_t)arg, signo = 0;
	sigset_t set;
	fill_set(&set);
	sigwait(&set, &signo);
	eventfd_write(fd, 1);
	skip_same(&set);
	sigwait(&set, &signo);
	signal(signo, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(signo);
	return NULL;
}

int signals_take_once(void)
{
	sigset_t set;
	pthread_t thread;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return -1;
	fill_set(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&thread, NULL, run_watch, (void *)(intptr_t)fd)) {
		close(fd);
		return -1;
	}
	pthread_detach(thread);
	return fd;
}
