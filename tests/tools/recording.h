/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorders for tests share: NAME STORE SECONDS records the host at 99 Hz, in windows of a
 * second.
 */
#ifndef ASCRIBE_TESTS_RECORDING_H
#define ASCRIBE_TESTS_RECORDING_H

#include "collect/collector.h"
#include "proc/proc.h"
#include "store/writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct recording {
	struct store_writer *w;
	struct collector *c;
};

static void check(int rc, const struct err *err, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, err->text, strerror(-rc));
	exit(1);
}

/* Record until the seconds are over; exit when that fails. */
static void recording_run(struct recording *r, char **argv, const struct store_options *o)
{
	struct err err = { 0 }, warning = { 0 };
	struct sampler_config cfg = { .n_events = 1, .hz = 99, .window_s = 1 };
	check(event_parse(&cfg.event[0], "cpu-clock", cfg.hz, &err), &err, "event");
	check(collector_open_store(&r->w, argv[1], argv[0], o, &err), &err, "store");
	check(collector_open(&r->c, &cfg, r->w, &warning, &err), &err, "open");
	check(collector_start(r->c, &err), &err, "start");
	fprintf(stderr, "ascribe: recording\n");
	int rc = collector_run(r->c, proc_now_ns() + strtoull(argv[2], NULL, 10) * 1000000000ull,
			       NULL, 0, &err);
	check(rc == -ETIME ? 0 : rc, &err, "run");
	check(collector_stop(r->c, &err), &err, "stop");
}

static void recording_end(struct recording *r)
{
	collector_close(r->c);
	store_writer_close(r->w);
}

#endif
