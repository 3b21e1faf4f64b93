/* SPDX-License-Identifier: Apache-2.0 */
#include "attribute/chooser.h"

#include "attribute/pod_labels.h"
#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHOSEN_MAX (CHOSEN_CELLS / 2) /* cgroups that are remembered; one more forgets all */
#define ANEW_NS 200000000ull	      /* the least time between two looks at all of them, */
#define ANEW_SHARE 50		      /* and times the CPU time of the last one */

struct chooser {
	struct selection_rules *rules;
	struct sampler *sampler;
	struct procs *procs;
	struct pods *pods;
	size_t n; /* cgroups in the table */
	uint64_t changes, next_ns;
	struct pod_labels pod;
};

bool selection_rules_select(const struct selection_rules *r)
{
	return r->in.n || r->out.n || r->annotated != ANNOTATED_IGNORE;
}

bool selection_rules_any(const struct selection_rules *r)
{
	return selection_rules_select(r) || r->n_rates > 1;
}

int chooser_new(struct chooser **ret, struct selection_rules *rules, struct sampler *sampler,
		struct procs *procs)
{
	struct chooser *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->rules = rules;
	s->sampler = sampler;
	s->procs = procs;
	*ret = s;
	return 0;
}

void chooser_free(struct chooser *s)
{
	free(s);
}

void chooser_set_pods(struct chooser *s, struct pods *p)
{
	s->pods = p;
}

/* ---- rules ---- */

struct subject {
	struct label v[POD_LABELS_MAX + 2];
	size_t n;
};

static void add_text(struct subject *s, const char *key, const char *text, size_t len)
{
	if (len)
		s->v[s->n++] = (struct label){ .key = key,
					       .key_len = (uint32_t)strlen(key),
					       .str = text,
					       .str_len = (uint32_t)len,
					       .type = LABEL_STRING };
}

/* A rule that goes over the limits of matching does not match. */
static struct selection_rule *first_match(struct selection_list *l, const struct subject *of)
{
	for (size_t i = 0; i < l->n; i++) {
		bool match;
		if (selector_match(l->v[i].selector, of->v, of->n, &match, NULL) || !match)
			continue;
		l->v[i].matched = true;
		return &l->v[i];
	}
	return NULL;
}

static bool is_selected(struct selection_rules *r, const struct subject *of, const char *profile)
{
	bool yes = profile && !strcmp(profile, "true"), no = profile && !strcmp(profile, "false");
	bool out = first_match(&r->out, of), in = first_match(&r->in, of);
	if (out || (no && r->annotated != ANNOTATED_IGNORE))
		return false;
	if (r->annotated == ANNOTATED_IN)
		return yes || in;
	return in || !r->in.n;
}

/* The answer for what runs in the cgroup of this path; NULL: kernel threads. */
static uint32_t decide(struct chooser *s, const char *path, bool *ret_late)
{
	struct pod_labels *pod = &s->pod;
	struct subject of = { .n = 0 };
	const char *unit;
	pod_labels_of(s->pods, path, pod);
	*ret_late = pod->late;
	if (path) {
		size_t len = proc_unit(path, &unit);
		add_text(&of, "cgroup", path, strlen(path));
		add_text(&of, "unit", unit, len);
	}
	for (size_t i = 0; i < pod->n; i++)
		of.v[of.n++] = pod->v[i];
	if (!is_selected(s->rules, &of, pod->profile))
		return CHOSEN_OUTSIDE;
	const struct selection_rule *rate = first_match(&s->rules->rate, &of);
	return rate ? rate->rate : 0;
}

/* ---- answers ---- */

/* Without a place there, it is decided of each row. */
static void remember(struct chooser *s, uint64_t id, uint32_t a)
{
	if (s->n++ == CHOSEN_MAX) {
		sampler_choose_anew(s->sampler);
		s->n = 1;
	}
	(void)sampler_choose(s->sampler, id, a);
}

static uint32_t decide_cgroup(struct chooser *s, uint64_t id, bool *ret_late)
{
	return decide(s, id == CHOSEN_KTHREADS ? NULL : procs_cgroup_path(s->procs, id), ret_late);
}

static uint32_t answer(struct chooser *s, uint64_t id, bool *ret_late)
{
	uint32_t known;
	bool there = sampler_chosen(s->sampler, id, &known);
	*ret_late = false;
	if (there && !(known & CHOSEN_LATE))
		return known;
	uint32_t a = decide_cgroup(s, id, ret_late), say = *ret_late ? CHOSEN_LATE : a;
	if (there)
		(void)sampler_choose(s->sampler, id, say);
	else
		remember(s, id, say);
	return a;
}

/* Of a thread in the root of the hierarchy, by the cgroup that /proc names. */
static uint32_t answer_root(struct chooser *s, uint64_t id, const struct proc_image *im,
			    bool *ret_late)
{
	uint32_t known;
	if (!sampler_chosen(s->sampler, id, &known))
		remember(s, id, 0);
	return decide(s, im && im->cgroup ? im->cgroup : "/", ret_late);
}

void chooser_note(struct chooser *s, uint64_t cgroup)
{
	bool late;
	if (procs_in_cgroup(s->procs, cgroup))
		answer(s, cgroup, &late);
}

bool chooser_leaves_out(struct chooser *s, uint64_t cgroup, const struct proc_image *im,
			bool kthread, bool *ret_late)
{
	uint32_t a;
	if (kthread)
		a = answer(s, CHOSEN_KTHREADS, ret_late);
	else if (procs_in_cgroup(s->procs, cgroup))
		a = answer(s, cgroup, ret_late);
	else
		a = answer_root(s, cgroup, im, ret_late);
	return a & CHOSEN_OUTSIDE;
}

static void answer_anew(struct chooser *s)
{
	uint32_t at = 0;
	uint64_t id;
	while (sampler_next_chosen(s->sampler, &at, &id)) {
		bool late = false, root = id != CHOSEN_KTHREADS && !procs_in_cgroup(s->procs, id);
		uint32_t a = root ? 0 : decide_cgroup(s, id, &late);
		if (!late)
			(void)sampler_choose(s->sampler, id, a);
	}
}

int chooser_tick(struct chooser *s, uint64_t now_ns)
{
	if (!s->pods || pods_changes(s->pods) == s->changes)
		return -1;
	if (now_ns < s->next_ns)
		return (int)((s->next_ns - now_ns) / 1000000 + 1);
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	s->changes = pods_changes(s->pods);
	answer_anew(s);
	uint64_t pause = ANEW_SHARE * (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
	s->next_ns = now_ns + (pause > ANEW_NS ? pause : ANEW_NS);
	return -1;
}
