/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: the contents of files that processes map. Each content is opened and parsed once, however many processes, paths
 * and links it has. It is told by its build id, else by device, inode, modification time and size.
 *
 *   mapping -> proc_file.binary, else build id of the kernel's record, else open and look at fstat, else parse the head
 *
 * Nothing here waits for a parser. While a file is being opened its mapping has a module without a binary, which is late; each
 * question goes on with what has been answered, until the module of the content takes its place. The file stays open
 * meanwhile, so that the end of its process does no harm.
 *
 * A module that nobody maps any more is idle: its files are closed, so that filesystems can be unmounted, and what was read
 * of it stays. At most MODULES_IDLE_MAX idle modules and MODULES_IDLE_BYTES of their names are kept; those idle for longest
 * go. When an idle module is mapped again nothing is opened until an address is asked for that was never asked for before.
 *
 * Not thread-safe.
 */
#ifndef ASCRIBE_STACKS_MODULE_H
#define ASCRIBE_STACKS_MODULE_H

#include "proc/proc.h"
#include "sandbox/downloads.h"
#include "store/store.h"
#include "symbols/symbols.h"

#define MODULES_IDLE_MAX 4096u
#define MODULES_IDLE_BYTES (8u << 20) /* without symbol tables, which have a budget of their own */
#define MODULE_ID_BYTES 32

struct modules;
struct opening;

/* One content. Its owner changes it; others read it. */
struct module {
	struct binary *binary;   /* NULL: nothing to be had */
	struct modules *owner;
	uint32_t refs;           /* proc_files and others that hold it; 0: idle */
	char *path;              /* at which the content was seen first */
	uint32_t name, build_id; /* strings of the store */
	uint64_t identity;       /* hash of id */
	uint8_t id[MODULE_ID_BYTES];
	struct symbols_file file; /* the file that was opened; size 0: none was */
	bool refused;             /* an ELF file that lies or costs too much: binary is NULL */
	bool wants_debug;         /* ask for its debug file when it is first needed */
	struct symbols_again again; /* it could not be opened yet */
	struct opening *opening;    /* while the file is being opened, else NULL */
	struct module *opened;	    /* of one that stood for a file that was being opened: held */
	struct module *next_offered; /* while a debug file from a server is looked at */
	bool offered;
	uint32_t n_cold; /* frames without a name, while the file is cold: resolver_set_detail */
	size_t idle_bytes;
	struct module *next_id, *next_file; /* hash chains */
	struct module *newer, *older;       /* while idle */
};

struct modules_stats {
	size_t known;     /* contents, idle ones included */
	size_t idle;
	uint64_t opened;  /* files */
	uint64_t revived; /* idle modules that were mapped again */
	uint64_t dropped; /* idle modules that went for lack of room */
};

/* All are borrowed until modules_free. 0 or -errno. */
int modules_new(struct modules **ret, struct store_writer *w, struct symbolizer *s, struct procs *procs);
void modules_free(struct modules *ms);

/* Every id of the store is void from now on: make those of all modules anew. 0 or -errno of the store. */
int modules_renewed(struct modules *ms);

/*
 * The module of a mapping of this image; opened if it is not known. NULL without memory. Borrowed while the mapping is there.
 * It may be late: see module_is_late.
 */
struct module *modules_of(struct modules *ms, const struct proc_image *im, const struct proc_map *map);

/* Could it not be opened, or not be opened again, yet? Then ask again later. After some tries this is false. */
bool module_is_late(const struct module *m);

/*
 * Open the files of a module that is mapped at map, if they are closed. 0; -ENOENT: they are not to be had; -EAGAIN: not yet. A
 * file that was opened stays open while somebody maps it.
 */
int modules_reopen(struct modules *ms, struct module *m, const struct proc_image *im, const struct proc_map *map);

/* Hold it, and let go of it. module_put is for procs_new, too. */
void module_hold(struct module *m);
void module_put(void *module);

/* The vdso of 64-bit processes, which is the same in all of them: its bytes. NULL: there is none. */
const uint8_t *modules_vdso(const struct modules *ms, size_t *ret_size);

/*
 * Debug files that this host lacks may come from d, borrowed: they are asked for with module_ask_debug. Before the first
 * mapping.
 */
void modules_set_downloads(struct modules *ms, struct downloads *d);
void module_ask_debug(struct module *m);

/* Take the files that have come, and go on with those that are being looked at. True: some names and lines are other ones now. */
bool modules_take_downloads(struct modules *ms);
/* Is one being looked at? */
bool modules_expect_downloads(const struct modules *ms);

void modules_stats(const struct modules *ms, struct modules_stats *ret);

#endif
