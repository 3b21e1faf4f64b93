/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors as values: libraries fill a struct err and return a negative errno; only user/cli prints.
 *
 * Convention of the whole tree: `int` results are 0 or -errno. Corrupt data is -EBADMSG, an unknown
 * version -EPROTONOSUPPORT, a limit reached -E2BIG. A text says what failed, on what, and what to
 * do about it.
 */
#ifndef ASCRIBE_UTIL_ERR_H
#define ASCRIBE_UTIL_ERR_H

struct err {
	int code;	/* negative errno, 0 when nothing was set */
	char text[500]; /* one line, no newline, no trailing period */
};

/*
 * Set e (may be NULL) and return code, a negative errno. The text is cut to fit.
 */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set, with ": " and the text of the errno appended. */
int err_sys(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
