/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every input of tests/fuzz/corpus through its target, without libFuzzer: a part of make test. Each
 * target is a child of its own. What is told of one that failed: the input that it was at. With
 * FUZZ_STARVE=N also with up to N requests of an input failing, one at a time: starve.c.
 *
 *   replay CORPORA [TARGET]
 *
 * TARGETS lists them: T(name) for fuzz_name.c, whose function is fuzz_name here.
 */
#include "fuzz/starve.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define INPUT_MAX (1u << 20)
#define INPUT_S 20 /* of an input and 8 runs that starve: the host may be busy */

#define T(name) fuzz_run fuzz_##name;
TARGETS
#undef T

static const struct {
	const char *name;
	fuzz_run *run;
} targets[] = {
#define T(name) { #name, fuzz_##name },
	TARGETS
#undef T
};

static unsigned most_starved;

struct progress {
	unsigned n;
	char input[512];
};

static void replay_file(const char *path, fuzz_run *run)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) || st.st_size > INPUT_MAX) {
		perror(path);
		exit(1);
	}
	size_t size = (size_t)st.st_size;
	uint8_t *data = malloc(size ? size : 1); /* no byte behind it */
	if (!data || read(fd, data, size) != (ssize_t)size) {
		perror(path);
		exit(1);
	}
	close(fd);
	alarm(INPUT_S * (1 + most_starved / 8));
	starve(run, data, size, most_starved);
	alarm(0);
	free(data);
}

static void replay(const char *corpora, size_t i, struct progress *p)
{
	char dir[400];
	struct dirent **v;
	snprintf(dir, sizeof(dir), "%s/%s", corpora, targets[i].name);
	int n = scandir(dir, &v, NULL, alphasort);
	for (int k = 0; k < n; k++) {
		if (v[k]->d_name[0] != '.') {
			snprintf(p->input, sizeof(p->input), "%s/%s", dir, v[k]->d_name);
			replay_file(p->input, targets[i].run);
			p->n++;
		}
		free(v[k]);
	}
	if (n >= 0)
		free(v);
	snprintf(p->input, sizeof(p->input), "%s, at its end", dir);
}

int main(int argc, char **argv)
{
	struct progress *p =
		mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned n = 0, failed = 0;
	const char *starved = getenv("FUZZ_STARVE");
	if (argc < 2 || p == MAP_FAILED)
		return 2;
	most_starved = starved ? (unsigned)strtoul(starved, NULL, 10) : 0;
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		int status;
		if (argc > 2 && strcmp(argv[2], targets[i].name))
			continue;
		memset(p, 0, sizeof(*p));
		pid_t pid = fork();
		if (!pid) {
			replay(argv[1], i, p);
			exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return 2;
		if (status || !p->n) {
			printf("%s: %s\n", targets[i].name,
			       p->n || p->input[0] ? p->input : "has no corpus");
			failed++;
		}
		n += p->n;
	}
	printf("%u inputs of %zu targets, %u failed\n", n, sizeof(targets) / sizeof(targets[0]),
	       failed);
	return failed != 0;
}
