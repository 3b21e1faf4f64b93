/* SPDX-License-Identifier: Apache-2.0 */
/* Images and files: what the side-band and /proc say happened to them. */
#include "proc/proc_int.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

uint64_t proc_now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int procs_new(struct procs **ret, void (*file_gone)(void *))
{
	struct procs *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->file_gone = file_gone;
	p->cgroup_mount = -1;
	*ret = p;
	return 0;
}

/* ---- files ---- */

static struct proc_file **file_bucket(struct procs *p, const char *path, uint64_t ino, const uint8_t *id, size_t id_len)
{
	uint64_t h = XXH3_64bits_withSeed(path, strlen(path), ino);
	if (id_len)
		h ^= XXH3_64bits(id, id_len);
	return &p->files[h % FILE_BUCKETS];
}

static struct proc_file *file_get(struct procs *p, const char *path, uint64_t dev, uint64_t ino, const uint8_t *id,
				  size_t id_len)
{
	if (id_len > PROC_BUILD_ID_MAX)
		id_len = PROC_BUILD_ID_MAX;
	if (id_len)
		dev = ino = 0;
	struct proc_file **b = file_bucket(p, path, ino, id, id_len), *f;
	for (f = *b; f; f = f->next) {
		if (f->dev == dev && f->ino == ino && f->build_id_len == id_len &&
		    !memcmp(f->build_id, id_len ? id : f->build_id, id_len) && !strcmp(f->path, path)) {
			f->refs++;
			return f;
		}
	}
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->path = strdup(path);
	if (!f->path) {
		free(f);
		return NULL;
	}
	f->dev = dev;
	f->ino = ino;
	if (id_len)
		memcpy(f->build_id, id, id_len);
	f->build_id_len = (uint8_t)id_len;
	f->refs = 1;
	f->next = *b;
	*b = f;
	return f;
}

static void file_put(struct procs *p, struct proc_file *f)
{
	if (!f || --f->refs)
		return;
	struct proc_file **at = file_bucket(p, f->path, f->ino, f->build_id, f->build_id_len);
	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	if (f->binary && p->file_gone)
		p->file_gone(f->binary);
	free(f->path);
	free(f);
}

/* ---- images ---- */

static struct proc_image **image_bucket(struct procs *p, uint32_t tgid)
{
	return &p->images[(tgid * 0x9e3779b1u) >> (32 - IMAGE_BITS)];
}

struct proc_image *proc_newest(struct procs *p, uint32_t tgid)
{
	struct proc_image *im = *image_bucket(p, tgid);
	while (im && im->tgid != tgid)
		im = im->next;
	return im;
}

/* The mappings of an image, and of those forked from it that have mapped nothing since. Who changes
 * them copies them first. */
struct map_list {
	uint32_t refs, cap;
	struct proc_map v[];
};

static struct map_list *list_of(const struct proc_image *im)
{
	return im->maps ? (struct map_list *)((char *)im->maps - offsetof(struct map_list, v))
			: NULL;
}

static size_t list_bytes(uint32_t cap)
{
	return sizeof(struct map_list) + cap * sizeof(struct proc_map);
}

static void maps_clear(struct procs *p, struct proc_image *im)
{
	struct map_list *l = list_of(im);
	if (l && !--l->refs) {
		for (uint32_t i = 0; i < im->n_maps; i++)
			file_put(p, l->v[i].file);
		p->bytes -= list_bytes(l->cap);
		free(l);
	}
	im->maps = NULL;
	im->n_maps = 0;
}

/* Add to the list of those that ended, or take out of it. */
void proc_image_ended(struct procs *p, struct proc_image *im)
{
	if (im->ended)
		return;
	im->ended = true;
	im->ended_before = p->ended_last;
	im->ended_after = NULL;
	*(p->ended_last ? &p->ended_last->ended_after : &p->ended_first) = im;
	p->ended_last = im;
	p->n_ended++;
}

