/* SPDX-License-Identifier: Apache-2.0 */
/* Open the files of modules: by mapping, by path in the roots that may have them; and their debug files. */
#include "stacks/module_int.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static struct symbols_file file_of(const struct proc_opened *o)
{
	return (struct symbols_file){ o->dev, o->ino, o->size, o->mtime_ns };
}

/* What tells this content from others: the build id, else which file it is and when it was written. */
static void content_id(const struct binary *b, const struct proc_opened *o, uint8_t out[MODULE_ID_BYTES])
{
	const uint8_t *id = NULL;
	size_t n = b ? binary_build_id(b, &id) : 0;
	if (module_build_id(id, n, out))
		return;
	uint64_t v[3] = { (o->dev << 40) ^ o->ino, o->mtime_ns, o->size };
	memcpy(out + 8, v, sizeof(v));
}

/* map_files is the mapping itself. Elsewhere the device numbers of overlays differ between maps and stat: the inode decides. */
static bool is_mapped_inode(const struct proc_file *f, const struct proc_opened *o, bool by_map_files)
{
	return by_map_files || !f->ino || f->ino == o->ino;
}

/* Is this the file that was mapped? By build id when the kernel gave one. */
static bool is_mapped_file(const struct proc_file *f, const struct binary *b, const struct proc_opened *o, bool by_map_files)
{
	const uint8_t *id;
	if (!f->build_id_len)
		return is_mapped_inode(f, o, by_map_files);
	size_t n = b ? binary_build_id(b, &id) : 0;
	return n >= f->build_id_len && !memcmp(id, f->build_id, f->build_id_len);
}

/* A stripped file may have a separate one with its symbols: in the root of its process, or in ours. -EBUSY: there is no time to tell. */
static int find_debug(struct binary *b, uint32_t tgid, const char *file)
{
	const uint32_t roots[2] = { tgid, 0 };
	char path[PATH_MAX];
	for (unsigned i = 0; binary_wants_debug(b) && i < 2; i++) {
		for (unsigned n = 0; !binary_debug_path(b, file, n, path, sizeof(path)); n++) {
			struct proc_opened o;
			if (!path[0] || proc_open_in_root(tgid, roots[i], path, &o))
				continue;
			const struct symbols_file which = file_of(&o);
			int rc = binary_offer_debug(b, o.fd, &which);
			close(o.fd);
			if (!rc || rc == -EBUSY)
				return rc;
		}
	}
	return 0;
}

/* ---- debug files from servers ---- */

void modules_set_downloads(struct modules *ms, struct downloads *d)
{
	ms->downloads = d;
}

/* Nothing was found here: it is worth asking for, once there is a sample in it. */
static void note_wants_debug(struct module *m)
{
	if (!m->owner->downloads || m->wants_debug || m->id[0] != CONTENT_BUILD_ID || !binary_wants_debug(m->binary))
		return;
	m->wants_debug = true;
	binary_expect_debug(m->binary, true);
}

void module_ask_debug(struct module *m)
{
	const uint8_t *id;
	if (!m->wants_debug)
		return;
	m->wants_debug = false;
	size_t n = binary_build_id(m->binary, &id);
	if (downloads_ask(m->owner->downloads, id, n))
		binary_expect_debug(m->binary, false);
}

bool modules_take_downloads(struct modules *ms)
{
	struct download got;
	uint8_t id[MODULE_ID_BYTES];
	bool any = false;
	while (ms->downloads && !downloads_take(ms->downloads, &got)) {
		module_build_id(got.id, got.len, id);
		struct module *m = module_find(ms, id);
		/* The module may be gone: what came is in the cache. */
		int rc = m && got.fd >= 0 ? binary_offer_debug(m->binary, got.fd, NULL) : 0;
		if (rc && !symbols_is_late(rc))
			downloads_discard(ms->downloads, got.id, got.len);
		any |= !rc && m && got.fd >= 0;
		if (m)
			binary_expect_debug(m->binary, false);
		if (m && !m->refs)
			binary_close_files(m->binary);
		if (got.fd >= 0)
			close(got.fd);
	}
	return any;
}

/* ---- opening ---- */

/* A known content, by what the kernel or fstat says of it: it is not parsed again. */
static struct module *find_known(struct modules *ms, const struct proc_file *f, const struct proc_opened *o, bool by_map_files)
{
	const struct symbols_file file = file_of(o);
	struct module *m = o->size ? module_find_file(ms, &file) : NULL;
	if (!m || !is_mapped_inode(f, o, by_map_files))
		return NULL;
	return !f->build_id_len || (m->binary && is_mapped_file(f, m->binary, o, by_map_files)) ? m : NULL;
}

/*
 * The module of an opened file, held. NULL: it is not the file of the mapping, or without memory. *ret_late: there was no time
 * to read it.
 */
