/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: find the command, run it, see that its output arrived. */
#include "cli/cmd.h"
#include "cli/man.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command {
	const char *name, *summary;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "record", "profile processes or the whole host into a store", cmd_record },
	{ "top", "who and which code uses the CPU now, on the terminal", cmd_top },
	{ "report", "who and which code used the CPU: by function or by label", cmd_report },
	{ "diff", "what changed between two selections, ranges or stores, and what is noise", cmd_diff },
	{ "blame", "who had the CPU while others waited for it", cmd_blame },
	{ "why", "one selection against the rest and against before: where its time went", cmd_why },
	{ "flame", "a flame graph as one self-contained HTML page", cmd_flame },
	{ "export", "samples for other tools: pprof, folded stacks", cmd_export },
	{ "labels", "the label keys of a store, or the values of one key", cmd_labels },
	{ "stat", "the accounting: fired, stored, each loss, own cost", cmd_stat },
	{ "store", "a store's contents, damage, parents and repair", cmd_store },
	{ "daemon", "record continuously within a quota, and serve", cmd_daemon },
	{ "serve", "the page and the HTTP API over a store, read-only", cmd_serve },
	{ "check", "what works on this host, and the fix for what does not", cmd_check },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static bool man_page;	 /* --help prints a command's part of the manual page */
static int stdout_errno; /* the first reason why stdout could not be written */

void cmd_flush(void)
{
	errno = 0;
	if (fflush(stdout) && !stdout_errno)
		stdout_errno = errno ? errno : EIO;
}

int cmd_print_json(json_t *value)
{
	int rc = json_print(value, stdout);
	json_decref(value);
	return rc;
}

static void message(const char *prefix, const char *fmt, va_list ap)
{
	cmd_flush();
	flockfile(stderr);
	fputs(prefix, stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	funlockfile(stderr);
}

void cmd_error(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	message("ascribe: ", fmt, ap);
	va_end(ap);
}

void cmd_say(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	message("ascribe: ", fmt, ap);
	va_end(ap);
}

void cmd_warn(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	message("ascribe: warning: ", fmt, ap);
	va_end(ap);
}

static bool incomplete;

void cmd_incomplete(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	message("ascribe: warning: ", fmt, ap);
	va_end(ap);
	incomplete = true;
}

int cmd_help(const struct opt_command *cmd)
{
	(man_page ? man_command : opt_print_help)(cmd, stdout);
	return EXIT_OK;
}

bool cmd_parse(const struct opt_command *cmd, int argc, char **argv, void *out, struct opt_args *ret_args,
	       int *ret_exit)
{
	struct err err = { 0 };
	int rc = opt_parse(cmd, argc, argv, out, ret_args, &err);
	if (!rc)
		return true;
	opt_release(cmd, out);
	if (rc == OPT_HELP) {
		*ret_exit = cmd_help(cmd);
	} else {
		cmd_error("%s: %s (see ascribe %s --help)", cmd->name, err.text, cmd->name);
		*ret_exit = EXIT_USAGE;
	}
	return false;
}

static void print_usage(FILE *f)
{
	fputs("ascribe: a system-wide profiler that says for whom the CPU worked\n\n"
	      "Usage: ascribe COMMAND [OPTIONS]\n\nCommands:\n",
	      f);
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(f, "  %-9s %s\n", commands[i].name, commands[i].summary);
	fputs("  help      ascribe help COMMAND\n\n"
	      "Examples:\n"
	      "  ascribe record -d 10s              # every process of the host, for 10 seconds\n"
	      "  ascribe report --by tenant         # CPU by label\n"
	      "  ascribe flame -o flame.html        # where the time went\n",
	      f);
}

static const struct command *find_command(const char *name)
{
	const char *names[N_COMMANDS + 2];
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (!strcmp(commands[i].name, name))
			return &commands[i];
		names[i] = commands[i].name;
	}
	names[N_COMMANDS] = "help";
	names[N_COMMANDS + 1] = NULL;
	const char *near = opt_suggest(name, names);
	if (near)
		cmd_error("no command '%s'; did you mean '%s'?", name, near);
	else
		cmd_error("no command '%s' (see ascribe --help)", name);
	return NULL;
}

static int command_help(const struct command *c)
{
	char name[32], help[] = "--help";
	char *args[] = { name, help, NULL };
	snprintf(name, sizeof(name), "%s", c->name);
	return c->run(2, args);
}

static int print_man_page(void)
{
	man_page = true;
	man_begin(ASCRIBE_VERSION, stdout);
	for (size_t i = 0; i < N_COMMANDS; i++)
		command_help(&commands[i]);
	man_end(stdout);
	return EXIT_OK;
}

static int run_help(int argc, char **argv)
{
	if (argc < 2) {
		print_usage(stdout);
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--man"))
		return print_man_page();
	const struct command *c = find_command(argv[1]);
	return c ? command_help(c) : EXIT_USAGE;
}

static int run(int argc, char **argv)
{
	if (argc < 2) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	const char *name = argv[1];
	if (!strcmp(name, "--version") || !strcmp(name, "-V") || !strcmp(name, "version")) {
		puts("ascribe " ASCRIBE_VERSION);
		return EXIT_OK;
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
		return run_help(argc - 1, argv + 1);
	if (name[0] == '-') {
		cmd_error("unknown option %s: a command comes first (see ascribe --help)", name);
		return EXIT_USAGE;
	}
	const struct command *c = find_command(name);
	return c ? c->run(argc - 1, argv + 1) : EXIT_USAGE;
}

/*
 * A file opened while descriptor 1 is closed would become stdout. Fill the holes: with a descriptor that cannot be
 * written, so that printing to a closed stdout stays an error.
 */
static void fill_standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			_exit(EXIT_FAILED);
	}
}

int main(int argc, char **argv)
{
	fill_standard_descriptors();
	int status = run(argc, argv);
	cmd_flush();
	if ((stdout_errno || ferror(stdout)) && status == EXIT_OK) {
		cmd_error("writing the output failed: %s", strerror(stdout_errno ? stdout_errno : EIO));
		status = EXIT_FAILED;
	}
	return status == EXIT_OK && incomplete ? EXIT_FAILED : status;
}