static void unlist(struct procs *p, struct proc_image *im)
{
	if (!im->ended)
		return;
	im->ended = false;
	*(im->ended_before ? &im->ended_before->ended_after : &p->ended_first) = im->ended_after;
	*(im->ended_after ? &im->ended_after->ended_before : &p->ended_last) = im->ended_before;
	p->n_ended--;
}

static void image_free(struct procs *p, struct proc_image *im)
{
	unlist(p, im);
	maps_clear(p, im);
	file_put(p, im->exe);
	free(im->cgroup);
	free(im);
	p->bytes -= sizeof(*im);
	p->n_images--;
}

/* A new newest image of tgid; what was the newest becomes its elder and ends. */
struct proc_image *proc_image_add(struct procs *p, uint32_t tgid, uint64_t from_ns)
{
	struct proc_image *im = calloc(1, sizeof(*im)), **at = image_bucket(p, tgid);
	if (!im)
		return NULL;
	im->tgid = tgid;
	im->from_ns = from_ns;
	im->to_ns = UINT64_MAX;
	while (*at && (*at)->tgid != tgid)
		at = &(*at)->next;
	im->older = *at;
	if (*at) {
		im->next = (*at)->next;
		if ((*at)->to_ns > from_ns)
			(*at)->to_ns = from_ns;
		(*at)->next = NULL;
		proc_image_ended(p, *at);
	}
	*at = im;
	p->bytes += sizeof(*im);
	p->n_images++;
	return im;
}

void proc_set_comm(struct proc_image *im, const char *comm)
{
	snprintf(im->comm, sizeof(im->comm), "%.*s", PROC_COMM_SIZE, comm);
}

/* True for a record older than the image, or than the reading of /proc that made it. */
static bool is_old_news(const struct proc_image *im, uint64_t ns)
{
	return im && (ns < im->read_ns || ns < im->from_ns);
}

static void maps_share(struct proc_image *to, const struct proc_image *from)
{
	struct map_list *l = list_of(from);
	if (!l)
		return;
	l->refs++;
	to->maps = from->maps;
	to->n_maps = from->n_maps;
}

static void copy_origin(struct proc_image *to, const struct proc_image *from)
{
	to->cgroup = from->cgroup ? strdup(from->cgroup) : NULL;
	to->exe = from->exe;
	if (to->exe)
		to->exe->refs++;
}

void procs_fork(struct procs *p, uint32_t tgid, uint32_t parent, uint64_t ns)
{
	if (is_old_news(proc_newest(p, tgid), ns))
		return;
	struct proc_image *im = proc_image_add(p, tgid, ns), *from = proc_newest(p, parent);
	if (!im)
		return;
	im->parent = parent;
	im->cgroup_inherited = true;
	if (!from)
		return;
	proc_set_comm(im, from->comm);
	copy_origin(im, from);
	maps_share(im, from);
}

void procs_exec(struct procs *p, uint32_t tgid, const char *comm, uint64_t ns)
{
	struct proc_image *old = proc_newest(p, tgid);
	if (is_old_news(old, ns))
		return;
	struct proc_image *im = proc_image_add(p, tgid, ns);
	if (!im)
		return;
	proc_set_comm(im, comm);
	im->cgroup_inherited = true;
	if (old) {
		im->parent = old->parent;
		im->cgroup = old->cgroup ? strdup(old->cgroup) : NULL;
	}
}

void procs_comm(struct procs *p, uint32_t tgid, const char *comm, uint64_t ns)
{
	struct proc_image *im = proc_newest(p, tgid);
	if (im && !is_old_news(im, ns))
		proc_set_comm(im, comm);
}

void procs_exit(struct procs *p, uint32_t tgid, uint64_t ns)
{
	struct proc_image *im = proc_newest(p, tgid);
	if (!im || is_old_news(im, ns))
		return;
	im->leader_gone = 1;
	proc_image_ended(p, im);
}

/* ---- mappings ---- */

