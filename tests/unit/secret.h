/* SPDX-License-Identifier: Apache-2.0 */
/* A secret in our memory, and whether another process has it, too. Include it behind cmocka.h. */
#ifndef TESTS_SECRET_H
#define TESTS_SECRET_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SANITIZERS_BYTES (1ul << 32) /* larger mappings are a sanitizer's, of terabytes */

static char secret[] = "ascribe test secret";

/* Does the memory of a process that may be written to, hold the secret? */
static inline bool holds_secret(pid_t pid)
{
	char path[64], line[512];
	static char page[1 << 16];
	unsigned long start, end;
	bool found = false;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "r");
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	int mem = open(path, O_RDONLY);
	assert_true(maps && mem >= 0);
	while (!found && fgets(line, sizeof(line), maps)) {
		char prot[5];
		if (sscanf(line, "%lx-%lx %4s", &start, &end, prot) != 3 || prot[1] != 'w' ||
		    end - start > SANITIZERS_BYTES)
			continue;
		for (unsigned long at = start; !found && at < end; at += sizeof(page) / 2) {
			ssize_t n = pread(mem, page, sizeof(page), (off_t)at);
			found = n > 0 && memmem(page, (size_t)n, secret, sizeof(secret) - 1);
		}
	}
	fclose(maps);
	close(mem);
	return found;
}

/* Change the secret to what does not stand in the program's file. */
static inline void make_secret(void)
{
	for (size_t i = 0; i < sizeof(secret) - 1; i++)
		secret[i] ^= 0x20;
	assert_true(holds_secret(getpid()));
}

#endif
