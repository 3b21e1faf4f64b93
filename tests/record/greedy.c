/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that use as much as they can of what all processes share in a recorder:
 *
 *   greedy jits S N      N processes run machine code that no file has
 *   greedy map S         such code, and a large perf map with other names each time: 16 MiB
 *   greedy chains S      the same, and other callers at each look: 1,000 functions that are new
 *   greedy ranges S N    N processes with 1,000 mappings of code each, all at other addresses
 *   greedy files S N     map N files of one page as code; they are made in the working directory
 *   greedy remap S FILE  map FILE as code and unmap it, as often as possible
 *   greedy threads S N   N threads, each with a name of its own
 *   greedy absent S      labels of a Go program whose texts are never resident
 *   greedy victim S FILE the same with two labels: near, and far, whose text is in FILE
 *   greedy named S       code that no file has, in its perf map as my_code
 *
 * S is in seconds of the clock.
 */
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define MAP_NAME 80 /* bytes of a name in the large perf map */
#define MAP_STEP 336u
#define CODE_SIZE (64u << 20)
#define CHAIN 1000
#define RANGES 1000

static double until;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t random64(void)
{
	static __thread uint64_t s;
	s = s ? s : (uint64_t)getpid() * 88172645463325253ull + 1;
	s ^= s << 13;
	s ^= s >> 7;
	return s ^= s << 17;
}

__attribute__((noinline)) static void spin(void)
{
	for (volatile int i = 0; i < 200000; i++)
		;
}

/* ---- code that no file has ---- */

typedef void code_fn(void);

static void *new_code(size_t size)
{
	/* push %rbp; mov %rsp,%rbp; mov $100000,%ecx; 1: dec %ecx; jnz 1b; pop %rbp; ret */
	static const unsigned char loop[] = { 0x55, 0x48, 0x89, 0xe5, 0xb9, 0xa0, 0x86, 0x01,
					      0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3 };
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		exit(1);
	memcpy(p, loop, sizeof(loop));
	return p;
}

static void run_code(void *p)
{
	code_fn *f;
	memcpy(&f, &p, sizeof(f));
	while (now() < until)
		f();
}

static FILE *open_map(void)
{
	char path[64];
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	return fopen(path, "we");
}

static void remove_map(void)
{
	char path[64];
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	unlink(path);
}

static char *code; /* of map and chains: each MAP_STEP bytes are a function */

static void write_map(void)
{
	char name[MAP_NAME + 1];
	FILE *f = open_map();
	memset(name, 'x', MAP_NAME);
	name[MAP_NAME] = 0;
	for (uint64_t i = 0; f && i < CODE_SIZE / MAP_STEP; i++)
		fprintf(f, "%llx %x %llx%s\n",
			(unsigned long long)((uint64_t)(uintptr_t)code + MAP_STEP * i), MAP_STEP,
			(unsigned long long)random64(), name);
	if (f)
		fclose(f);
}

static void *rewrite(void *arg)
{
	while (now() < until) {
		write_map();
		usleep(600000);
	}
	return arg;
}

static void with_map(void (*run)(void))
{
	pthread_t t;
	code = new_code(CODE_SIZE);
	pthread_create(&t, NULL, rewrite, NULL);
	run();
	pthread_join(t, NULL);
	remove_map();
}

static void map(void)
{
	run_code(code);
}

static void named(void)
{
	void *p = new_code(PAGE);
	FILE *f = open_map();
	if (!f)
		exit(1);
	fprintf(f, "%lx 20 my_code\n", (unsigned long)(uintptr_t)p);
	fclose(f);
	run_code(p);
	remove_map();
}

/*
 * Run the loop with a frame pointer that leads through a chain of return addresses, each of them
 * somewhere in the code.
 */
static void chains(void)
{
#ifdef __x86_64__
	uint64_t chain[CHAIN][2]; /* above the stack pointer */
	while (now() < until) {
		for (size_t i = 0; i < CHAIN; i++) {
			chain[i][0] = i + 1 < CHAIN ? (uint64_t)(uintptr_t)chain[i + 1] : 0;
			chain[i][1] = (uint64_t)(uintptr_t)code + random64() % CODE_SIZE;
		}
		/* As the code does, behind the push. */
		__asm__ __volatile__("push %%rbp\n\tmov %0, %%rbp\n\tcall *%1\n\tpop %%rbp"
				     :
				     : "r"(chain[0]), "r"(code)
				     : "rcx", "memory");
	}
#endif
}

/* ---- others ---- */