/* The first mapping that ends after addr. */
static uint32_t map_lower(const struct proc_image *im, uint64_t addr)
{
	uint32_t lo = 0, hi = im->n_maps;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (im->maps[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const struct proc_map *proc_image_map(const struct proc_image *im, uint64_t addr)
{
	uint32_t i = map_lower(im, addr);
	return i < im->n_maps && im->maps[i].start <= addr ? &im->maps[i] : NULL;
}

/* Make the list of an image its own, with room for n more. */
static int maps_reserve(struct procs *p, struct proc_image *im, uint32_t n)
{
	struct map_list *old = list_of(im), *l;
	if (old && old->refs == 1 && im->n_maps + n <= old->cap)
		return 0;
	if (im->n_maps + n > PROC_MAPS_MAX)
		return -E2BIG;
	uint32_t cap = im->n_maps + n <= 16 ? 16 : im->n_maps * 2;
	l = malloc(list_bytes(cap));
	if (!l)
		return -ENOMEM;
	*l = (struct map_list){ .refs = 1, .cap = cap };
	p->bytes += list_bytes(cap);
	uint32_t n_maps = im->n_maps;
	if (old)
		memcpy(l->v, old->v, n_maps * sizeof(l->v[0]));
	for (uint32_t i = 0; i < n_maps; i++)
		l->v[i].file->refs++;
	maps_clear(p, im);
	im->maps = l->v;
	im->n_maps = n_maps;
	return 0;
}

static void map_insert(struct proc_image *im, uint32_t at, struct proc_map m)
{
	struct proc_map *v = list_of(im)->v;
	memmove(&v[at + 1], &v[at], (im->n_maps - at) * sizeof(*v));
	v[at] = m;
	im->n_maps++;
}

/* Cut [start, end) out of what is mapped: a new mapping replaces what it covers. */
static void maps_cut(struct procs *p, struct proc_image *im, uint64_t start, uint64_t end)
{
	uint32_t i = map_lower(im, start);
	while (i < im->n_maps && im->maps[i].start < end) {
		struct proc_map *m = &list_of(im)->v[i];
		if (m->start < start && m->end > end) { /* a hole: two remain; the caller reserved the room */
			struct proc_map right = *m;
			right.pgoff += end - m->start;
			right.start = end;
			right.file->refs++;
			m->end = start;
			map_insert(im, i + 1, right);
			return;
		}
		if (m->start < start) {
			m->end = start;
			i++;
		} else if (m->end > end) {
			m->pgoff += end - m->start;
			m->start = end;
			return;
		} else {
			file_put(p, m->file);
			memmove(m, m + 1, (im->n_maps - i - 1) * sizeof(*m));
			im->n_maps--;
		}
	}
}

struct proc_file *proc_map_add(struct procs *p, struct proc_image *im, struct proc_map m, const char *path,
			       uint64_t dev, uint64_t ino, const uint8_t *id, size_t id_len)
{
	if (m.end <= m.start || maps_reserve(p, im, 2))
		return NULL;
	m.file = file_get(p, path, dev, ino, id, id_len);
	if (!m.file)
		return NULL;
	maps_cut(p, im, m.start, m.end);
	map_insert(im, map_lower(im, m.start), m);
	return m.file;
}

struct proc_file *procs_mmap(struct procs *p, uint32_t tgid, uint64_t start, uint64_t len, uint64_t pgoff,
			     const char *path, uint64_t dev, uint64_t ino, const uint8_t *id, size_t id_len, uint64_t ns)
{
	struct proc_image *im = proc_newest(p, tgid);
	if (is_old_news(im, ns) || len > UINT64_MAX - start)
		return NULL;
	if (!im)
		im = proc_image_add(p, tgid, 0);
	if (!im)
		return NULL;
	struct proc_map m = { .start = start, .end = start + len, .pgoff = pgoff };
	struct proc_file *f = proc_map_add(p, im, m, path, dev, ino, id, id_len);
	/* The kernel maps the executable itself before its interpreter. */
	if (f && !im->exe && path[0] == '/') {
		im->exe = f;
		f->refs++;
	}
	return f;
}

void proc_image_reset(struct procs *p, struct proc_image *im)
{
	maps_clear(p, im);
}

void proc_set_exe(struct procs *p, struct proc_image *im, const char *path)
{
	struct proc_file *f = NULL;
	for (uint32_t i = 0; i < im->n_maps && !f; i++)
		if (!strcmp(im->maps[i].file->path, path))
			f = im->maps[i].file; /* one and the same: whoever asks which mapping is the program's compares files */
	if (f)
		f->refs++;
	else
		f = file_get(p, path, 0, 0, NULL, 0);
	file_put(p, im->exe);
	im->exe = f;
}

/* ---- looking up, forgetting ---- */

struct proc_image *procs_find(struct procs *p, uint32_t tgid, uint64_t ns)
{
	struct proc_image *im = proc_newest(p, tgid);
	while (im && im->from_ns > ns)
		im = im->older;
	return im;
}

bool proc_image_holds(const struct proc_image *im, uint64_t start_ns)
{
	uint64_t seen = im->from_ns ? im->from_ns : im->read_ns; /* it ran then */
	return !seen || start_ns <= seen + PROC_TICK_NS;
}

void procs_forget(struct procs *p, uint64_t ns)
{
	uint64_t now = proc_now_ns();
	for (size_t b = 0; b < 1u << IMAGE_BITS; b++) {
		struct proc_image **at = &p->images[b];
		while (*at) {
			struct proc_image *im = *at;
			if (im->to_ns == UINT64_MAX && !proc_image_alive(im))
				im->to_ns = now;
			for (struct proc_image **o = &im->older; *o;) {
				struct proc_image *old = *o;
				if (old->to_ns >= ns) {
					o = &old->older;
					continue;
				}
				*o = old->older;
				image_free(p, old);
			}
			if (im->to_ns < ns && !im->older) {
				*at = im->next;
				image_free(p, im);
			} else {
				at = &im->next;
			}
		}
	}
}

/* Out of the table; what is older stays. */
static void image_remove(struct procs *p, struct proc_image *im)
{
	struct proc_image **at = image_bucket(p, im->tgid);
	while ((*at)->tgid != im->tgid)
		at = &(*at)->next;
	if (*at == im) {
		*at = im->older ? im->older : im->next;
		if (im->older)
			im->older->next = im->next;
	} else {
		for (at = &(*at)->older; *at != im;)
			at = &(*at)->older;
		*at = im->older;
	}
	image_free(p, im);
}

size_t procs_trim(struct procs *p)
{
	size_t n = 0;
	while (p->ended_first &&
	       (p->n_ended > PROC_ENDED_MAX || p->bytes > PROC_IMAGES_BYTES_MAX)) {
		struct proc_image *im = p->ended_first;
		if (proc_image_alive(im)) { /* its first thread has ended, others go on */
			unlist(p, im);
			continue;
		}
		image_remove(p, im);
		n++;
	}
	return n;
}

size_t procs_count(const struct procs *p)
{
	return p->n_images;
}

size_t procs_alive(const struct procs *p)
{
	size_t n = 0;
	for (size_t b = 0; b < 1u << IMAGE_BITS; b++)
		for (const struct proc_image *im = p->images[b]; im; im = im->next)
			n += im->to_ns == UINT64_MAX && !im->leader_gone;
	return n;
}

void procs_free(struct procs *p)
{
	if (!p)
		return;
	for (size_t b = 0; b < 1u << IMAGE_BITS; b++) {
		for (struct proc_image *im = p->images[b], *next; im; im = next) {
			next = im->next;
			for (struct proc_image *o = im, *older; o; o = older) {
				older = o->older;
				image_free(p, o);
			}
		}
	}
	proc_cgroups_free(p);
	free(p);
}
