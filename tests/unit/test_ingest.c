/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder takes from the process that serves: profiles in its own file of memory. What is
 * too long, too late, or more than the quota, is refused, and the memory is given back.
 */
#include "store_model.h"

#include "daemon/ingest.h"
#include "import/pack.h"
#include "store/writer.h"
#include "util/clock.h"
#include "util/memory_file.h"

#include <fcntl.h>

static char dir[64];
static struct store_writer *writer;
static struct ingest ingest;
static struct redactor redactor;

static int memory;

static int take_until(size_t len, uint64_t until_ns)
{
	struct err err;
	return ingest_take(&ingest, memory, len, until_ns, writer, NULL, &redactor, &err);
}

static int take(size_t len)
{
	return take_until(len, UINT64_MAX);
}

static size_t write_memory(const void *bytes, size_t len)
{
	assert_int_equal(pwrite(memory, bytes, len, 0), len);
	return len;
}

/* Write a profile with one sample, under a name of so many bytes. */
static size_t profile(size_t len)
{
	struct profile p = { .prefix = PROFILE_SENT };
	struct profile_labels none = { .n = 0 };
	struct profile_sample *s;
	struct buf bytes = BUF_INIT;
	char name[PROFILE_TEXT_MAX + 1];
	uint32_t frame;
	size_t type;
	memset(name, 'f', len);
	name[len] = 0;
	assert_int_equal(profile_add_type(&p, "cpu", "nanoseconds", 1000000, &type), 0);
	for (unsigned i = 0; i < 1000; i++) {
		const struct profile_frame f = { name, PROFILE_MODULE, "", i, false, false };
		assert_int_equal(profile_new_frame(&p, &f, &frame), 0);
	}
	assert_int_equal(profile_new_sample(&p, &none, &s), 0);
	assert_int_equal(profile_push_frame(&p, s, frame), 0);
	s->value[0] = 5000000;
	assert_int_equal(profile_pack(&p, &bytes), 0);
	size_t n = write_memory(bytes.data, bytes.len);
	buf_fini(&bytes);
	profile_fini(&p);
	return n;
}

static int set_up(void **ctx)
{
	struct err err;
	(void)ctx;
	ingest_init(&ingest);
	assert_int_equal(memory_file_make("test", PROFILE_PACKED_MAX, &memory), 0);
	assert_int_equal(redactor_init(&redactor), 0);
	return store_writer_open_with(&writer, temp_dir(dir), &model_meta, &model_options, &err);
}

static int tear_down(void **ctx)
{
	(void)ctx;
	store_writer_close(writer);
	ingest_fini(&ingest);
	close(memory);
	remove_tree(dir);
	return 0;
}

static void test_good(void **ctx)
{
	size_t len = profile(10);
	(void)ctx;
	assert_true(memory_file_bytes(memory) >= len);
	assert_int_equal(take(len), 0);
	assert_int_equal(memory_file_bytes(memory), 0);
	assert_true(ingest.profiles == 1 && ingest.samples == 1);
	len = profile(10);
	assert_int_equal(take_until(len, clock_ns(CLOCK_MONOTONIC) - 1), -EAGAIN);
	assert_int_equal(ingest.refused, 1);
}

static void test_wrong_bytes(void **ctx)
{
	const size_t len = profile(10);
	(void)ctx;
	assert_int_equal(take(0), -EAGAIN);
	assert_int_equal(take(PROFILE_PACKED_MAX + 1), -EAGAIN);
	assert_int_equal(take(UINT32_MAX), -EAGAIN);
	assert_int_equal(take(len - 1), -EAGAIN);
	assert_int_equal(take(len), -EAGAIN); /* it was cleared */
	assert_int_equal(take(write_memory("no profile", 10)), -EAGAIN);
	assert_true(!ingest.profiles && ingest.refused == 6);
}

/* Whoever writes into it can take no more memory than it was made with. */
static void test_size(void **ctx)
{
	(void)ctx;
	assert_int_equal(pwrite(memory, "x", 1, PROFILE_PACKED_MAX), -1);
	assert_int_equal(ftruncate(memory, 1ll << 40), -1);
	assert_int_equal(ftruncate(memory, 0), -1);
	assert_int_equal(fallocate(memory, 0, 0, PROFILE_PACKED_MAX + 1), -1);
}

static void test_quota(void **ctx)
{
	int rc = 0;
	unsigned n = 0;
	(void)ctx;
	while (!(rc = take(profile(PROFILE_TEXT_MAX))) && n < 100) /* 4 MiB of names */
		n++;
	assert_int_equal(rc, -EDQUOT);
	assert_in_range(n, INTAKE_BURST / (PROFILE_TEXT_MAX * 1000), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_good, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_wrong_bytes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_size, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_quota, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
