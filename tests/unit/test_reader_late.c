/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of readers that come late: once, to whoever asks again, and to children. */
#include "readers.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

static const char text[] = "read from another process";

static void expect_read(void)
{
	char got[sizeof(text)] = "";
	assert_int_equal(ANSWER(proc_read_memory((uint32_t)getpid(), (uint64_t)(uintptr_t)text, got,
						 sizeof(got))),
			 0);
	assert_string_equal(got, text);
}

/* Let the answer of the reader h come, which was stopped. */
static void let_answer(pid_t h)
{
	uint64_t moved = stats().moved;
	assert_int_equal(kill(h, SIGCONT), 0);
	for (double until = now_s() + 5; stats().moved == moved && now_s() < until;)
		turn();
}

/* An answer that comes late is there for whoever asks again, once, and not for another process. */
static void test_late(void **state)
{
	char got[sizeof(text)] = "";
	(void)state;
	expect_read();
	pid_t h = helper("ascribe-reader");
	uint64_t late = stats().late;
	assert_int_equal(kill(h, SIGSTOP), 0);
	assert_int_equal(
		proc_read_memory((uint32_t)getpid(), (uint64_t)(uintptr_t)text, got, sizeof(got)),
		-EINPROGRESS);
	assert_int_equal(stats().late, late + 1);
	assert_int_equal(kill(h, SIGCONT), 0);
	uint64_t moved = stats().moved, requests = stats().requests;
	for (double until = now_s() + 5; stats().moved == moved && now_s() < until;)
		turn();
	assert_int_equal(
		proc_read_memory((uint32_t)getpid(), (uint64_t)(uintptr_t)text, got, sizeof(got)),
		0);
	assert_string_equal(got, text);
	assert_int_equal(stats().requests, requests);
	expect_read();
	assert_true(stats().requests > requests);
}

/*
 * Mappings that come late: those of records since the question are not lost, and an ended image
 * keeps its answer.
 */
static void test_late_maps(void **state)
{
	uint64_t here = (uint64_t)(uintptr_t)&test_late_maps, tick;
	struct procs *p;
	(void)state;
	expect_read();
	assert_int_equal(procs_new(&p, NULL), 0);
	assert_int_equal(proc_start((uint32_t)getpid(), &tick), 0);
	const struct proc_id id = { .start_ns = tick + 1,
				    .tgid = (uint32_t)getpid(),
				    .exec_id = 1 };
	pid_t h = helper("ascribe-reader");
	assert_int_equal(kill(h, SIGSTOP), 0);
	struct proc_image *im = procs_identify(p, &id, proc_now_ns(), PROC_MAPS);
	assert_non_null(im);
	assert_true(proc_image_is_late(im));
	assert_false(proc_image_mapped(im));
	assert_non_null(
		procs_mmap(p, id.tgid, PAGE, PAGE, 0, "/made/since", 1, 2, NULL, 0, proc_now_ns()));
	let_answer(h);
	procs_exit(p, id.tgid, proc_now_ns());
	assert_ptr_equal(procs_identify(p, &id, proc_now_ns(), PROC_MAPS), im);
	assert_false(proc_image_is_late(im));
	assert_true(proc_image_mapped(im));
	assert_non_null(proc_image_map(im, here));
	assert_non_null(proc_image_map(im, PAGE));
	assert_string_equal(proc_image_map(im, PAGE)->file->path, "/made/since");
	procs_free(p);
}

/*
 * Children that were forked while the mappings of their parent were being read, and ended before:
 * they have them, too, and what they mapped themselves. A child that called exec has its own alone.
 */
static void test_late_maps_of_parent(void **state)
{
	enum { NOBODY = 0x7fffffff }; /* more than PID_MAX_LIMIT */
	const uint64_t here = (uint64_t)(uintptr_t)&test_late_maps_of_parent;
	const uint32_t self = (uint32_t)getpid();
	struct proc_image *im[4];
	struct procs *p;
	(void)state;
	expect_read();
	assert_int_equal(procs_new(&p, NULL), 0);
	pid_t h = helper("ascribe-reader");
	assert_int_equal(kill(h, SIGSTOP), 0);
	for (uint32_t i = 0; i < 4; i++) {
		procs_fork(p, NOBODY - i, i == 3 ? NOBODY - 2 : self, proc_now_ns());
		im[i] = procs_find(p, NOBODY - i, UINT64_MAX);
		assert_false(proc_image_is_late(im[i]));
	}
	procs_exec(p, NOBODY - 1, "another", proc_now_ns());
	procs_mmap(p, NOBODY - 1, PAGE, PAGE, 0, "/of/another", 1, 2, NULL, 0, proc_now_ns());
	procs_mmap(p, NOBODY - 2, PAGE, PAGE, 0, "/of/child", 1, 3, NULL, 0, proc_now_ns());
	for (uint32_t i = 0; i < 4; i++) {
		procs_exit(p, NOBODY - i, proc_now_ns());
		assert_true(proc_image_is_late(im[i]));
		const struct proc_id id = { .start_ns = im[i]->from_ns, .tgid = NOBODY - i };
		assert_ptr_equal(procs_identify(p, &id, im[i]->from_ns, PROC_MAPS), im[i]);
		assert_true(proc_image_is_late(im[i]));
	}
	let_answer(h);
	for (uint32_t i = 0; i < 4; i++) {
		const struct proc_id id = { .start_ns = im[i]->from_ns, .tgid = NOBODY - i };
		assert_ptr_equal(procs_identify(p, &id, im[i]->from_ns, PROC_MAPS), im[i]);
		assert_false(proc_image_is_late(im[i]));
		assert_non_null(proc_image_map(im[i], here));
	}
	assert_ptr_equal(im[0]->maps, im[1]->maps);
	assert_null(proc_image_map(im[0], PAGE));
	assert_string_equal(proc_image_map(im[2], PAGE)->file->path, "/of/child");
	const struct proc_image *later = procs_find(p, NOBODY - 1, UINT64_MAX);
	assert_int_equal(later->n_maps, 1);
	assert_false(proc_image_is_late(later));
	procs_free(p);
}

int main(void)
{
	if (geteuid() != 0) {
		puts("test_reader_late: needs root");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_late, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_late_maps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_late_maps_of_parent, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
