/* SPDX-License-Identifier: Apache-2.0 */
/* A process whose first thread has exited: what /proc says of it, held against /proc/PID/task/TID.
 */
#include "proc/proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char memory[] = "read from another process";
static int say[2];

static void *second_thread(void *unused)
{
	uint32_t tid = (uint32_t)gettid();
	(void)unused;
	if (write(say[1], &tid, sizeof(tid)) != sizeof(tid))
		_exit(70);
	for (;;)
		pause();
}

static char state_of(uint32_t tid)
{
	char path[64], state = 0;
	snprintf(path, sizeof(path), "/proc/%u/stat", tid);
	FILE *f = fopen(path, "re");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state;
}

static void await_zombie(uint32_t tid)
{
	for (int i = 0; i < 2000 && state_of(tid) != 'Z'; i++)
		usleep(5000);
	assert_int_equal(state_of(tid), 'Z');
}

/* A child whose first thread is over; *ret_tid: the one that goes on. */
static pid_t start_leaderless(uint32_t *ret_tid)
{
	assert_int_equal(pipe(say), 0);
	pid_t child = fork();
	if (!child) {
		pthread_t t;
		if (pthread_create(&t, NULL, second_thread, NULL))
			_exit(71);
		pthread_exit(NULL);
	}
	assert_int_equal(read(say[0], ret_tid, sizeof(*ret_tid)), sizeof(*ret_tid));
	await_zombie((uint32_t)child);
	return child;
}

/* The executable mappings that the thread itself has. */
static uint32_t count_executable(pid_t child, uint32_t tid)
{
	char path[64], line[4096], prot[5];
	uint32_t n = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%u/maps", child, tid);
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += sscanf(line, "%*x-%*x %4s", prot) == 1 && prot[2] == 'x';
	fclose(f);
	return n;
}

static void check_files(struct procs *p, const struct proc_image *im)
{
	struct proc_opened file;
	unsigned try = 0;
	for (uint32_t i = 0; i < im->n_maps; i++) {
		if (im->maps[i].file != im->exe)
			continue;
		assert_int_equal(proc_map_open(p, im, &im->maps[i], &try, &file), 0);
		assert_int_equal(try, 1); /* the entry of the mapping itself, not the path */
		close(file.fd);
	}
	assert_int_equal(try, 1);
	assert_int_equal(proc_open_in_root(im->tgid, im->tgid, "/proc/self/../version", &file), 0);
	close(file.fd);
}

static void test_leader_gone(void **state)
{
	(void)state;
	char exe[4096] = "", there[sizeof(memory)];
	uint32_t tid;
	int status;
	struct procs *p;
	pid_t child = start_leaderless(&tid);
	assert_int_equal(procs_new(&p, NULL), 0);
	assert_int_equal(procs_scan_one(p, (uint32_t)child), 0);
	assert_int_equal(proc_thread((uint32_t)child), tid);
	const struct proc_image *im = procs_find(p, (uint32_t)child, UINT64_MAX);
	assert_int_equal(im->n_maps, count_executable(child, tid));
	assert_true(im->n_maps > 2);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_string_equal(im->exe->path, exe);
	uint64_t at = (uint64_t)(uintptr_t)memory;
	assert_int_equal(proc_read_memory((uint32_t)child, at, there, sizeof(there)), 0);
	assert_string_equal(there, memory);
	check_files(p, im);

	procs_forget(p, proc_now_ns());
	assert_true(proc_image_alive(im));
	assert_int_equal(im->to_ns, UINT64_MAX);

	/* All threads are over, but nobody has waited for the process. */
	assert_int_equal(kill(child, SIGKILL), 0);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(proc_thread((uint32_t)child), 0);
	assert_false(proc_image_alive(im));
	procs_forget(p, UINT64_MAX);
	assert_int_equal(procs_count(p), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	procs_free(p);
}

/* The side-band says that the first thread has exited: the image goes on while another thread does.
 */
static void test_leader_exits(void **state)
{
	(void)state;
	uint32_t tid;
	int status;
	struct procs *p;
	pid_t child = start_leaderless(&tid);
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_fork(p, (uint32_t)child, (uint32_t)getpid(), 100);
	procs_thread(p, (uint32_t)child);
	procs_exit(p, (uint32_t)child, 200);
	const struct proc_image *im = procs_find(p, (uint32_t)child, UINT64_MAX);
	assert_true(im->leader_exited);
	assert_true(proc_image_alive(im));
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_false(proc_image_alive(im));
	assert_int_equal(proc_thread((uint32_t)child), 0);
	procs_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leader_gone),
		cmocka_unit_test(test_leader_exits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
