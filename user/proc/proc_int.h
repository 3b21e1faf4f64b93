/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of user/proc only. */
#ifndef ASCRIBE_PROC_PROC_INT_H
#define ASCRIBE_PROC_PROC_INT_H

#include "proc/proc.h"
#include "util/quota.h"
#include "util/spenders.h"

#define FILE_BUCKETS 8191
#define IMAGE_BITS 14
#define FILE_OWNERS 4096
#define CGROUP_BUCKETS 256
#define PROC_TICK_NS 10000000u /* /proc has times in ticks of USER_HZ, 100 on x86-64 and arm64 */

struct cgroup_name {
	uint64_t id;
	char *path; /* NULL: not found */
	struct cgroup_name *next;
};

/* A layer's callback for ended images: procs_on_end. */
struct proc_listener {
	void (*on_end)(void *ctx, struct proc_image *im);
	void *ctx;
};

struct procs {
	struct proc_image *images[1u << IMAGE_BITS]; /* the newest image of each tgid */
	struct list list[PROC_STATES]; /* each image is in one list, in the order of arrival */
	struct proc_listener layer[PROC_LAYERS];
	uint64_t read_ns;      /* images that ended before have no row left to be read */
	size_t n_ended_unread; /* since the last procs_read */
	uint32_t gap;	       /* counts procs_lost */
	uint64_t lost_from_ns;
	struct proc_file *files[FILE_BUCKETS];
	struct quota file_quota; /* bytes */
	uint16_t files_of
		[FILE_OWNERS]; /* files by the process that mapped them first: hash of tgid */
	struct cgroup_name *cgroups[CGROUP_BUCKETS];
	size_t n_cgroups;
	size_t bytes; /* of the images and their mappings */
	struct spenders lookers;
	uint64_t n_reads; /* of /proc/TGID/maps */
	int cgroup_mount; /* descriptor of the v2 tree; -1: not opened yet, -2: there is none */
	void (*release_file)(void *binary);
};

struct proc_image *proc_newest(struct procs *p, uint32_t tgid);
/* Add the newest image of tgid. The one before it ends and becomes its `older`. NULL: no memory. */
struct proc_image *proc_image_add(struct procs *p, uint32_t tgid, uint64_t from_ns);
/* Mark an image as ended at ns, unless it ended earlier. */
void proc_image_end(struct procs *p, struct proc_image *im, uint64_t ns);
/* Mark an image whose first thread has exited; procs_forget looks for other threads. */
void proc_image_leaderless(struct procs *p, struct proc_image *im);
/* Give an image the identity of a row at ns. False where the row is of another image. */
bool proc_image_bind(struct proc_image *im, const struct proc_id *id, uint64_t ns);
/* Return the image of a row at ns, or NULL where that is uncertain. */
struct proc_image *proc_image_of(struct procs *p, const struct proc_id *id, uint64_t ns);
/* True for the identity of an image before the newest one. */
bool proc_is_past(const struct proc_image *newest, const struct proc_id *id);
/* True when maps has all mappings and no record is missing. */
static inline bool proc_image_is_read(const struct procs *p, const struct proc_image *im)
{
	return im->complete && im->gap == p->gap;
}
/*
 * True when a process with this start time in /proc (rounded down to a tick) can be that of the
 * image.
 */
bool proc_image_is_since(const struct proc_image *im, uint64_t start_ns);
void proc_set_comm(struct proc_image *im, const char *comm);
void proc_set_exe(struct procs *p, struct proc_image *im, const char *path);

void proc_file_put(struct procs *p, struct proc_file *f);
void proc_maps_clear(struct procs *p, struct proc_image *im);
/* The image does not wait for its mappings any more. */
void proc_maps_answered(struct procs *p, struct proc_image *im);
/* Share the parent's mappings with the child until one of them maps more. */
void proc_maps_share(struct proc_image *to, const struct proc_image *from);
struct proc_file *proc_map_add(struct procs *p, struct proc_image *im, struct proc_map m,
			       const char *path, uint64_t dev, uint64_t ino, const uint8_t *id,
			       size_t id_len);
void proc_cgroups_free(struct procs *p);

/*
 * Parse /proc/TGID/status: the tgid in the innermost PID namespace (tgid, where the kernel has
 * none) and the effective uid. False: malformed.
 */
bool proc_parse_status(const char *text, uint32_t tgid, uint32_t *ret_inner, uint32_t *ret_uid);

/* Fields of /proc/TGID/stat, see proc(5). */
struct proc_stat {
	const char *comm; /* in the text: what stands in the outermost parentheses */
	char state;
	unsigned parent, n_threads;
	uint64_t start_ns; /* rounded down to a tick */
};
/* Cuts the text behind the comm. False: malformed. */
bool proc_parse_stat(char *text, struct proc_stat *ret);

/*
 * Return the most specific cgroup in /proc/TGID/cgroup: the v2 path unless it is the root, else the
 * longest v1 path (all controllers of one container have the same). NULL: none. Cuts the text.
 */
const char *proc_parse_cgroups(char *text);

/* Parse a line of /proc/TGID/maps; *ret_path: the rest of the line. False: malformed. */
bool proc_parse_line(char *line, struct proc_line *ret, char **ret_path);

#endif
