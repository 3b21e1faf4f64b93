/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two functions are code that is made while the program runs. /tmp/perf-PID.map has their
 * names, or with -DDUMP jit-PID.dump of the working directory (linux: jitdump-specification.txt).
 * The program prints "file PATH".
 */
#define NOINLINE __attribute__((noinline))
#define NO_MAIN
#define THREE made[0]
#define ONE made[1]
static void (*made[2])(unsigned n);
static volatile unsigned long long sink;
#include "truth.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As a compiler with frame pointers would make it. */
#define CODE(name, factor) \
	__asm__(".text\n" name "_begin: push %rbp\nmov %rsp, %rbp\nimul $800, %edi, %ecx\n" \
		"mov %rdi, %rax\n1: imul $" factor ", %rax, %rax\nadd $1, %rax\n" \
		"dec %ecx\njnz 1b\npop %rbp\nret\n" name "_end:\n")
CODE("three", "1664525");
CODE("one", "22695477");
extern const char three_begin[], three_end[], one_begin[], one_end[];

static NOINLINE void by(part_fn *part, unsigned n)
{
	part(n);
	sink++; /* no tail call */
}

static FILE *names; /* of either kind */

#ifdef DUMP
static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void begin_names(char *path, size_t size)
{
	struct {
		uint32_t magic, version, bytes, machine, pad, pid;
		uint64_t time, flags;
	} head = { 0x4A695444, 1, sizeof(head), EM_X86_64, 0, (uint32_t)getpid(), now(), 0 };
	snprintf(path, size, "jit-%d.dump", (int)getpid());
	names = fopen(path, "w+");
	if (!names)
		exit(1);
	fwrite(&head, sizeof(head), 1, names);
	fflush(names);
	/* A recorder sees this mapping. */
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(names), 0) == MAP_FAILED)
		exit(1);
}

static void put_name(const void *code, size_t len, const char *name)
{
	static uint64_t index;
	struct {
		uint32_t id, bytes;
		uint64_t time;
		uint32_t pid, tid;
		uint64_t vma, address, len, index;
	} load = { 0,
		   (uint32_t)(sizeof(load) + strlen(name) + 1 + len),
		   now(),
		   (uint32_t)getpid(),
		   (uint32_t)syscall(SYS_gettid),
		   (uint64_t)(uintptr_t)code,
		   (uint64_t)(uintptr_t)code,
		   len,
		   index++ };
	fwrite(&load, sizeof(load), 1, names);
	fwrite(name, strlen(name) + 1, 1, names);
	fwrite(code, len, 1, names);
	fflush(names);
}
#else
static void begin_names(char *path, size_t size)
{
	snprintf(path, size, "/tmp/perf-%d.map", (int)getpid());
	names = fopen(path, "w");
	if (!names)
		exit(1);
}

static void put_name(const void *code, size_t len, const char *name)
{
	fprintf(names, "%lx %zx %s\n", (unsigned long)(uintptr_t)code, len, name);
	fflush(names);
}
#endif

static part_fn *make(const char *begin, const char *end, const char *name)
{
	const size_t len = (size_t)(end - begin);
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	part_fn *made_part;
	if (code == MAP_FAILED)
		exit(1);
	memcpy(code, begin, len);
	mprotect(code, 4096, PROT_READ | PROT_EXEC);
	put_name(code, len, name);
	memcpy(&made_part, &code, sizeof(code));
	return made_part;
}

int main(int argc, char **argv)
{
	char path[64];
	if (argc < 4)
		return 2;
	begin_names(path, sizeof(path));
	made[0] = make(three_begin, three_end, "three");
	made[1] = make(one_begin, one_end, "one");
	trials(argv);
	printf("file %s\n", path);
	return 0;
}
