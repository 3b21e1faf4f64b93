/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/jit.h"

#include "proc/reader.h"
#include "stacks/ids.h"
#include "stacks/jvm.h"
#include "store/writer.h"
#include "util/clock.h"
#include "util/quota.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS 256
/*
 * With roots and maps, and of all maps together: shared by users (quota.h). The least recently used
 * is evicted.
 */
#define PROCESSES_MAX 512
#define MAPS_BYTES_MAX (24u << 20)
#define READ_AGAIN_NS 500000000ull /* least time between two reads of a map that grows */
/* Least time between two requests to a JVM; doubles without an answer */
#define ASK_AGAIN_NS 5000000000ull
#define ASK_MS 500u   /* deadline of one answer */
#define REMOVE_MS 200 /* deadline for removing a JVM's map */

struct source {
	uint64_t size; /* of the file at the last read */
	uint64_t mtime;
	/* Wrong owner, too large or malformed; do not read it again until it changes */
	bool refused;
	/* while the file is being read, with the size and time it had then */
	struct symbols_job job;
	uint64_t job_size, job_mtime;
};

struct process {
	uint32_t tgid, user; /* proc_user */
	uint64_t from_ns;
	struct proc_root root;
	int root_rc; /* of proc_root_open */
	bool late;   /* some answer of a reader or of the JVM is missing: look again at once */
	bool is_jvm;
	struct jvm_map jvm_map;
	bool has_dump;
	struct source map, dump;
	struct jit_table table[2]; /* by enum jit_format */
	uint64_t looked_ns, asked_ns, ask_every_ns;
	struct process *chain;	       /* bucket */
	struct process *newer, *older; /* use */
};

struct jits {
	struct store_writer *store;
	struct frame_reasons *reasons; /* NULL: not asked for */
	struct symbolizer *symbolizer;
	struct procs *procs;
	struct process *bucket[BUCKETS];
	struct process *newest, *oldest;
	struct quota processes, bytes;
	bool ask_jvms;
	uint32_t module[4]; /* strings of the store: [jit] [python] [node] [java] */
	uint32_t life;
	struct jits_stats stats;
};

enum { MODULE_JIT, MODULE_PYTHON, MODULE_NODE, MODULE_JAVA };

/* By MODULE_* */
static const char *const module_names[] = { "[jit]", "[python]", "[node]", "[java]" };

int jits_renewed(struct jits *j)
{
	int rc = 0;
	j->life++;
	for (size_t i = 0; !rc && i < 4; i++)
		rc = store_add_string(j->store, module_names[i], strlen(module_names[i]),
				      &j->module[i]);
	return rc;
}

void jits_note_reasons(struct jits *j, struct frame_reasons *r)
{
	j->reasons = r;
}

int jits_new(struct jits **ret, struct store_writer *w, struct symbolizer *s, struct procs *procs)
{
	struct jits *j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->store = w;
	j->symbolizer = s;
	j->procs = procs;
	j->processes.max = PROCESSES_MAX;
	j->bytes.max = MAPS_BYTES_MAX;
	*ret = j;
	return 0;
}

/* ---- processes ---- */

static struct process **bucket_of(struct jits *j, uint32_t tgid)
{
	return &j->bucket[tgid * 0x9e3779b1u >> 24];
}

static void unlink_use(struct jits *j, struct process *p)
{
	*(p->newer ? &p->newer->older : &j->newest) = p->older;
	*(p->older ? &p->older->newer : &j->oldest) = p->newer;
	p->newer = p->older = NULL;
}

static void link_use(struct jits *j, struct process *p)
{
	p->older = j->newest;
	*(p->older ? &p->older->newer : &j->oldest) = p;
	j->newest = p;
}

static struct source *source_of(struct process *p, enum jit_format f)
{
	return f == JIT_DUMP ? &p->dump : &p->map;
}

static void drop_table(struct jits *j, struct process *p, enum jit_format f)
{
	quota_give(&j->bytes, p->user, jit_memory(&p->table[f]));
	jit_fini(&p->table[f]);
	struct source *s = source_of(p, f);
	symbolizer_cancel(&s->job);
	*s = (struct source){ 0 };
}

static void process_free(struct jits *j, struct process *p)
{
	struct process **at = bucket_of(j, p->tgid);
	while (*at != p)
		at = &(*at)->chain;
	*at = p->chain;
	unlink_use(j, p);
	drop_table(j, p, JIT_PERF_MAP);
	drop_table(j, p, JIT_DUMP);
	jvm_remove_map(&p->root, &p->jvm_map, REMOVE_MS);
	proc_root_close(&p->root);
	quota_give(&j->processes, p->user, 1);
	free(p);
}

void jits_free(struct jits *j)
{
	if (!j)
		return;
	while (j->oldest)
		process_free(j, j->oldest);
	jvm_finish(REMOVE_MS);
	free(j);
}

/* False: the root is not open, or not yet. */
static bool open_root(struct process *p)
{
	if (p->root_rc == -EINPROGRESS)
		p->root_rc = proc_root_open(&p->root, p->tgid);
	p->late |= p->root_rc == -EINPROGRESS;
	return !p->root_rc;
}

