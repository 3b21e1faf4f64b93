/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process table: processes and their mappings over time, so that an address sampled then can be named now.
 *
 * An image is one process between two execs: (tgid, start time, exec). It is the one entry for all layers: what labels and
 * unwinding keep of a process hangs on it (enum proc_layer). Images outlive their process for a while, because samples are
 * looked up up to a window later. All times are BOOTTIME nanoseconds.
 *
 * 1. Changes come from perf's side-band in order of time (procs_fork .. procs_exit).
 * 2. Nothing is read of /proc before a sample needs it (procs_identify), or a child that is made inherits it. What was read
 *    is authoritative for its moment: older records about that process are ignored.
 * 3. After a loss of records (procs_lost) nothing is known for certain: each image is read again when it is needed.
 * 4. No call but procs_free and procs_detach takes longer for more images that live: images are found by hash, and those that ended are in
 *    lists in the order of their end.
 *
 * Not thread-safe. Everything that a process can choose (paths, comm, the number of its mappings) is capped.
 */
#ifndef ASCRIBE_PROC_PROC_H
#define ASCRIBE_PROC_PROC_H

#include "util/err.h"
#include "util/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROC_MAPS_MAX 65536 /* mappings of one image; more are ignored */
#define PROC_COMM_SIZE 16
#define PROC_ENDED_MAX 65536		  /* images of what has ended that are kept: procs_trim */
#define PROC_IMAGES_BYTES_MAX (32u << 20) /* of all images, before those that ended give way */
#define PROC_BUILD_ID_MAX 20
#define PROC_RETRY_NS 1000000000ull /* from a reading of mappings that failed to the next one */

/* A mapped file, shared by all mappings of it; the same path with another content is another file. */
struct proc_file {
	char *path; /* as the process sees it, or "[vdso]", "[anon]", ... */
	uint64_t dev, ino; /* 0 when the build id is known instead */
	uint8_t build_id[PROC_BUILD_ID_MAX];
	uint8_t build_id_len;
	uint32_t refs;
	void *binary; /* whoever opens files keeps its result here, see procs_new */
	struct proc_file *next;
};

struct proc_map {
	uint64_t start, end; /* addresses, end exclusive */
	uint64_t pgoff;      /* file offset of start, bytes */
	struct proc_file *file;
};

/* What the kernel tells an image by: each row and record of the BPF programs has it. */
struct proc_id {
	uint64_t start_ns; /* of the thread group */
	uint32_t tgid, exec_id; /* exec_id: a fork inherits it, an exec adds 1 */
};

/*
 * Layers that keep a struct of their own for an image. Its pointer is the layer's: it sets it, and when the image ends
 * (procs_on_end) it frees the struct and clears the pointer.
 */
enum proc_layer {
	PROC_LABELS, /* user/attribute/labelling.c */
	PROC_UNWIND, /* user/stacks/unwinding.c */
	PROC_LAYERS
};

/* Where an image is in its life; only user/proc changes it. */
enum proc_state {
	PROC_LIVES,
	PROC_LEADERLESS, /* its first thread has exited; others may go on */
	PROC_ENDED,
	PROC_TOLD, /* and the layers know */
	PROC_STATES
};

struct proc_image {
	uint32_t tgid;
	uint32_t parent; /* tgid, 0 when unknown */
	uint64_t from_ns, to_ns; /* from_ns: 0 where it began before us; to_ns: UINT64_MAX while it lives */
	uint64_t start_ns; /* struct proc_id; 0: no row has told it yet */
	uint32_t exec_id;
	bool exec_known, exec_doubtful; /* doubtful: may be one too small */
	bool cgroup_inherited;	 /* cgroup is the parent's, or that before exec: it may have changed
				  */
	bool leader_gone; /* its first thread has exited; others may go on: proc_image_alive */
	char comm[PROC_COMM_SIZE + 1];
	struct proc_file *exe; /* NULL for kernel threads and when unknown */
	char *cgroup;          /* path from /proc/TGID/cgroup, may be NULL */
	const struct proc_map *maps; /* sorted by start, never overlapping; a child shares its
					parent's until either maps more */
	uint32_t n_maps;
	void *layer[PROC_LAYERS];
	struct proc_image *older; /* the image before this one, of the same tgid */

	/* For user/proc alone. */
	enum proc_state state;
	bool complete, named; /* all mappings are known; comm and exe are */
	bool by_exec;	      /* it began with an exec */
	bool settled;	      /* it ended, and no record of its life is missing */
	bool threaded;	      /* it has had more threads than the first, as far as is known */
	uint32_t gap, swept;  /* the number of losses (procs_lost) when its mappings were certain, and when it was seen to live */
	uint64_t read_ns;     /* when /proc was read, 0: never */
	uint64_t tried_ns;    /* when that failed, 0: it did not */
	uint64_t tick_ns;     /* its start as /proc tells it, 0: not read */
	struct list_node node;	 /* of its state */
	struct proc_image *next; /* hash chain of newest images */
};

