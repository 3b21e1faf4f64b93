/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes have labels, and where: each image that the BPF program asks about is looked at
 * when its turn comes.
 */
#include "attribute/labelling_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROC_PUBLISHED_MAX 16384
/* for a constructor to have run: each 20 ms for a second, then after 40 ms, 80 ms, ... 10 s */
#define TRIES 60
#define TRIES_SLOW 10
#define RETRY_NS 20000000ull
#define TICK_NS 10000000ull /* then others have their turn: new processes may wait to be heard of */
/* for a file that is not read yet, unless an answer comes: as long as the resolver tries */
#define LATE_NS 250000000ull

static void on_end(void *ctx, struct proc_image *im);

static void free_calls(struct labelling *l)
{
	for (size_t i = 0; i < MAX_EVENTS; i++)
		free(l->calls[i]);
}

/* Note which events give labels, and the names of the functions whose calls are timed. */
static int note_probes(struct labelling *l, const struct sampler_config *cfg)
{
	for (unsigned i = 0; i < cfg->n_events; i++) {
		const struct event *e = &cfg->event[i];
		const char *function = e->calls ? probe_symbol(e->name) : NULL;
		l->probes |= e->label || e->calls;
		if (function && !(l->calls[i] = strdup(function)))
			return -ENOMEM;
	}
	return 0;
}

int labelling_new(struct labelling **ret, struct sampler *s, struct procs *procs,
		  struct resolver *r, const struct sampler_config *cfg)
{
	struct labelling *l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->sampler = s;
	l->procs = procs;
	l->resolver = r;
	l->generation = 1;
	l->subjects.max = PROC_PUBLISHED_MAX;
	l->n_definitions.max = DEFINITIONS_MAX;
	l->bytes.max = DEFINITIONS_BYTES;
	l->n_keys.max = KEY_TABLES_MAX;
	l->look = !cfg->no_labels;
	l->sets_max = cfg->label_sets ? cfg->label_sets : PROC_SETS_MAX;
	int rc = note_probes(l, cfg);
	rc = rc ? rc : sources_new(&l->sources, s, r, cfg->recipes, cfg->latency);
	if (rc) {
		free_calls(l);
		free(l);
		return rc;
	}
	procs_on_end(procs, PROC_LABELS, on_end, l);
	*ret = l;
	return 0;
}

int labelling_set_filter(struct labelling *l, const struct label_filter *f,
			 const struct redactor *r)
{
	struct label_filter *copy = f ? filter_copy(f) : NULL;
	if (f && !copy)
		return -ENOMEM;
	filter_free(l->filter);
	l->filter = copy;
	l->redactor = *r;
	return 0;
}

size_t labelling_filter(const struct labelling *l, struct label *v, size_t n, char *room,
			uint64_t *io_flags)
{
	uint64_t credentials = 0;
	n = filter_apply(l->filter, &l->redactor, v, n, room, &credentials);
	if (credentials)
		*io_flags |= 1ull << (COUNTER_label_credential - COUNTER_labels_cut);
	return n;
}

/* ---- slots ---- */

/* Look in every mapped file for the note. SOURCES_: why to look again. */
static int find_slots(struct labelling *l, const struct proc_image *im, struct proc_entry *e)
{
	int waiting = 0;
	e->n_slots = 0;
	for (uint32_t i = 0; i < im->n_maps && e->n_slots < PROC_SLOTS; i++) {
		const struct proc_map *m = &im->maps[i];
		struct binary *b = resolver_binary(l->resolver, im, m);
		uint64_t at, bias;
		struct ascribe_descriptor d;
		if (!b && resolver_is_late(m))
			waiting |= SOURCES_LATE;
		if (!b || binary_label_descriptor(b, &at) ||
		    binary_bias(b, m->start, m->pgoff, &bias))
			continue;
		int rc = proc_read_memory(im->tgid, bias + at, &d, sizeof(d));
		bool read = !rc;
		if (rc == -EINPROGRESS) {
			waiting |= SOURCES_LATE | SOURCES_UNANSWERED;
			continue;
		}
		if (read && d.magic == ASCRIBE_DESCRIPTOR_MAGIC && d.abi != ASCRIBE_ABI_VERSION)
			continue;
		if (!read || d.magic != ASCRIBE_DESCRIPTOR_MAGIC || !d.tp_offset) {
			waiting |= SOURCES_NOT_YET;
			continue;
		}
		bool twice = false;
		for (uint64_t k = 0; k < e->n_slots; k++)
			twice |= e->slot[k].tp_offset == d.tp_offset;
		if (twice)
			continue;
		e->slot[e->n_slots].tp_offset = d.tp_offset;
		e->slot[e->n_slots].key_table = d.key_table;
		e->n_slots++;
	}
	return waiting;
}

static void labelled_free(struct labelling *l, struct subject *k)
{
	struct labelled *p = k->labelled;
	if (!p)
		return;
	k->labelled = NULL;
	list_remove(&l->full, &p->full);
	source_list_fini(&p->sources);
	free(p);
}

