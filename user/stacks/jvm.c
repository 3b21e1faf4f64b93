/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/jvm.h"

#include "proc/reader.h"
#include "sandbox/kept.h"
#include "stacks/jvm_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAP_MS 20
#define HELPERS_MAX 16	/* at a time, with those that were killed and sleep in the kernel */
#define HELPERS_USER 12 /* for processes of one user, who can stop each until its time is over */
#define ANSWERS_MAX 4	/* that are taken at a time: one that was taken over answers without end */

bool jvm_is(const struct proc_image *im)
{
	for (uint32_t i = 0; i < im->n_maps; i++)
		if (jvm_is_library(im->maps[i].file->path))
			return true;
	return false;
}

/* A helper: its task is to be awaited by a map, or by nobody. */
struct jvm_helper {
	pid_t pid; /* 0: the place is free, or the helper was reaped */
	int fd;	   /* of its answers; -1: it has ended, or was killed */
	bool awaited;
	int64_t until;		  /* CLOCK_MONOTONIC, ms */
	struct jvm_answer answer; /* the last one */
	uint32_t uid, gid, user;  /* user: proc_user */
	int tmp;		  /* -1: none */
};

static struct jvm_helper helpers[HELPERS_MAX];

static void end_helper(struct jvm_helper *h)
{
	if (h->pid)
		kept_kill(h->pid);
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
}

/* Take the answers that have come. True: the helper has ended, or its time is over. */
static bool look_at_helper(struct jvm_helper *h)
{
	struct jvm_answer next;
	ssize_t n = -1;
	for (unsigned i = 0; i < ANSWERS_MAX && h->fd >= 0; i++) {
		if ((n = read(h->fd, &next, sizeof(next))) != sizeof(next))
			break;
		h->answer = next;
	}
	if (h->fd >= 0 && (n == 0 || jvm_now_ms() >= h->until))
		end_helper(h);
	if (h->pid && h->fd < 0 && kept_has_ended(h->pid, NULL))
		h->pid = 0;
	return h->fd < 0;
}

/*
 * Return a free place, or NULL: helpers that were killed may sleep in the kernel, and one user may
 * have as many as one user can.
 */
static struct jvm_helper *free_place(uint32_t user)
{
	struct jvm_helper *found = NULL;
	size_t own = 0;
	for (size_t i = 0; i < HELPERS_MAX; i++) {
		struct jvm_helper *h = &helpers[i];
		if (h->pid)
			look_at_helper(h);
		if (!h->pid && !h->awaited)
			found = h;
		else
			own += h->user == user;
	}
	return own < HELPERS_USER ? found : NULL;
}

/* Start a helper. NULL: no place, or no memory. */
static struct jvm_helper *start_helper(const struct jvm_job *j, uint32_t user, int tmp, int target)
{
	int fds[2];
	pid_t pid;
	struct jvm_helper *h = free_place(user);
	if (!h || pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return NULL;
	int rc = jvm_helper_start(j, fds[1], tmp, target, &pid);
	close(fds[1]);
	if (rc) {
		close(fds[0]);
		return NULL;
	}
	*h = (struct jvm_helper){ .pid = pid,
				  .fd = fds[0],
				  .until = j->until_ms + REAP_MS,
				  .answer = { .rc = -ETIMEDOUT },
				  .uid = j->uid,
				  .gid = j->gid,
				  .user = user,
				  .tmp = -1 };
	return h;
}

void jvm_finish(unsigned timeout_ms)
{
	int64_t until = jvm_now_ms() + timeout_ms;
	for (size_t i = 0; i < HELPERS_MAX; i++)
		while (helpers[i].pid && !look_at_helper(&helpers[i]) && jvm_now_ms() < until)
			poll(NULL, 0, 1);
}

/* Parse one id, four times the same: real, effective, saved, filesystem. */
static bool one_id(const char *status, const char *key, uint32_t *ret)
{
	unsigned id[4];
	char format[32];
	const char *line = strstr(status, key);
	snprintf(format, sizeof(format), "%s %%u %%u %%u %%u", key);
	if (!line || sscanf(line, format, &id[0], &id[1], &id[2], &id[3]) != 4)
		return false;
	*ret = id[0];
	return id[0] == id[1] && id[0] == id[2] && id[0] == id[3];
}

/* The user and the group of a process, which must not have changed since its root was opened. */
static int read_ids(uint32_t tgid, const struct proc_root *root, struct jvm_job *to)
{
	char path[64], status[4096];
	snprintf(path, sizeof(path), "/proc/%u/status", tgid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, status, sizeof(status) - 1);
	if (fd >= 0)
		close(fd);
	status[n > 0 ? n : 0] = 0;
	return one_id(status, "\nUid:", &to->uid) && one_id(status, "\nGid:", &to->gid) &&
			       to->uid == root->uid
		       ? 0
		       : -EPERM;
}

static int begin(const struct proc_root *root, uint32_t tgid, unsigned timeout_ms,
		 struct jvm_map *io_map)
{
	struct jvm_job j = { .tgid = tgid,
			     .inner = root->inner,
			     .until_ms = jvm_now_ms() + timeout_ms };
	int tmp, rc = proc_root_tmp(root, &tmp);
	if (rc)
		return rc;
	int target = (int)syscall(SYS_pidfd_open, tgid, 0);
	rc = target < 0 ? -errno : read_ids(tgid, root, &j);
	struct jvm_helper *h = rc ? NULL : start_helper(&j, proc_user(tgid), tmp, target);
	if (target >= 0)
		close(target);
	if (!h) {
		close(tmp);
		return rc ? rc : -EBUSY;
	}
	h->awaited = true;
	h->tmp = tmp;
	io_map->helper = h;
	return -EINPROGRESS;
}

/* The helper has ended: take over what it did. */
static int finish(struct jvm_map *io_map)
{
	struct jvm_helper *h = io_map->helper;
	if (h->answer.makes_map && !io_map->ours) {
		io_map->uid = h->uid;
		io_map->gid = h->gid;
		io_map->user = h->user;
		io_map->tmp = h->tmp;
		io_map->ours = true;
	} else {
		close(h->tmp);
	}
	h->awaited = false;
	io_map->helper = NULL;
	/* It has ended, whatever it says. */
	return h->answer.rc > 0 || h->answer.rc == -EINPROGRESS ? -EPROTO : h->answer.rc;
}

int jvm_write_map(const struct proc_root *root, uint32_t tgid, unsigned timeout_ms,
		  struct jvm_map *io_map)
{
	if (!io_map->helper)
		return begin(root, tgid, timeout_ms, io_map);
	return look_at_helper(io_map->helper) ? finish(io_map) : -EINPROGRESS;
}

void jvm_remove_map(const struct proc_root *root, struct jvm_map *map, unsigned timeout_ms)
{
	if (map->helper) {
		look_at_helper(map->helper);
		end_helper(map->helper);
		finish(map);
	}
	if (!map->ours)
		return;
	const struct jvm_job j = { .inner = root->inner,
				   .uid = map->uid,
				   .gid = map->gid,
				   .until_ms = jvm_now_ms() + timeout_ms,
				   .remove = true };
	start_helper(&j, map->user, map->tmp, -1);
	close(map->tmp);
	map->ours = false;
}
