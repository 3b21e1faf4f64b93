/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open the files of modules: by mapping, by path in the roots that may have them; and their debug
 * files.
 */
#include "stacks/module_int.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* How far the opening of a file has come. */
struct opening {
	struct proc_opened file; /* that may be the mapping's; fd -1: none */
	unsigned try;		 /* ways to the file that were tried */
	struct binary *binary;	 /* of that file; its head is being read, */
	bool has_head;		 /* or was: */
	int head_rc;
	unsigned root, path; /* where to look next for its debug file */
	bool offered;	     /* one was found, and is being looked at */
	/*
	 * Processes that share a file go on with the questions of one of them, instead of asking
	 * the same once more each.
	 */
	/* The process that has no answer about its mapping, until then: CLOCK_BOOTTIME */
	uint32_t asked;
	uint64_t asked_until_ns;
	uint32_t debug_tgid; /* the process whose root is searched for debug files; 0: none yet */
};

#define ASKED_NS 300000000ull

static struct symbols_file file_of(const struct proc_opened *o)
{
	return (struct symbols_file){ o->dev, o->ino, o->size, o->mtime_ns };
}

/*
 * Who owns a file that a process of this user maps or has in its root. Who serves a foreign
 * filesystem may say anything of its files: they belong to the process.
 */
static uint32_t owner_of(const struct proc_opened *o, uint32_t user)
{
	return o->copied ? user : o->user;
}

/*
 * What tells this content from others: the build id and who owns the file, else which file it is
 * and when it was written.
 */
static void content_id(const struct binary *b, const struct proc_opened *o, uint32_t user,
		       uint8_t out[MODULE_ID_BYTES])
{
	const uint8_t *id = NULL;
	size_t n = b ? binary_build_id(b, &id) : 0;
	if (module_build_id(id, n, owner_of(o, user), out))
		return;
	uint64_t v[3] = { (o->dev << 40) ^ o->ino, o->mtime_ns, o->size };
	memcpy(out + 8, v, sizeof(v));
}

/*
 * map_files is the mapping itself. Elsewhere the device numbers of overlays differ between maps and
 * stat: the inode decides.
 */
static bool is_mapped_inode(const struct proc_file *f, const struct proc_opened *o,
			    bool by_map_files)
{
	return by_map_files || !f->ino || f->ino == o->ino;
}

/* Is this the file that was mapped? By build id when the kernel gave one. */
static bool is_mapped_file(const struct proc_file *f, const struct binary *b,
			   const struct proc_opened *o, bool by_map_files)
{
	const uint8_t *id;
	if (!f->build_id_len)
		return is_mapped_inode(f, o, by_map_files);
	size_t n = b ? binary_build_id(b, &id) : 0;
	return n >= f->build_id_len && !memcmp(id, f->build_id, f->build_id_len);
}

/* ---- steps ---- */

static void forget_candidate(struct opening *op)
{
	if (op->file.fd >= 0)
		close(op->file.fd);
	binary_free(op->binary);
	*op = (struct opening){ .file.fd = -1, .try = op->try };
}

void opening_free(struct opening *op)
{
	if (!op)
		return;
	forget_candidate(op);
	free(op);
}

static struct opening *opening_of(struct module *m)
{
	if (!m->opening && (m->opening = calloc(1, sizeof(*m->opening))))
		m->opening->file.fd = -1;
	return m->opening;
}

static void end_opening(struct module *m)
{
	opening_free(m->opening);
	m->opening = NULL;
}

/*
 * Open the next file that may be the mapping's, unless one is open. -ENOENT: there is no further
 * one; or late.
 */
