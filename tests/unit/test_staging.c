/* SPDX-License-Identifier: Apache-2.0 */
/* Directories in the making: what marks them, who may remove them, and what has their name then. */
#include "unit/copied.h"

#include "store/ops/staging.h"

#include <sys/wait.h>

static char base[64], name[80], tmp[90];

static int begin(void **state)
{
	(void)state;
	temp_dir(base);
	snprintf(name, sizeof(name), "%s/store", base);
	snprintf(tmp, sizeof(tmp), "%s.tmp", name);
	return 0;
}

static int end(void **state)
{
	(void)state;
	remove_tree(base);
	return 0;
}

static void put(const char *dir, const char *file, const char *text)
{
	char path[120];
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* A short text; NULL: there is no such file. */
static const char *text_of(const char *dir, const char *file)
{
	static char text[64];
	char path[120];
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	FILE *f = fopen(path, "r");
	if (!f)
		return NULL;
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	fclose(f);
	return text;
}

static mode_t mode_of(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

/* Begin in a process that is then killed. */
static void begin_and_die(bool replaces)
{
	pid_t pid = fork();
	int status;
	assert_true(pid >= 0);
	if (!pid) {
		struct staging s;
		struct err err = { 0 };
		int rc = staging_begin(&s, name, replaces, &err);
		if (!rc)
			put(tmp, "half", "made");
		_exit(rc != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* What a killed command left goes, also where it was to replace another. */
static void left(void **state)
{
	char lock[100];
	(void)state;
	for (int replaces = 0; replaces < 2; replaces++) {
		struct staging s;
		struct err err = { 0 };
		begin_and_die(replaces);
		assert_string_equal(text_of(tmp, "half"), "made");
		if (staging_begin(&s, name, replaces, &err))
			fail_msg("%s", err.text);
		assert_null(text_of(tmp, "half"));
		assert_string_equal(text_of(tmp, "lock"), "in the making\n");
		assert_int_equal(mode_of(tmp), 0700);
		snprintf(lock, sizeof(lock), "%s/lock", tmp);
		assert_int_equal(mode_of(lock), 0600);
		staging_end(&s);
		assert_int_not_equal(access(tmp, F_OK), 0);
	}
}

/* Of two that make the same the second is refused, and removes nothing. */
static void two(void **state)
{
	struct staging s, other;
	struct err err = { 0 };
	const size_t before = count_descriptors();
	(void)state;
	assert_int_equal(staging_begin(&s, name, false, &err), 0);
	assert_int_equal(count_descriptors(), before + 1);
	put(tmp, "half", "made");
	assert_int_equal(staging_begin(&other, name, false, &err), -EEXIST);
	assert_non_null(strstr(err.text, "another command is writing it"));
	assert_int_equal(count_descriptors(), before + 1);
	assert_string_equal(text_of(tmp, "half"), "made");
	assert_int_equal(staging_commit(&s, &err), 0);
	assert_int_equal(count_descriptors(), before);
	assert_int_not_equal(access(tmp, F_OK), 0);
	assert_string_equal(text_of(name, "half"), "made");
	/* A store is not in the making, whatever its own name is. */
	assert_string_equal(text_of(name, "lock"), "");
	staging_end(&s);
	assert_string_equal(text_of(name, "half"), "made");
	assert_int_equal(staging_begin(&s, name, false, &err), -EEXIST);
	assert_non_null(strstr(err.text, "name a new directory"));
	assert_int_not_equal(access(tmp, F_OK), 0);
	assert_int_equal(count_descriptors(), before);
}

/* Who gets the name first keeps it. */
static void taken_meanwhile(void **state)
{
	struct staging s;
	struct err err = { 0 };
	const size_t before = count_descriptors();
	(void)state;
	assert_int_equal(staging_begin(&s, name, false, &err), 0);
	assert_int_equal(mkdir(name, 0700), 0);
	assert_int_equal(staging_commit(&s, &err), -EEXIST);
	assert_non_null(strstr(err.text, "name a new directory"));
	assert_string_equal(text_of(tmp, "lock"), "in the making\n");
	staging_end(&s);
	assert_int_not_equal(access(tmp, F_OK), 0);
	assert_int_equal(rmdir(name), 0);
	assert_int_equal(count_descriptors(), before);
}

/* What is mounted cannot be exchanged. */
static void mounted(void **state)
{
	struct staging s;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(staging_begin(&s, "/proc/", true, &err), -EBUSY);
	assert_non_null(strstr(err.text, "/proc is a mount point"));
	assert_int_equal(staging_begin(&s, "/proc", false, &err), -EEXIST);
	assert_non_null(strstr(err.text, "/proc exists: name a new directory"));
}

/* The new directory gets the mode of the old one, which goes. Slashes at the end are no part. */
static void swapped(void **state)
{
	struct staging s;
	struct err err = { 0 };
	struct stat st;
	char slashes[90];
	const size_t before = count_descriptors();
	(void)state;
	snprintf(slashes, sizeof(slashes), "%s//", name);
	assert_int_equal(mkdir(name, 0700), 0);
	if (!geteuid())
		assert_int_equal(chown(name, 1, 2), 0);
	assert_int_equal(chmod(name, 02755), 0);
	put(name, "old", "store");
	assert_int_equal(staging_begin(&s, slashes, true, &err), 0);
	assert_string_equal(s.name, name);
	assert_string_equal(s.tmp, tmp);
	put(tmp, "new", "store");
	assert_int_equal(staging_swap(&s, &err), 0);
	staging_end(&s);
	assert_null(text_of(name, "old"));
	assert_string_equal(text_of(name, "new"), "store");
	assert_string_equal(text_of(name, "lock"), "");
	assert_int_equal(mode_of(name), 02755);
	assert_int_equal(stat(name, &st), 0);
	assert_true(geteuid() || (st.st_uid == 1 && st.st_gid == 2));
	assert_int_not_equal(access(tmp, F_OK), 0);
	assert_int_equal(count_descriptors(), before);
	/* Nothing is there to be replaced. */
	remove_tree(name);
	assert_int_equal(staging_begin(&s, name, true, &err), 0);
	assert_int_equal(staging_swap(&s, &err), -ENOENT);
	staging_end(&s);
	assert_int_not_equal(access(tmp, F_OK), 0);
	assert_int_equal(count_descriptors(), before);
	/* Where nothing can be made there is an error, and nothing has to be released. */
	snprintf(name, sizeof(name), "%s/absent/store", base);
	assert_int_equal(staging_begin(&s, name, false, &err), -ENOENT);
	assert_non_null(strstr(err.text, "cannot make the directory"));
	assert_int_equal(count_descriptors(), before);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(left), TEST(two), TEST(taken_meanwhile), TEST(mounted), TEST(swapped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