static void children(unsigned n, void (*run)(void))
{
	for (unsigned i = 0; i < n; i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run();
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
}

/* As a share of a CPU that leaves some for the hundreds of others. */
static void pause_long(void)
{
	usleep(500000 + random64() % 1000000);
}

static void jit_once(void)
{
	void *p = new_code(PAGE);
	code_fn *f;
	memcpy(&f, &p, sizeof(f));
	for (; now() < until; pause_long())
		for (int i = 0; i < 10; i++)
			f();
}

/* Of two files in turns, so that no two mappings are one. */
static void many_ranges(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char *at = mmap(NULL, (size_t)RANGES * 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	at += random64() % RANGES * PAGE;
	for (unsigned i = 0; i < RANGES; i++)
		mmap(at + (size_t)i * 2 * PAGE, PAGE, PROT_READ | PROT_EXEC,
		     MAP_PRIVATE | MAP_FIXED, fd, 0);
	while (now() < until)
		spin();
}

/* The least that is an ELF file. */
static void write_file(const char *name, uint64_t number)
{
	struct {
		Elf64_Ehdr head;
		Elf64_Phdr load;
		uint64_t number;
	} f = { .head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			  .e_type = ET_DYN,
			  .e_machine = EM_X86_64,
			  .e_version = EV_CURRENT,
			  .e_phoff = sizeof(Elf64_Ehdr),
			  .e_ehsize = sizeof(Elf64_Ehdr),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = 1 },
		.load = { .p_type = PT_LOAD,
			  .p_flags = PF_R | PF_X,
			  .p_filesz = sizeof(f),
			  .p_memsz = sizeof(f),
			  .p_align = PAGE },
		.number = number };
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, &f, sizeof(f)) != (ssize_t)sizeof(f))
		exit(1);
	close(fd);
}

static void files(unsigned n)
{
	char name[256];
	memset(name, 'f', sizeof(name));
	for (unsigned i = 0; i < n; i++) {
		snprintf(name + 200, 40, "%u", i);
		write_file(name, i);
		int fd = open(name, O_RDONLY);
		if (fd < 0 ||
		    mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			exit(1);
		close(fd);
	}
	while (now() < until)
		spin();
}

static void remap(const char *file)
{
	int fd = open(file, O_RDONLY);
	while (now() < until) {
		void *p = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED)
			exit(1);
		munmap(p, PAGE);
	}
}

static void *one_thread(void *arg)
{
	char name[16];
	snprintf(name, sizeof(name), "greedy-%u", (unsigned)(uintptr_t)arg);
	prctl(PR_SET_NAME, name);
	for (; now() < until; pause_long())
		spin();
	return NULL;
}

static void threads(unsigned n)
{
	pthread_attr_t a;
	pthread_t t;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 65536);
	for (uintptr_t i = 0; i < n; i++)
		pthread_create(&t, &a, one_thread, (void *)i); /* NOLINT */
	while (now() < until)
		spin();
}

/* ---- labels of Go 1.24: g, its m, which runs it, a list of pairs of strings ---- */

__attribute__((section(".go.buildinfo"), aligned(16), used)) static const char go_buildinfo[64] =
	"\xff Go buildinf:\x08\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x08go1.24.1";
__thread void *go_g __asm__("runtime.tlsg");

struct go_string {
	const void *text;
	uint64_t len;
};

static struct {
	struct go_string key, value;
} pairs[8];

static void publish(uint64_t n)
{
	static uint64_t g[64], m[64], list[3];
	list[0] = (uint64_t)(uintptr_t)pairs;
	list[1] = list[2] = n;
	g[6] = (uint64_t)(uintptr_t)m;
	m[24] = (uint64_t)(uintptr_t)g;
	g[44] = (uint64_t)(uintptr_t)list;
	go_g = g;
}

static const char *untouched(const char *file, size_t size)
{
	int fd = open(file, O_RDONLY);
	const char *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		exit(1);
	madvise((void *)(uintptr_t)p, size, MADV_DONTNEED);
	return p;
}

#define ABSENT_VALUES 1024u
#define ABSENT_STEP 65536u /* the kernel maps so much around a page that is touched */

static void absent(void)
{
	static const char names[] = "abcdefgh";
	const size_t size = (size_t)ABSENT_VALUES * ABSENT_STEP;
	const char *p = untouched("pages", size);
	for (unsigned at = 0; now() < until;) {
		for (unsigned i = 0; i < 8; i++, at++) {
			pairs[i].key = (struct go_string){ names + i, 1 };
			pairs[i].value =
				(struct go_string){ p + (size_t)(at % ABSENT_VALUES) * ABSENT_STEP +
							    random64() % 1000,
						    9 };
		}
		if (at % ABSENT_VALUES == 0)
			madvise((void *)(uintptr_t)p, size, MADV_DONTNEED);
		publish(8);
		spin();
	}
}

static void victim(const char *file)
{
	pairs[0].key = (struct go_string){ "near", 4 };
	pairs[0].value = (struct go_string){ "here", 4 };
	pairs[1].key = (struct go_string){ "far", 3 };
	pairs[1].value = (struct go_string){ untouched(file, 5), 5 };
	publish(2);
	while (now() < until)
		spin();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "", *more = argc > 3 ? argv[3] : "";
	unsigned n = (unsigned)strtoul(more, NULL, 10);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	until = now() + (argc > 2 ? atof(argv[2]) : 0);
	if (!strcmp(mode, "jits"))
		children(n, jit_once);
	else if (!strcmp(mode, "map"))
		with_map(map);
	else if (!strcmp(mode, "named"))
		named();
	else if (!strcmp(mode, "chains"))
		with_map(chains);
	else if (!strcmp(mode, "ranges"))
		children(n, many_ranges);
	else if (!strcmp(mode, "files"))
		files(n);
	else if (!strcmp(mode, "remap"))
		remap(more);
	else if (!strcmp(mode, "threads"))
		threads(n);
	else if (!strcmp(mode, "absent"))
		absent();
	else if (!strcmp(mode, "victim"))
		victim(more);
	else
		return fprintf(stderr, "usage: greedy MODE SECONDS [N | FILE]\n"), 2;
	return 0;
}
