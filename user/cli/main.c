/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: find the command, run it, see that its output arrived. */
#include "cli/cmd.h"
#include "cli/pod.h"
#include "opt/complete.h"
#include "opt/man.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command {
	const char *name, *summary;
	int (*run)(int argc, char **argv);
} commands[] = {
#define COMMAND(name, summary) { #name, summary, cmd_##name },
#include "cli/commands.def"
#undef COMMAND
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *f)
{
	fputs("ascribe: a system-wide profiler that says for whom the CPU worked\n\n"
	      "Usage: ascribe COMMAND [OPTIONS]\n\nCommands:\n",
	      f);
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(f, "  %-9s %s\n", commands[i].name, commands[i].summary);
	fputs("  help      ascribe help COMMAND\n\n"
	      "In Kubernetes: ascribe --pod NAMESPACE/NAME [--node NODE] COMMAND ...\n"
	      "asks the agent on the pod's node by kubectl, for the samples of that pod\n\n"
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

/* The i-th command of commands.def, its name and what it is for; NULL: there are fewer. */
static const struct opt_command *command_table(size_t i, const char **ret_name,
					       const char **ret_summary)
{
	if (i >= N_COMMANDS)
		return NULL;
	if (ret_name)
		*ret_name = commands[i].name;
	if (ret_summary)
		*ret_summary = commands[i].summary;
	return cmd_table_of(commands[i].run);
}

/* The manual page of one command, or ascribe(1). */
static int print_man_page(const char *name)
{
	static const struct man_source source = { ASCRIBE_VERSION, ASCRIBE_DATE };
	const struct command *c = name ? find_command(name) : NULL;
	if (name && !c)
		return EXIT_USAGE;
	char *page = NULL;
	size_t len;
	FILE *f = open_memstream(&page, &len);
	if (f && c) {
		man_command(&source, command_table((size_t)(c - commands), NULL, NULL), c->summary,
			    f);
	} else if (f) {
		man_begin(&source, f);
		for (size_t i = 0; i < N_COMMANDS; i++)
			man_entry(commands[i].name, commands[i].summary, f);
		man_end(f);
	}
	bool made = f && !fclose(f);
	if (made)
		man_put(page, stdout);
	else
		cmd_error("out of memory");
	free(page);
	return made ? EXIT_OK : EXIT_FAILED;
}

/* For make: what there are pages of. */
static int print_names(void)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		puts(commands[i].name);
	return EXIT_OK;
}

static int run_help(int argc, char **argv)
{
	if (argc < 2) {
		print_usage(stdout);
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--man"))
		return print_man_page(argv[2]);
	if (!strcmp(argv[1], "--commands"))
		return print_names();
	const struct command *c = find_command(argv[1]);
	return c ? cmd_help(cmd_table_of(c->run)) : EXIT_USAGE;
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
	if (!strcmp(name, "complete")) /* for shells: no command of people */
		return complete_words(argc - 1, argv + 1, command_table);
	if (!strcmp(name, "--pod") || !strncmp(name, "--pod=", strlen("--pod=")))
		return pod_command(argc - 1, argv + 1, command_table);
	if (name[0] == '-') {
		cmd_error("unknown option %s: a command comes first (see ascribe --help)", name);
		return EXIT_USAGE;
	}
	const struct command *c = find_command(name);
	return c ? c->run(argc - 1, argv + 1) : EXIT_USAGE;
}

/*
 * A file opened while descriptor 1 is closed would become stdout. Fill the holes: with a descriptor
 * that cannot be written, so that printing to a closed stdout stays an error.
 */
static void fill_standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
		    open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			_exit(EXIT_FAILED);
	}
}

int main(int argc, char **argv)
{
	fill_standard_descriptors();
	/* Beyond `ulimit -f` writing fails with EFBIG, as on a full disk */
	signal(SIGXFSZ, SIG_IGN);
	return cmd_end(run(argc, argv));
}