/* Return the least recently used process: of this user, who has as many as one user may have. */
static struct process *to_evict(const struct jits *j, uint32_t user)
{
	struct process *p = j->oldest;
	while (p && quota_is_greedy(&j->processes, user, 1) && p->user != user)
		p = p->newer;
	return p ? p : j->oldest;
}

static struct process *process_of(struct jits *j, const struct proc_image *im)
{
	struct process **b = bucket_of(j, im->tgid), *p = *b;
	while (p && (p->tgid != im->tgid || p->from_ns != im->from_ns))
		p = p->chain;
	if (p) {
		unlink_use(j, p);
		link_use(j, p);
		return p;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->user = proc_user(im->tgid);
	while (!quota_take(&j->processes, p->user, 1))
		process_free(j, to_evict(j, p->user));
	p->tgid = im->tgid;
	p->from_ns = im->from_ns;
	p->root_rc = -EINPROGRESS;
	open_root(p);
	p->ask_every_ns = ASK_AGAIN_NS;
	b = bucket_of(j, im->tgid);
	p->chain = *b;
	*b = p;
	link_use(j, p);
	return p;
}

void jits_ask_jvms(struct jits *j)
{
	j->ask_jvms = true;
}

bool jits_is_code(const struct proc_map *m)
{
	const char *path = m->file->path;
	return !strcmp(path, "[anon]") || !strncmp(path, "/memfd:", 7) ||
	       !strncmp(path, "/dev/zero", 9) || !strncmp(path, "/dev/shm/", 9) ||
	       !strncmp(path, "/SYSV", 5);
}

void jits_note(struct jits *j, const struct proc_image *im)
{
	process_of(j, im);
}

/* Have a JVM write its map, a snapshot of this moment. False: it has not answered yet. */
static bool ask_jvm(struct jits *j, struct process *p, uint64_t now)
{
	if (!p->jvm_map.helper && p->asked_ns && now - p->asked_ns < p->ask_every_ns)
		return true;
	int rc = jvm_write_map(&p->root, p->tgid, ASK_MS, &p->jvm_map);
	if (rc == -EINPROGRESS || rc == -EBUSY)
		return rc == -EBUSY; /* too many at a time: without names this time */
	p->asked_ns = clock_ns(CLOCK_MONOTONIC);
	j->stats.asked++;
	j->stats.silent += rc != 0;
	p->ask_every_ns = rc ? 4 * p->ask_every_ns : ASK_AGAIN_NS;
	return true;
}

void jits_begin(struct jits *j)
{
	for (struct process *p = j->oldest; p; p = p->newer)
		if (p->jvm_map.helper)
			ask_jvm(j, p, clock_ns(CLOCK_MONOTONIC));
}

void jits_go_on(struct jits *j)
{
	for (struct process *p = j->oldest; p; p = p->newer)
		open_root(p);
}

void jits_forget(struct jits *j)
{
	for (struct process *p = j->oldest, *next; p; p = next) {
		next = p->newer;
		const struct proc_image *im = procs_find(j->procs, p->tgid, p->from_ns);
		if (!im || im->from_ns != p->from_ns)
			process_free(j, p);
	}
}

/* ---- reading ---- */

/*
 * Make room for a map of p that was read: drop the maps of the least recently used processes, first
 * of the same user. False: there is no room.
 */
static bool make_room(struct jits *j, const struct process *p, size_t bytes)
{
	for (struct process *q = j->oldest; q; q = q->newer) {
		if (quota_take(&j->bytes, p->user, bytes))
			return true;
		if (q == p || (quota_is_greedy(&j->bytes, p->user, bytes) && q->user != p->user))
			continue;
		drop_table(j, q, JIT_PERF_MAP);
		drop_table(j, q, JIT_DUMP);
	}
	return quota_take(&j->bytes, p->user, bytes);
}

/* Have the file read (fd -1: that was begun), or take the answer. */
static void read_source(struct jits *j, struct process *p, int fd, enum jit_format format)
{
	struct source *s = source_of(p, format);
	struct jit_table t;
	bool was_refused = s->refused;
	uint64_t size = s->job_size, mtime = s->job_mtime;
	int rc = jit_read(&t, j->symbolizer, &s->job, fd, format);
	if (symbols_is_late(rc))
		return; /* not yet; try again later */
	drop_table(j, p, format);
	s->size = size;
	s->mtime = mtime;
	if (!rc && !make_room(j, p, jit_memory(&t))) {
		jit_fini(&t);
		rc = -ENOSPC;
	}
	s->refused = rc != 0;
	if (rc) {
		j->stats.refused += !was_refused;
		return;
	}
	j->stats.maps++;
	j->stats.failures += t.failures;
	p->table[format] = t;
}

/* Read the file unless that was done, or begun, with what it holds now. */
static void look_at_source(struct jits *j, struct process *p, const struct proc_opened *o,
			   enum jit_format format)
{
	struct source *s = source_of(p, format);
	if (s->job.job || (s->size == o->size && s->mtime == o->mtime_ns))
		return;
	s->job_size = o->size;
	s->job_mtime = o->mtime_ns;
	read_source(j, p, o->fd, format);
}

static bool is_reading(const struct process *p)
{
	return p->map.job.job || p->dump.job.job;
}

/* Are names on their way? */
static bool is_waiting(const struct process *p)
{
	return is_reading(p) || p->late;
}

static void take_answers(struct jits *j, struct process *p)
{
	for (enum jit_format f = 0; f < 2; f++)
		if (source_of(p, f)->job.job)
			read_source(j, p, -1, f);
}

static bool read_map(struct jits *j, struct process *p, uint32_t number)
{
	char path[64];
	snprintf(path, sizeof(path), "perf-%u.map", number);
	struct proc_opened o;
	int rc = proc_root_tmp_file(&p->root, path, &o);
	if (!rc) {
		look_at_source(j, p, &o, JIT_PERF_MAP);
		close(o.fd);
		return true;
	}
	if (rc == -EINPROGRESS) {
		p->late = true;
		return true;
	}
	if (rc != -ENOENT && !p->map.refused) { /* a file exists, but we may not read it */
		p->map.refused = true;
		j->stats.refused++;
	}
	return false;
}

/* A process maps its dump so that profilers notice it: .../jit-N.dump */
static bool is_dump(const char *path)
{
	const char *name = strrchr(path, '/');
	int end = 0;
	unsigned n;
	return name && sscanf(name, "/jit-%u.dump%n", &n, &end) == 1 && end && !name[end];
}

static void read_dump(struct jits *j, struct process *p, const struct proc_image *im)
{
	for (uint32_t i = 0; i < im->n_maps; i++) {
		if (!is_dump(im->maps[i].file->path))
			continue;
		struct proc_opened o;
		int rc = proc_root_file(&p->root, im->maps[i].file->path, &o);
		p->late |= rc == -EINPROGRESS;
		if (rc == -EINPROGRESS)
			return;
		if (rc)
			continue;
		look_at_source(j, p, &o, JIT_DUMP);
		close(o.fd);
		return;
	}
}

static void look_again(struct jits *j, struct process *p, const struct proc_image *im)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!p->late && p->looked_ns && now - p->looked_ns < READ_AGAIN_NS)
		return;
	p->late = false;
	if (!open_root(p))
		return;
	if (!p->is_jvm) {
		p->is_jvm = jvm_is(im);
		j->stats.jvms += p->is_jvm;
	}
	if (p->is_jvm && j->ask_jvms && !ask_jvm(j, p, now)) {
		p->late = true;
		return;
	}
	read_dump(j, p, im);
	if (!read_map(j, p, p->root.inner) && im->parent &&
	    procs_find(j->procs, im->parent, im->from_ns)) {
		uint32_t parent, uid;
		if (!proc_identity(im->parent, &parent, &uid))
			read_map(j, p, parent);
	}
	if (!p->late)
		p->looked_ns = clock_ns(CLOCK_MONOTONIC);
}