/* The foreign sources, appended to those that are known. SOURCES_: why to look again. */
static int find_sources(struct labelling *l, const struct proc_image *im, struct subject *k,
			struct proc_entry *e)
{
	if (!k->labelled) {
		k->labelled = calloc(1, sizeof(*k->labelled));
		if (!k->labelled)
			return 0;
		k->labelled->id = k->id;
	}
	int waiting = sources_find(l->sources, im, &k->labelled->sources);
	e->n_sources = k->labelled->sources.n;
	if (!e->n_sources && !e->n_slots && !waiting && !l->probes)
		labelled_free(l, k);
	return waiting;
}

/* ---- looking, in turns ---- */

/* When to look again, or not at all. */
static void put_off(struct labelling *l, struct subject *k, int waiting)
{
	uint64_t now = proc_now_ns();
	list_remove(&l->fresh, &k->fresh);
	list_remove(&l->late, &k->late);
	if (waiting & SOURCES_LATE) {
		list_append(&l->late, &k->late);
		due_put(&l->due, &k->due, now + LATE_NS);
		return;
	}
	k->tries = waiting && k->tries ? k->tries - 1 : 0;
	if (k->tries)
		due_put(&l->due, &k->due,
			now + (RETRY_NS << (k->tries < TRIES_SLOW ? TRIES_SLOW - k->tries : 0)));
	else
		due_remove(&l->due, &k->due);
}

/* Count a process with an interpreter that is not known. */
static void note_script(struct labelling *l, struct subject *k, const struct binary_script *s)
{
	if (k->script_noted)
		return;
	k->script_noted = true;
	l->scripts[s->language].processes++;
	script_version(s, l->scripts[s->language].version);
}

/* Count a process of a Go version that is not known. */
static void note_go(struct labelling *l, struct subject *k, unsigned version)
{
	if (!version || k->go_noted)
		return;
	k->go_noted = true;
	l->go.processes++;
	snprintf(l->go.version, sizeof(l->go.version), "1.%u", version - 100);
}

/* Find where a process has labels, and tell the BPF program. SOURCES_: why to look again. */
static int look_at(struct labelling *l, struct subject *k)
{
	struct proc_image *im = procs_identify(l->procs, &k->id, proc_now_ns(), PROC_MAPS);
	if (im != k->image || im->to_ns != UINT64_MAX || !proc_image_mapped(im))
		return im == k->image && im->to_ns == UINT64_MAX ? SOURCES_LATE : 0;
	struct proc_entry e = { .tgid = k->id.tgid,
				.exec_id = k->id.exec_id,
				.start_ns = k->id.start_ns };
	struct binary_script unknown;
	uint64_t go;
	unsigned go_unknown;
	int waiting = l->look ? find_slots(l, im, &e) : 0;
	if (waiting & SOURCES_UNANSWERED && k->published) /* keep the slots that are published */
		return SOURCES_LATE;
	k->published = true;
	if (scripts_locate(l->resolver, im, &e, &unknown))
		note_script(l, k, &unknown);
	int creators = sources_creators(l->sources, im, &go, &go_unknown);
	e.go = go;
	note_go(l, k, go_unknown);
	/* Own labels at once: files that are new take a while to be searched for the others. */
	e.labels_late = 1;
	e.since_ns = proc_now_ns();
	if (e.n_slots && !k->labelled)
		sampler_publish(l->sampler, &e, NULL);
	if (l->look)
		waiting |= find_sources(l, im, k, &e);
	e.labels_late = waiting & SOURCES_LATE || (waiting & SOURCES_NOT_YET && k->tries > 1);
	waiting |= creators;
	struct label_source sources[LABEL_SOURCES];
	if (k->labelled)
		sources_publish(l->sources, &k->labelled->sources, sources);
	e.since_ns = proc_now_ns();
	if (sampler_publish(l->sampler, &e, sources))
		waiting |= SOURCES_NOT_YET; /* no room near its place in the table: others end */
	if (l->on_known)
		l->on_known(l->known_ctx, im);
	return waiting;
}

/* Look at a process, or put it off where looks at it must wait. */
static void look(struct labelling *l, struct subject *k)
{
	uint64_t until_ns = procs_paused_until(l->procs, k->image);
	if (until_ns) {
		list_remove(&l->fresh, &k->fresh);
		due_put(&l->due, &k->due, until_ns);
		return;
	}
	uint64_t begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	put_off(l, k, look_at(l, k));
	procs_looked(l->procs, k->image, begin_ns);
}

const struct script_unknown *labelling_scripts(const struct labelling *l)
{
	return l->scripts;
}

const struct script_unknown *labelling_go(const struct labelling *l)
{
	return &l->go;
}

void labelling_on_known(struct labelling *l, void (*on_known)(void *ctx, struct proc_image *im),
			void *ctx)
{
	l->on_known = on_known;
	l->known_ctx = ctx;
}

static struct subject *subject_new(struct labelling *l, struct proc_image *im)
{
	struct subject *k = calloc(1, sizeof(*k));
	if (!k || !quota_take(&l->subjects, proc_image_user(im), 1)) {
		free(k);
		l->any_missed = true; /* it does not ask again in this generation */
		return NULL;
	}
	k->image = im;
	im->layer[PROC_LABELS] = k;
	return k;
}

