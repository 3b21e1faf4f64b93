/* SPDX-License-Identifier: Apache-2.0 */
#include "record/progress.h"

#include "opt/term.h"
#include "proc/proc.h"

#include <inttypes.h>
#include <stdio.h>

void progress_print(const struct collector_progress *p, uint64_t start_ns, bool tty)
{
	double s = (double)(proc_now_ns() - start_ns) / 1e9;
	unsigned columns = term_columns(stderr);
	char line[200], asleep[60] = "";
	if (p->asleep)
		snprintf(asleep, sizeof(asleep), " (%" PRIu64 " on idle CPUs)", p->asleep);
	snprintf(line, sizeof(line),
		 "ascribe: %.0f s, %" PRIu64 " samples, %" PRIu64 " lost%s, %" PRIu64 " processes",
		 s, p->sampled, p->lost, asleep, p->processes);
	/* One line that is written over; a longer one would leave its beginning behind. */
	if (tty)
		fprintf(stderr, "\r\033[K%.*s", columns ? (int)columns - 1 : 0, line);
	else
		fprintf(stderr, "%s\n", line);
	fflush(stderr);
}