/* ---- frames ---- */

static struct jit_entry *find(struct process *p, uint64_t addr, struct jit_table **ret)
{
	for (size_t f = 0; f < 2; f++) {
		struct jit_entry *e = jit_find(&p->table[f], addr);
		*ret = &p->table[f];
		if (e)
			return e;
	}
	return NULL;
}

static int add_frame(struct jits *j, const struct process *p, const char *raw, uint32_t *ret)
{
	static struct jit_name n; /* 4 KiB; one thread */
	jit_split_name(&n, raw);
	struct store_frame f = { .kind = FRAME_USER, .line = n.line };
	int module = n.language == JIT_PYTHON ? MODULE_PYTHON
		     : n.language == JIT_NODE ? MODULE_NODE
		     : p->is_jvm	      ? MODULE_JAVA
					      : MODULE_JIT;
	f.module = j->module[module];
	int rc = store_add_string(j->store, n.function, strlen(n.function), &f.function);
	if (!rc && n.file[0])
		rc = store_add_string(j->store, n.file, strlen(n.file), &f.file);
	return rc ? rc
		  : frame_reasons_add(
			    j->reasons, j->store, &f,
			    &(struct frame_names){ n.function, module_names[module], n.file }, ret);
}

int jits_frame(struct jits *j, const struct proc_image *im, uint64_t addr, uint32_t *ret_frame)
{
	struct process *p = process_of(j, im);
	struct jit_table *t;
	if (p && is_reading(p))
		take_answers(j, p);
	struct jit_entry *e = p ? find(p, addr, &t) : NULL;
	if (p && !e && !is_reading(p)) {
		look_again(j, p, im);
		e = find(p, addr, &t);
	}
	if (!e)
		return p && is_waiting(p) ? -EINPROGRESS : -ENOENT;
	if (kept_get(e->tag, j->life, ret_frame))
		return 0;
	int rc = add_frame(j, p, t->names + e->name, ret_frame);
	if (!rc)
		e->tag = kept_put(*ret_frame, j->life);
	return rc;
}

void jits_stats(const struct jits *j, struct jits_stats *ret)
{
	*ret = j->stats;
}
