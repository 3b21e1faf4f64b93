/* SPDX-License-Identifier: Apache-2.0 */
/* Who serves a store may be another user of the writer's group, who reads it and no more. */
#include "store/write/writer_int.h"
#include "store/writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Give an open file or directory to our group, with these rights at least. Others' stay as is. */
static void open_to_group(int fd, mode_t rights)
{
	struct stat st;
	if (fstat(fd, &st) || st.st_uid != geteuid())
		return;
	if (st.st_gid != getegid() && fchown(fd, (uid_t)-1, getegid()))
		return;
	if ((st.st_mode & rights) != rights || st.st_gid != getegid())
		(void)!fchmod(fd, (st.st_mode | rights) & 07777);
}

static int open_at(int dir_fd, const char *name, int flags)
{
	return openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags);
}

static void open_file(int dir_fd, const char *name)
{
	int fd = open_at(dir_fd, name, 0);
	if (fd < 0)
		return;
	open_to_group(fd, S_IRGRP);
	close(fd);
}

void store_open_to_group(struct store_writer *w)
{
	const int seg = open_at(w->s.dir_fd, "seg", O_DIRECTORY);
	DIR *d = seg < 0 ? NULL : fdopendir(seg);
	open_to_group(w->s.dir_fd, S_IRGRP | S_IXGRP);
	open_file(w->s.dir_fd, HEADER_NAME);
	open_file(w->s.dir_fd, MANIFEST_NAME);
	if (!d) {
		if (seg >= 0)
			close(seg);
		return;
	}
	open_to_group(seg, S_IRGRP | S_IXGRP);
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.')
			open_file(seg, e->d_name);
	closedir(d);
}
