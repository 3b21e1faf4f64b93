/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process table: processes and their mappings over time. An address that was sampled a second
 * ago can still be symbolized when its process has exited.
 *
 * An image is one process between two execs: (tgid, start time, exec). It is the one entry for all
 * layers: labels and unwinding attach their state to it (enum proc_layer). An image stays for a
 * while after its process, because samples are looked up until the window ends. All times are
 * BOOTTIME nanoseconds.
 *
 * 1. Changes come from perf's side-band, in order of time (procs_fork .. procs_exit).
 * 2. /proc is read when a sample needs it (procs_identify), or when a child inherits from its
 *    parent. The result is authoritative for its moment: older records about that process are
 *    ignored.
 * 3. After a loss of records (procs_lost) every image is uncertain, and is read again when a sample
 *    needs it.
 * 4. No call takes longer for more live images, except procs_free and procs_detach. Images are
 *    found by hash; those that ended are in lists, in the order of their end.
 *
 * Not thread-safe. Everything that a process can choose (paths, comm, the number of its mappings)
 * is capped.
 */
#ifndef ASCRIBE_PROC_PROC_H
#define ASCRIBE_PROC_PROC_H

#include "sandbox/keeper.h"
#include "util/err.h"
#include "util/list.h"
#include "util/pace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Executable mappings of one image. Where records fill them, /proc is read again: it lacks those
 * that were unmapped, of which no record tells. Further ones are ignored. Adding one moves those
 * above: where a program makes the most of them, from the top down, that takes 0.2 s in all.
 */
#define PROC_MAPS_MAX 16384
#define PROC_COMM_SIZE 16
/*
 * Distinct files that one process maps, and memory of all, which users share (quota.h). Further
 * files stand as PROC_MORE_FILES: mapped, but never opened.
 */
#define PROC_FILES_MAX 1024
#define PROC_FILES_BYTES_MAX (64u << 20)
#define PROC_FILE_BYTES 8192 /* and the path: most is what layers keep of a file */
#define PROC_MORE_FILES "[more files]"
#define PROC_ENDED_MAX 65536		  /* images of ended processes: procs_trim */
#define PROC_READ_MAX 16384		  /* the same, while their rows have been read */
#define PROC_UNREAD_DUE 8192		  /* so many ended: their rows are to be read */
#define PROC_IMAGES_BYTES_MAX (32u << 20) /* memory of all images: procs_trim */
#define PROC_BUILD_ID_MAX 20
#define PROC_CMDLINE_MAX 120	    /* bytes of a command line that are kept */
#define PROC_RETRY_NS 1000000000ull /* between two attempts to read the mappings of a process */
#define PROC_FULL_RETRY_NS 60000000000ull /* the same, where it has PROC_MAPS_MAX of them */

/*
 * A mapped file, shared by all its mappings. The same path with another content is another file. A
 * user can give any build id to a file, and mount it at any path: what a build id says counts for
 * the processes of one user, unless root owns the file.
 */
struct proc_file {
	char *path;	     /* as the process sees it, or "[vdso]", "[anon]", ... */
	uint32_t tgid, user; /* that mapped it first; user: of procs.file_quota */
	uint64_t dev, ino;   /* 0 where build_id identifies the file */
	uint8_t build_id[PROC_BUILD_ID_MAX];
	uint8_t build_id_len;
	bool plain; /* only mappings of processes that were sampled need a look */
	/* Root owns the content of this build id. Else each user has a file of his own. */
	bool of_root;
	uint32_t refs;
	void *binary; /* of the layer that opens files, see procs_new */
	struct proc_file *next;
};

struct proc_map {
	uint64_t start, end; /* addresses, end exclusive */
	uint64_t pgoff;	     /* file offset of start, bytes */
	struct proc_file *file;
};

/* The identity of an image. BPF programs write it into each row and record. */
struct proc_id {
	uint64_t start_ns;	/* of the thread group */
	uint32_t tgid, exec_id; /* exec_id: a fork inherits it, an exec adds 1 */
};

/*
 * Layers that keep a struct of their own for an image. The layer sets the pointer. When the image
 * ends (procs_on_end), the layer frees the struct and clears the pointer.
 */
