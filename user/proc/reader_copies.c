/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/reader_int.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_NAME "/memfd:ascribe-copy"

uint64_t reader_copies_bytes(void)
{
	char link[64];
	struct stat st;
	uint64_t sum = 0;
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; d && (e = readdir(d));) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link));
		if (n >= (ssize_t)strlen(COPY_NAME) &&
		    !memcmp(link, COPY_NAME, strlen(COPY_NAME)) && !fstat(atoi(e->d_name), &st))
			sum += (uint64_t)st.st_size;
	}
	if (d)
		closedir(d);
	return sum;
}
