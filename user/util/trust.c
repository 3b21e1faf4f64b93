/* SPDX-License-Identifier: Apache-2.0 */
#include "util/trust.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

int trust_check(int fd, const char *path, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_sys(err, -errno, "cannot read %s", path);
	if (S_ISCHR(st.st_mode))
		return 0;
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return err_set(err, -EPERM,
			       "%s belongs to user %u: change its owner to root or to user %u",
			       path, st.st_uid, geteuid());
	if (st.st_mode & 022)
		return err_set(
			err, -EPERM,
			"%s has mode %04o, so other users may change it: run chmod go-w on it",
			path, st.st_mode & 07777);
	return 0;
}
