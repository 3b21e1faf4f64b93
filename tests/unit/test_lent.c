/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a keeper gives, and what it refuses. A recorder that was taken over asks for BPF programs,
 * tables and events without end, and keeps of them what takes the fewest descriptors. With a real
 * keeper, real programs; as root.
 */
#include "collect/rights.h"
#include "sampler/lent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define FDS (1u << 15)

static int load_rows(struct programs *ret, uint32_t rows)
{
	struct programs_wanted w = {
		.cfg = { .n_events = 1, .hz = 99, .window_s = 10, .table_rows = rows },
		.n_cpus = (unsigned)sysconf(_SC_NPROCESSORS_CONF),
		.n_procs = SAMPLER_PROCESSES
	};
	struct err err = { 0 };
	assert_int_equal(event_parse(&w.cfg.event[0], "cpu-clock", 99, &err), 0);
	int rc = loader_programs(ret, &w, &err);
	if (rc && rc != -EDQUOT)
		print_message("%s\n", err.text);
	return rc;
}

static int load(struct programs *ret)
{
	return load_rows(ret, 0);
}

static void close_but(struct programs *p, enum program_fd kept)
{
	for (size_t i = 0; i < N_PROGRAM_FDS; i++)
		if (i != kept && p->fd[i] >= 0) {
			close(p->fd[i]);
			p->fd[i] = -1;
		}
}

/* Numbers of its choice have the keeper count without end, or take more than it may have. */
static void test_numbers(void **state)
{
	static const uint32_t rows[] = { 1, 1u << 31, (1u << 31) + 1, UINT32_MAX };
	struct programs p;
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(load_rows(&p, rows[i]), 0);
		assert_true(p.table_bytes + p.ring_bytes < LENT_BYTES_LEAST);
		programs_close(&p);
	}
}

/* Each holds all memory of its load: a program its maps, a mapping its map. */
static void test_loads(void **state)
{
	struct programs p[LENT_LOADS_MAX], more;
	const uint64_t refused = keeper_refused();
	(void)state;
	for (size_t i = 0; i < LENT_LOADS_MAX; i++)
		assert_int_equal(load(&p[i]), 0);
	assert_int_equal(load(&more), -EDQUOT);
	close_but(&p[0], PROGRAM_on_event);
	assert_int_equal(load(&more), -EDQUOT);
	const size_t bytes = p[1].sizes.n_halves * (size_t)p[1].sizes.half_bytes;
	void *halves =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p[1].fd[MAP_halves], 0);
	assert_ptr_not_equal(halves, MAP_FAILED);
	programs_close(&p[1]);
	assert_int_equal(load(&more), -EDQUOT);
	assert_int_equal(keeper_refused(), refused + 3);

	/* What is given back can be had again, as often as a daemon is reloaded. */
	munmap(halves, bytes);
	for (size_t i = 0; i < 2 * LENT_LOADS_MAX; i++) {
		assert_int_equal(load(&p[1]), 0);
		programs_close(&p[1]);
	}
	assert_int_equal(load(&p[1]), 0);
	assert_int_equal(load(&more), -EDQUOT);
	for (size_t i = 0; i < LENT_LOADS_MAX; i++)
		programs_close(&p[i]);
}

static void test_rows(void **state)
{
	static int fd[LENT_LOADS_MAX * UNWIND_SHARDS];
	const size_t n = sizeof(fd) / sizeof(fd[0]);
	int more;
	(void)state;
	for (size_t i = 0; i < n; i++)
		assert_int_equal(loader_rows(&fd[i]), 0);
	assert_int_equal(loader_rows(&more), -EDQUOT);
	close(fd[0]);
	assert_int_equal(loader_rows(&fd[0]), 0);
	assert_int_equal(loader_rows(&more), -EDQUOT);
	for (size_t i = 0; i < n; i++)
		close(fd[i]);
}

static void test_events(void **state)
{
	static int fd[FDS];
	const size_t most = lent_events_max((unsigned)sysconf(_SC_NPROCESSORS_CONF));
	struct event e;
	size_t n = 0;
	int rc = 0, more;
	struct rlimit files;
	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	if (files.rlim_max < most + 100 || most > FDS) /* of many CPUs */
		skip();
	assert_int_equal(event_parse(&e, "cpu-clock", 99, NULL), 0);
	for (; !rc && n < FDS; n += !rc)
		rc = n % 2 ? loader_event(&e, 0, &fd[n], NULL)
			   : loader_sideband(0, 16384, &fd[n], NULL);
	assert_int_equal(rc, -EDQUOT);
	assert_true(n >= most && n < 2 * most);
	close(fd[0]);
	close(fd[1]);
	assert_int_equal(loader_event(&e, 0, &fd[0], NULL), 0);
	assert_int_equal(loader_event(&e, 0, &fd[1], NULL), 0);
	assert_int_equal(loader_event(&e, 0, &more, NULL), -EDQUOT);
	for (size_t i = 0; i < n; i++)
		close(fd[i]);
}

/* A daemon of a user that may not read tracefs is reloaded: its keeper may. */
static void test_tracepoint(void **state)
{
	unsigned long want = 0;
	uint64_t id = 0;
	(void)state;
	FILE *f = fopen("/sys/kernel/tracing/events/sched/sched_switch/id", "re");
	if (!f)
		skip();
	assert_int_equal(fscanf(f, "%lu", &want), 1);
	fclose(f);
	pid_t p = fork();
	if (!p) {
		const char *text = "sched:sched_switch";
		if (setresuid(65534, 65534, 65534) || !access("/sys/kernel/tracing/events", R_OK))
			_exit(1);
		_exit(tracepoint_id(text, &id) || id != want ? 2
		      : tracepoint_id("sched:no_such", &id) != -ENOENT ||
				      tracepoint_id("sched:../../x", &id) != -EINVAL
			      ? 3
			      : 0);
	}
	int status;
	assert_int_equal(waitpid(p, &status, 0), p);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* `quick`: without loading programs, which takes an emulated machine minutes. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_numbers),
					    cmocka_unit_test(test_loads) },
				quick[] = { cmocka_unit_test(test_rows),
					    cmocka_unit_test(test_tracepoint),
					    cmocka_unit_test(test_events) };
	const bool all = argc < 2 || strcmp(argv[1], "quick") != 0;
	struct err err = { 0 };
	if (geteuid()) {
		printf("needs root\n");
		return 77;
	}
	if (collector_keep_rights(&err)) {
		printf("%s\n", err.text);
		return 1;
	}
	int rc = all ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
	rc += cmocka_run_group_tests(quick, NULL, NULL);
	keeper_end();
	return rc;
}
