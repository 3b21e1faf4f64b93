/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a daemon on stderr, each message (its format) ten times a minute at most; how many were
 * left out is said with the next one. With a priority in front where the journal reads. The main
 * thread alone.
 */
#ifndef ASCRIBE_DAEMON_LOG_H
#define ASCRIBE_DAEMON_LOG_H

enum log_priority { LOG_LINE_ERROR = 3, LOG_LINE_WARNING = 4, LOG_LINE_INFO = 6 };

void log_line(enum log_priority p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
