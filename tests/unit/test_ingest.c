/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder takes from the process that serves: profiles in files of memory, and nothing
 * else that it could be handed. What is too late, or more than the quota, is refused.
 */
#include "store_model.h"

#include "daemon/ingest.h"
#include "import/pack.h"
#include "util/clock.h"

#include <sys/mman.h>
#include <sys/socket.h>

static char dir[64];
static struct store_writer *writer;
static struct ingest ingest;
static struct redactor redactor;

static int take_until(int fd, uint64_t until_ns)
{
	struct err err;
	return ingest_take(&ingest, fd, until_ns, writer, NULL, &redactor, &err);
}

static int take(int fd)
{
	return take_until(fd, UINT64_MAX);
}

static int memory(const void *bytes, size_t len)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	return fd;
}

/* A profile with one sample, under a name of so many bytes. */
static int profile(size_t len)
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
	int fd = memory(bytes.data, bytes.len);
	buf_fini(&bytes);
	profile_fini(&p);
	return fd;
}

static int set_up(void **ctx)
{
	struct err err;
	(void)ctx;
	ingest_init(&ingest);
	assert_int_equal(redactor_init(&redactor), 0);
	return store_writer_open_with(&writer, temp_dir(dir), &model_meta, &model_options, &err);
}

static int tear_down(void **ctx)
{
	(void)ctx;
	store_writer_close(writer);
	ingest_fini(&ingest);
	remove_tree(dir);
	return 0;
}

static void test_good(void **ctx)
{
	(void)ctx;
	int fd = profile(10);
	assert_int_equal(take(fd), 0);
	assert_true(ingest.profiles == 1 && ingest.samples == 1);
	assert_int_equal(take_until(fd, clock_ns(CLOCK_MONOTONIC) - 1), -EAGAIN);
	assert_int_equal(ingest.refused, 1);
	close(fd);
}

static void test_other_files(void **ctx)
{
	int ends[2], fd = open(dir, O_RDONLY | O_DIRECTORY);
	(void)ctx;
	assert_int_equal(take(fd), -EAGAIN);
	close(fd);
	fd = open("/proc/self/exe", O_RDONLY);
	assert_int_equal(take(fd), -EAGAIN);
	close(fd);
	fd = open("/dev/zero", O_RDONLY);
	assert_int_equal(take(fd), -EAGAIN);
	close(fd);
	/* Without anything to read: who reads it waits. */
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(take(ends[0]), -EAGAIN);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(take(ends[0]), -EAGAIN);
	close(ends[0]);
	close(ends[1]);
	fd = memory("", 0);
	assert_int_equal(take(fd), -EAGAIN);
	assert_int_equal(ftruncate(fd, 1ll << 40),
			 0); /* a hole: it costs whoever made it nothing */
	assert_int_equal(take(fd), -EAGAIN);
	close(fd);
	fd = memory("no profile", 10);
	assert_int_equal(take(fd), -EAGAIN);
	close(fd);
	assert_true(!ingest.profiles && ingest.refused == 8);
}

static void test_quota(void **ctx)
{
	int fd = profile(PROFILE_TEXT_MAX), rc = 0; /* 4 MiB of names */
	unsigned n = 0;
	(void)ctx;
	while (!(rc = take(fd)) && n < 100)
		n++;
	assert_int_equal(rc, -EDQUOT);
	assert_in_range(n, INTAKE_BURST / (PROFILE_TEXT_MAX * 1000), 5);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_good, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_quota, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
