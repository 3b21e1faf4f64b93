/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that user space writes and the BPF programs read in shared memory: selected ids, processes,
 * unwind rules.
 */
#include "sampler/loader.h"
#include "sampler/sampler_int.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const map_names[] = {
#define X(name) [MAP_##name] = #name,
	PROGRAM_MAPS(X)
#undef X
};

int sampler_map_tables(struct sampler *s, const struct sampler_table *table, size_t n,
		       struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		void *p = mmap(NULL, table[i].size, PROT_READ | PROT_WRITE, MAP_SHARED,
			       s->programs.fd[table[i].map], 0);
		if (p == MAP_FAILED)
			return err_sys(err, -errno, "mapping BPF table '%s' (%zu KiB)",
				       map_names[table[i].map], table[i].size / 1024);
		*table[i].ret = p;
	}
	return 0;
}

int sampler_map_unwind(struct sampler *s, struct err *err)
{
	const struct sampler_table table[] = {
		{ MAP_unwind_ranges, UNWIND_RANGES * sizeof(*s->unwind.ranges),
		  (void **)&s->unwind.ranges },
		{ MAP_unwind_pages, UNWIND_PAGES * sizeof(*s->unwind.pages),
		  (void **)&s->unwind.pages },
		{ MAP_unwind_rules, UNWIND_RULES * sizeof(*s->unwind.rules),
		  (void **)&s->unwind.rules },
		{ MAP_hotspot_codes, HOTSPOT_CODES * sizeof(*s->unwind.hotspot),
		  (void **)&s->unwind.hotspot },
		{ MAP_v8_layouts, V8_LAYOUTS * sizeof(*s->unwind.v8), (void **)&s->unwind.v8 },
	};
	return sampler_map_tables(s, table, sizeof(table) / sizeof(table[0]), err);
}

