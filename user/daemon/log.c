/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/log.h"

#include "util/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MESSAGES 64
#define PER_MINUTE 10
#define MINUTE 60

static struct {
	const char *fmt; /* its address is the message */
	time_t since;
	unsigned n;
	unsigned long left_out;
} seen[MESSAGES];

/* Whether it may be said now; *ret_left_out: how often it was not. */
static int admit(const char *fmt, unsigned long *ret_left_out)
{
	struct timespec now;
	size_t i = 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	while (i + 1 < MESSAGES && seen[i].fmt && seen[i].fmt != fmt)
		i++;
	*ret_left_out = 0;
	if (seen[i].fmt != fmt || now.tv_sec - seen[i].since >= MINUTE) {
		*ret_left_out = seen[i].fmt == fmt ? seen[i].left_out : 0;
		seen[i].fmt = fmt;
		seen[i].since = now.tv_sec;
		seen[i].n = 0;
		seen[i].left_out = 0;
	}
	if (seen[i].n < PER_MINUTE)
		return ++seen[i].n;
	seen[i].left_out++;
	return 0;
}

void log_line(enum log_priority p, const char *fmt, ...)
{
	static const char *const words[8] = {
		[LOG_LINE_ERROR] = "error: ", [LOG_LINE_WARNING] = "warning: "
	};
	char text[1024];
	unsigned long left_out;
	va_list ap;
	if (!admit(fmt, &left_out))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	utf8_show(text, "");
	if (getenv("JOURNAL_STREAM"))
		fprintf(stderr, "<%d>", (int)p);
	fprintf(stderr, "ascribe: %s%s", words[p] ? words[p] : "", text);
	if (left_out)
		fprintf(stderr, " (%lu more of these were not logged)", left_out);
	fputc('\n', stderr);
}
