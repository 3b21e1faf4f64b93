/* SPDX-License-Identifier: Apache-2.0 */
/* Perf maps and jitdumps: what they say, in which order, and what they may not do to us. */
#include "symbols/jit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sandbox *sandbox;
static struct symbolizer *symbolizer;

static int setup(void **state)
{
	struct err err;
	(void)state;
	struct sandbox_config cfg = {
		.ops = symbols_ops, .n_ops = SYMBOLS_OPS, .memory = SYMBOLS_MEMORY, .serves = 64
	};
	if (sandbox_new(&sandbox, &cfg, &err))
		return -1;
	struct symbolizer_config c = { .sandbox = sandbox, .wait = true };
	return symbolizer_new(&symbolizer, &c);
}

static int teardown(void **state)
{
	(void)state;
	symbolizer_free(symbolizer);
	sandbox_free(sandbox);
	return 0;
}

static int file_of(const void *bytes, size_t len)
{
	int fd = memfd_create("jit", MFD_CLOEXEC);
	assert_true(fd >= 0);
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, (const char *)bytes + at, len - at);
		assert_true(n > 0);
		at += (size_t)n;
	}
	return fd;
}

static int read_bytes(struct jit_table *t, const void *bytes, size_t len, enum jit_format f)
{
	int fd = file_of(bytes, len);
	int rc = jit_read(t, symbolizer, &(struct symbols_job){ 0 }, fd, f);
	close(fd);
	return rc;
}

static const char *name_at(struct jit_table *t, uint64_t addr)
{
	const struct jit_entry *e = jit_find(t, addr);
	return e ? t->names + e->name : "";
}

static void test_map(void **state)
{
	static const char text[] = "7f0000001000 20 first\n"
				   "0x7f0000002000 0x10 with a space\r\n"
				   "7F0000001010 8 later wins\n"
				   "\n"
				   "nonsense\n"
				   "7f0000003000 10\n"
				   "7f0000003000 0 empty\n"
				   "ffffffffffffffff 10 past the end\n"
				   "7f0000004000 10 last without newline";
	struct jit_table t;
	(void)state;
	assert_int_equal(read_bytes(&t, text, sizeof(text) - 1, JIT_PERF_MAP), 0);
	assert_string_equal(name_at(&t, 0x7f0000001000), "first");
	assert_string_equal(name_at(&t, 0x7f000000100f), "first");
	assert_string_equal(name_at(&t, 0x7f0000001010), "later wins");
	assert_string_equal(name_at(&t, 0x7f0000001017), "later wins");
	assert_string_equal(name_at(&t, 0x7f0000001018), "first");
	assert_string_equal(name_at(&t, 0x7f0000001020), "");
	assert_string_equal(name_at(&t, 0x7f0000000fff), "");
	assert_string_equal(name_at(&t, 0x7f0000002000), "with a space");
	assert_string_equal(name_at(&t, 0x7f0000003000), "");
	assert_string_equal(name_at(&t, 0x7f000000400f), "last without newline");
	assert_int_equal(t.failures, 4);
	jit_fini(&t);
	assert_int_equal(read_bytes(&t, "", 0, JIT_PERF_MAP), 0);
	assert_int_equal(t.n, 0);
	jit_fini(&t);
}

/* The order of lines decides: every byte of a small arena against the last line that covers it. */
static void test_overlaps(void **state)
{
	static char text[64 * 2000];
	static int owner[4096];
	size_t len = 0;
	unsigned seed = 7;
	struct jit_table t;
	(void)state;
	for (int i = 0; i < 2000; i++) {
		unsigned at = (seed = seed * 1103515245 + 12345) >> 16 & 4095;
		unsigned size =
			((seed = seed * 1103515245 + 12345) >> 16) % (i % 10 ? 40 : 400) + 1;
		len += (size_t)sprintf(text + len, "%x %x f%d\n", 0x10000 + at, size, i);
		for (unsigned k = at; k < at + size && k < 4096; k++)
			owner[k] = i + 1;
	}
	assert_int_equal(read_bytes(&t, text, len, JIT_PERF_MAP), 0);
	for (unsigned k = 0; k < 4096; k++) {
		char want[16] = "";
		if (owner[k])
			sprintf(want, "f%d", owner[k] - 1);
		assert_string_equal(name_at(&t, 0x10000 + k), want);
	}
	jit_fini(&t);
}

