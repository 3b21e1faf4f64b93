/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For `ascribe check`: running programs whose code has no names, or only when they were started
 * with an option.
 */
#ifndef ASCRIBE_CLI_RUNTIMES_H
#define ASCRIBE_CLI_RUNTIMES_H

#include <stddef.h>
#include <stdint.h>

enum runtime {
	RUNTIME_JAVA,
	RUNTIME_NODE,
	RUNTIME_PYTHON,
	RUNTIME_PHP,
	RUNTIME_RUBY,
	RUNTIME_PERL,
	RUNTIME_LUAJIT,
	N_RUNTIMES
};

/* What is missing, and what to do about it. */
struct runtime_advice {
	const char *name, *lack, *fix;
};
extern const struct runtime_advice runtime_advice[N_RUNTIMES];

/* Processes of each runtime, and of them those without the option, with the first few of these. */
struct runtime_count {
	uint32_t n, n_without;
	uint32_t tgid[4];
	char missing[64]; /* of one of these: what the version lacks, or its number; or empty */
};
void runtimes_look(struct runtime_count ret[N_RUNTIMES]);

#endif
