/* SPDX-License-Identifier: Apache-2.0 */
#include "util/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 512u /* of st_blocks */

int memory_file_make(const char *name, uint64_t size, int *ret_fd)
{
	const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)) {
		const int rc = -errno;
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

void memory_file_clear(int fd)
{
	struct stat st;
	if (!fstat(fd, &st))
		(void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, st.st_size);
}

uint64_t memory_file_bytes(int fd)
{
	struct stat st;
	return fd >= 0 && !fstat(fd, &st) ? (uint64_t)st.st_blocks * BLOCK : 0;
}