int sampler_add_shard(struct sampler *s, unsigned shard)
{
	int fd, rc = shard < UNWIND_SHARDS ? loader_rows(&fd) : -E2BIG;
	if (rc)
		return rc;
	if (bpf_map_update_elem(s->programs.fd[MAP_unwind_shards], &shard, &fd, BPF_ANY)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	s->shard_made[shard] = true;
	s->shard_fd[shard] = fd;
	return 0;
}

/* The whole map is mapped at once, and all its pages are resident. */
uint32_t *sampler_shard(struct sampler *s, unsigned shard)
{
	if (shard >= UNWIND_SHARDS || !s->shard_made[shard] || s->shards[shard])
		return shard < UNWIND_SHARDS ? s->shards[shard] : NULL;
	void *rows =
		mmap(NULL, SHARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, s->shard_fd[shard], 0);
	if (rows == MAP_FAILED)
		return NULL;
	return s->shards[shard] = rows;
}

static void unmap_shard(struct sampler *s, unsigned shard)
{
	if (s->shards[shard])
		munmap(s->shards[shard], SHARD_BYTES);
	s->shards[shard] = NULL;
}

void sampler_unmap_shards(struct sampler *s)
{
	for (unsigned i = 0; i < UNWIND_SHARDS; i++)
		unmap_shard(s, i);
}

size_t sampler_unmapped(const struct sampler *s)
{
	size_t n = 0;
	for (unsigned i = 0; i < UNWIND_SHARDS; i++)
		n += s->shard_made[i] && !s->shards[i];
	return n * SHARD_BYTES;
}

int sampler_drop_shard(struct sampler *s, unsigned shard)
{
	if (shard >= UNWIND_SHARDS || !s->shard_made[shard])
		return -EINVAL;
	if (bpf_map_delete_elem(s->programs.fd[MAP_unwind_shards], &shard))
		return -errno;
	unmap_shard(s, shard);
	close(s->shard_fd[shard]);
	s->shard_made[shard] = false;
	return 0;
}

void sampler_unmap_unwind(struct sampler *s)
{
	if (s->unwind.ranges)
		munmap(s->unwind.ranges, UNWIND_RANGES * sizeof(*s->unwind.ranges));
	if (s->unwind.pages)
		munmap(s->unwind.pages, UNWIND_PAGES * sizeof(*s->unwind.pages));
	if (s->unwind.rules)
		munmap(s->unwind.rules, UNWIND_RULES * sizeof(*s->unwind.rules));
	if (s->unwind.hotspot)
		munmap(s->unwind.hotspot, HOTSPOT_CODES * sizeof(*s->unwind.hotspot));
	if (s->unwind.v8)
		munmap(s->unwind.v8, V8_LAYOUTS * sizeof(*s->unwind.v8));
	sampler_unmap_shards(s);
	for (unsigned i = 0; i < UNWIND_SHARDS; i++)
		if (s->shard_made[i])
			close(s->shard_fd[i]);
}

int sampler_select(struct sampler *s, uint32_t id)
{
	for (uint32_t p = 0; s->selected && p < 64; p++) { /* SELECT_PROBES of bpf/select.bpf.h */
		uint64_t *
			cell = &s->selected[(((id * 0x9e3779b1u) >> 8) + p) & (SELECT_ENTRIES - 1)],
		       free_cell = 0;
		if (*cell == id || __atomic_compare_exchange_n(cell, &free_cell, id, false,
							       __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			return 0;
	}
	return -E2BIG;
}

/* The cell of a cgroup, or the free one that it would have; NULL: there is none. */
static struct chosen_cell *chosen_place(const struct sampler *s, uint64_t cgroup)
{
	for (uint32_t p = 0; s->chosen && p < CHOSEN_PROBES; p++) {
		struct chosen_cell *c = &s->chosen[(chosen_hash(cgroup) + p) & (CHOSEN_CELLS - 1)];
		if (!c->id || c->id == cgroup)
			return c;
	}
	return NULL;
}

int sampler_choose(struct sampler *s, uint64_t cgroup, uint32_t answer)
{
	struct chosen_cell *c = chosen_place(s, cgroup);
	if (!c)
		return -E2BIG;
	__atomic_store_n(&c->answer, answer, __ATOMIC_RELAXED);
	__atomic_store_n(&c->id, cgroup, __ATOMIC_RELEASE);
	return 0;
}

bool sampler_chosen(const struct sampler *s, uint64_t cgroup, uint32_t *ret_answer)
{
	const struct chosen_cell *c = chosen_place(s, cgroup);
	if (!c || !c->id)
		return false;
	*ret_answer = (uint32_t)c->answer;
	return true;
}

bool sampler_next_chosen(const struct sampler *s, uint32_t *at, uint64_t *ret_cgroup)
{
	while (s->chosen && *at < CHOSEN_CELLS) {
		*ret_cgroup = s->chosen[(*at)++].id;
		if (*ret_cgroup)
			return true;
	}
	return false;
}

void sampler_choose_anew(struct sampler *s)
{
	for (uint32_t i = 0; s->chosen && i < CHOSEN_CELLS; i++)
		__atomic_store_n(&s->chosen[i].id, 0, __ATOMIC_RELAXED);
}

uint64_t sampler_rate_ns(const struct sampler_config *cfg, unsigned event, unsigned rate)
{
	unsigned most = 0;
	for (unsigned i = 0; i < cfg->n_rates; i++)
		most = most > cfg->rates[i] ? most : cfg->rates[i];
	uint64_t ns = cfg->event[event].ns_per_sample;
	return rate < cfg->n_rates ? ns * most / cfg->rates[rate] : ns;
}

/* The probe sequence of proc_find in bpf/procs.bpf.h. */
static struct proc_entry *proc_place(const struct sampler *s, uint32_t tgid, uint32_t probe)
{
	return &s->procs[(((tgid * 0x9e3779b1u) >> 8) + probe) & (s->n_procs - 1)];
}

/* Does an entry, with its sources, say of the image what is published already? */
static bool says_the_same(const struct proc_entry *e, const struct label_source *sources,
			  const struct proc_entry *published, const struct proc_labels *labels)
{
	return e->n_slots == published->n_slots && e->n_sources == published->n_sources &&
	       e->script_at == published->script_at &&
	       e->script_layout == published->script_layout && e->go == published->go &&
	       !memcmp(e->slot, published->slot, e->n_slots * sizeof(*e->slot)) &&
	       (!e->n_sources || !memcmp(sources, labels->source, e->n_sources * sizeof(*sources)));
}

int sampler_publish(struct sampler *s, const struct proc_entry *e,
		    const struct label_source *sources)
{
	struct proc_entry *at = NULL;
	for (uint32_t p = 0; p < PROC_PROBES; p++) {
		struct proc_entry *c = proc_place(s, e->tgid, p);
		if (c->tgid == e->tgid) {
			at = c;
			break;
		}
		if ((!c->tgid || c->tgid == PROC_GONE) && !at)
			at = c;
		if (!c->tgid)
			break;
	}
	if (!at)
		return -E2BIG;
	/* A reader in between finds no such process, as before: the stores below come later */
	bool known = at->tgid == e->tgid;
	if (at->tgid)
		__atomic_store_n(&at->tgid, PROC_GONE, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	struct proc_entry copy = *e;
	bool same_image = known && at->start_ns == e->start_ns && at->exec_id == e->exec_id;
	copy.ranges = same_image ? at->ranges : 0;
	copy.tgid = at->tgid;
	struct proc_labels *labels = &s->labels[at - s->procs];
	if (!same_image)
		labels->other = labels->limited = 0;
	copy.n_sources = e->n_sources < LABEL_SOURCES ? e->n_sources : LABEL_SOURCES;
	if (same_image && says_the_same(&copy, sources, at, labels))
		copy.since_ns = at->since_ns;
	if (copy.n_sources)
		memcpy(labels->source, sources, copy.n_sources * sizeof(*sources));
	*at = copy;
	__atomic_store_n(&at->tgid, e->tgid, __ATOMIC_RELEASE);
	return 0;
}

void sampler_withdraw(struct sampler *s, uint32_t tgid, uint64_t start_ns, uint32_t exec_id)
{
	for (uint32_t p = 0; p < PROC_PROBES; p++) {
		struct proc_entry *c = proc_place(s, tgid, p);
		if (!c->tgid)
			return;
		if (c->tgid == tgid && c->start_ns == start_ns && c->exec_id == exec_id)
			__atomic_store_n(&c->tgid, PROC_GONE, __ATOMIC_RELEASE);
	}
}

bool sampler_lender(const struct sampler *s, const struct wire_record *r, uint32_t *ret_tgid,
		    uint64_t *ret_start_ns)
{
	const uint32_t tgid = (uint32_t)r->lender;
	for (uint32_t p = 0; tgid && p < PROC_PROBES; p++) {
		const struct proc_entry *c = proc_place(s, tgid, p);
		if (!c->tgid)
			break;
		if (c->tgid != tgid || c->exec_id != r->exec_id ||
		    WIRE_LENDER(c->start_ns, (uint64_t)tgid) != r->lender)
			continue;
		*ret_tgid = tgid;
		*ret_start_ns = c->start_ns;
		return true;
	}
	return false;
}

/* Return the label entry of this image, NULL when it is not published. */
static struct proc_labels *labels_of(const struct sampler *s, uint32_t tgid, uint64_t start_ns)
{
	for (uint32_t p = 0; p < PROC_PROBES; p++) {
		const struct proc_entry *c = proc_place(s, tgid, p);
		if (!c->tgid)
			break;
		if (c->tgid == tgid && c->start_ns == start_ns)
			return &s->labels[c - s->procs];
	}
	return NULL;
}

void sampler_stop_labels(struct sampler *s, uint32_t tgid, uint64_t start_ns, bool stop)
{
	struct proc_labels *l = labels_of(s, tgid, start_ns);
	if (!l)
		return;
	l->other = stop;
	if (!stop)
		l->limited = 0;
}

bool sampler_labels_limited(const struct sampler *s, uint32_t tgid, uint64_t start_ns)
{
	const struct proc_labels *l = labels_of(s, tgid, start_ns);
	return l && (l->other || l->limited);
}

struct label_step *sampler_label_steps(const struct sampler *s)
{
	return s->steps;
}

void sampler_set_ranges(struct sampler *s, uint32_t tgid, uint64_t start_ns, uint32_t exec_id,
			uint64_t ranges)
{
	for (uint32_t p = 0; p < PROC_PROBES; p++) {
		struct proc_entry *c = proc_place(s, tgid, p);
		if (!c->tgid)
			return;
		if (c->tgid == tgid && c->start_ns == start_ns && c->exec_id == exec_id)
			__atomic_store_n(&c->ranges, ranges, __ATOMIC_RELEASE);
	}
}

void sampler_unwind(const struct sampler *s, struct sampler_unwind *ret)
{
	*ret = s->unwind;
}
