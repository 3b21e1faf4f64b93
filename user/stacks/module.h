/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: the contents of files that processes map. Each content is opened and parsed once,
 * however many processes, paths and links it has. Its identity is its build id and the user that
 * owns the file, else device, inode, modification time and size. Anybody can copy a build id: the
 * contents of two users are never taken for the same. Those of root count for all.
 *
 *   mapping -> proc_file.binary, else build id of the kernel's record,
 *              else open and look at fstat, else parse the head
 *
 * No call waits for a parser. While a file is being opened, its mapping has a module without a
 * binary, which is late. Later calls use the answers that have come, until the module of the
 * content replaces it. The file stays open meanwhile, so that its process may end.
 *
 * A module that no process maps is idle. Its files are closed, so that filesystems can be
 * unmounted; its symbols stay. At most MODULES_IDLE_MAX idle modules and MODULES_IDLE_BYTES of
 * their names are kept; those idle for longest are freed. When an idle module is mapped again, its
 * file is opened only for an address that was never looked up.
 *
 * Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_MODULE_H
#define ASCRIBE_STACKS_MODULE_H

#include "proc/proc.h"
#include "sandbox/downloads.h"
#include "store/store.h"
#include "store/writer.h"
#include "symbols/symbols.h"

#define MODULES_IDLE_MAX 4096u
#define MODULES_IDLE_BYTES (8u << 20) /* without symbol tables, which have a budget of their own */
#define MODULE_CONTENT_BYTES 32
#define MODULE_ID_BYTES (MODULE_CONTENT_BYTES + 4) /* behind it the user that it belongs to */

struct modules;
struct opening;

/* One content. Only its owner changes it. */
struct module {
	struct binary *binary; /* NULL: no symbols and no facts */
	struct modules *owner;
	uint32_t refs;		 /* proc_files and others that hold it; 0: idle */
	char *path;		 /* at which the content was seen first */
	uint32_t name, build_id; /* strings of the store */
	uint64_t identity;	 /* hash of id */
	uint8_t id[MODULE_ID_BYTES];
	struct symbols_file file;   /* the opened file; size 0: none */
	bool refused;		    /* an ELF file that lies or costs too much: binary is NULL */
	bool wants_debug;	    /* request its debug file when it is first needed */
	struct symbols_again again; /* when to try to open it again */
	struct opening *opening;    /* while the file is being opened, else NULL */
	/* The module of the content, which replaces this one; holds a reference */
	struct module *opened;
	struct module *next_replaced; /* until modules_settle */
	bool replaced;
	struct module *next_offered; /* while a downloaded debug file is parsed */
	bool offered;
	/* Frames left without a name because the file is cold: resolver_set_detail */
	uint32_t n_cold;
	size_t idle_bytes;
	struct module *next_id, *next_file; /* hash chains */
	struct module *newer, *older;	    /* while idle */
};

struct modules_stats {
	size_t known; /* contents, with idle ones */
	size_t idle;
	uint64_t opened;  /* files */
	uint64_t revived; /* idle modules that were mapped again */
	uint64_t dropped; /* idle modules that were freed for lack of room */
};

/* Borrow w, s and procs until modules_free. 0 or -errno. */
int modules_new(struct modules **ret, struct store_writer *w, struct symbolizer *s,
		struct procs *procs);
void modules_free(struct modules *ms);

/* All ids of the store are void: make those of all modules again. 0 or -errno of the store. */
int modules_renewed(struct modules *ms);

/*
 * Return the module of a mapping of this image, and begin to open it if it is new. NULL without
 * memory. Borrowed until the mapping is removed. It may be late: see module_is_late.
 */
struct module *modules_of(struct modules *ms, const struct proc_image *im,
			  const struct proc_map *map);

/*
 * Free modules that others have replaced. They stay until then, since a file may be opened between
 * two frames of one stack: the first one has the module that stood for the file.
 */
void modules_settle(struct modules *ms);

/*
 * True while the file is not opened, or not reopened, yet: try again later. False after some tries.
 */
bool module_is_late(const struct module *m);

/*
 * Open the files of a module that is mapped at map, if they are closed. 0; -ENOENT: they cannot be
 * opened; -EAGAIN: not yet. An opened file stays open while a process maps it.
 */
int modules_reopen(struct modules *ms, struct module *m, const struct proc_image *im,
		   const struct proc_map *map);

/* Take and drop a reference. module_put is also for procs_new. */
void module_hold(struct module *m);
void module_put(void *module);

/*
 * Return the bytes of the vdso of 64-bit processes, which is the same in all of them. NULL: there
 * is none.
 */
const uint8_t *modules_vdso(const struct modules *ms, size_t *ret_size);

/*
 * Download debug files that this host lacks from d, borrowed; module_ask_debug requests them. Call
 * it before the first mapping.
 */
void modules_set_downloads(struct modules *ms, struct downloads *d);
void module_ask_debug(struct module *m);

/*
 * Take the files that have come, and go on with those that are being parsed. True: some names and
 * lines have changed.
 */
bool modules_take_downloads(struct modules *ms);
/* True while a downloaded file is being parsed. */
bool modules_expect_downloads(const struct modules *ms);

void modules_stats(const struct modules *ms, struct modules_stats *ret);

#endif