struct procs;

/* file_gone (may be NULL) is called with proc_file.binary when the last mapping of a file is forgotten. */
int procs_new(struct procs **ret, void (*file_gone)(void *binary));
void procs_free(struct procs *p);

/*
 * Called for each image with a pointer of this layer when the image has ended: in procs_forget, procs_tell_ended,
 * procs_trim, procs_detach and procs_free. The layer clears its pointer there.
 */
void procs_on_end(struct procs *p, enum proc_layer layer, void (*on_end)(void *ctx, struct proc_image *im), void *ctx);
/* The layer goes: it is called for each image that has a pointer of it, then no more. */
void procs_detach(struct procs *p, enum proc_layer layer);

/* ---- side-band news, in order of time ---- */

void procs_fork(struct procs *p, uint32_t tgid, uint32_t parent, uint64_t ns);
/* A thread of the process has made another one. */
void procs_thread(struct procs *p, uint32_t tgid);
void procs_exec(struct procs *p, uint32_t tgid, const char *comm, uint64_t ns);
void procs_comm(struct procs *p, uint32_t tgid, const char *comm, uint64_t ns);
void procs_exit(struct procs *p, uint32_t tgid, uint64_t ns);
/* build_id_len 0: dev and ino tell the file. Returns the file, NULL when the news is old or memory is short. */
struct proc_file *procs_mmap(struct procs *p, uint32_t tgid, uint64_t start, uint64_t len, uint64_t pgoff,
			     const char *path, uint64_t dev, uint64_t ino, const uint8_t *build_id,
			     size_t build_id_len, uint64_t ns);
/* Records from since_ns to now are missing: what is known of images that live may be wrong, and is read again when it is needed. */
void procs_lost(struct procs *p, uint64_t since_ns);

/* ---- /proc ---- */

/*
 * Fail unless we are in the initial PID namespace. BPF programs tell numbers of that one; /proc and
 * the side-band tell those of ours. An equal number would name another process. -ENOTSUP with what
 * to do, or what /proc says.
 */
int proc_check_namespace(struct err *err);

/* Read one process, with its mappings. -ENOENT: there is no such process. -ESRCH: it has ended. Others: of the reader. */
int procs_scan_one(struct procs *p, uint32_t tgid);

/* How often mappings were read from /proc. */
uint64_t procs_reads(const struct procs *p);

/* Read the cgroup of an image that inherited it; once for each image. */
void proc_image_read_cgroup(struct proc_image *im);

/*
 * The thread that stands for a process in /proc: /proc/N has its memory, its root, its cgroup. That
 * is tgid itself, or another thread of it where the first one has exited. 0 when no thread is left.
 * Costs some 10 us.
 */
uint32_t proc_thread(uint32_t tgid);

/* A line of /proc/TGID/maps: the one with this address. -ENOENT: nothing is mapped there, or the process has ended. */
struct proc_line {
	uint64_t start, end, pgoff; /* as in struct proc_map */
	uint64_t dev, ino;          /* 0: no file */
	bool exec;
};
int proc_line_at(uint32_t tgid, uint64_t addr, struct proc_line *ret);

/* Where the first line of /proc/TGID/maps that holds one of these texts begins; texts are separated by newlines. -ENOENT. */
int proc_find_mapping(uint32_t tgid, const char *texts, uint64_t *ret_start);

/* All these bytes of a process's memory, or -EFAULT. */
int proc_read_memory(uint32_t tgid, uint64_t addr, void *out, size_t len);

/* The first cap bytes of a file of /proc/TGID: how many there are, 0 when it cannot be read. */
size_t proc_read_text(uint32_t tgid, const char *name, char *out, size_t cap);

/* ---- looking up ---- */

/* What of an image the caller needs: comm and exe, or the mappings as well. */
enum proc_need { PROC_NAME, PROC_MAPS };

/*
 * The image with this identity, of which there is a row or record at ns; what is missing is read from /proc, while the
 * image lives. NULL: it is not known, and cannot be any more. Rows of an image never get what belongs to another one.
 */
struct proc_image *procs_identify(struct procs *p, const struct proc_id *id, uint64_t ns, enum proc_need need);

/* The image that is known to have this identity, or NULL. Nothing is read. */
struct proc_image *procs_known(struct procs *p, const struct proc_id *id);

/* The image that ran at ns, NULL when none is known. */
struct proc_image *procs_find(struct procs *p, uint32_t tgid, uint64_t ns);
/* Are its mappings known? Not where /proc was not read yet, or did not answer. */
static inline bool proc_image_mapped(const struct proc_image *im)
{
	return im->complete;
}
/* True while a thread of this image runs. False for NULL. Asks /proc where the first thread has
 * exited. */
