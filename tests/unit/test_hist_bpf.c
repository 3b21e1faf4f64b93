/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel counts in the same buckets: tests/bpf/hist.bpf.c, of each compiler, is loaded and run
 * on values of all sizes. Beside it are the buckets found by doubling and a histogram of user
 * space. Needs root.
 */
#include "unit/hist_model.h"

#include "bpf/hist.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

#define RUNS 120 /* of HIST_WORK_VALUES */

static glob_t objects;

static struct hist_work *map_work(int fd)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE),
	       bytes = (sizeof(struct hist_work) + page - 1) & ~(page - 1);
	struct hist_work *w = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(w != MAP_FAILED);
	return w;
}

static void run(int prog, struct hist_work *w, struct hist *h)
{
	struct bpf_test_run_opts o = { .sz = sizeof(o) };
	for (unsigned run = 0; run < RUNS; run++) {
		w->bits = run % (HIST_BITS_MAX + 1);
		for (unsigned i = 0; i < HIST_WORK_VALUES; i++) {
			w->values[i] = model_value(i % MODEL_SHAPES);
			hist_record(h, w->values[i]);
		}
		memset(w->index, 0xff, sizeof(w->index));
		assert_int_equal(bpf_prog_test_run_opts(prog, &o), 0);
		assert_int_equal(o.retval, 0);
		for (unsigned i = 0; i < HIST_WORK_VALUES; i++) {
			uint64_t v = w->values[i];
			assert_int_equal(w->index[i], hist_bucket_index(w->bits, v));
			assert_int_equal(w->low[i], model_low(w->bits, v));
			assert_int_equal(w->high[i], model_high(w->bits, v));
		}
	}
}

static void compare(const struct hist_work *w, const struct hist *h)
{
	struct hist_snapshot s;
	uint64_t n, total = 0;
	model_snapshot(&s, h);
	for (uint32_t i = 0; hist_snapshot_next(&s, &i, &n); i++) {
		assert_int_equal(w->counts[i], n);
		total += n;
	}
	assert_int_equal(total, RUNS * HIST_WORK_VALUES);
	for (uint32_t i = 0; i < HIST_BUCKETS(HIST_WORK_BITS); i++)
		total -= w->counts[i];
	assert_int_equal(total, 0);
	hist_snapshot_fini(&s);
}

static void try_object(const char *path)
{
	struct bpf_object *o = bpf_object__open_file(path, NULL);
	assert_non_null(o);
	if (bpf_object__load(o))
		fail_msg("%s does not load", path);
	struct bpf_program *p = bpf_object__find_program_by_name(o, "buckets");
	struct hist_work *w = map_work(bpf_object__find_map_fd_by_name(o, "work"));
	struct hist *h;
	assert_int_equal(hist_new(HIST_WORK_BITS, &h), 0);
	run(bpf_program__fd(p), w, h);
	compare(w, h);
	hist_free(h);
	munmap(w, sizeof(*w));
	bpf_object__close(o);
}

static void test_objects(void **state)
{
	(void)state;
	for (size_t i = 0; i < objects.gl_pathc; i++)
		try_object(objects.gl_pathv[i]);
}

/* The compilers' objects are made beside this program. */
static int find_objects(void)
{
	char self[PATH_MAX], pattern[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return -1;
	self[n] = 0;
	snprintf(pattern, sizeof(pattern), "%s/bpf/hist.*.o", dirname(self));
	return glob(pattern, 0, NULL, &objects);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_objects) };
	if (find_objects()) {
		printf("no clang with BPF built tests/bpf/hist.bpf.c\n");
		return 77;
	}
	if (geteuid()) {
		printf("loading a BPF program needs root\n");
		return 77;
	}
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	globfree(&objects);
	return rc;
}
