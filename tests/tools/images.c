/* SPDX-License-Identifier: Apache-2.0 */
/*
 * images STORE SECONDS: record the host, then print as JSON how many images the process table has
 * had at the end. It also prints which of them it holds for alive, and how many others stay when
 * what has ended is forgotten.
 */
#include "collect/collector_int.h"
#include "proc/proc_int.h"
#include "recording.h"
#include "store/writer.h"

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
	struct recording r;
	struct store_options o;
	const char *comma = "";
	if (argc != 3)
		return 2;
	store_options_default(&o);
	recording_run(&r, argv, &o);
	struct procs *procs = r.c->procs;
	printf("{\"images\":%zu,\"alive\":[", procs_count(procs));
	print_state(procs, PROC_LIVES, &comma);
	print_state(procs, PROC_LEADERLESS, &comma);
	procs_forget(procs, proc_now_ns());
	printf("],\"ended_stay\":%zu}\n", procs_count(procs) - procs_alive(procs));
	recording_end(&r);
	return 0;
}
