/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped files, and the mappings of an image: shared after fork, copied by whichever of the two
 * maps more first.
 */
#include "proc/proc_int.h"

#include "util/bisect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- files ---- */

static struct proc_file **file_bucket(struct procs *p, const char *path, uint64_t ino,
				      const uint8_t *id, size_t id_len)
{
	uint64_t h = XXH3_64bits_withSeed(path, strlen(path), ino);
	if (id_len)
		h ^= XXH3_64bits(id, id_len);
	return &p->files[h % FILE_BUCKETS];
}

static size_t file_bytes(const struct proc_file *f)
{
	return PROC_FILE_BYTES + strlen(f->path);
}

/* Charge a new file to the process that maps it. False: the process or its user has too many. */
static bool file_charge(struct procs *p, struct proc_image *im, struct proc_file *f)
{
	uint16_t *n = &p->files_of[im->tgid % FILE_OWNERS];
	f->tgid = im->tgid;
	f->user = proc_image_user(im);
	if (*n >= PROC_FILES_MAX || !quota_take(&p->file_quota, f->user, file_bytes(f)))
		return false;
	++*n;
	return true;
}

static void file_free(struct proc_file *f)
{
	free(f->path);
	free(f);
}

static struct proc_file *file_get(struct procs *p, struct proc_image *im, const char *path,
				  uint64_t dev, uint64_t ino, const uint8_t *id, size_t id_len)
{
	if (id_len > PROC_BUILD_ID_MAX)
		id_len = PROC_BUILD_ID_MAX;
	if (id_len)
		dev = ino = 0;
	struct proc_file **b = file_bucket(p, path, ino, id, id_len), *f;
	for (f = *b; f; f = f->next) {
		if (f->dev == dev && f->ino == ino && f->build_id_len == id_len &&
		    !memcmp(f->build_id, id_len ? id : f->build_id, id_len) &&
		    !strcmp(f->path, path) &&
		    (!id_len || f->of_root || f->user == proc_image_user(im))) {
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
	if (path[0] == '/' && !file_charge(p, im, f)) {
		file_free(f);
		return file_get(p, im, PROC_MORE_FILES, 0, 0, NULL, 0);
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

void proc_file_put(struct procs *p, struct proc_file *f)
{
	if (!f || --f->refs)
		return;
	struct proc_file **at = file_bucket(p, f->path, f->ino, f->build_id, f->build_id_len);
	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	if (f->binary && p->release_file)
		p->release_file(f->binary);
	if (f->path[0] == '/') {
		p->files_of[f->tgid % FILE_OWNERS]--;
		quota_give(&p->file_quota, f->user, file_bytes(f));
	}
	file_free(f);
}

/* The mappings of an image and of its children that mapped nothing since. Copy before a change. */
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

void proc_maps_clear(struct procs *p, struct proc_image *im)
{
	struct map_list *l = list_of(im);
	if (l && !--l->refs) {
		for (uint32_t i = 0; i < im->n_maps; i++)
			proc_file_put(p, l->v[i].file);
		p->bytes -= list_bytes(l->cap);
		free(l);
	}
	im->maps = NULL;
	im->n_maps = 0;
}

void proc_maps_share(struct proc_image *to, const struct proc_image *from)
{
	struct map_list *l = list_of(from);
	if (!l)
		return;
	l->refs++;
	to->maps = from->maps;
	to->n_maps = from->n_maps;
}

/* ---- mappings ---- */

/* Return the index of the first mapping that ends after addr. */
static uint32_t map_lower(const struct proc_image *im, uint64_t addr)
{
	return bisect(i, 0, im->n_maps, im->maps[i].end <= addr);
}

const struct proc_map *proc_image_map(const struct proc_image *im, uint64_t addr)
{
	uint32_t i = map_lower(im, addr);
	return i < im->n_maps && im->maps[i].start <= addr ? &im->maps[i] : NULL;
}

/* Give an image a list of its own, with room for n more mappings. */
static int maps_reserve(struct procs *p, struct proc_image *im, uint32_t n)
{
	struct map_list *old = list_of(im), *l;
	if (im->n_maps + n > PROC_MAPS_MAX)
		return -E2BIG;
	if (old && old->refs == 1 && im->n_maps + n <= old->cap)
		return 0;
	uint32_t cap = im->n_maps + n <= 8 ? 8 : (im->n_maps + n) * 3 / 2;
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
	proc_maps_clear(p, im);
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

/* Remove [start, end) from the mappings: a new mapping replaces what it covers. */
static void maps_cut(struct procs *p, struct proc_image *im, uint64_t start, uint64_t end)
{
	uint32_t i = map_lower(im, start);
	while (i < im->n_maps && im->maps[i].start < end) {
		struct proc_map *m = &list_of(im)->v[i];
		if (m->start < start && m->end > end) {
			/* Split in two; the caller reserved the room */
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
			proc_file_put(p, m->file);
			memmove(m, m + 1, (im->n_maps - i - 1) * sizeof(*m));
			im->n_maps--;
		}
	}
}

/* Put m in the place of a mapping of the same addresses. False: there is none. */
static bool map_replace(struct procs *p, struct proc_image *im, struct proc_map m)
{
	uint32_t i = map_lower(im, m.start);
	if (i == im->n_maps || im->maps[i].start != m.start || im->maps[i].end != m.end)
		return false;
	im->again = im->maps[i].file == m.file && im->maps[i].pgoff == m.pgoff;
	proc_file_put(p, im->maps[i].file);
	list_of(im)->v[i] = m;
	return true;
}

struct proc_file *proc_map_add(struct procs *p, struct proc_image *im, struct proc_map m,
			       const char *path, uint64_t dev, uint64_t ino, const uint8_t *id,
			       size_t id_len)
{
	if (m.end <= m.start || maps_reserve(p, im, 2))
		return NULL;
	m.file = file_get(p, im, path, dev, ino, id, id_len);
	if (!m.file)
		return NULL;
	im->again = false;
	if (!map_replace(p, im, m)) {
		maps_cut(p, im, m.start, m.end);
		map_insert(im, map_lower(im, m.start), m);
	}
	return m.file;
}

void proc_set_exe(struct procs *p, struct proc_image *im, const char *path)
{
	struct proc_file *f = NULL;
	for (uint32_t i = 0; i < im->n_maps && !f; i++)
		if (!strcmp(im->maps[i].file->path, path))
			/*
			 * The same struct: callers compare files to find the program's own mapping
			 */
			f = im->maps[i].file;
	if (f)
		f->refs++;
	else
		f = file_get(p, im, path, 0, 0, NULL, 0);
	proc_file_put(p, im->exe);
	im->exe = f;
}
