/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program prints: data on stdout, messages on stderr. cmd_end checks that all data was
 * written.
 */
#ifndef ASCRIBE_OPT_MESSAGE_H
#define ASCRIBE_OPT_MESSAGE_H

#include <jansson.h>

struct json_rows;

enum cmd_exit {
	EXIT_OK = 0,
	EXIT_FAILED = 1, /* something that was asked for was not done */
	EXIT_USAGE = 2,	 /* the command line makes no sense */
};

/* One line on stderr: "ascribe: ..." */
void cmd_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cmd_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "ascribe: ..." on stderr: no complaint. */
void cmd_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/*
 * A warning after which the command goes on, and ends with EXIT_FAILED all the same: not everything
 * that was asked for was there.
 */
void cmd_incomplete(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Let the data that was printed so far go before what follows on stderr; main() reports a failure.
 */
void cmd_flush(void);

/* A line of JSON on stdout, taking over the value. -EIO; -ENOMEM when there is none. */
int cmd_print_json(json_t *value);
/* The same of an object with these rows. */
int cmd_print_json_rows(json_t *object, const struct json_rows *rows);

/*
 * End the command: write what is left, wait for the pager's user, say if the output did not arrive.
 * Return the exit status of the process for that of the command. Where the reader of stdout has
 * left, end as if by SIGPIPE.
 */
int cmd_end(int status);

#endif
