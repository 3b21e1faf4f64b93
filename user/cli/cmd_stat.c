/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe stat: every sample accounted for, per CPU and in total. */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct stat_options {
	struct filter filter;
};

static const struct opt options[] = {
	RANGE_OPTIONS(struct stat_options, filter),
	JSON_OPTION(struct stat_options, filter),
	EXPLAIN_OPTION(struct stat_options, filter),
};

static const struct opt_command command = {
	.name = "stat",
	.usage = "[STORE] [OPTIONS]",
	.about = "Print the accounting of a store: fired = stored + each loss, per CPU and in total, what there is\n"
		 "to say about the stored samples, and what the recorder itself used.\n",
	.examples = "  ascribe stat\n"
		    "  ascribe stat --from now-1h --json\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = 1,
};

/* Sums over the windows of the range; one store_cpu_totals per CPU that fired, and one for all. */
struct totals {
	struct store_cpu_totals *cpu;
	size_t n_cpus;
	struct store_cpu_totals all;
	uint64_t outside, own_cpu_ns, own_rss;
	uint64_t blocks;
	int64_t from_ns, to_ns;
};

static int totals_new(struct store_cpu_totals *t, const struct store_meta *m)
{
	t->lost = calloc(m->n_lost + 1, sizeof(*t->lost));
	t->flagged = calloc(m->n_flagged + 1, sizeof(*t->flagged));
	return t->lost && t->flagged ? 0 : -ENOMEM;
}

static void totals_free(struct totals *t)
{
	for (size_t i = 0; i < t->n_cpus; i++) {
		free(t->cpu[i].lost);
		free(t->cpu[i].flagged);
	}
	free(t->cpu);
	free(t->all.lost);
	free(t->all.flagged);
}

static void totals_add(struct store_cpu_totals *to, const struct store_cpu_totals *c, const struct store_meta *m)
{
	to->fired += c->fired;
	to->stored += c->stored;
	for (size_t i = 0; i < m->n_lost; i++)
		to->lost[i] += c->lost[i];
	for (size_t i = 0; i < m->n_flagged; i++)
		to->flagged[i] += c->flagged[i];
}

