/* SPDX-License-Identifier: Apache-2.0 */
#include "attribute/trampolines.h"

#include "labels/binding.h"
#include "util/array.h"
#include "util/quota.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MODULES 4 /* of one process */
#define PROCESSES_MAX 1024
#define STACK_MAX 8		   /* trampolines of one stack to look up, leaf-most first */
#define CACHED 64		   /* histories in the cache of a drain */
#define READ_MAX ((size_t)4 << 20) /* bytes of one process and drain */

struct code_table {
	uint64_t at; /* address of the table in the process */
	bool ready;  /* the table was read and is valid */
	struct ascribe_trampoline_table table;
};

struct process {
	uint64_t start_ns;
	uint32_t tgid, exec_id, user;
	uint32_t n;
	uint64_t drain; /* number of the drain of `read` */
	size_t read;
	struct code_table module[MODULES];
};

/* The bindings of one trampoline, read in this drain. */
struct history {
	uint64_t drain, at;
	uint32_t tgid, depth;
	int rc;
	struct ascribe_binding binding[ASCRIBE_BINDINGS_MAX];
};

struct trampolines {
	struct procs *procs;
	struct resolver *resolver;
	struct process *process;
	size_t n, cap;
	struct quota places; /* of PROCESSES_MAX */
	uint64_t drain;
	struct history *cache; /* [CACHED], by trampoline */
	struct ascribe_binding found[STACK_MAX];
};

int trampolines_new(struct trampolines **ret, struct procs *procs, struct resolver *r)
{
	struct trampolines *t = calloc(1, sizeof(*t));
	if (t)
		t->cache = calloc(CACHED, sizeof(*t->cache));
	if (!t || !t->cache) {
		free(t);
		return -ENOMEM;
	}
	t->drain = 1;
	t->places.max = PROCESSES_MAX;
	t->procs = procs;
	t->resolver = r;
	*ret = t;
	return 0;
}

void trampolines_free(struct trampolines *t)
{
	if (!t)
		return;
	free(t->process);
	free(t->cache);
	free(t);
}

void trampolines_begin(struct trampolines *t)
{
	t->drain++;
}

bool trampolines_any(const struct trampolines *t)
{
	return t->n > 0;
}

/* ---- processes with trampolines ---- */

static void look(const struct trampolines *t, const struct proc_image *im, struct process *p)
{
	for (uint32_t i = 0; i < im->n_maps && p->n < MODULES; i++) {
		const struct proc_map *m = &im->maps[i];
		struct binary *b = resolver_binary(t->resolver, im, m);
		uint64_t at, bias;
		if (!b || binary_trampolines(b, &at) || binary_bias(b, m->start, m->pgoff, &bias))
			continue;
		at += bias;
		uint32_t k = 0;
		while (k < p->n && p->module[k].at != at)
			k++;
		if (k == p->n)
			p->module[p->n++] = (struct code_table){ .at = at };
	}
}

static struct process *find(struct trampolines *t, uint32_t tgid)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->process[i].tgid == tgid)
			return &t->process[i];
	return NULL;
}

static void drop(struct trampolines *t, struct process *p)
{
	quota_give(&t->places, p->user, 1);
	*p = t->process[--t->n];
}

void trampolines_known(struct trampolines *t, struct proc_image *im)
{
	struct process now = { .start_ns = im->start_ns, .tgid = im->tgid, .exec_id = im->exec_id };
	struct process *p = find(t, im->tgid);
	look(t, im, &now);
	if (p)
		drop(t, p);
	if (!now.n)
		return;
	now.user = proc_image_user(im);
	if (ARRAY_RESERVE(t->process, t->cap, t->n + 1) || !quota_take(&t->places, now.user, 1))
		return;
	t->process[t->n++] = now;
}

void trampolines_forget(struct trampolines *t)
{
	for (size_t i = t->n; i-- > 0;) {
		const struct proc_image *im = procs_find(t->procs, t->process[i].tgid, UINT64_MAX);
		if (!im || im->to_ns != UINT64_MAX)
			drop(t, &t->process[i]);
	}
}

