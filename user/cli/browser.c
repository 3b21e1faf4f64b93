/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/browser.h"

#include "opt/message.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static bool has_desktop(void)
{
	const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
	return !getenv("SSH_CONNECTION") && ((x && *x) || (wayland && *wayland));
}

/* Run xdg-open, which returns or not; nobody waits for it. */
static bool start(const char *what)
{
	char *argv[] = { (char *)"xdg-open", (char *)what, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	pid_t pid;
	if (!has_desktop() || posix_spawn_file_actions_init(&files))
		return false;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&files);
		return false;
	}
	sigemptyset(&none);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	for (int fd = 0; fd <= 2; fd++)
		posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	bool started = !posix_spawnp(&pid, argv[0], &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return started;
}

/* Name this host as the user reached it: "client port server port" is in SSH_CONNECTION. */
static void host_name(char *out, size_t cap)
{
	const char *ssh = getenv("SSH_CONNECTION");
	char server[64];
	if (ssh && sscanf(ssh, "%*s %*s %63s", server) == 1)
		snprintf(out, cap, "%s", server);
	else if (gethostname(out, cap))
		snprintf(out, cap, "HOST");
	out[cap - 1] = '\0';
}

void browser_open_file(const char *path)
{
	char host[256], *whole = realpath(path, NULL);
	if (whole && !start(whole)) {
		host_name(host, sizeof(host));
		cmd_say("no desktop here; on your machine: scp %s:%s . and open it in a browser",
			host, whole);
	}
	free(whole);
}

/* Write a page that leads to the address, for its owner alone. */
static char *write_redirect(const char *url)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/ascribe-XXXXXX.html", dir && *dir ? dir : "/tmp");
	int fd = mkostemps(path, 5, O_CLOEXEC);
	if (fd < 0)
		return NULL;
	bool written =
		dprintf(fd, "<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0; url=%s\">\n",
			url) > 0;
	close(fd);
	if (!written)
		unlink(path);
	return written ? strdup(path) : NULL;
}

void browser_open_address(struct browser *b, const char *url)
{
	const char *port = strstr(url, "://");
	char host[256];
	b->file = has_desktop() ? write_redirect(url) : NULL;
	if (b->file && start(b->file))
		return;
	port = port ? strchr(port + 3, ':') : NULL;
	if (!port)
		return;
	int n = (int)strspn(port + 1, "0123456789");
	host_name(host, sizeof(host));
	cmd_say("no desktop here; on your machine: ssh -L %.*s:127.0.0.1:%.*s %s, then open that "
		"address there",
		n, port + 1, n, port + 1, host);
}

void browser_done(struct browser *b)
{
	if (b->file)
		unlink(b->file);
	free(b->file);
	b->file = NULL;
}
