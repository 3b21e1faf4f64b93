/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children that have called no exec, each for a moment: family MODE CHILDREN AMOUNT [LIBRARY
 * OTHER]. The parent burns 0.4 s with the label job=parent first. A child takes a name, job0 to
 * job7, and then the same as its label, burns AMOUNT ms of CPU time and ends. Prints the time under
 * each label as JSON, in ns, by the children's own clocks. Modes:
 *
 *   main    the main thread forks
 *   thread  another thread forks, whose label is job=thread
 *   grand   a child forks them, and waits
 *   orphan  a child forks each and ends, so that the parent is their reaper
 *   alien   their reaper has called exec as often as they have, but is another image
 *   late    all are forked before the parent loads LIBRARY. They load OTHER, whose variables are
 *           at the same places but are no labels, take the name late and have none
 *   burst   the main thread forks; each allocates AMOUNT MiB at once and sleeps, beside the
 *           others. The parent does so first. Prints the children's bytes
 *
 * With -DCUSTOM labels are published by the layout of custom-labels, version 1; with -DLIBRARY this
 * is a library that does so.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS 8

#if defined(CUSTOM) || defined(LIBRARY)
struct slice {
	uint64_t len;
	const char *text;
};
struct custom_set {
	struct slice *storage;
	uint64_t count, capacity;
};
#ifdef LIBRARY
#define label library_label
__attribute__((visibility("default"))) __thread char ballast[4000]; /* it gets no static place */
#else
static
#endif
void label(const char *value);
__attribute__((visibility("default"))) uint32_t custom_labels_abi_version = 1;
__attribute__((visibility("default"))) __thread struct custom_set *custom_labels_current_set;

void label(const char *value)
{
	static __thread struct slice pair[2];
	static __thread struct custom_set set;
	static __thread char text[16];
	custom_labels_current_set = NULL;
	snprintf(text, sizeof(text), "%s", value);
	pair[0] = (struct slice){ 3, "job" };
	pair[1] = (struct slice){ strlen(text), text };
	set = (struct custom_set){ pair, 1, 1 };
	__asm__ __volatile__("" : : : "memory");
	custom_labels_current_set = &set;
}
#else
#include <ascribe/label.h>

static void label(const char *value)
{
	static __thread struct ascribe_scope scope;
	ascribe_detach(&scope);
	ascribe_attach_string(&scope, "job", value);
}
#endif

#ifndef LIBRARY

static uint64_t *used; /* [JOBS] ns or bytes, shared with the children */
static long children, amount;

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

__attribute__((noinline)) static void burn(long ms)
{
	uint64_t end = cpu_ns() + (uint64_t)ms * 1000000;
	while (cpu_ns() < end)
		for (volatile int i = 0; i < 2000; i++)
			;
}

static void allocate(long mib, uint64_t *bytes, unsigned sleep_ms)
{
	for (long i = 0; i < 4 * mib; i++) {
		void *volatile p = malloc(1 << 18);
		if (p)
			__atomic_fetch_add(bytes, 1 << 18, __ATOMIC_RELAXED);
	}
	usleep(1000 * sleep_ms);
}

static __attribute__((noreturn)) void child(int number, int bursts)
{
	int job = number % JOBS;
	char name[16];
	snprintf(name, sizeof(name), "job%d", job);
	prctl(PR_SET_NAME, name);
	label(name);
	uint64_t begin = cpu_ns();
	if (bursts) {
		allocate(amount, &used[job], 300);
	} else {
		burn(amount);
		used[job] += cpu_ns() - begin;
	}
	_exit(0);
}

static void until_adopted(pid_t before)
{
	while (getppid() == before)
		usleep(100);
}

static void fork_orphan(int number)
{
	pid_t between = fork();
	if (between) {
		waitpid(between, NULL, 0);
		return;
	}
	between = getpid();
	if (fork())
		_exit(0);
	until_adopted(between);
	child(number, 0);
}

static void *fork_all(void *mode)
{
	const int orphans = !strcmp(mode, "orphan") || !strcmp(mode, "alien"),
		  bursts = !strcmp(mode, "burst");
	if (!strcmp(mode, "thread"))
		label("thread");
	for (int i = 0; i < children; i++) {
		const volatile uint64_t *ns = &used[i % JOBS], before = *ns;
		if (orphans)
			fork_orphan(i);
		else if (!fork())
			child(i, bursts);
		while (orphans && *ns == before) /* one at a time, too */
			usleep(1000);
		while (waitpid(-1, NULL, orphans || bursts ? WNOHANG : 0) > 0)
			;
	}
	while (bursts && wait(NULL) > 0)
		;
	return NULL;
}

static void tell(void)
{
	for (int i = 0; i < JOBS; i++)
		printf("%s\"job%d\": %llu", i ? ", " : "{", i, (unsigned long long)used[i]);
	puts("}");
}

/* Let the label of a library be `value`: those of this one, or what merely looks like one. */
static int load(const char *library, const char *value)
{
	void *l = dlopen(library, RTLD_NOW);
	void (*set)(const char *) = l ? (void (*)(const char *))dlsym(l, "library_label") : NULL;
	if (set)
		set(value);
	else
		fprintf(stderr, "family: %s\n", dlerror());
	return set ? 0 : 1;
}

static int late(const char *library, const char *other)
{
	int turns[2], rc = 0, status;
	char turn = 0;
	if (pipe(turns))
		return 1;
	for (int i = 0; i < children; i++) {
		if (fork())
			continue;
		rc = read(turns[0], &turn, 1) == 1 ? 0 : 1;
		prctl(PR_SET_NAME, "late");
		rc |= load(other, "wrong");
		burn(amount);
		_exit(rc);
	}
	rc |= load(library, "library");
	burn(400);
	for (int i = 0; i < children; i++) {
		rc |= write(turns[1], &turn, 1) == 1 ? 0 : 1;
		rc |= wait(&status) > 0 ? status : 1;
	}
	return !!rc;
}

/* Become the reaper of those that the program `itself`, run as "relay", makes. */
static int be_alien(const char *itself, char **argv)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!fork())
		execl(itself, "family", "relay", argv[2], argv[3], NULL);
	execl(itself, "family", "reap", argv[2], argv[3], NULL);
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t own = 0;
	if (argc < 4)
		return 2;
	char *mode = argv[1], relayed[] = "alien";
	children = atol(argv[2]);
	amount = atol(argv[3]);
	used = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (used == MAP_FAILED)
		return 1;
	if (!strcmp(mode, "alien"))
		return be_alien("/proc/self/exe", argv);
	if (!strcmp(mode, "late") && argc == 6)
		return late(argv[4], argv[5]);
	label(strcmp(mode, "reap") ? "parent" : "reaper");
	burn(400);
	if (!strcmp(mode, "reap")) {
		while (wait(NULL) > 0)
			;
		return 0;
	}
	if (!strcmp(mode, "orphan"))
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!strcmp(mode, "burst"))
		allocate(amount, &own, 1000);
	if (!strcmp(mode, "thread")) {
		pthread_t t;
		pthread_create(&t, NULL, fork_all, mode);
		pthread_join(t, NULL);
	} else if (!strcmp(mode, "grand") && fork()) {
		wait(NULL);
		return 0;
	} else {
		fork_all(strcmp(mode, "relay") ? mode : relayed);
	}
	tell();
	return 0;
}

#endif
