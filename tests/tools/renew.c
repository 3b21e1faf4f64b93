/* SPDX-License-Identifier: Apache-2.0 */
/*
 * renew STORE SECONDS: record the host, a new symbol generation after each window of a second, as
 * it happens once in months.
 */
#include "collect/collector.h"

#include "proc/proc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int rc, const struct err *err, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "renew: %s: %s (%s)\n", what, err->text, strerror(-rc));
	exit(1);
}

int main(int argc, char **argv)
{
	struct err err = { 0 }, warning = { 0 };
	struct sampler_config cfg = { .n_events = 1, .hz = 99, .window_s = 1 };
	struct store_options o;
	struct store_writer *w;
	struct collector *c;
	if (argc != 3)
		return 2;
	store_options_default(&o);
	o.generation_bytes = 1;
	check(event_parse(&cfg.event[0], "cpu-clock", cfg.hz, &err), &err, "event");
	check(collector_open_store(&w, argv[1], "renew", &o, &err), &err, "store");
	check(collector_open(&c, &cfg, w, &warning, &err), &err, "open");
	check(collector_start(c, &err), &err, "start");
	int rc = collector_run(c, proc_now_ns() + strtoull(argv[2], NULL, 10) * 1000000000ull, NULL, 0, &err);
	check(rc == -ETIME ? 0 : rc, &err, "run");
	check(collector_stop(c, &err), &err, "stop");
	collector_close(c);
	store_writer_close(w);
	return 0;
}