static void add_load(struct buf *b, uint64_t addr, uint64_t size, uint64_t index, const char *name,
		     size_t code)
{
	buf_add_u32(b, 0);
	buf_add_u32(b, (uint32_t)(16 + 40 + strlen(name) + 1 + code));
	buf_add_u64(b, 1);
	buf_add_u64(b, 0);
	buf_add_u64(b, addr);
	buf_add_u64(b, addr);
	buf_add_u64(b, size);
	buf_add_u64(b, index);
	buf_add(b, name, strlen(name) + 1);
	for (size_t i = 0; i < code; i++)
		buf_add_u8(b, 0xcc);
}

static void add_move(struct buf *b, uint64_t from, uint64_t to, uint64_t size, uint64_t index)
{
	buf_add_u32(b, 1);
	buf_add_u32(b, 16 + 48);
	buf_add_u64(b, 2);
	buf_add_u64(b, 0);
	buf_add_u64(b, to);
	buf_add_u64(b, from);
	buf_add_u64(b, to);
	buf_add_u64(b, size);
	buf_add_u64(b, index);
}

static void add_header(struct buf *b)
{
	buf_add_u32(b, 0x4a695444);
	buf_add_u32(b, 1);
	buf_add_u32(b, 40);
	buf_add_u32(b, 62);
	buf_add_u64(b, 1234ull << 32);
	buf_add_u64(b, 0);
	buf_add_u64(b, 0);
}

static void test_dump(void **state)
{
	struct buf b = BUF_INIT;
	struct jit_table t;
	(void)state;
	add_header(&b);
	add_load(&b, 0x5000, 0x100, 1, "one", 0x100);
	add_load(&b, 0x6000, 0x100, 2, "two", 400000); /* longer than what is read at once */
	/* Unwinding: not ours */
	buf_add_u32(&b, 4), buf_add_u32(&b, 24), buf_add_u64(&b, 0), buf_add_u64(&b, 0);
	add_move(&b, 0x5000, 0x9000, 0x100, 1);
	add_load(&b, 0x6080, 0x10, 3, "in two", 0x10);
	add_move(&b, 0x5000, 0xa000, 0x100, 77); /* of what was never loaded */
	size_t whole = b.len;
	assert_int_equal(read_bytes(&t, b.data, b.len, JIT_DUMP), 0);
	assert_string_equal(name_at(&t, 0x5010), "one");
	assert_string_equal(name_at(&t, 0x6000), "two");
	assert_string_equal(name_at(&t, 0x6085), "in two");
	assert_string_equal(name_at(&t, 0x6090), "two");
	assert_string_equal(name_at(&t, 0x90ff), "one");
	assert_string_equal(name_at(&t, 0xa000), "");
	assert_int_equal(t.failures, 1);
	jit_fini(&t);
	/* As it is written: cut anywhere, it says what is whole. */
	for (size_t len = 0; len < whole; len += len < 900 ? 1 : 4096) {
		int rc = read_bytes(&t, b.data, len, JIT_DUMP);
		assert_int_equal(rc, len < 40 ? -EBADMSG : 0);
		if (!rc)
			assert_string_equal(name_at(&t, 0x5000),
					    len >= 40 + 16 + 40 + 4 + 0x100 ? "one" : "");
		jit_fini(&t);
		t = (struct jit_table){ 0 };
	}
	b.data[4] = 9;
	assert_int_equal(read_bytes(&t, b.data, b.len, JIT_DUMP), -EPROTONOSUPPORT);
	buf_fini(&b);
}

static void test_lies(void **state)
{
	struct jit_table t = { 0 };
	struct buf b = BUF_INIT;
	int fds[2], fd;
	(void)state;
	fd = memfd_create("huge", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, 1ll << 40), 0); /* 1 TiB of nothing */
	assert_int_equal(jit_read(&t, symbolizer, &(struct symbols_job){ 0 }, fd, JIT_PERF_MAP),
			 -E2BIG);
	assert_int_equal(jit_read(&t, symbolizer, &(struct symbols_job){ 0 }, fd, JIT_DUMP),
			 -EBADMSG);
	close(fd);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(jit_read(&t, symbolizer, &(struct symbols_job){ 0 }, fds[0], JIT_PERF_MAP),
			 -EINVAL);
	assert_int_equal(jit_read(&t, symbolizer, &(struct symbols_job){ 0 }, fds[0], JIT_DUMP),
			 -EINVAL);
	close(fds[0]);
	close(fds[1]);
	fd = memfd_create("line", MFD_CLOEXEC); /* one line without an end */
	assert_int_equal(ftruncate(fd, 40 << 20), 0);
	assert_int_equal(jit_read(&t, symbolizer, &(struct symbols_job){ 0 }, fd, JIT_PERF_MAP), 0);
	assert_int_equal(t.n, 0);
	jit_fini(&t);
	close(fd);
	add_header(&b);
	/* a record that does not move on */
	buf_add_u32(&b, 2), buf_add_u32(&b, 0), buf_add_u64(&b, 0);
	assert_int_equal(read_bytes(&t, b.data, b.len, JIT_DUMP), -EBADMSG);
	b.len -= 16;
	buf_add_u32(&b, 0), buf_add_u32(&b, 0xfffffff0), buf_add_u64(&b, 0); /* past the end */
	assert_int_equal(read_bytes(&t, b.data, b.len, JIT_DUMP), 0);
	jit_fini(&t);
	/* More functions than there may be: those that fit. */
	b.len = 0;
	for (unsigned i = 0; i < JIT_ENTRIES_MAX + 1000; i++)
		buf_printf(&b, "%x 10 f%u\n", 0x100000 + 16 * i, i);
	assert_int_equal(read_bytes(&t, b.data, b.len, JIT_PERF_MAP), 0);
	assert_int_equal(t.n, JIT_ENTRIES_MAX);
	assert_string_equal(name_at(&t, 0x100000 + 16 * 777), "f777");
	jit_fini(&t);
	buf_fini(&b);
	struct sandbox_stats st;
	sandbox_stats(sandbox, &st);
	assert_int_equal(st.late + st.died, 0);
}

