/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/term.h"

#include "opt/options.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t pager; /* 0: none */
static bool pager_has_stderr;
static unsigned pager_columns; /* of the terminal that it shows */

/* ---- colour ---- */

static bool dumb(void)
{
	const char *term = getenv("TERM");
	return !term || !*term || !strcmp(term, "dumb");
}

static bool is_terminal(FILE *f)
{
	return (pager && (f == stdout || (f == stderr && pager_has_stderr))) || isatty(fileno(f));
}

bool term_colors(FILE *f)
{
	const char *when = opt_common_given()->color, *no = getenv("NO_COLOR");
	if (when && strcmp(when, "auto"))
		return !strcmp(when, "always");
	return !(no && *no) && !dumb() && is_terminal(f);
}

void term_begin(FILE *f, enum term_style style)
{
	static const char *const codes[] = { [TERM_HEAD] = "1",
					     [TERM_GOOD] = "32",
					     [TERM_WARN] = "33",
					     [TERM_BAD] = "31",
					     [TERM_DIM] = "2" };
	if (term_colors(f))
		fprintf(f, "\033[%sm", codes[style]);
}

void term_end(FILE *f)
{
	if (term_colors(f))
		fputs("\033[0m", f);
}

unsigned term_columns(FILE *f)
{
	struct winsize w;
	if (!isatty(fileno(f)) || dumb())
		return 0;
	return ioctl(fileno(f), TIOCGWINSZ, &w) || !w.ws_col ? 80 : w.ws_col;
}

unsigned term_width(void)
{
	return pager ? pager_columns : term_columns(stdout);
}

unsigned term_room(unsigned used)
{
	unsigned width = term_width();
	return !width ? 0 : width > used + 24 ? width - used : 24;
}

/* ---- the pager ---- */

/* What is not there cannot page: all goes on as it came. */
static void copy(void)
{
	char bytes[65536];
	for (ssize_t n; (n = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0;)
		for (ssize_t at = 0, w; at < n; at += w) {
			w = write(STDOUT_FILENO, bytes + at, (size_t)(n - at));
			if (w < 0)
				_exit(1);
		}
	_exit(0);
}

static void run_pager(const char *command)
{
	if (command) {
		execlp("sh", "sh", "-c", command, (char *)NULL);
	} else {
		execlp("less", "less", "-FRX", (char *)NULL);
	}
	copy();
}

/*
 * Whoever reads in the pager interrupts the pager, not what is shown; whoever interrupts a command
 * that has not printed yet, both.
 */
static void interrupted(int sig)
{
	close(STDOUT_FILENO);
	if (pager_has_stderr)
		close(STDERR_FILENO);
	/* errno is the thread's own, and nothing goes on behind raise(). */
	while (waitpid(pager, NULL, 0) < 0 && errno == EINTR) /* NOLINT(bugprone-signal-handler) */
		;
	signal(sig, SIG_DFL);
	raise(sig);
}

void term_page(void)
{
	const char *command = getenv("ASCRIBE_PAGER");
	int p[2];
	command = command ? command : getenv("PAGER");
	if (pager || opt_common_given()->no_pager || !isatty(STDOUT_FILENO) || dumb() ||
	    (command && (!*command || !strcmp(command, "cat"))) || pipe2(p, O_CLOEXEC))
		return;
	fflush(stdout);
	pager_columns = term_columns(stdout);
	pid_t child = fork();
	if (child == 0) {
		dup2(p[0], STDIN_FILENO);
		close(p[0]);
		close(p[1]); /* or its end would never be seen */
		run_pager(command);
	}
	close(p[0]);
	if (child > 0) {
		pager = child;
		pager_has_stderr = isatty(STDERR_FILENO);
		dup2(p[1], STDOUT_FILENO);
		if (pager_has_stderr)
			dup2(p[1], STDERR_FILENO);
		signal(SIGINT, interrupted);
	}
	close(p[1]);
}

void term_page_end(void)
{
	if (!pager)
		return;
	fflush(stdout);
	fflush(stderr);
	close(STDOUT_FILENO);
	if (pager_has_stderr)
		close(STDERR_FILENO);
	while (waitpid(pager, NULL, 0) < 0 && errno == EINTR)
		;
	pager = 0;
}
