/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which image a row is of: by the number of execs that it carries, and by /proc where records are
 * missing.
 */
#include "proc/proc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGE 4096u
#define NOBODY 0x7fffffffu /* no process has this number: it is more than PID_MAX_LIMIT */

/* Rows carry the number of execs: each gets the image that it is of, or none, never a later one. */
static void test_identity(void **state)
{
	(void)state;
	struct procs *p;
	struct proc_id id = { .start_ns = 99000000, .tgid = NOBODY - 1, .exec_id = 7 };
	const uint64_t ms = 100000000; /* a hundred of them: nothing is doubtful after 4 s */
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_exec(p, NOBODY - 2, "parent", 50 * ms);
	struct proc_id parent = { .start_ns = 1, .tgid = NOBODY - 2, .exec_id = 7 };
	assert_string_equal(procs_identify(p, &parent, 90 * ms, PROC_MAPS)->comm, "parent");
	procs_fork(p, id.tgid, NOBODY - 2, 100 * ms);
	procs_exec(p, id.tgid, "first", 110 * ms);
	procs_exec(p, id.tgid, "second", 120 * ms);
	/* The times of rows are of no help here: what they carry tells. */
	for (uint64_t ns = 130 * ms; ns >= 100 * ms; ns -= 10 * ms) {
		id.exec_id = 8;
		assert_string_equal(procs_identify(p, &id, 115 * ms, PROC_MAPS)->comm, "first");
		assert_string_equal(procs_identify(p, &id, ns, PROC_MAPS)->comm, "first");
		id.exec_id = 9;
		assert_string_equal(procs_identify(p, &id, 125 * ms, PROC_MAPS)->comm, "second");
		assert_string_equal(procs_identify(p, &id, ns, PROC_MAPS)->comm, "second");
	}
	id.exec_id = 7;
	assert_string_equal(procs_identify(p, &id, 105 * ms, PROC_MAPS)->comm, "parent");
	id.exec_id = 6; /* of before the fork: that was another process */
	assert_null(procs_identify(p, &id, 125 * ms, PROC_MAPS));
	id.exec_id = 10; /* of an exec that nobody told of, and the process has ended */
	assert_null(procs_identify(p, &id, 125 * ms, PROC_MAPS));
	id = (struct proc_id){ .start_ns = 500 * ms, .tgid = NOBODY - 1, .exec_id = 9 };
	/* Another process with the same number */
	assert_null(procs_identify(p, &id, 510 * ms, PROC_MAPS));
	procs_free(p);
}

/*
 * A row of the moment between an exec's record and the kernel's count of it: the next row puts it
 * right.
 */
static void test_identity_in_exec(void **state)
{
	(void)state;
	struct procs *p;
	struct proc_id id = { .start_ns = 99, .tgid = NOBODY - 1, .exec_id = 7 };
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_exec(p, id.tgid, "new", 1000000);
	assert_string_equal(procs_identify(p, &id, 1000010, PROC_MAPS)->comm, "new");
	id.exec_id = 8;
	assert_string_equal(procs_identify(p, &id, 9000000, PROC_MAPS)->comm, "new");
	id.exec_id = 9; /* now it is certain */
	assert_null(procs_identify(p, &id, 9000000, PROC_MAPS));
	procs_free(p);
}

/*
 * The same on a virtual CPU that did not run for 11 ms in that moment: the next row puts right the
 * process, and rows of its children, which have all ended by then, put right those.
 */
static void test_children_of_doubtful(void **state)
{
	(void)state;
	struct procs *p;
	const uint64_t ms = 1000000;
	struct proc_id id = { .start_ns = 99, .tgid = NOBODY - 1, .exec_id = 7 };
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_exec(p, id.tgid, "parent", 100 * ms);
	assert_string_equal(procs_identify(p, &id, 111 * ms, PROC_MAPS)->comm, "parent");
	procs_fork(p, NOBODY - 2, id.tgid, 200 * ms);
	procs_exec(p, NOBODY - 2, "child", 210 * ms);
	procs_fork(p, NOBODY - 3, NOBODY - 2, 220 * ms);
	for (uint32_t i = 1; i <= 3; i++)
		procs_exit(p, NOBODY - i, 300 * ms);
	struct proc_id child = { .start_ns = 200 * ms, .tgid = NOBODY - 2, .exec_id = 9 };
	assert_string_equal(procs_identify(p, &child, 215 * ms, PROC_MAPS)->comm, "child");
	child.exec_id = 8;
	assert_string_equal(procs_identify(p, &child, 205 * ms, PROC_MAPS)->comm, "parent");
	child = (struct proc_id){ .start_ns = 220 * ms, .tgid = NOBODY - 3, .exec_id = 9 };
	assert_string_equal(procs_identify(p, &child, 230 * ms, PROC_MAPS)->comm, "child");
	id.exec_id = 8;
	assert_string_equal(procs_identify(p, &id, 250 * ms, PROC_MAPS)->comm, "parent");
	procs_free(p);
}