static int open_candidate(struct modules *ms, struct opening *op, const struct proc_image *im,
			  const struct proc_map *map)
{
	struct proc_opened o;
	uint64_t now = proc_now_ns();
	if (op->file.fd >= 0)
		return 0;
	if (op->asked && op->asked != im->tgid && now < op->asked_until_ns)
		return -EINPROGRESS;
	int rc = proc_map_open(ms->procs, im, map, &op->try, &o);
	op->asked = rc == -EINPROGRESS ? im->tgid : 0;
	op->asked_until_ns = now + ASKED_NS;
	if (!rc) {
		ms->stats.opened++;
		op->file = o;
		return 0;
	}
	if (rc == -EINPROGRESS)
		return rc;
	op->try = 0;
	if (rc == -EINTR)
		return -EBUSY;
	/* Late: it may be refused only, so it is a few times */
	return symbols_is_late(rc) ? -EAGAIN : -ENOENT;
}

/* Have the candidate's head read: 0, and head_rc says with what result; or late. */
static int read_candidate(struct modules *ms, struct opening *op, const char *path)
{
	if (op->has_head)
		return 0;
	int rc = op->binary ? binary_read_head(op->binary, NULL)
			    : binary_open_in(&op->binary, ms->symbolizer, op->file.fd, path, NULL);
	if (symbols_is_late(rc))
		return rc;
	if (rc) {
		if (op->binary)
			binary_free(op->binary);
		/* Not ELF, or refused: the file is known all the same, without names */
		op->binary = NULL;
	}
	op->has_head = true;
	op->head_rc = rc;
	return 0;
}

/*
 * A stripped file may have a separate one with its symbols: in the root of its process, or in ours.
 * A user may have mounted anything in the root of a process: what is there must belong to root, or
 * to the owner of the stripped file. 0, or late.
 */
static int find_debug(struct opening *op, uint32_t tgid, const struct proc_file *f)
{
	const uint32_t owner = owner_of(&op->file, f->user);
	op->debug_tgid = op->debug_tgid ? op->debug_tgid : tgid;
	const uint32_t roots[2] = { op->debug_tgid, 0 };
	char path[PATH_MAX];
	int rc = op->offered ? binary_offered(op->binary) : -ENOENT;
	op->offered = rc == -EINPROGRESS;
	while (rc && rc != -EINPROGRESS && rc != -EBUSY && binary_wants_debug(op->binary) &&
	       op->root < 2) {
		struct proc_opened o;
		if (binary_debug_path(op->binary, f->path, op->path, path, sizeof(path))) {
			op->root++;
			op->path = 0;
			continue;
		}
		op->path++;
		int opened = path[0] ? proc_open_in_root(op->debug_tgid, roots[op->root], path, &o)
				     : -ENOENT;
		if (opened == -EINPROGRESS) { /* the same one again */
			op->path--;
			return opened;
		}
		if (opened)
			continue;
		const struct symbols_file which = file_of(&o);
		const uint32_t who = owner_of(&o, f->user);
		if (!roots[op->root] || !who || who == owner) {
			rc = binary_offer_debug(op->binary, o.fd, &which);
			op->offered = rc == -EINPROGRESS;
		}
		close(o.fd);
	}
	if (rc == -EBUSY && op->path) /* the same one again */
		op->path--;
	return rc == -EINPROGRESS || rc == -EBUSY ? rc : 0;
}

/* ---- debug files from servers ---- */

void modules_set_downloads(struct modules *ms, struct downloads *d)
{
	ms->downloads = d;
}

