/* SPDX-License-Identifier: Apache-2.0 */
#include "util/write_at.h"

#include <errno.h>
#include <unistd.h>

int write_at(int fd, const void *data, size_t len, uint64_t offset)
{
	const uint8_t *p = data;
	while (len) {
		ssize_t n = pwrite(fd, p, len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		p += n;
		len -= (size_t)n;
		offset += (size_t)n;
	}
	return 0;
}