static struct module *take_file(struct modules *ms, const struct proc_image *im, const struct proc_file *f,
				const struct proc_opened *o, bool by_map_files, int *ret_late)
{
	const struct symbols_file file = file_of(o);
	struct module *m = find_known(ms, f, o, by_map_files);
	struct binary *b = NULL;
	uint8_t id[MODULE_ID_BYTES];
	if (m) {
		module_hold(m);
		return m;
	}
	int rc = binary_open_in(&b, ms->symbolizer, o->fd, f->path, NULL);
	if (symbols_is_late(rc)) {
		*ret_late = rc;
		return NULL;
	}
	if (rc)
		b = NULL; /* not ELF, or refused: the file is known all the same, without names */
	if (!is_mapped_file(f, b, o, by_map_files)) {
		binary_free(b);
		return NULL;
	}
	content_id(b, o, id);
	m = module_find(ms, id);
	*ret_late = b && !m ? find_debug(b, im->tgid, f->path) : 0;
	if (*ret_late) {
		binary_free(b);
		return NULL;
	}
	m = module_get(ms, b, id, f->path);
	if (!m)
		return NULL;
	module_set_file(m, &file);
	if (rc)
		m->refused = rc != -ENOEXEC && rc != -EPROTONOSUPPORT; /* honest files of another kind */
	else
		note_wants_debug(m);
	return m;
}

/* Nothing to read: a module of its own, so that it is not tried again while the file is known. */
static struct module *get_unread(struct modules *ms, const struct proc_file *f, int late)
{
	uint8_t id[MODULE_ID_BYTES] = { CONTENT_UNREAD };
	uint64_t h = XXH3_64bits(f->path, strlen(f->path));
	memcpy(id + 1, f->build_id, PROC_BUILD_ID_MAX);
	memcpy(id + 24, &h, 8);
	struct module *m = module_get(ms, NULL, id, f->path);
	if (m && (late || module_is_late(m)) && symbols_is_due(&m->again))
		m->refused = !symbols_put_off(&m->again, late ? late : -EAGAIN);
	return m;
}

struct module *module_open(struct modules *ms, const struct proc_image *im, const struct proc_map *map)
{
	const struct proc_file *f = map->file;
	unsigned try = 0;
	int late = 0, rc = 0;
	uint8_t id[MODULE_ID_BYTES];
	struct proc_opened o;
	struct module *m = module_build_id(f->build_id, f->build_id_len, id) ? module_find(ms, id) : NULL;
	if (m) { /* a copy of what is known needs no opening, and may be gone together with its process */
		module_hold(m);
		return m;
	}
	symbolizer_for(ms->symbolizer, im->tgid);
	if (!symbolizer_may(ms->symbolizer))
		late = -EBUSY;
	while (!late && !(rc = proc_map_open(ms->procs, im, map, &try, &o))) {
		ms->stats.opened++;
		m = take_file(ms, im, f, &o, try == 1, &late);
		close(o.fd);
		if (m)
			return m;
	}
	if (!late && symbols_is_late(rc))
		late = -EAGAIN; /* a few times, though it may be refused only */
	if (!late && rc == -EINTR)
		late = -EBUSY;
	return get_unread(ms, f, late);
}

/* Is this file the module's content? Then its files become those of the module. 0, -ENOENT, or late. */
static int take_again(struct modules *ms, struct module *m, const struct proc_image *im, const struct proc_map *map,
		      const struct proc_opened *o)
{
	struct binary *b = NULL;
	uint8_t id[MODULE_ID_BYTES];
	int rc = binary_open_in(&b, ms->symbolizer, o->fd, map->file->path, NULL);
	if (rc)
		return symbols_is_late(rc) ? rc : -ENOENT;
	content_id(b, o, id);
	rc = memcmp(m->id, id, sizeof(id)) ? -ENOENT : find_debug(b, im->tgid, map->file->path);
	if (!rc)
		binary_reopen(m->binary, b);
	binary_free(b);
	return rc;
}

int modules_reopen(struct modules *ms, struct module *m, const struct proc_image *im, const struct proc_map *map)
{
	unsigned try = 0;
	struct proc_opened o;
	int rc = -ENOENT;
	if (!m->binary || m->again.n > SYMBOLS_AGAIN_MAX)
		return -ENOENT;
	if (!binary_is_closed(m->binary))
		return 0;
	if (!symbols_is_due(&m->again))
		return -EAGAIN;
	symbolizer_for(ms->symbolizer, im->tgid);
	while (rc == -ENOENT && !proc_map_open(ms->procs, im, map, &try, &o)) {
		ms->stats.opened++;
		rc = take_again(ms, m, im, map, &o);
		close(o.fd);
	}
	if (symbols_is_late(rc))
		return symbols_put_off(&m->again, rc) ? -EAGAIN : -ENOENT;
	if (!rc)
		m->again = (struct symbols_again){ 0 };
	return rc;
}