enum proc_layer {
	PROC_LABELS,  /* user/attribute/labelling.c */
	PROC_UNWIND,  /* user/stacks/unwinding.c */
	PROC_HOTSPOT, /* user/stacks/hotspot.c */
	PROC_V8,      /* user/stacks/v8.c */
	PROC_LAYERS
};

/* The state of an image; only user/proc changes it. */
enum proc_state {
	PROC_LIVES,
	PROC_LEADERLESS, /* the first thread has exited; others may run */
	PROC_ENDED,
	PROC_REPORTED, /* ended, and the layers were called */
	PROC_STATES
};

/* Ordered without holes: there may be PROC_ENDED_MAX of them. */
struct proc_image {
	uint32_t tgid;
	uint32_t parent; /* tgid, 0 when unknown */
	/* from_ns: 0 where it began before us; to_ns: UINT64_MAX while it lives */
	uint64_t from_ns, to_ns;
	uint64_t leader_exit_ns; /* of the first thread; 0: it runs. Others may go on */
	uint64_t start_ns;	 /* struct proc_id; 0: no row had it yet */
	uint32_t exec_id;
	uint32_t n_maps;
	/* Sorted by start, never overlapping; shared with a child until either maps more. */
	const struct proc_map *maps;
	struct proc_file *exe; /* NULL for kernel threads and when unknown */
	/* path from /proc/TGID/cgroup, or NULL; shared_text, shared with children */
	char *cgroup;
	char *cmdline; /* shared_text, shared with children; NULL: not read, or none */
	void *layer[PROC_LAYERS];
	struct proc_image *older; /* the image before this one, of the same tgid */
	char comm[PROC_COMM_SIZE + 1];
	/* When the process forked, else when it was read; "": unknown */
	char parent_comm[PROC_COMM_SIZE + 1];
	bool exec_known, exec_doubtful; /* doubtful: may be one too small */
	bool cgroup_inherited; /* from the parent or from before exec: may have changed since */
	bool cmdline_read;     /* or it cannot be read */
	bool cmdline_late;     /* there is no answer yet */
	bool leader_exited;    /* other threads may run: proc_image_alive */
	bool user_known;       /* see proc_image_user */
	uint32_t user;

	/* For user/proc alone. */
	struct pace looks;  /* see procs_paused_until */
	uint64_t looked_ns; /* CPU time of them */
	bool complete;	    /* maps has all mappings */
	bool named;	    /* comm and exe are set */
	bool by_exec;	    /* the image began with an exec */
	bool settled;	    /* the image ended, and no record of its life is missing */
	bool threaded;	    /* the side-band showed a second thread */
	bool heir;	    /* forked while its parent's mappings were being read: lacks them */
	bool again;	    /* the last procs_mmap told of a mapping that was there already */
	enum proc_state state : 8;
	/*
	 * Number of losses (procs_lost) when maps was certain; when the process was last seen in
	 * /proc
	 */
	uint32_t gap, swept;
	uint32_t asked_gap; /* gap at asked_ns */
	/* When its mappings were asked for, and no answer has come; 0: they were not */
	uint64_t asked_ns;
	uint64_t read_ns;	  /* when /proc was read, 0: never */
	uint64_t tried_ns;	  /* when reading /proc failed, 0: never */
	uint64_t tick_ns;	  /* start time in /proc/TGID/stat, 0: not read */
	struct proc_image *since; /* mappings of records after that; without a place in the table */
	struct list_node node;	  /* of its state */
	struct proc_image *next;  /* hash chain of newest images */
};

struct procs;

/*
 * Call release_file (may be NULL) with proc_file.binary when the last mapping of a file is removed.
 */
int procs_new(struct procs **ret, void (*release_file)(void *binary));
void procs_free(struct procs *p);

/*
 * Have on_end called for each image with a pointer of this layer when the image has ended: in
 * procs_forget, procs_report_ended, procs_trim, procs_detach and procs_free. The layer clears its
 * pointer there.
 */
void procs_on_end(struct procs *p, enum proc_layer layer,
		  void (*on_end)(void *ctx, struct proc_image *im), void *ctx);
/* Call the layer for each image with its pointer, and then never again. */
void procs_detach(struct procs *p, enum proc_layer layer);

/* ---- records of the side-band, in order of time ---- */

