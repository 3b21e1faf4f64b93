/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command-line options as data: one table per command, from which parsing, --help and error
 * messages come.
 *
 * Forms: --name VALUE, --name=VALUE, -x VALUE, -xVALUE, flags together (-ai). Options and arguments
 * may be mixed; `--` ends the options. Of a repeated option the last counts, but lists grow. Every
 * command knows what opt_common_table has, too.
 */
#ifndef ASCRIBE_OPT_OPTIONS_H
#define ASCRIBE_OPT_OPTIONS_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum opt_type {
	OPT_FLAG,     /* bool */
	OPT_STRING,   /* const char *, borrowed from argv */
	OPT_UINT,     /* uint64_t, min <= value <= max (max 0: no upper limit) */
	OPT_DURATION, /* int64_t, nanoseconds, > 0 */
	OPT_TIME,     /* int64_t, realtime nanoseconds */
	OPT_LIST,     /* struct opt_list */
	OPT_SIZE,     /* uint64_t, bytes, with the same limits: 64MiB, 1G; 5 is 5 bytes */
	OPT_TEXTS,    /* struct opt_list; a comma is a part of its element */
	OPT_SECTIONS, /* the same; in a file an element may be a mapping: lines "name value" */
};

static inline bool opt_is_list(enum opt_type t)
{
	return t == OPT_LIST || t == OPT_TEXTS || t == OPT_SECTIONS;
}

/* Never holds an empty element; given twice, the option appends. Release with opt_release. */
struct opt_list {
	char **v;
	size_t n;
};

/* Have both the same elements, in the same order? */
bool opt_list_same(const struct opt_list *a, const struct opt_list *b);

struct opt {
	const char *name; /* long name, without dashes */
	char letter;	  /* short form, 0: none */
	enum opt_type type;
	const char *arg;  /* what the value is called in the help, NULL for flags */
	const char *help; /* a paragraph, without newlines. NULL: for tests, in no help */
	size_t at;	  /* offsetof the member in the command's struct */
	uint64_t min, max;
};

/* What else there is to know of a command: a word and what it means. */
struct opt_note {
	const char *term, *text;
};

struct opt_command {
	const char *name;
	const char *usage;    /* what follows the name: "[STORE] [OPTIONS]" */
	const char *about;    /* a paragraph, without newlines */
	const char *examples; /* lines, each ending in a newline; may be NULL */
	const struct opt *opts;
	size_t n_opts;
	size_t max_args; /* arguments that are not options */
	/* The first argument ends the options: a command and its own arguments follow */
	bool runs_command;
	const char *notes_title;      /* "KEYS" */
	const struct opt_note *notes; /* NULL: none; the list ends with a NULL */
	bool pages;		      /* what it prints is for a pager, where there is a terminal */
};

/* What every command knows besides its own options, and --help. */
struct opt_common {
	const char *color; /* auto, always, never; NULL: not given */
	bool no_pager;
};

extern const struct opt opt_common_table[];
extern const size_t opt_common_n;
/* Of the command line that was parsed last. */
const struct opt_common *opt_common_given(void);

/* A bit for each option of a table. */
#define OPT_MASK_BITS 128
typedef __uint128_t opt_mask;

struct opt_args {
	char **v; /* the arguments, in argv's own memory: opt_parse reorders argv; v[n] is NULL */
	size_t n;
	opt_mask given; /* bit i: option i of the table was there */
};

#define OPT_HELP 1 /* --help was given: print it and stop */

/*
 * Fill the members of `out` that were named; the others keep what the caller put there. 0,
 * OPT_HELP, or -EINVAL with a text that names the option and what it wants. argv[0] is the
 * command's name. Lists are released by opt_release whatever the result.
 */
int opt_parse(const struct opt_command *cmd, int argc, char **argv, void *out,
	      struct opt_args *ret_args, struct err *err);
void opt_release(const struct opt_command *cmd, void *out);
void opt_print_help(const struct opt_command *cmd, FILE *f);

/*
 * Set one option by its long name, as --name=text would; err calls it by its name alone. A flag
 * takes true or false. text must stay: OPT_STRING borrows it. -ENOENT: there is no such option, err
 * suggests one.
 */
int opt_set(const struct opt_command *cmd, const char *name, const char *text, void *out,
	    struct err *err);

/* times_duration, times_parse */
int opt_duration(const char *text, int64_t *ret_ns);
int opt_time(const char *text, int64_t now_ns, int64_t *ret_ns);

/* The candidate that looks like a misspelt `word`, or NULL. The list ends with NULL. */
const char *opt_suggest(const char *word, const char *const *candidates);

#endif