/* The CPUs come in the same order in every window but for those that came or went: look near `hint` first. */
static int find_cpu(struct totals *t, uint32_t cpu, size_t hint, const struct store_meta *m,
		    struct store_cpu_totals **ret)
{
	if (hint < t->n_cpus && t->cpu[hint].cpu == cpu) {
		*ret = &t->cpu[hint];
		return 0;
	}
	for (size_t i = 0; i < t->n_cpus; i++) {
		if (t->cpu[i].cpu == cpu) {
			*ret = &t->cpu[i];
			return 0;
		}
	}
	struct store_cpu_totals *v = reallocarray(t->cpu, t->n_cpus + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	t->cpu = v;
	v += t->n_cpus++;
	*v = (struct store_cpu_totals){ .cpu = cpu };
	*ret = v;
	return totals_new(v, m);
}

static int add_window(struct totals *t, const struct store_window *w, const struct store_meta *m)
{
	for (size_t i = 0; i < w->totals.n_cpus; i++) {
		const struct store_cpu_totals *c = &w->totals.cpu[i];
		struct store_cpu_totals *to;
		int rc = find_cpu(t, c->cpu, i, m, &to);
		if (rc)
			return rc;
		totals_add(to, c, m);
		totals_add(&t->all, c, m);
	}
	t->outside += w->totals.outside;
	t->own_cpu_ns += w->totals.own_cpu_ns;
	if (w->totals.own_rss > t->own_rss)
		t->own_rss = w->totals.own_rss;
	if (!t->blocks || w->t0_ns < t->from_ns)
		t->from_ns = w->t0_ns;
	if (!t->blocks || w->t1_ns > t->to_ns)
		t->to_ns = w->t1_ns;
	t->blocks++;
	return 0;
}

static int by_cpu(const void *a, const void *b)
{
	uint32_t x = ((const struct store_cpu_totals *)a)->cpu, y = ((const struct store_cpu_totals *)b)->cpu;
	return (x > y) - (x < y);
}

static int sum(const struct reading *r, const struct filter *f, struct totals *t)
{
	const struct store_meta *m = store_meta(r->store);
	struct store_cover cover = { 0 };
	int rc = totals_new(&t->all, m);
	if (!rc)
		rc = store_cover(r->store, f->from_ns, f->to_ns, STORE_FOLDED, NULL, 0, &cover, NULL);
	for (size_t i = 0; !rc && i < cover.n; i++) {
		const struct store_block *b = cover.blocks[i];
		struct store_totals *one;
		rc = store_block_totals(r->store, b, &one, NULL);
		if (rc)
			break;
		struct store_window w = { b->t0_ns, b->t1_ns, b->boot_ns, b->n_rows, *one };
		rc = add_window(t, &w, m);
		store_totals_free(one);
	}
	store_cover_free(&cover);
	if (t->n_cpus)
		qsort(t->cpu, t->n_cpus, sizeof(*t->cpu), by_cpu);
	return rc;
}

/* ---- JSON ---- */

static int add_counts(json_t *o, const struct store_cpu_totals *c, const struct store_meta *m)
{
	int rc = json_put(o, "fired", json_count(c->fired));
	rc = rc ? rc : json_put(o, "stored", json_count(c->stored));
	rc = rc ? rc : json_put(o, "lost", accounting_json(m->lost_names, c->lost, m->n_lost));
	return rc ? rc : json_put(o, "flagged", accounting_json(m->flagged_names, c->flagged, m->n_flagged));
}

static json_t *cpus_json(const struct totals *t, const struct store_meta *m)
{
	json_t *a = json_array();
	for (size_t i = 0; a && i < t->n_cpus; i++) {
		json_t *o = json_pack("{s:I}", "cpu", (json_int_t)t->cpu[i].cpu);
		int rc = add_counts(o, &t->cpu[i], m);
		if (json_array_append_new(a, o) || rc) {
			json_decref(a);
			return NULL;
		}
	}
	return a;
}

static int print_json(const struct store_meta *m, const struct totals *t)
{
	json_t *o = json_object();
	json_t *own = json_pack("{s:f,s:o}", "cpu_seconds", (double)t->own_cpu_ns / 1e9, "rss_bytes",
				json_count(t->own_rss));
	int rc = json_put(o, "own", own);
	rc = rc ? rc : add_counts(o, &t->all, m);
	rc = rc ? rc : json_put(o, "outside", json_count(t->outside));
	rc = rc ? rc : json_put(o, "cpus", cpus_json(t, m));
	rc = rc ? rc : json_put(o, "from", json_real((double)t->from_ns / 1e9));
	rc = rc ? rc : json_put(o, "to", json_real((double)t->to_ns / 1e9));
	rc = rc ? rc : json_put(o, "blocks", json_count(t->blocks));
	rc = rc ? rc : json_put(o, "what", json_text(m->what, strlen(m->what)));
	rc = rc ? rc : json_put(o, "host", json_text(m->host, strlen(m->host)));
	rc = rc ? rc : json_put(o, "os", json_text(m->os, strlen(m->os)));
	rc = rc ? rc : json_print(o, stdout);
	json_decref(o);
	return rc;
}

/* ---- text ---- */

static double percent(uint64_t part, uint64_t of)
{
	return of ? 100.0 * (double)part / (double)of : 0;
}

static void print_counters(const char *const *names, const uint64_t *counts, size_t n, uint64_t of)
{
	for (size_t i = 0; i < n; i++) {
		fputs("  ", stdout);
		text_put(stdout, names[i], 17);
		printf(" %12llu %8.3f%%  %s\n", (unsigned long long)counts[i], percent(counts[i], of),
		       counter_help(names[i]));
	}
}

static void print_cpus(const struct totals *t, const struct store_meta *m)
{
	printf("\n%-5s %12s %12s %12s", "CPU", "fired", "stored", "lost");
	for (size_t j = 0; j < m->n_lost; j++) {
		if (t->all.lost[j])
			text_put(stdout, m->lost_names[j], -16);
	}
	putchar('\n');
	for (size_t i = 0; i <= t->n_cpus; i++) {
		const struct store_cpu_totals *c = i < t->n_cpus ? &t->cpu[i] : &t->all;
		char name[16] = "all";
		if (i < t->n_cpus)
			snprintf(name, sizeof(name), "%u", c->cpu);
		printf("%-5s %12llu %12llu %12llu", name, (unsigned long long)c->fired, (unsigned long long)c->stored,
		       (unsigned long long)counter_sum(c->lost, m->n_lost));
		for (size_t j = 0; j < m->n_lost; j++) {
			if (t->all.lost[j])
				printf("%16llu", (unsigned long long)c->lost[j]);
		}
		putchar('\n');
	}
}

static int print_text(const struct store *s, const struct totals *t)
{
	const struct store_meta *m = store_meta(s);
	double wall = (double)(t->to_ns - t->from_ns) / 1e9;
	char range[120];
	accounting_title(s);
	if (!t->blocks)
		return 0;
	text_range(t->from_ns, t->to_ns, range);
	printf("%s, %llu blocks\n\n", range, (unsigned long long)t->blocks);
	printf("%-19s %12llu\n", "fired", (unsigned long long)t->all.fired);
	printf("%-19s %12llu %8.3f%%\n", "stored", (unsigned long long)t->all.stored,
	       percent(t->all.stored, t->all.fired));
	uint64_t lost = counter_sum(t->all.lost, m->n_lost);
	printf("%-19s %12llu %8.3f%%\n", "lost", (unsigned long long)lost, percent(lost, t->all.fired));
	print_counters(m->lost_names, t->all.lost, m->n_lost, t->all.fired);
	puts("\nof the stored:");
	print_counters(m->flagged_names, t->all.flagged, m->n_flagged, t->all.stored);
	print_cpus(t, m);
	printf("\noutside the selection: %llu\n", (unsigned long long)t->outside);
	printf("own cost: %.3f s of CPU", (double)t->own_cpu_ns / 1e9);
	if (wall > 0)
		printf(" (%.3f%% of one CPU)", (double)t->own_cpu_ns / 1e7 / wall);
	printf(", %.1f MiB resident\n", (double)t->own_rss / 1048576);
	if (t->all.fired != t->all.stored + lost)
		cmd_warn("the counts do not add up: the store was written by a faulty version");
	return 0;
}

static int stat_store(struct reading *r, const struct filter *f)
{
	const struct store_meta *m = store_meta(r->store);
	struct totals t = { 0 };
	int rc = sum(r, f, &t);
	reading_step(r, "sum");
	if (!rc && !t.blocks)
		reading_no_data(r->store, f->from_ns, f->to_ns);
	if (!rc)
		rc = f->json ? print_json(m, &t) : print_text(r->store, &t);
	if (rc == -ENOMEM)
		cmd_error("out of memory");
	totals_free(&t);
	reading_explain(r);
	return rc ? EXIT_FAILED : EXIT_OK;
}

int cmd_stat(int argc, char **argv)
{
	struct stat_options opts = { .filter = FILTER_INIT };
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	status = reading_check(&opts.filter, "--where", "--from");
	if (!status)
		status = reading_open_store(&r, args.n ? args.v[0] : NULL, opts.filter.explain);
	if (!status)
		status = stat_store(&r, &opts.filter);
	reading_close(&r);
	return status;
}
