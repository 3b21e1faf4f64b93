/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/accounting.h"

#include "cli/cmd.h"
#include "cli/text.h"
#include "query/account.h"

#include <errno.h>
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
	text_put(stdout, m->what, 0);
	fputs("; host ", stdout);
	text_put(stdout, m->host, 0);
	fputs(", ", stdout);
	text_put(stdout, m->os, 0);
	putchar('\n');
}

static void losses(const struct store_meta *m, const struct query_info *info)
{
	uint64_t lost = counter_sum(info->lost, m->n_lost);
	fprintf(stderr, "fired %llu = stored %llu + lost %llu", (unsigned long long)info->fired,
		(unsigned long long)info->stored, (unsigned long long)lost);
	const char *sep = " (";
	for (size_t i = 0; i < m->n_lost; i++) {
		if (!info->lost[i])
			continue;
		fputs(sep, stderr);
		text_put(stderr, m->lost_names[i], 0);
		fprintf(stderr, " %llu", (unsigned long long)info->lost[i]);
		sep = ", ";
	}
	fputs(lost ? ")\n" : "\n", stderr);
	if (info->fired != info->stored + lost)
		cmd_warn("the counts do not add up: the store was written by a faulty version");
}

static void flags(const struct store_meta *m, const struct query_info *info)
{
	const char *sep = "of the stored: ";
	for (size_t i = 0; i < m->n_flagged && info->stored; i++) {
		const char *name = m->flagged_names[i];
		bool always = !strcmp(name, "unlabelled") || !strcmp(name, "truncated");
		if (!info->flagged[i] && !always)
			continue;
		fputs(sep, stderr);
		text_put(stderr, name, 0);
		uint64_t of = account_base(m, info->flagged, info->stored, name);
		if (of || !info->flagged[i])
			fprintf(stderr, " %.1f%%",
				of ? 100.0 * (double)info->flagged[i] / (double)of : 0);
		else
			fprintf(stderr, " %llu", (unsigned long long)info->flagged[i]);
		sep = ", ";
	}
	if (*sep == ',')
		fputc('\n', stderr);
}

void accounting_footer(const struct store *s, const struct query_info *info)
{
	const struct store_meta *m = store_meta(s);
	cmd_flush();
	if (!info->blocks)
		return; /* said when the query was asked */
	if (info->fired) { /* none: the samples were imported */
		losses(m, info);
		flags(m, info);
	}
	if (!info->samples)
		cmd_warn("no sample matches");
	else if (info->samples < 100)
		cmd_warn("only %llu samples: shares are rough, see the 95%% intervals",
			 (unsigned long long)info->samples);
}
