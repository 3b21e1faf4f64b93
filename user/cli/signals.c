/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

int signals_take(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void signals_release(int fd)
{
	struct signalfd_siginfo info;
	sigset_t none;
	while (read(fd, &info, sizeof(info)) > 0)
		;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}