bool proc_image_alive(const struct proc_image *im);
/* False when a process that started at start_ns (BOOTTIME) cannot be that of the image: its number
 * was used again. */
bool proc_image_holds(const struct proc_image *im, uint64_t start_ns);
const struct proc_map *proc_image_map(const struct proc_image *im, uint64_t addr);

/*
 * A regular file that was opened for reading, and what it is. The descriptor is close-on-exec and the caller's. Reading and
 * closing it do not block: it is of a local filesystem, or of a copy in memory (reader.h). So do not ask fstat: it may.
 */
struct proc_opened {
	int fd;
	bool copied;
	uint64_t dev, ino, size, mtime_ns;
};

/*
 * Open the file of a mapping without following the process's tricks: its map_files entry, then the path in the
 * root of the process or of its parents, then in ours. The caller checks by
 * build id or (dev, ino) that it is the one that was mapped; *io_try counts the ways tried: start at 0, call again
 * for the next way. -ENOENT when there is no further way; -EAGAIN, -EBUSY: the same, and one of them did not answer in time;
 * -EINTR: the reader itself was stopped or ended, try again soon.
 */
int proc_map_open(struct procs *p, const struct proc_image *im, const struct proc_map *m, unsigned *io_try,
		  struct proc_opened *ret);

/*
 * Open a regular file by its path in the root of a process (0: ours), without magic links, on behalf of process tgid: it
 * is refused when that takes too long. 0 or -errno.
 */
int proc_open_in_root(uint32_t tgid, uint32_t root, const char *file, struct proc_opened *ret);

/*
 * The root of a process, kept open by the reader: it can be looked into after the process has ended. For files that anybody
 * may have put there (in /tmp): regular ones, no symbolic link on the way, that belong to the user of the process, or to
 * root and may be read by all.
 */
struct proc_root {
	uint64_t name;  /* 0: closed */
	uint64_t start;
	uint32_t tgid;
	uint32_t uid;   /* effective, when it was opened */
	uint32_t inner; /* the number by which the process knows itself */
};
int proc_root_open(struct proc_root *ret, uint32_t tgid);
/* 0; -EPERM for another owner, -ELOOP, -EINVAL, ... The second takes a name in /tmp. */
int proc_root_file(const struct proc_root *r, const char *file, struct proc_opened *ret);
int proc_root_tmp_file(const struct proc_root *r, const char *name, struct proc_opened *ret);
/* An O_PATH descriptor of its /tmp. -ENOTDIR where that is none of a local filesystem. */
int proc_root_tmp(const struct proc_root *r, int *ret_fd);
void proc_root_close(struct proc_root *r);

/* When a process began: BOOTTIME ns, rounded down to a tick. With tgid this names a process for good. -ENOENT. */
int proc_start(uint32_t tgid, uint64_t *ret);

/* The number by which a process knows itself, in its innermost namespace, and its effective user. -ESRCH. */
int proc_identity(uint32_t tgid, uint32_t *ret_inner, uint32_t *ret_uid);

/* After each window: tell the layers what has ended, and forget what ended before ns. */
void procs_forget(struct procs *p, uint64_t ns);

/* Tell one layer before the window is over. */
void procs_tell_ended(struct procs *p, enum proc_layer layer);

/*
 * Forget the images that ended first, while more than PROC_ENDED_MAX have ended or all together take more than
 * PROC_IMAGES_BYTES_MAX; then those that live and that no layer needs, which are read again when they are sampled. Returns
 * how many ended since the last procs_forget: their samples that come later have no exe and no names. Pointers to
 * images end here.
 */
size_t procs_trim(struct procs *p);

/* Images that are kept, also of those that have ended. */
size_t procs_count(const struct procs *p);
/* Of these those that live. Processes that neither ran a sample nor made a child since the start are not among them. */
size_t procs_alive(const struct procs *p);

/* BOOTTIME now. */
uint64_t proc_now_ns(void);

/*
 * cgroup path of a v2 cgroup id, NULL when it cannot be told ("/" is returned as it is). Cached; borrowed until procs_free.
 */
const char *procs_cgroup_path(struct procs *p, uint64_t id);
/* True when that cgroup is known and not the root: then /proc/TGID/cgroup tells nothing more. */
bool procs_in_cgroup(struct procs *p, uint64_t id);

/* The systemd unit that a cgroup path is of, and its length: its last part that ends with .service or .scope; or 0. */
size_t proc_unit(const char *cgroup, const char **ret);

/* The 64-digit container id in a cgroup path and its length, or 0. The pod uid ("pod<uid>" of kubelet) likewise. */
size_t proc_container_id(const char *cgroup, const char **ret);
size_t proc_pod_uid(const char *cgroup, char *out, size_t cap);

#endif