/* Where a record is missing, /proc says that another program runs: a new image, and the old one as
 * it was. */
static void test_missed_news(void **state)
{
	(void)state;
	struct procs *p;
	uint32_t self = (uint32_t)getpid();
	uint64_t before = proc_now_ns();
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_exec(p, self, "earlier", before);
	assert_non_null(procs_mmap(p, self, PAGE, PAGE, 0, "/earlier", 1, 2, NULL, 0, before));
	assert_int_equal(procs_scan_one(p, self), 0);
	const struct proc_image *im = procs_find(p, self, UINT64_MAX),
				*old = procs_find(p, self, before);
	assert_string_equal(old->exe->path, "/earlier");
	assert_string_equal(old->comm, "earlier");
	assert_ptr_equal(im->older, old);
	assert_string_not_equal(im->exe->path, "/earlier");
	assert_int_equal(procs_scan_one(p, self), 0);
	assert_ptr_equal(procs_find(p, self, UINT64_MAX),
			 im); /* the same program: the same image */

	/* The number was used again: an image that had ended before this process began. */
	procs_free(p);
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_fork(p, self, NOBODY, 1000);
	assert_false(proc_image_holds(procs_find(p, self, UINT64_MAX), before));
	assert_int_equal(procs_scan_one(p, self), 0);
	im = procs_find(p, self, UINT64_MAX);
	assert_true(im->from_ns > 1000 && im->from_ns <= before); /* when it started */
	assert_int_equal(im->older->to_ns, im->from_ns);
	procs_free(p);
}

#define AGAIN "TEST_PROC_AGAIN"

/* A process that executes this program again each time a byte comes. */
static int run_again(const char *fds)
{
	int in, out;
	char c;
	if (sscanf(fds, "%d,%d", &in, &out) != 2 || write(out, "x", 1) != 1 || read(in, &c, 1) != 1)
		return 1;
	execl("/proc/self/exe", "again", (char *)NULL);
	return 1;
}

/*
 * An exec of the same path while no record came: the new image has mappings of its own, the old one
 * keeps its own.
 */
static void test_missed_exec_of_same_path(void **state)
{
	(void)state;
	struct procs *p;
	int to[2], from[2], status;
	char fds[32], c;
	uint64_t start;
	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	snprintf(fds, sizeof(fds), "%d,%d", to[0], from[1]);
	assert_int_equal(setenv(AGAIN, fds, 1), 0);
	pid_t child = fork();
	if (!child) {
		execl("/proc/self/exe", "again", (char *)NULL);
		_exit(1);
	}
	unsetenv(AGAIN);
	assert_int_equal(read(from[0], &c, 1), 1);
	assert_int_equal(procs_new(&p, NULL), 0);
	assert_int_equal(proc_start((uint32_t)child, &start), 0);
	struct proc_id id = { .start_ns = start, .tgid = (uint32_t)child, .exec_id = 3 };
	struct proc_image *first = procs_identify(p, &id, proc_now_ns(), PROC_MAPS);
	assert_non_null(first);
	assert_int_equal(procs_reads(p), 1);
	uint64_t was = first->maps[0].start, between = proc_now_ns();
	assert_int_equal(write(to[1], "x", 1), 1);
	assert_int_equal(read(from[0], &c, 1), 1);
	id.exec_id = 4;
	struct proc_image *second = procs_identify(p, &id, proc_now_ns(), PROC_MAPS);
	assert_non_null(second);
	assert_ptr_not_equal(second, first);
	assert_int_equal(procs_reads(p), 2);
	assert_string_equal(second->exe->path, first->exe->path);
	/* Addresses are random: the first image's are not the second's */
	assert_int_equal(first->maps[0].start, was);
	assert_true(second->maps[0].start != was || second->n_maps != first->n_maps);
	id.exec_id = 3;
	assert_ptr_equal(procs_identify(p, &id, between, PROC_MAPS), first);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	id.exec_id = 5; /* of an exec after that: nothing is left to read */
	assert_null(procs_identify(p, &id, proc_now_ns(), PROC_MAPS));
	procs_free(p);
	for (int i = 0; i < 2; i++) {
		close(to[i]);
		close(from[i]);
	}
}

/*
 * Records were lost, an exec of another path among them: rows from before the exec keep the first
 * program.
 */