void labelling_new_process(struct labelling *l, struct proc_image *im, const struct proc_id *id)
{
	struct subject *k = im->layer[PROC_LABELS];
	if (!k && !(k = subject_new(l, im)))
		return;
	k->id = *id;
	k->tries = TRIES;
	due_remove(&l->due, &k->due);
	/* Later than others: we have no labels, but many files */
	if (id->tgid == (uint32_t)getpid())
		due_put(&l->due, &k->due, proc_now_ns() + LATE_NS);
	else
		list_set(&l->fresh, &k->fresh, true);
}

void labelling_mapped(struct labelling *l, const struct proc_image *im, const struct proc_map *m)
{
	struct subject *k = im->layer[PROC_LABELS];
	uint64_t at;
	if (!k || k->fresh.listed)
		return;
	struct binary *b = resolver_binary(l->resolver, im, m);
	struct binary_script script;
	bool has = b && (!binary_label_descriptor(b, &at) || !binary_trampolines(b, &at) ||
			 !binary_script(b, &script) || sources_has(l->sources, im, m));
	if (!has && !resolver_is_late(m))
		return;
	k->tries = TRIES;
	due_put(&l->due, &k->due, proc_now_ns()); /* not at once: it may map more files */
}

/*
 * Choose whose turn it is: who waits to be looked at again, who waits longest for its first look,
 * and who came last. The last may not live long enough to wait for all of a host's processes.
 */
static struct subject *next_subject(struct labelling *l, uint64_t now)
{
	struct due_item *first = due_first(&l->due);
	if (first && first->at_ns > now)
		first = NULL;
	unsigned turn = l->n_looks++ % 3;
	if (first && (!turn || !l->fresh.n))
		return LIST_ENTRY(first, struct subject, due);
	return LIST_ENTRY(turn == 1 ? l->fresh.last : l->fresh.first, struct subject, fresh);
}

void labelling_go_on(struct labelling *l)
{
	uint64_t now = proc_now_ns();
	for (struct list_node *n = l->late.first, *next; n; n = next) {
		struct subject *k = LIST_ENTRY(n, struct subject, late);
		next = n->after;
		list_remove(&l->late, n);
		due_put(&l->due, &k->due, now);
	}
}

int labelling_tick(struct labelling *l)
{
	uint64_t now = proc_now_ns(), until = now + TICK_NS;
	struct subject *k;
	while (now < until && (k = next_subject(l, now))) {
		look(l, k);
		now = proc_now_ns();
	}
	const struct due_item *first = due_first(&l->due);
	if (l->fresh.n || (first && first->at_ns <= now))
		return 0;
	return first ? (int)((first->at_ns - now) / 1000000) + 1 : -1;
}

/* ---- forgetting ---- */

static void on_end(void *ctx, struct proc_image *im)
{
	struct labelling *l = ctx;
	struct subject *k = im->layer[PROC_LABELS];
	im->layer[PROC_LABELS] = NULL;
	sampler_withdraw(l->sampler, k->id.tgid, k->id.start_ns, k->id.exec_id);
	list_remove(&l->fresh, &k->fresh);
	list_remove(&l->late, &k->late);
	due_remove(&l->due, &k->due);
	labelled_free(l, k);
	free(k);
	quota_give(&l->subjects, proc_image_user(im), 1);
}

/* Those whose sets were too many have a new chance, if that has made room. */
static void let_send_again(struct labelling *l)
{
	for (struct list_node *n = l->full.first, *next; n; n = next) {
		struct labelled *p = LIST_ENTRY(n, struct labelled, full);
		bool full = p->n_sets >= l->sets_max || p->bytes >= PROC_BYTES_MAX;
		next = n->after;
		sampler_stop_labels(l->sampler, p->id.tgid, p->id.start_ns, full);
		if (!full)
			list_remove(&l->full, &p->full);
	}
}

void labelling_forget(struct labelling *l)
{
	/*
	 * Two steps: first new definitions are asked for, and only what is older than that by the
	 * time of the next call is thrown away. Rows of the half that is active now may still need
	 * the old ones.
	 */
	if (l->n_definitions.taken > DEFINITIONS_MAX / 2 || l->n_keys.taken > KEY_TABLES_MAX / 2 ||
	    l->bytes.taken > DEFINITIONS_BYTES / 2 || l->full.n ||
	    (l->any_missed && l->subjects.taken < PROC_PUBLISHED_MAX / 2)) {
		l->any_missed = false;
		labelling_drop_definitions(l);
		l->generation = sampler_new_generation(l->sampler);
		let_send_again(l);
	}
}

const char *labelling_warning(const struct labelling *l)
{
	return sources_warning(l->sources);
}

void labelling_free(struct labelling *l)
{
	if (!l)
		return;
	procs_detach(l->procs, PROC_LABELS);
	l->generation = UINT32_MAX;
	labelling_drop_definitions(l);
	due_fini(&l->due);
	sources_free(l->sources);
	filter_free(l->filter);
	free_calls(l);
	free(l);
}
