/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that looks like a JVM and is none: it maps a file called libjvm.so and runs code of its
 * own making.
 *   fakejvm SECONDS MAPPED...    with "catch" as a word: counts SIGQUIT, prints how many came;
 *                                without it, SIGQUIT kills
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t quits;

static void on_quit(int sig)
{
	(void)sig;
	quits++;
}

int main(int argc, char **argv)
{
	/* push %rbp; mov %rsp,%rbp; mov $5000000,%ecx; 1: dec %ecx; jnz 1b; pop %rbp; ret */
	static const unsigned char loop[] = { 0x55, 0x48, 0x89, 0xe5, 0xb9, 0x40, 0x4b, 0x4c,
					      0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3 };
	char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	if (code == MAP_FAILED)
		return 1;
	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "catch")) {
			signal(SIGQUIT, on_quit);
			continue;
		}
		int fd = open(argv[i], O_RDONLY);
		if (fd < 0 ||
		    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			return 2;
	}
	memcpy(code, loop, sizeof(loop));
	while (clock() < seconds * CLOCKS_PER_SEC)
		((void (*)(void))code)();
	printf("%d\n", (int)quits);
	return 0;
}
