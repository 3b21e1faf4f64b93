/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of side-band records of several CPUs. Real forks, execs and exits on two CPUs, as the
 * kernel tells them; the oracle is what the test itself started. Needs perf events of every CPU
 * (root) and two CPUs.
 */
#include "sampler/sideband.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING_BYTES (4u << 20) /* a CPU: nothing is lost, however late the reader comes */
#define STORM_CHILDREN 1500

static unsigned n_cpus, cpu_a, cpu_b;

static void pin(unsigned cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		_exit(70);
}

/* The first two CPUs that this process may use. */
static bool find_cpus(void)
{
	cpu_set_t set;
	unsigned found = 0;
	n_cpus = (unsigned)sysconf(_SC_NPROCESSORS_CONF);
	if (sched_getaffinity(0, sizeof(set), &set))
		return false;
	for (unsigned c = 0; c < n_cpus && found < 2; c++)
		if (CPU_ISSET(c, &set))
			*(found++ ? &cpu_b : &cpu_a) = c;
	return found == 2;
}

static struct sideband *open_all(void)
{
	struct sideband *sb;
	assert_int_equal(sideband_open(&sb, n_cpus, RING_BYTES, NULL), 0);
	for (unsigned c = 0; c < n_cpus; c++)
		sideband_add_cpu(sb, c, NULL); /* one that is offline has nothing to say */
	return sb;
}

/* A child made here that ends, on another CPU, as "true" (exec) or as it is. Returns its number. */
static pid_t start_child(unsigned on, bool exec)
{
	pid_t child = fork();
	if (child)
		return child;
	pin(on);
	if (exec)
		execl("/bin/true", "true", (char *)NULL);
	_exit(exec ? 71 : 0);
}

/* What the kernel says of a child that has ended, once all is applied. */
static void check_child(struct procs *p, pid_t child, bool exec)
{
	const struct proc_image *im = procs_find(p, (uint32_t)child, UINT64_MAX);
	assert_non_null(im);
	assert_true(im->leader_exited);
	/* It had one thread: nothing is left to be looked up */
	assert_true(im->to_ns < UINT64_MAX);
	assert_string_equal(im->comm, exec ? "true" : program_invocation_short_name);
	if (!exec)
		return;
	assert_non_null(im->exe);
	assert_string_equal(strrchr(im->exe->path, '/'), "/true");
	assert_non_null(im->older); /* between fork and exec it ran the parent's program */
	assert_string_equal(im->older->comm, program_invocation_short_name);
}

/* A fork on a CPU whose ring was read a moment ago, everything else on a CPU whose ring is read
 * next. */
static void test_fork_behind_the_reader(void **state)
{
	(void)state;
	struct sideband *sb = open_all();
	struct procs *p;
	struct sideband_loss loss;
	int status;
	assert_int_equal(procs_new(&p, NULL), 0);
	assert_int_equal(procs_scan_one(p, (uint32_t)getpid()), 0);
	for (int exec = 0; exec < 2; exec++) {
		uint64_t before_ns = proc_now_ns();
		assert_int_equal(sideband_read(sb, cpu_a, before_ns), 0);
		pin(cpu_a);
		pid_t child = start_child(cpu_b, exec);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		for (unsigned c = 0; c < n_cpus; c++)
			if (c != cpu_a)
				assert_int_equal(sideband_read(sb, c, before_ns), 0);
		sideband_apply(sb, p, NULL, NULL, &loss);
		assert_null(procs_find(p, (uint32_t)child,
				       UINT64_MAX)); /* nothing of it is older than before_ns */
		assert_int_equal(sideband_drain(sb, p, NULL, NULL, &loss), 0);
		assert_false(loss.any);
		check_child(p, child, exec);
	}
	procs_free(p);
	sideband_close(sb);
}

/* Make children on one CPU that go on on the other; every second one execs. */
static void storm(unsigned from, unsigned to, pid_t *log)
{
	pin(from);
	for (unsigned i = 0; i < STORM_CHILDREN; i++) {
		int status;
		log[i] = start_child(to, i & 1);
		if (log[i] < 0 || waitpid(log[i], &status, 0) != log[i] || status)
			_exit(72);
	}
	_exit(0);
}

/*
 * What rows of each child would find, as the kernel counts: an exec has one more than its fork. No
 * row finds the other one.
 */
