/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/accounting.h"

#include "cli/cmd.h"
#include "cli/text.h"

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

json_t *accounting_json(const char *const *names, const uint64_t *counts, size_t n)
{
	json_t *o = json_object();
	for (size_t i = 0; o && i < n; i++) {
		if (json_put(o, names[i], json_count(counts[i]))) {
			json_decref(o);
			return NULL;
		}
	}
	return o;
}

int accounting_add(json_t *object, const struct store *s, const struct query_info *info)
{
	const struct store_meta *m = store_meta(s);
	json_t *own = json_pack("{s:f,s:o}", "cpu_seconds", (double)info->own_cpu_ns / 1e9, "rss_bytes",
				json_count(info->own_rss_max));
	int rc = json_put(object, "fired", json_count(info->fired));
	rc = rc ? rc : json_put(object, "stored", json_count(info->stored));
	rc = rc ? rc : json_put(object, "lost", accounting_json(m->lost_names, info->lost, m->n_lost));
	rc = rc ? rc : json_put(object, "flagged", accounting_json(m->flagged_names, info->flagged, m->n_flagged));
	rc = rc ? rc : json_put(object, "idle", json_count(info->idle));
	rc = rc ? rc : json_put(object, "outside", json_count(info->outside));
	if (rc) {
		json_decref(own);
		return rc;
	}
	return json_put(object, "own", own);
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
		fprintf(stderr, " %.1f%%", 100.0 * (double)info->flagged[i] / (double)info->stored);
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
	losses(m, info);
	flags(m, info);
	if (!info->samples)
		cmd_warn("no sample matches");
	else if (info->samples < 100)
		cmd_warn("only %llu samples: shares are rough, see the 95%% intervals",
			 (unsigned long long)info->samples);
}