static void test_lost_exec_of_another_path(void **state)
{
	(void)state;
	struct procs *p;
	int to[2], status;
	char c, path[32], exe[64] = "";
	uint64_t start;
	assert_int_equal(pipe(to), 0);
	pid_t child = fork();
	if (!child) {
		if (read(to[0], &c, 1) == 1)
			execl("/bin/sleep", "sleep", "60", (char *)NULL);
		_exit(1);
	}
	assert_int_equal(procs_new(&p, NULL), 0);
	assert_int_equal(proc_start((uint32_t)child, &start), 0);
	struct proc_id id = { .start_ns = start, .tgid = (uint32_t)child, .exec_id = 3 };
	struct proc_image *first = procs_identify(p, &id, proc_now_ns(), PROC_MAPS);
	assert_non_null(first);
	uint64_t before = proc_now_ns();
	assert_int_equal(write(to[1], "x", 1), 1);
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)child);
	for (int i = 0; i < 1000 && !strstr(exe, "sleep"); i++) {
		ssize_t n = readlink(path, exe, sizeof(exe) - 1);
		exe[n > 0 ? n : 0] = 0;
		usleep(10000);
	}
	procs_lost(p, before);
	assert_ptr_equal(procs_identify(p, &id, before, PROC_MAPS), first);
	assert_null(strstr(first->exe->path, "sleep"));
	id.exec_id = 4;
	struct proc_image *second = procs_identify(p, &id, proc_now_ns(), PROC_MAPS);
	assert_non_null(second);
	assert_non_null(strstr(second->exe->path, "sleep"));
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	procs_free(p);
	close(to[0]);
	close(to[1]);
}

/* /proc is read once for a process that is sampled, and never for one that is not. */
static void test_reads_what_is_needed(void **state)
{
	(void)state;
	struct procs *p;
	struct proc_id id = { .tgid = (uint32_t)getpid(), .exec_id = 5 };
	assert_int_equal(procs_new(&p, NULL), 0);
	assert_int_equal(proc_start(id.tgid, &id.start_ns), 0);
	struct proc_image *im = procs_identify(p, &id, proc_now_ns(), PROC_NAME);
	assert_non_null(im->exe);
	assert_false(proc_image_mapped(im));
	assert_int_equal(procs_reads(p), 0); /* of mappings */
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(procs_identify(p, &id, proc_now_ns(), PROC_MAPS), im);
	assert_true(proc_image_mapped(im) && im->n_maps > 0);
	assert_int_equal(procs_reads(p), 1);
	for (uint32_t i = 1; i <= 1000; i++) /* children need none: they have the parent's */
		procs_fork(p, NOBODY - i, id.tgid, proc_now_ns());
	assert_int_equal(procs_find(p, NOBODY - 7, UINT64_MAX)->n_maps, im->n_maps);
	assert_int_equal(procs_reads(p), 1);
	procs_lost(p, proc_now_ns()); /* costs nothing now; who is sampled is read again */
	assert_int_equal(procs_reads(p), 1);
	im->read_ns -= PROC_RETRY_NS;
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(procs_identify(p, &id, proc_now_ns(), PROC_MAPS), im);
	assert_int_equal(procs_reads(p), 2);
	for (int i = 0; i < 20; i++) { /* but not each time that more is lost */
		procs_lost(p, proc_now_ns());
		assert_ptr_equal(procs_identify(p, &id, proc_now_ns(), PROC_MAPS), im);
	}
	assert_int_equal(procs_reads(p), 2);
	/* Those whose exit was among what was lost are found out. */
	assert_int_equal(procs_alive(p), 1001);
	procs_forget(p, 0);
	assert_int_equal(procs_alive(p), 1);
	procs_free(p);
}

/*
 * A parent that was there before is read when it makes a child: the child may end before it is read
 * itself.
 */
static void test_child_of_unread(void **state)
{
	(void)state;
	struct procs *p;
	char name[16];
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_fork(p, NOBODY - 1, (uint32_t)getpid(), proc_now_ns());
	const struct proc_image *im = procs_find(p, NOBODY - 1, UINT64_MAX);
	assert_int_equal(prctl(PR_GET_NAME, name), 0);
	assert_string_equal(im->comm, name);
	assert_non_null(proc_image_map(im, (uint64_t)(uintptr_t)&test_child_of_unread));
	procs_fork(p, NOBODY - 2, (uint32_t)getpid(), proc_now_ns());
	assert_int_equal(procs_reads(p), 1);
	procs_free(p);
}

int main(void)
{
	if (getenv(AGAIN))
		return run_again(getenv(AGAIN));
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_identity_in_exec),
		cmocka_unit_test(test_children_of_doubtful),
		cmocka_unit_test(test_missed_news),
		cmocka_unit_test(test_missed_exec_of_same_path),
		cmocka_unit_test(test_lost_exec_of_another_path),
		cmocka_unit_test(test_reads_what_is_needed),
		cmocka_unit_test(test_child_of_unread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
