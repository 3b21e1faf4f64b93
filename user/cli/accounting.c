/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/accounting.h"

#include "opt/message.h"
#include "opt/term.h"
#include "opt/text.h"
#include "query/account.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *counter_help(const char *name)
{
	static const struct {
		const char *name, *help;
	} counters[] = {
#define LOST(id, help) { #id, help },
#define FLAG(id, help) { #id, help },
#include "counters.def"
#undef LOST
#undef FLAG
	};
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		if (!strcmp(counters[i].name, name))
			return counters[i].help;
	}
	return "";
}

uint64_t counter_sum(const uint64_t *counts, size_t n)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += counts[i];
	return sum;
}

void accounting_title(const struct store *s)
{
	const struct store_meta *m = store_meta(s);
	char *text = NULL, *shown = NULL;
	if (asprintf(&text, "%s; host %s, %s", m->what, m->host, m->os) < 0)
		text = NULL;
	shown = text ? text_printable(text, strlen(text)) : NULL;
	if (shown && term_width())
		text_cut(shown, term_width());
	puts(shown ? shown : "");
	free(shown);
	free(text);
}

#define INCOMPLETE_PERCENT 1 /* of the samples that fired, lost while a CPU was busy */
#define LACKING_PERCENT 5    /* of the samples that a flag is about */
#define FEW_SAMPLES 100	     /* shares of fewer are rough */

void accounting_print(FILE *f, const struct accounting *a)
{
	char stored[32], fired[32], lost[32], asleep[32];
	text_count(a->stored, stored);
	text_count(a->fired, fired);
	text_count(a->lost, lost);
	text_count(a->asleep, asleep);
	fprintf(f, "%s: %s of %s samples", accounting_is_complete(a) ? "complete" : "incomplete",
		stored, fired);
	if (a->asleep && a->asleep == a->lost)
		fprintf(f, "; %s lost while idle", lost);
	else if (a->asleep)
		fprintf(f, "; %s lost, %s of them while idle", lost, asleep);
	else if (a->lost)
		fprintf(f, "; %s lost", lost);
}

bool accounting_is_complete(const struct accounting *a)
{
	return (a->lost - a->asleep) * 100 <= a->fired * INCOMPLETE_PERCENT;
}

static struct accounting accounting_of(const struct store_meta *m, const struct query_info *info)
{
	struct accounting a = { info->fired, info->stored, counter_sum(info->lost, m->n_lost), 0 };
	for (size_t i = 0; i < m->n_lost; i++)
		if (!strcmp(m->lost_names[i], "idle_not_run"))
			a.asleep = info->lost[i];
	return a;
}

/* Say why, where many samples were lost. */
static void print_losses(const struct store_meta *m, const struct query_info *info)
{
	const char *sep = ": ";
	for (size_t i = 0; i < m->n_lost; i++) {
		char count[32];
		if (!info->lost[i] || !strcmp(m->lost_names[i], "idle_not_run"))
			continue;
		fputs(sep, stderr);
		text_put(stderr, m->lost_names[i], 0);
		text_count(info->lost[i], count);
		fprintf(stderr, " %s", count);
		sep = ", ";
	}
}

/* Does a sample with this flag lack anything that its readers would miss? */
static bool is_lack(const char *flag)
{
	static const char *const none[] = { "idle",	     "unlabelled",     "new_process",
					    "rooted",	     "copied",	       "waits",
					    "wait_summed",   "wait_estimated", "blame_unknown",
					    "waker_unknown", "reduced_rate" };
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (!strcmp(flag, none[i]))
			return false;
	return true;
}

/* A line for each flag that many samples have, with what it means. */
static void print_lacks(const struct store_meta *m, const struct query_info *info)
{
	for (size_t i = 0; i < m->n_flagged; i++) {
		const char *name = m->flagged_names[i];
		uint64_t of = account_base(m, info->flagged, info->stored, name);
		if (!of || !is_lack(name) || info->flagged[i] * 100 < of * LACKING_PERCENT)
			continue;
		fprintf(stderr, "%.1f%% ", 100.0 * (double)info->flagged[i] / (double)of);
		text_put(stderr, name, 0);
		fprintf(stderr, ": %s\n", counter_help(name));
	}
}

void accounting_footer(const struct store *s, const struct query_info *info)
{
	const struct store_meta *m = store_meta(s);
	cmd_flush();
	if (!info->blocks)
		return;	   /* said when the query was asked */
	if (info->fired) { /* none: the samples were imported */
		struct accounting a = accounting_of(m, info);
		accounting_print(stderr, &a);
		if (!accounting_is_complete(&a))
			print_losses(m, info);
		fputc('\n', stderr);
		if (a.fired != a.stored + a.lost)
			cmd_warn(
				"the counts do not add up: the store was written by a faulty version");
		print_lacks(m, info);
	}
	if (!info->samples)
		cmd_warn("no sample matches");
	else if (info->grain && info->samples / info->grain < FEW_SAMPLES)
		cmd_warn("only %llu samples: shares are rough, see the 95%% intervals",
			 (unsigned long long)(info->samples / info->grain));
}
