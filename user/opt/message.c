/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/message.h"

#include "export/json.h"
#include "opt/term.h"
#include "util/utf8.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int stdout_errno; /* the first reason why stdout could not be written */

void cmd_flush(void)
{
	errno = 0;
	if (fflush(stdout) && !stdout_errno)
		stdout_errno = errno ? errno : EIO;
}

int cmd_print_json_rows(json_t *object, const struct json_rows *rows)
{
	int rc = json_print(object, rows, stdout);
	json_decref(object);
	return rc;
}

int cmd_print_json(json_t *value)
{
	return cmd_print_json_rows(value, NULL);
}

/*
 * Its first word in colour, where there is any. The text may come from a server or a process: it
 * has no commands for the terminal.
 */
static void message(enum term_style style, const char *prefix, const char *fmt, va_list ap)
{
	char *text = NULL;
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	else
		utf8_show(text, "\n\t");
	cmd_flush();
	flockfile(stderr);
	if (style != TERM_DIM)
		term_begin(stderr, style);
	fputs(prefix, stderr);
	if (style != TERM_DIM)
		term_end(stderr);
	fputs(text ? text : "out of memory", stderr);
	fputc('\n', stderr);
	funlockfile(stderr);
	free(text);
}

void cmd_error(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	message(TERM_BAD, "ascribe: ", fmt, ap);
	va_end(ap);
}

void cmd_say(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	message(TERM_DIM, "ascribe: ", fmt, ap);
	va_end(ap);
}

void cmd_warn(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	message(TERM_WARN, "ascribe: warning: ", fmt, ap);
	va_end(ap);
}

static bool incomplete;

void cmd_incomplete(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	message(TERM_WARN, "ascribe: warning: ", fmt, ap);
	va_end(ap);
	incomplete = true;
}

static bool reader_gone(void)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };
	return stdout_errno == EPIPE || (poll(&p, 1, 0) > 0 && p.revents & POLLERR);
}

/*
 * Whoever read the output has seen enough: as if by SIGPIPE, whether or not somebody has it
 * ignored.
 */
static int end_quietly(void)
{
	signal(SIGPIPE, SIG_DFL);
	raise(SIGPIPE);
	return 128 + SIGPIPE;
}

int cmd_end(int status)
{
	cmd_flush();
	if ((stdout_errno || ferror(stdout)) && reader_gone())
		return end_quietly();
	if ((stdout_errno || ferror(stdout)) && status == EXIT_OK) {
		cmd_error("writing the output failed: %s",
			  strerror(stdout_errno ? stdout_errno : EIO));
		status = EXIT_FAILED;
	}
	term_page_end();
	return status == EXIT_OK && incomplete ? EXIT_FAILED : status;
}
