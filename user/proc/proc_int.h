/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of user/proc only. */
#ifndef ASCRIBE_PROC_PROC_INT_H
#define ASCRIBE_PROC_PROC_INT_H

#include "proc/proc.h"

#define FILE_BUCKETS 8191
#define IMAGE_BITS 14
#define CGROUP_BUCKETS 256
#define PROC_TICK_NS                                                                               \
	10000000u /* /proc tells times in ticks of USER_HZ, 100 on every architecture of ours */

struct cgroup_name {
	uint64_t id;
	char *path; /* NULL: it could not be found out */
	struct cgroup_name *next;
};

struct procs {
	struct proc_image *images[1u << IMAGE_BITS];
	struct proc_file *files[FILE_BUCKETS];
	struct cgroup_name *cgroups[CGROUP_BUCKETS];
	size_t n_images, n_cgroups;
	size_t n_ended, bytes;			     /* bytes: of the images and their mappings */
	struct proc_image *ended_first, *ended_last; /* in the order in which they ended */
	int cgroup_mount; /* a descriptor of the v2 tree, -1: not yet opened, -2: there is none */
	void (*file_gone)(void *binary);
};

struct proc_image *proc_newest(struct procs *p, uint32_t tgid);
struct proc_image *proc_image_add(struct procs *p, uint32_t tgid, uint64_t from_ns);
void proc_image_ended(struct procs *p, struct proc_image *im);
void proc_image_reset(struct procs *p, struct proc_image *im);
void proc_set_comm(struct proc_image *im, const char *comm);
void proc_set_exe(struct procs *p, struct proc_image *im, const char *path);
struct proc_file *proc_map_add(struct procs *p, struct proc_image *im, struct proc_map m, const char *path,
			       uint64_t dev, uint64_t ino, const uint8_t *id, size_t id_len);
void proc_cgroups_free(struct procs *p);

/* A line of /proc/TGID/maps; *ret_path: the rest of it. False: it is none. */
bool proc_parse_line(char *line, struct proc_line *ret, char **ret_path);

#endif