/* ---- a row ---- */

/* Check again: a table may become ready at any time, and the process may have called exec. */
static bool is_ready(const struct process *p, struct code_table *m, bool *io_late)
{
	int rc = m->ready ? -EALREADY
			  : proc_read_memory(p->tgid, m->at, &m->table, sizeof(m->table));
	if (!rc)
		m->ready = !binding_check_table(&m->table);
	*io_late |= rc == -EINPROGRESS;
	return m->ready;
}

/*
 * Find the trampoline of a return address; *ret_offset is its distance from the same place in the
 * first trampoline.
 */
static struct code_table *table_of(struct process *p, uint64_t addr, uint32_t *ret_index,
				   uint64_t *ret_offset, bool *io_late)
{
	for (uint32_t i = 0; i < p->n; i++) {
		struct code_table *m = &p->module[i];
		uint64_t size =
			is_ready(p, m, io_late) ? (uint64_t)m->table.count * m->table.step : 0;
		if (addr - 1 - m->table.code >= size || addr <= m->table.code)
			continue;
		*ret_index = (uint32_t)((addr - 1 - m->table.code) / m->table.step);
		*ret_offset = (uint64_t)*ret_index * m->table.step;
		return m;
	}
	return NULL;
}

static const struct history *read_history(struct trampolines *t, struct process *p,
					  const struct code_table *m, uint32_t index)
{
	uint32_t depth = m->table.depth;
	size_t size = depth * sizeof(struct ascribe_binding);
	uint64_t at = m->at + m->table.size + index * size;
	struct history *h = &t->cache[(index ^ p->tgid) % CACHED];
	if (h->drain == t->drain && h->tgid == p->tgid && h->at == at && h->depth == depth)
		return h;
	if (p->drain != t->drain) {
		p->drain = t->drain;
		p->read = 0;
	}
	if (p->read + size > READ_MAX)
		return NULL;
	p->read += size;
	h->drain = t->drain;
	h->tgid = p->tgid;
	h->at = at;
	h->depth = depth;
	h->rc = proc_read_memory(p->tgid, at, h->binding, size);
	if (h->rc == -EINPROGRESS) { /* ask again */
		h->drain = 0;
		p->read -= size;
	}
	return h;
}

static bool look_up(struct trampolines *t, struct process *p, const struct code_table *m,
		    uint32_t index, const struct row *row, struct ascribe_binding *ret,
		    bool *io_late)
{
	const struct history *h = read_history(t, p, m, index);
	*io_late |= h && h->rc == -EINPROGRESS;
	if (!h || h->rc)
		return false;
	const struct ascribe_binding *b =
		binding_during(h->binding, h->depth, row->first_ns, row->last_ns);
	if (!b)
		return false;
	*ret = *b;
	return true;
}

size_t trampolines_labels(struct trampolines *t, const struct row *row, uint64_t *frames,
			  uint32_t n, struct label *out, bool *ret_unknown, bool *ret_late)
{
	struct process *p = t->n ? find(t, row->tgid) : NULL;
	struct label v[BINDING_LABELS_MAX];
	size_t n_out = 0, n_found = 0;
	uint64_t offset;
	uint32_t index;
	*ret_unknown = *ret_late = false;
	if (!p || (p->start_ns && (p->start_ns != row->start_ns || p->exec_id != row->exec_id)))
		return 0;
	for (uint32_t i = 1; i < n; i++) { /* skip the leaf, which is no return address */
		struct code_table *m = table_of(p, frames[i], &index, &offset, ret_late);
		if (!m)
			continue;
		frames[i] -= offset;
		if (n_found == STACK_MAX ||
		    !look_up(t, p, m, index, row, &t->found[n_found], ret_late)) {
			*ret_unknown = true;
			continue;
		}
		size_t more = binding_labels(&t->found[n_found++], v);
		for (size_t k = 0; k < more && n_out < TRAMPOLINES_LABELS_MAX; k++)
			out[n_out++] = v[k];
	}
	return n_out;
}