void procs_fork(struct procs *p, uint32_t tgid, uint32_t parent, uint64_t ns);
/* A thread of the process has created another thread. */
void procs_thread(struct procs *p, uint32_t tgid);
void procs_exec(struct procs *p, uint32_t tgid, const char *comm, uint64_t ns);
void procs_comm(struct procs *p, uint32_t tgid, const char *comm, uint64_t ns);
void procs_exit(struct procs *p, uint32_t tgid, uint64_t ns);
/*
 * build_id_len 0: dev and ino identify the file. Return the file, or NULL for an old record or
 * without memory.
 */
struct proc_file *procs_mmap(struct procs *p, uint32_t tgid, uint64_t start, uint64_t len,
			     uint64_t pgoff, const char *path, uint64_t dev, uint64_t ino,
			     const uint8_t *build_id, size_t build_id_len, uint64_t ns);
/* Records from since_ns to now are missing: read live images again when a sample needs them. */
void procs_lost(struct procs *p, uint64_t since_ns);

/* ---- /proc ---- */

/*
 * Find our PID namespace: its inode, or 0 for the initial one. BPF programs translate ids into it.
 * /proc and the side-band have no others: the namespace of a /proc is that of its mount, that of
 * the side-band is its opener's. Fail with advice where /proc is of another one: -ENOTSUP, or the
 * error of /proc.
 */
int proc_namespace(uint32_t *ret, struct err *err);
/* What is lost in another one than the initial. */
#define PROC_NAMESPACE_WARNING \
	"processes outside of this PID namespace have no exe, no user frames, no waits and no " \
	"labels but comm, tgid (the host's) and those of their cgroup; run on the host to have them"

/*
 * Nothing below waits for another process (reader.h). -EINPROGRESS: no answer yet, which says
 * nothing; ask the same again.
 */

/* Cut the mark " (deleted)" that the kernel puts behind the path of a file that was unlinked. */
void proc_path_unmark(char *path);

/*
 * Read one process, with its mappings. -ENOENT: no such process. -ESRCH: it has ended. Others: from
 * the reader.
 */
int procs_scan_one(struct procs *p, uint32_t tgid);

/* Count of reads of /proc/TGID/maps. */
uint64_t procs_reads(const struct procs *p);

/* Read the cgroup of an image that inherited it, once per image. */
void proc_image_read_cgroup(struct proc_image *im);

/*
 * Read the command line of an image, once per image: its first PROC_CMDLINE_MAX bytes with blanks
 * between the arguments, and '?' for characters that show nothing themselves. Sets cmdline_late
 * while there is no answer.
 */
void proc_image_read_cmdline(struct proc_image *im);

/* Give an image its command line: the first bytes of its arguments, each with a NUL behind it. */
void proc_image_set_cmdline(struct proc_image *im, const char *arguments, size_t len);

/*
 * Return a thread by which /proc/N shows the memory, root and cgroup of a process: tgid itself, or
 * another thread where the first one has exited. 0 when no thread is left. Costs some 10 us.
 */
uint32_t proc_thread(uint32_t tgid);

/*
 * Read the line of /proc/TGID/maps with this address. -ENOENT: nothing is mapped there, or the
 * process has ended.
 */
#define PROC_LINE_NAME_MAX 160
struct proc_line {
	uint64_t start, end, pgoff; /* as in struct proc_map */
	uint64_t dev, ino;	    /* 0: no file */
	bool exec, shared;
	/* The path, "[heap]", "[stack]" or "", with its end where it is too long */
	char name[PROC_LINE_NAME_MAX];
};
int proc_line_at(uint32_t tgid, uint64_t addr, struct proc_line *ret);

/*
 * Find the first line of /proc/TGID/maps with one of these texts (separated by newlines), and
 * return its start. -ENOENT.
 */
int proc_find_mapping(uint32_t tgid, const char *texts, uint64_t *ret_start);

/* Read len bytes of a process's memory, all of them or none: -EFAULT. */
int proc_read_memory(uint32_t tgid, uint64_t addr, void *out, size_t len);

/* Read the memory from addr on that can be read, at most cap bytes. -EFAULT: none. */
int proc_read_stack(uint32_t tgid, uint64_t addr, void *out, size_t cap, size_t *ret_len);

/* Return how often a thread was switched out. -ESRCH: it has ended. */
int proc_thread_switches(uint32_t tgid, uint32_t tid, uint64_t *ret);

