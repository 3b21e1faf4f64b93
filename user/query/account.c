/* SPDX-License-Identifier: Apache-2.0 */
#include "query/account.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int totals_new(struct store_cpu_totals *t, const struct store_meta *m)
{
	t->lost = calloc(m->n_lost + 1, sizeof(*t->lost));
	t->flagged = calloc(m->n_flagged + 1, sizeof(*t->flagged));
	return t->lost && t->flagged ? 0 : -ENOMEM;
}

void account_forget_cpus(struct account *t)
{
	for (size_t i = 0; i < t->n_cpus; i++) {
		free(t->cpu[i].lost);
		free(t->cpu[i].flagged);
	}
	free(t->cpu);
	t->cpu = NULL;
	t->n_cpus = 0;
}

void account_fini(struct account *t)
{
	account_forget_cpus(t);
	free(t->all.lost);
	free(t->all.flagged);
}

static void totals_add(struct store_cpu_totals *to, const struct store_cpu_totals *c,
		       const struct store_meta *m)
{
	to->fired += c->fired;
	to->stored += c->stored;
	for (size_t i = 0; i < m->n_lost; i++)
		to->lost[i] += c->lost[i];
	for (size_t i = 0; i < m->n_flagged; i++)
		to->flagged[i] += c->flagged[i];
}

/*
 * The CPUs come in the same order in every window but for those that came or went: look near `hint`
 * first.
 */
static int find_cpu(struct account *t, uint32_t cpu, size_t hint, const struct store_meta *m,
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

static int add_window(struct account *t, const struct store_window *w, const struct store_meta *m)
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
	uint32_t x = ((const struct store_cpu_totals *)a)->cpu,
		 y = ((const struct store_cpu_totals *)b)->cpu;
	return (x > y) - (x < y);
}

int account_sum(struct account *t, struct store *s, int64_t from_ns, int64_t to_ns, struct err *err)
{
	const struct store_meta *m = store_meta(s);
	struct store_cover cover = { 0 };
	int rc = totals_new(&t->all, m);
	if (!rc)
		rc = store_cover_nearest(s, from_ns, to_ns, STORE_FOLDED, NULL, 0, &cover, err);
	for (size_t i = 0; !rc && i < cover.n; i++) {
		const struct store_block *b = cover.blocks[i];
		struct store_totals *one;
		rc = store_block_totals(s, b, &one, err);
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

static bool is_one_of(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* Flags that are set where the kernel takes a sample; waits are measured elsewhere. */
static const char *const of_samples[] = {
	"idle",		  "kernel_truncated",  "truncated",	"no_user_stack",  "unlabelled",
	"label_fault",	  "label_invalid",     "new_process",	"rooted",	  "unwind_no_rule",
	"unwind_fault",	  "unwind_no_mapping", "unwind_broken", "frame_pointers", "copied",
	"copies_limited", "copies_full",       "copy_failed",	"waits_saved",
};
static const char *const of_parts[] = { "wait_parts_full", "blame_cut" };
static const char *const of_waits[] = {
	"wait_summed",	 "wait_estimated", "wait_no_place", "wait_rows_full",	  "blame_unknown",
	"waker_unknown", "waker_cut",	   "lock_cut",	    "wait_no_user_stack", "wait_python",
};

#define ONE_OF(names, name) is_one_of(names, sizeof(names) / sizeof((names)[0]), name)

uint64_t account_base(const struct store_meta *m, const uint64_t *flagged, uint64_t stored,
		      const char *flag)
{
	uint64_t waits = 0;
	bool told = false; /* by versions that count them */
	for (size_t i = 0; i < m->n_flagged && !told; i++) {
		told = !strcmp(m->flagged_names[i], "waits");
		waits = told ? flagged[i] : 0;
	}
	if (ONE_OF(of_parts, flag))
		return 0;
	if (told && ONE_OF(of_waits, flag))
		return waits;
	return told && ONE_OF(of_samples, flag) && waits <= stored ? stored - waits : stored;
}

double account_without_waits(const struct store_meta *m, const uint64_t *flagged, uint64_t stored)
{
	static const char flag[] = "waits_saved";
	uint64_t of = account_base(m, flagged, stored, flag);
	for (size_t i = 0; of && i < m->n_flagged; i++)
		if (!strcmp(m->flagged_names[i], flag))
			return flagged[i] < of ? (double)flagged[i] / (double)of : 1;
	return 0;
}
