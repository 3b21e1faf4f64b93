/* SPDX-License-Identifier: Apache-2.0 */
/* The cursor of a push: what is written is read again, and no damage passes. */
#include "push/cursor.h"
#include "store/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64], path[100];
static struct store *store;

static void make_store(const char *at)
{
	const struct store_meta meta = { .host = "h", .os = "o", .what = "w", .created_ns = 1 };
	struct store_writer *w;
	struct err err = { 0 };
	assert_int_equal(store_writer_open(&w, at, &meta, &err), 0);
	store_writer_close(w);
	assert_int_equal(store_open(&store, at, &err), 0);
}

static int setup(void **state)
{
	char at[80];
	(void)state;
	strcpy(dir, "/tmp/test_push_XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/cursor", dir);
	snprintf(at, sizeof(at), "%s/store", dir);
	make_store(at);
	return 0;
}

static int teardown(void **state)
{
	char command[100];
	(void)state;
	store_close(store);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static void write_bytes(const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	close(fd);
}

static void test_round_trip(void **state)
{
	static const char *const events[] = { "", "off-cpu", "sched:sched_switch", "a b" };
	struct push_cursor c, d;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(push_cursor_read(&c, path, store, &err), 0);
	assert_false(c.there);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		c.window = UINT32_MAX - (uint32_t)i;
		c.row = UINT64_MAX - i;
		c.again = (uint32_t)i;
		strcpy(c.event, events[i]);
		assert_int_equal(push_cursor_write(&c, &err), 0);
		assert_int_equal(push_cursor_read(&d, path, store, &err), 0);
		assert_true(d.there);
		assert_int_equal(d.window, c.window);
		assert_int_equal(d.row, c.row);
		assert_int_equal(d.again, c.again);
		assert_true(d.written_ns > 0);
		assert_string_equal(d.event, events[i]);
	}
	push_cursor_advance(&d, 7);
	assert_true(d.window == 7 && !d.row && !d.event[0] && !d.again);
}

/* Every byte turned, every length: never another place than the one that was written. */
static void test_damage(void **state)
{
	struct push_cursor c, d;
	struct err err = { 0 };
	char text[2048];
	(void)state;
	assert_int_equal(push_cursor_read(&c, path, store, &err), 0);
	push_cursor_advance(&c, 1234);
	strcpy(c.event, "off-cpu");
	c.row = 500;
	assert_int_equal(push_cursor_write(&c, &err), 0);
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text));
	close(fd);
	assert_true(n > 60);
	for (ssize_t i = 0; i < n; i++) {
		write_bytes(text, (size_t)i);
		assert_int_equal(push_cursor_read(&d, path, store, &err), -EBADMSG);
		for (int bit = 0; bit < 8; bit++) {
			text[i] ^= (char)(1 << bit);
			write_bytes(text, (size_t)n);
			int rc = push_cursor_read(&d, path, store, &err);
			/* The case of a hexadecimal digit of the checksum says nothing. */
			if (!rc)
				assert_true(d.window == 1234 && d.row == 500 &&
					    !strcmp(d.event, "off-cpu"));
			else
				assert_int_equal(rc, -EBADMSG);
			text[i] ^= (char)(1 << bit);
		}
	}
	memset(text, 'x', sizeof(text));
	write_bytes(text, sizeof(text));
	assert_int_equal(push_cursor_read(&d, path, store, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "remove it"));
}

static void test_another_store(void **state)
{
	struct push_cursor c;
	struct store *first = store;
	struct err err = { 0 };
	char at[80];
	(void)state;
	unlink(path);
	assert_int_equal(push_cursor_read(&c, path, store, &err), 0);
	assert_int_equal(push_cursor_write(&c, &err), 0);
	snprintf(at, sizeof(at), "%s/another", dir);
	make_store(at);
	assert_int_equal(push_cursor_read(&c, path, store, &err), -EINVAL);
	store_close(store);
	store = first;
}

static void test_no_place(void **state)
{
	struct push_cursor c;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(push_cursor_read(&c, "/proc/nothing/cursor", store, &err), 0);
	assert_int_equal(push_cursor_write(&c, &err), -ENOENT);
	assert_int_equal(push_cursor_lock("/proc/nothing/cursor", &err), -ENOENT);
	assert_int_equal(push_cursor_lock(path, &err), 0);
	assert_int_equal(push_cursor_lock(path, &err), -EBUSY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_another_store),
		cmocka_unit_test(test_no_place),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