/* Read up to cap bytes of a file of /proc/TGID. */
int proc_read_text(uint32_t tgid, const char *name, char *out, size_t cap, size_t *ret_len);

/*
 * Return the user that is charged for an image (proc_user, reader.h), as it was at the first call.
 * NULL: as for a process that has ended.
 */
uint32_t proc_image_user(struct proc_image *im);

/*
 * Return the BOOTTIME until which looks through the files of an image must wait; 0: look now. They
 * take at most a tenth of our time for one user, half of that for one image.
 */
uint64_t procs_paused_until(struct procs *p, struct proc_image *im);
/* Charge a look that this thread began when its CPU clock was at begin_ns. */
void procs_looked(struct procs *p, struct proc_image *im, uint64_t begin_ns);

/* ---- looking up ---- */

/* The caller needs comm and exe, or the mappings as well. */
enum proc_need { PROC_NAME, PROC_MAPS };

/*
 * Return the image with this identity, for a row or record of the time ns. Read what is missing
 * from /proc while the process lives. NULL: it has ended unseen. A row never gets the names of
 * another image.
 */
struct proc_image *procs_identify(struct procs *p, const struct proc_id *id, uint64_t ns,
				  enum proc_need need);

/* Return the image with this identity, or NULL. Read nothing. */
struct proc_image *procs_lookup(struct procs *p, const struct proc_id *id);

/* Return the image that ran at ns, or NULL. */
struct proc_image *procs_find(struct procs *p, uint32_t tgid, uint64_t ns);
/* False until its mappings were read from /proc or inherited. */
static inline bool proc_image_mapped(const struct proc_image *im)
{
	return im->complete;
}
/*
 * True while a reader has not answered about its mappings, or those of the parent of a process that
 * has ended: procs_identify takes the answer when it has come.
 */
static inline bool proc_image_is_late(const struct proc_image *im)
{
	return im->asked_ns || (im->heir && im->to_ns != UINT64_MAX);
}
/*
 * True while a thread of this image runs; false for NULL. Reads /proc where the first thread has
 * exited.
 */
bool proc_image_alive(const struct proc_image *im);
/*
 * False when a process that started at start_ns cannot be that of the image: its id was used again.
 */
bool proc_image_holds(const struct proc_image *im, uint64_t start_ns);
const struct proc_map *proc_image_map(const struct proc_image *im, uint64_t addr);

/*
 * A regular file, opened for reading. The descriptor is close-on-exec and belongs to the caller.
 * Reading and closing it do not block: the file is on a local filesystem, or a copy in memory
 * (reader.h). Do not call fstat on it, which may block.
 */
struct proc_opened {
	int fd;
	bool copied;   /* of a filesystem that may block, and may say anything */
	uint32_t user; /* that owns it */
	uint64_t dev, ino, size, mtime_ns;
};

/*
 * Open the file of a mapping: its map_files entry, then its path in the root of the process or of
 * its parents, then in ours. The process cannot redirect this. The caller checks by build id or
 * (dev, ino) that it is the mapped file.
 *
 * *io_try counts the ways that were tried: start at 0, and call again for the next way.
 * -ENOENT: no further way. -EAGAIN, -EBUSY: no further way, and one did not answer in time.
 * -EINPROGRESS: this way has no answer yet. -EINTR: the reader itself ended; try again soon.
 */
int proc_map_open(struct procs *p, const struct proc_image *im, const struct proc_map *m,
		  unsigned *io_try, struct proc_opened *ret);

/*
 * Open a regular file by its path in the root of a process (0: ours), without magic links. The time
 * is charged to process tgid; fails when that process has used up its time. 0 or -errno.
 */
int proc_open_in_root(uint32_t tgid, uint32_t root, const char *file, struct proc_opened *ret);
/*
 * Open a file by an absolute path of ours. place: the place itself (O_PATH), never a copy of it.
 * Each call may say -EINPROGRESS, or -EAGAIN where a copy takes long: ask again. 0 or -errno.
 */
int proc_open_path(const char *path, bool place, struct proc_opened *ret);

/*
 * The root of a process, kept open by the reader, also after the process has ended. For files in
 * /tmp, which any user may have put there. Opens only regular files, without symbolic links on the
 * way. They belong to the user of the process, or to root and are readable by all.
 */
