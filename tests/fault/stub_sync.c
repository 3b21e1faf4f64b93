/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked with --wrap=fdatasync,--wrap=fsync: a build that leaves out one kind of sync. STUB_DATA,
 * STUB_FILES or STUB_DIRS says which.
 */
#include <sys/stat.h>

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fdatasync(int fd)
{
#ifdef STUB_DATA
	(void)fd;
	return 0;
#else
	return __real_fdatasync(fd);
#endif
}

int __wrap_fsync(int fd)
{
	struct stat st;
	if (fstat(fd, &st))
		return -1;
#ifdef STUB_FILES
	if (S_ISREG(st.st_mode))
		return 0;
#endif
#ifdef STUB_DIRS
	if (S_ISDIR(st.st_mode))
		return 0;
#endif
	return __real_fsync(fd);
}