static void test_noise(void **state)
{
	uint8_t bytes[4096];
	unsigned seed = 11;
	(void)state;
	for (int i = 0; i < 400; i++) {
		struct buf b = BUF_INIT;
		struct jit_table t = { 0 };
		add_header(&b);
		for (int k = 0; k < 20; k++)
			add_load(&b, 0x1000u * (unsigned)k, 0x100, (uint64_t)k % 5, "name", 16);
		memcpy(bytes, b.data, b.len);
		for (int k = 0; k < 1 + i % 20; k++) {
			seed = seed * 1103515245 + 12345;
			bytes[40 + (seed >> 8) % (b.len - 40)] = (uint8_t)(seed >> 3);
		}
		int rc = read_bytes(&t, bytes, b.len, i & 1 ? JIT_DUMP : JIT_PERF_MAP);
		assert_true(rc == 0 || rc == -EBADMSG);
		for (size_t k = 1; k < t.n; k++)
			assert_true(t.entries[k].addr >=
				    t.entries[k - 1].addr + t.entries[k - 1].size);
		jit_fini(&t);
		buf_fini(&b);
	}
}

static void expect_split(const char *raw, enum jit_language language, const char *function,
			 const char *file, unsigned line)
{
	static struct jit_name n;
	jit_split_name(&n, raw);
	if (n.language != language || strcmp(n.function, function) || strcmp(n.file, file) ||
	    n.line != line)
		fail_msg("%s: %d %s %s %u", raw, n.language, n.function, n.file, n.line);
}

static void test_names(void **state)
{
	(void)state;
	expect_split("py::fib:/srv/shop.py", JIT_PYTHON, "fib", "/srv/shop.py", 0);
	expect_split("py::Cart.total:<frozen io>", JIT_PYTHON, "Cart.total", "<frozen io>", 0);
	expect_split("py::<module>:/a:b.py", JIT_PYTHON, "<module>", "/a:b.py", 0);
	expect_split("py::", JIT_UNKNOWN, "py::", "", 0);
	expect_split("JS:*total /srv/shop.js:12:3", JIT_NODE, "total", "/srv/shop.js", 12);
	expect_split("JS:~total file:///srv/shop.mjs:12:3", JIT_NODE, "total", "/srv/shop.mjs", 12);
	expect_split("JS:^get size /srv/my shop.js:12:3", JIT_NODE, "get size", "/srv/my shop.js",
		     12);
	expect_split("LazyCompile:*foo file:1", JIT_NODE, "foo", "file", 1);
	expect_split("LazyCompile:~ node:internal/main:2:1", JIT_NODE, "(anonymous main:2)",
		     "node:internal/main", 2);
	expect_split("JS:~ /srv/shop.js:7:1", JIT_NODE, "(anonymous shop.js:7)", "/srv/shop.js", 7);
	expect_split("Builtin:ArrayMap", JIT_NODE, "Builtin:ArrayMap", "", 0);
	expect_split("int Hot.fib(int)", JIT_UNKNOWN, "int Hot.fib(int)", "", 0);
	expect_split("JS:", JIT_UNKNOWN, "JS:", "", 0);
	expect_split("", JIT_UNKNOWN, "", "", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map),   cmocka_unit_test(test_overlaps),
		cmocka_unit_test(test_dump),  cmocka_unit_test(test_lies),
		cmocka_unit_test(test_noise), cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