static void check_rows(struct procs *p, const pid_t *log)
{
	for (unsigned i = 1; i < 2 * STORM_CHILDREN; i += 2) {
		const struct proc_image *im = procs_find(p, (uint32_t)log[i], UINT64_MAX);
		struct proc_id id = { .start_ns = im->older->from_ns,
				      .tgid = (uint32_t)log[i],
				      .exec_id = 41 };
		uint64_t forked = im->older->from_ns, executed = im->from_ns + 50000000;
		assert_ptr_equal(procs_identify(p, &id, forked, PROC_MAPS), im->older);
		assert_ptr_equal(procs_identify(p, &id, executed, PROC_MAPS), im->older);
		id.exec_id++;
		assert_ptr_equal(procs_identify(p, &id, executed, PROC_MAPS), im);
		id.exec_id++;
		assert_null(procs_identify(p, &id, executed, PROC_MAPS));
	}
}

/* The reader is preempted between two rings all the time: it has the lowest priority beside a storm
 * on each CPU. */
static void test_storm(void **state)
{
	(void)state;
	const struct sched_param none = { 0 };
	size_t size = 2 * STORM_CHILDREN * sizeof(pid_t);
	pid_t *log = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
	      maker[2];
	struct sideband *sb = open_all();
	struct procs *p;
	struct sideband_loss loss;
	assert_true(log != MAP_FAILED);
	assert_int_equal(procs_new(&p, NULL), 0);
	assert_int_equal(procs_scan_one(p, (uint32_t)getpid()), 0);
	for (int i = 0; i < 2; i++) {
		maker[i] = fork();
		if (!maker[i])
			storm(i ? cpu_b : cpu_a, i ? cpu_a : cpu_b, log + (i ? STORM_CHILDREN : 0));
	}
	assert_int_equal(sched_setscheduler(0, SCHED_IDLE, &none), 0);
	for (int left = 2; left;) {
		int status;
		pid_t ended = waitpid(-1, &status, WNOHANG);
		assert_int_equal(sideband_drain(sb, p, NULL, NULL, &loss), 0);
		assert_false(loss.any);
		assert_true(ended <= 0 || !status);
		left -= ended > 0;
	}
	assert_int_equal(sched_setscheduler(0, SCHED_OTHER, &none), 0);
	assert_int_equal(sideband_drain(sb, p, NULL, NULL, &loss), 0);
	for (unsigned i = 0; i < 2 * STORM_CHILDREN; i++)
		check_child(p, log[i], i & 1);
	check_rows(p, log);
	procs_forget(p, UINT64_MAX); /* no image of what has ended is left behind */
	for (unsigned i = 0; i < 2 * STORM_CHILDREN; i++)
		assert_null(procs_find(p, (uint32_t)log[i], UINT64_MAX));
	procs_free(p);
	sideband_close(sb);
	munmap(log, size);
}

/*
 * A ring that overflows: the loss begins no earlier than the last record that was kept, and no
 * later than the first dropped.
 */
static void test_loss_begins(void **state)
{
	(void)state;
	struct sideband *sb;
	struct procs *p;
	struct sideband_loss loss;
	int status;
	assert_int_equal(sideband_open(&sb, n_cpus, 65536, NULL), 0);
	for (unsigned c = 0; c < n_cpus; c++)
		sideband_add_cpu(sb, c, NULL);
	assert_int_equal(procs_new(&p, NULL), 0);
	pin(cpu_a);
	assert_int_equal(sideband_drain(sb, p, NULL, NULL, &loss), 0);
	uint64_t kept = 0;
	for (unsigned i = 0; i < 500; i++) {
		pid_t child = start_child(cpu_a, true);
		assert_int_equal(waitpid(child, &status, 0), child);
		if (i < 5) /* some 1 KiB each: these fit */
			kept = proc_now_ns();
	}
	uint64_t end = proc_now_ns();
	assert_int_equal(sideband_drain(sb, p, NULL, NULL, &loss), 0);
	assert_true(loss.any);
	assert_in_range(loss.from_ns, kept, end);
	start_child(cpu_a, false); /* the kernel reports the loss with its next record */
	waitpid(-1, &status, 0);
	assert_int_equal(sideband_drain(sb, p, NULL, NULL, &loss), 0);
	assert_true(loss.any && loss.records > 0);
	assert_true(loss.from_ns <= proc_now_ns());
	/* Other processes may fill a ring, too */
	for (int tries = 0; loss.any && tries < 50; tries++)
		assert_int_equal(sideband_drain(sb, p, NULL, NULL, &loss), 0);
	assert_false(loss.any);
	procs_free(p);
	sideband_close(sb);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fork_behind_the_reader),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_loss_begins),
	};
	struct sideband *sb;
	struct err err = { 0 };
	if (!find_cpus()) {
		puts("needs two CPUs");
		return 77;
	}
	if (!sideband_open(&sb, n_cpus, 4096, &err)) {
		int rc = sideband_add_cpu(sb, cpu_a, &err);
		sideband_close(sb);
		if (rc && !getenv("CI")) {
			printf("%s\n", err.text);
			return 77;
		}
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