struct proc_root {
	uint64_t name; /* 0: closed */
	uint64_t start;
	uint32_t tgid;
	uint32_t uid;	/* effective, at the time of the open */
	uint32_t inner; /* the process's id in its own PID namespace */
};
/* *io_root is all zero at first, and stays for the next call after -EINPROGRESS. */
int proc_root_open(struct proc_root *io_root, uint32_t tgid);
/* Open a file by its path; by its name in /tmp. -EPERM: another owner. -ELOOP, -EINVAL, ... */
int proc_root_file(const struct proc_root *r, const char *file, struct proc_opened *ret);
int proc_root_tmp_file(const struct proc_root *r, const char *name, struct proc_opened *ret);
/* Return an O_PATH descriptor of its /tmp. -ENOTDIR where /tmp is not on a local filesystem. */
int proc_root_tmp(const struct proc_root *r, int *ret_fd);
void proc_root_close(struct proc_root *r);

/*
 * Return the start time of a process, rounded down to a clock tick. With tgid it identifies the
 * process. -ENOENT.
 */
int proc_start(uint32_t tgid, uint64_t *ret);

/* Return the id of a process in its innermost PID namespace, and its effective user. -ESRCH. */
int proc_identity(uint32_t tgid, uint32_t *ret_inner, uint32_t *ret_uid);

/*
 * Is each user id of its user namespace the same one here? So in ours, and in those that root maps
 * so. False where that is not known. /proc/TGID/uid_map: user inside, user here, how many
 * (user_namespaces(7)).
 */
bool proc_has_ids_of_here(uint32_t tgid);

/* After each window: report ended images to the layers, and remove those that ended before ns. */
void procs_forget(struct procs *p, uint64_t ns);

/* Report ended images to one layer before the window ends. */
void procs_report_ended(struct procs *p, enum proc_layer layer);

/*
 * All rows of processes that ended before ns have been read and have found their images. Until then
 * an ended image is unread.
 */
void procs_read(struct procs *p, uint64_t ns);

/* True when PROC_UNREAD_DUE images have ended since the last procs_read. */
bool procs_read_is_due(const struct procs *p);

/*
 * Remove images:
 * 1. the oldest ended ones that were read, while there are more than PROC_READ_MAX ended ones;
 * 2. the oldest ended ones while there are more than PROC_ENDED_MAX, or while all images take more
 *    than PROC_IMAGES_BYTES_MAX;
 * 3. live ones without a layer's pointer, which are read again when they are sampled.
 *
 * Return the number of unread ones among them: their samples have no exe and no names. Pointers to
 * images are invalid after this call.
 */
size_t procs_trim(struct procs *p);

/* Number of images, ended ones included. */
size_t procs_count(const struct procs *p);
/*
 * Number of live images. A process without a sample and without a new child since the start has
 * none.
 */
size_t procs_alive(const struct procs *p);

/* Current BOOTTIME. */
uint64_t proc_now_ns(void);

keeper_op procs_cgroup_op; /* opens a cgroup's directory by its id; for the keeper's table */

/*
 * Return the path of a v2 cgroup id, or NULL when it is not found. Cached; borrowed until
 * procs_free.
 */
const char *procs_cgroup_path(struct procs *p, uint64_t id);
/* True when the cgroup was found and is not the root: /proc/TGID/cgroup has nothing more to say. */
bool procs_in_cgroup(struct procs *p, uint64_t id);

/* Is it a thread of the kernel? These are children of kthreadd. */
static inline bool proc_image_is_kernel(const struct proc_image *im)
{
	return im->parent == 2 || im->tgid == 2;
}

/*
 * Return the length of the systemd unit in a cgroup path: its last part that ends with .service or
 * .scope; or 0.
 */
size_t proc_unit(const char *cgroup, const char **ret);

/*
 * Return the length of the 64-digit container id in a cgroup path, or 0. The pod uid ("pod<uid>" of
 * kubelet) likewise.
 */
size_t proc_container_id(const char *cgroup, const char **ret);
size_t proc_pod_uid(const char *cgroup, char *out, size_t cap);
/* Return the length of the name of the outermost LXC container in a cgroup path, or 0. */
size_t proc_lxc_name(const char *cgroup, const char **ret);

#endif