/* Nothing was found here: it is worth asking for, once there is a sample in it. */
static void note_wants_debug(struct module *m)
{
	if (!m->owner->downloads || m->wants_debug || m->id[0] != CONTENT_BUILD_ID ||
	    !binary_wants_debug(m->binary))
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

/* The debug file of m was looked at, with this result. True: it is used. */
static bool end_offer(struct module *m, int rc)
{
	const uint8_t *id;
	size_t n = binary_build_id(m->binary, &id);
	if (rc && !symbols_is_late(rc))
		downloads_discard(m->owner->downloads, id, n);
	binary_expect_debug(m->binary, false);
	if (!m->refs)
		binary_close_files(m->binary);
	return !rc;
}

/* Go on with the files that came before. */
static bool go_on_with_offers(struct modules *ms)
{
	bool any = false;
	for (struct module **at = &ms->offered; *at;) {
		struct module *m = *at;
		int rc = binary_offered(m->binary);
		if (rc == -EINPROGRESS) {
			at = &m->next_offered;
			continue;
		}
		*at = m->next_offered;
		m->offered = false;
		any |= end_offer(m, rc);
	}
	return any;
}

/* Offer a debug file that came. True: it is used already. */
static bool offer_debug(struct modules *ms, struct module *m, int fd)
{
	if (!m->binary)
		return false;
	int rc = fd >= 0 ? binary_offer_debug(m->binary, fd, NULL) : -EAGAIN;
	if (rc != -EINPROGRESS)
		return end_offer(m, rc);
	if (!m->offered) {
		m->offered = true;
		m->next_offered = ms->offered;
		ms->offered = m;
	}
	return false;
}

bool modules_take_downloads(struct modules *ms)
{
	struct download got;
	uint8_t id[MODULE_ID_BYTES];
	bool any = go_on_with_offers(ms);
	while (ms->downloads && !downloads_take(ms->downloads, &got)) {
		module_build_id(got.id, got.len, 0, id);
		/* NULL: the module is forgotten, what came is in the cache */
		for (struct module *m = NULL; (m = module_find_content(ms, id, m));)
			any |= offer_debug(ms, m, got.fd);
		if (got.fd >= 0)
			close(got.fd);
	}
	return any;
}

bool modules_expect_downloads(const struct modules *ms)
{
	return ms->offered;
}

/* ---- opening ---- */

/* A known content, by what the kernel or fstat says of it: it is not parsed again. */
static struct module *find_known(struct modules *ms, const struct proc_file *f,
				 const struct proc_opened *o, bool by_map_files)
{
	const struct symbols_file file = file_of(o);
	struct module *m = o->size ? module_find_file(ms, &file) : NULL;
	if (!m || !is_mapped_inode(f, o, by_map_files))
		return NULL;
	return !f->build_id_len || (m->binary && is_mapped_file(f, m->binary, o, by_map_files))
		       ? m
		       : NULL;
}

/* Open the file that m stands for: 0, m->opened is its module; -ENOENT, -ENOMEM; or late. */
static int open_mapped(struct modules *ms, struct module *m, const struct proc_image *im,
		       const struct proc_map *map)
{
	const struct proc_file *f = map->file;
	struct opening *op = opening_of(m);
	uint8_t id[MODULE_ID_BYTES];
	int rc = op ? 0 : -ENOMEM;
	for (bool found = false; !rc && !found;) {
		rc = open_candidate(ms, op, im, map);
		m->opened = rc ? NULL : find_known(ms, f, &op->file, op->try == 1);
		if (m->opened) {
			module_hold(m->opened);
			return 0;
		}
		rc = rc ? rc : read_candidate(ms, op, f->path);
		found = !rc && is_mapped_file(f, op->binary, &op->file, op->try == 1);
		if (!rc && !found)
			forget_candidate(op);
	}
	if (rc)
		return rc;
	content_id(op->binary, &op->file, f->user, id);
	rc = op->binary && !module_find(ms, id) ? find_debug(op, im->tgid, f) : 0;
	if (rc)
		return rc;
	m->opened = module_get(ms, op->binary, id, f->path);
	op->binary = NULL;
	if (!m->opened)
		return -ENOMEM;
	const struct symbols_file file = file_of(&op->file);
	module_set_file(m->opened, &file);
	if (op->head_rc)
		/* Honest files of another kind */
		m->opened->refused = op->head_rc != -ENOEXEC && op->head_rc != -EPROTONOSUPPORT;
	else
		note_wants_debug(m->opened);
	return 0;
}

void module_go_on(struct modules *ms, struct module *m, const struct proc_image *im,
		  const struct proc_map *map)
{
	symbolizer_for(ms->symbolizer, im->tgid);
	int rc = open_mapped(ms, m, im, map);
	if (symbols_is_late(rc)) {
		m->refused = !symbols_put_off(&m->again, rc);
		if (!m->refused)
			return;
	}
	m->again.at_ns = 0;
	end_opening(m);
}

/*
 * Stands for a file while nothing of it could be read, so that it is not tried again while the file
 * is known.
 */
static struct module *get_unread(struct modules *ms, const struct proc_file *f)
{
	const uint64_t which[2] = { f->dev, f->ino };
	uint8_t id[MODULE_ID_BYTES] = { CONTENT_UNREAD };
	uint64_t h = XXH3_64bits(f->path, strlen(f->path));
	if (f->build_id_len)
		memcpy(id + 1, f->build_id, PROC_BUILD_ID_MAX);
	else
		memcpy(id + 1, which, sizeof(which));
	memcpy(id + 24, &h, 8);
	memcpy(id + MODULE_CONTENT_BYTES, &f->user, sizeof(f->user));
	return module_get(ms, NULL, id, f->path);
}

/* A known content with this build id, of root's or of the user of the process. */
static struct module *find_copy(struct modules *ms, const struct proc_file *f)
{
	uint8_t id[MODULE_ID_BYTES];
	struct module *m = NULL;
	if (module_build_id(f->build_id, f->build_id_len, 0, id))
		m = module_find(ms, id);
	if (!m && module_build_id(f->build_id, f->build_id_len, f->user, id))
		m = module_find(ms, id);
	return m;
}

struct module *module_open(struct modules *ms, const struct proc_image *im,
			   const struct proc_map *map)
{
	const struct proc_file *f = map->file;
	struct module *m = find_copy(ms, f);
	if (m) {
		/*
		 * A copy of what is known needs no opening, and may be gone together with its
		 * process
		 */
		module_hold(m);
		return m;
	}
	m = get_unread(ms, f);
	if (m && m->refs == 1)
		m->again.at_ns = 1;
	if (m && !m->opened && module_is_late(m) && symbols_is_due(&m->again))
		module_go_on(ms, m, im, map);
	return m;
}

/*
 * Is the open candidate the module's content? Then its files become those of the module. 0,
 * -ENOENT, or late.
 */
static int take_again(struct modules *ms, struct module *m, const struct proc_image *im,
		      const struct proc_map *map)
{
	struct opening *op = m->opening;
	uint8_t id[MODULE_ID_BYTES];
	int rc = read_candidate(ms, op, map->file->path);
	if (rc || !op->binary)
		return rc ? rc : -ENOENT;
	content_id(op->binary, &op->file, map->file->user, id);
	rc = memcmp(m->id, id, sizeof(id)) ? -ENOENT : find_debug(op, im->tgid, map->file);
	if (!rc)
		binary_reopen(m->binary, op->binary);
	return rc;
}

int modules_reopen(struct modules *ms, struct module *m, const struct proc_image *im,
		   const struct proc_map *map)
{
	int rc;
	if (!m->binary || m->again.n > SYMBOLS_AGAIN_MAX)
		return -ENOENT;
	if (!binary_is_closed(m->binary))
		return 0;
	if (!symbols_is_due(&m->again))
		return -EAGAIN;
	if (!opening_of(m))
		return -ENOMEM;
	symbolizer_for(ms->symbolizer, im->tgid);
	while (!(rc = open_candidate(ms, m->opening, im, map))) {
		rc = take_again(ms, m, im, map);
		if (rc != -ENOENT)
			break;
		forget_candidate(m->opening);
	}
	if (symbols_is_late(rc) && symbols_put_off(&m->again, rc))
		return -EAGAIN;
	end_opening(m);
	m->again.at_ns = 0;
	if (!rc)
		m->again.n = 0;
	return symbols_is_late(rc) ? -ENOENT : rc;
}
