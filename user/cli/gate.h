/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gates of commands: the options --fail-on or --require and --format, and what becomes of the
 * rules. A gate that does not hold ends the command with EXIT_FAILED.
 */
#ifndef ASCRIBE_CLI_GATE_H
#define ASCRIBE_CLI_GATE_H

#include "opt/options.h"
#include "query/gate.h"

#include <jansson.h>
#include <stdio.h>

enum gate_format { GATE_TEXT, GATE_JSON, GATE_JUNIT, GATE_MARKDOWN };

struct gate {
	const char *command; /* its name, for messages */
	const char *option;  /* "--fail-on" */
	enum gate_format format;
	struct gate_rule rule[GATE_RULES_MAX];
	struct gate_result result[GATE_RULES_MAX];
	size_t n, n_results;
};

#define FORMAT_OPTION(type, member) \
	{ "format", \
	  0, \
	  OPT_STRING, \
	  "OUTPUT", \
	  "text (default), json, junit (XML for CI servers: a test for each rule) or markdown " \
	  "(for a pull request)", \
	  offsetof(type, member), \
	  0, \
	  0 }

/*
 * Parse the rules and the format (NULL: text, or JSON where json is set). Print what is wrong,
 * with the place. 0 or an exit status. Release g whatever the result.
 */
int gate_open(struct gate *g, const struct opt_list *rules, const char *format, bool json);
/* Say that a rule does not fit the rows or counters. EXIT_USAGE. */
int gate_refuse(const struct gate *g, size_t rule, const struct err *err);
void gate_close(struct gate *g);

/* Did every rule hold? True where there is none. */
bool gate_holds(const struct gate *g);

/* A list of the rules and what they found, on stdout. */
void gate_print_text(const struct gate *g);
/* "gate": {...} in an answer; nothing without rules. -ENOMEM. */
int gate_put_json(const struct gate *g, json_t *answer);

/* Where the samples come from. */
struct gate_origin {
	const char *host; /* may be empty */
	int64_t at_ns;	  /* realtime: when they were taken; 0: not known */
};
/* JUnit's XML: a test suite with a case for each rule. */
void gate_print_junit(const struct gate *g, const struct gate_origin *o);
/* A heading and a table of the rules; nothing else of the command. */
void gate_print_markdown(const struct gate *g);

/* A cell of a Markdown table: foreign text shows as it is, and cannot end the cell or be markup. */
void markdown_cell(FILE *f, const char *text);

#endif
