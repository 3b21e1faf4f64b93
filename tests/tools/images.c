/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images STORE SECONDS: record the host, then print as JSON how many images the process table has
 * had at the end, which of them it holds for alive, and how many others stay when what has ended is
 * forgotten.
 */
#include "collect/collector_int.h"
#include "proc/proc_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int rc, const struct err *err, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "images: %s: %s (%s)\n", what, err->text, strerror(-rc));
	exit(1);
}

static void print_state(const struct procs *p, enum proc_state state, const char **io_comma)
{
	for (const struct list_node *n = p->list[state].first; n; n = n->after) {
		const struct proc_image *im = LIST_ENTRY(n, struct proc_image, node);
		printf("%s%u", *io_comma, im->tgid);
		*io_comma = ",";
	}
}

int main(int argc, char **argv)
{
	struct err err = { 0 }, warning = { 0 };
	struct sampler_config cfg = { .n_events = 1, .hz = 99, .window_s = 1 };
	struct store_options o;
	struct store_writer *w;
	struct collector *c;
	const char *comma = "";
	if (argc != 3)
		return 2;
	store_options_default(&o);
	check(event_parse(&cfg.event[0], "cpu-clock", cfg.hz, &err), &err, "event");
	check(collector_open_store(&w, argv[1], "images", &o, &err), &err, "store");
	check(collector_open(&c, &cfg, w, &warning, &err), &err, "open");
	check(collector_start(c, &err), &err, "start");
	fprintf(stderr, "ascribe: recording\n");
	int rc = collector_run(c, proc_now_ns() + strtoull(argv[2], NULL, 10) * 1000000000ull, NULL, 0, &err);
	check(rc == -ETIME ? 0 : rc, &err, "run");
	check(collector_stop(c, &err), &err, "stop");
	printf("{\"images\":%zu,\"alive\":[", procs_count(c->procs));
	print_state(c->procs, PROC_LIVES, &comma);
	print_state(c->procs, PROC_LEADERLESS, &comma);
	procs_forget(c->procs, proc_now_ns());
	printf("],\"ended_stay\":%zu}\n", procs_count(c->procs) - procs_alive(c->procs));
	collector_close(c);
	store_writer_close(w);
	return 0;
}
