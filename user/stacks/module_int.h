/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by module.c and module_open.c only. */
#ifndef ASCRIBE_STACKS_MODULE_INT_H
#define ASCRIBE_STACKS_MODULE_INT_H

#include "stacks/module.h"
#include "store/writer.h"

#define MODULE_BUCKETS 4096u

/* The first byte of module.id. */
enum {
	CONTENT_FILE = 0, /* device, inode, time, size */
	CONTENT_BUILD_ID = 1,
	CONTENT_UNREAD = 2, /* nothing could be read: it stands for one path and is never idle */
	CONTENT_VDSO = 3,
};

struct modules {
	struct store_writer *store;
	struct symbolizer *symbolizer;
	struct procs *procs;
	struct downloads *downloads; /* NULL: none */
	struct module *by_id[MODULE_BUCKETS], *by_file[MODULE_BUCKETS];
	struct module *newest, *oldest; /* idle */
	size_t idle_bytes;
	struct module vdso;
	const uint8_t *vdso_bytes; /* in our own address space */
	size_t vdso_size;
	struct module *offered; /* see module.offered */
	struct module *replaced;
	struct modules_stats stats;
};

/*
 * Make the id of a content with this build id, of this user. False: it is too short to tell
 * contents apart.
 */
bool module_build_id(const uint8_t *build_id, size_t n, uint32_t user,
		     uint8_t out[MODULE_ID_BYTES]);

/* A known module; it is not held for the caller. NULL: none. */
struct module *module_find(struct modules *ms, const uint8_t id[MODULE_ID_BYTES]);
/* The same, of any user. after: NULL, or the one before. */
struct module *module_find_content(struct modules *ms, const uint8_t id[MODULE_ID_BYTES],
				   const struct module *after);
struct module *module_find_file(struct modules *ms, const struct symbols_file *file);

/*
 * The module of this id, held: a known one, or a new one around b. b is taken over in any case.
 * NULL without memory.
 */
struct module *module_get(struct modules *ms, struct binary *b, const uint8_t id[MODULE_ID_BYTES],
			  const char *path);

/* The file of m is this one from now on. */
void module_set_file(struct module *m, const struct symbols_file *file);

/*
 * modules_of for a proc_file that has no module yet: held. It may be late, and is to be replaced by
 * m->opened when that is set.
 */
struct module *module_open(struct modules *ms, const struct proc_image *im,
			   const struct proc_map *map);

/* Go on opening the file that m stands for. */
void module_go_on(struct modules *ms, struct module *m, const struct proc_image *im,
		  const struct proc_map *map);

void opening_free(struct opening *op);

#endif
