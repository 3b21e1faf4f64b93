/* SPDX-License-Identifier: Apache-2.0 */
/* The helper that reads other processes: what it answers, and what it costs when it cannot. */
#include "proc/proc.h"
#include "proc/reader.h"

#include "readers.h"
#include "starve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define USER 47110u

static const char text[] = "read from another process";

static int read_memory(pid_t p, uint64_t at, void *out, size_t len)
{
	return ANSWER(proc_read_memory((uint32_t)p, at, out, len));
}

static void expect_read(void)
{
	char got[sizeof(text)] = "";
	assert_int_equal(read_memory(getpid(), (uint64_t)(uintptr_t)text, got, sizeof(got)), 0);
	assert_string_equal(got, text);
}

static void test_memory(void **state)
{
	struct proc_line l;
	char got[8];
	uint64_t at;
	(void)state;
	expect_read();
	assert_int_equal(read_memory(getpid(), 8, got, sizeof(got)), -EFAULT);
	assert_int_equal(read_memory(0x7ffffff0, (uint64_t)(uintptr_t)text, got, sizeof(got)),
			 -EFAULT);
	assert_int_equal(
		ANSWER(proc_line_at((uint32_t)getpid(), (uint64_t)(uintptr_t)&test_memory, &l)), 0);
	assert_true(l.exec && l.ino && l.start <= (uint64_t)(uintptr_t)&test_memory);
	assert_int_equal(ANSWER(proc_line_at((uint32_t)getpid(), 8, &l)), -ENOENT);
	assert_int_equal(ANSWER(proc_find_mapping((uint32_t)getpid(), "no such\n[stack]", &at)), 0);
	uint64_t frame = (uint64_t)(uintptr_t)__builtin_frame_address(
		0); /* AddressSanitizer moves variables elsewhere */
	assert_true(at < frame && frame - at < 1u << 23);
	double begin = now_s();
	for (int i = 0; i < 2000; i++)
		expect_read();
	print_message("one read takes %.1f us\n", (now_s() - begin) / 2000 * 1e6);
	assert_int_equal(stats().abandoned, 0);
}

/*
 * A copy of a large file. A slow machine may have no time for it at first, or have used up that of
 * our user: ask again, for a minute at most.
 */
static int open_copy(struct proc_opened *o)
{
	const double until = now_s() + 60;
	int rc;
	while (((rc = ANSWER(proc_open_in_root((uint32_t)getpid(), 0, "/sys/kernel/btf/vmlinux",
					       o))) == -EAGAIN ||
		rc == -EBUSY) &&
	       now_s() < until)
		turn();
	return rc;
}

/* Files of a local filesystem as they are, of others as a copy that nobody changes. */
static void test_files(void **state)
{
	uint32_t self = (uint32_t)getpid();
	char name[] = "/tmp/ascribe-reader-XXXXXX", a[4096], b[4096];
	struct proc_opened o;
	struct stat st;
	(void)state;
	int fd = mkstemp(name);
	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(ANSWER(proc_open_in_root(self, self, name, &o)), 0);
	assert_false(o.copied);
	assert_int_equal(o.size, sizeof(text));
	assert_int_equal(o.ino, st.st_ino);
	assert_int_equal(pread(o.fd, a, sizeof(a), 0), sizeof(text));
	close(o.fd);
	close(fd);
	unlink(name);
	assert_int_equal(ANSWER(proc_open_in_root(self, self, name, &o)), -ENOENT);
	/* a large file of a filesystem that is no disk's */
	fd = open("/sys/kernel/btf/vmlinux", O_RDONLY);
	if (fd < 0)
		return;
	assert_int_equal(open_copy(&o), 0);
	assert_true(o.copied);
	assert_int_equal(fstat(o.fd, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(st.st_size, o.size);
	for (off_t at = 0; at < st.st_size; at += (off_t)sizeof(a)) {
		ssize_t n = pread(fd, a, sizeof(a), at);
		assert_int_equal(pread(o.fd, b, sizeof(b), at), n);
		assert_memory_equal(a, b, n);
	}
	assert_int_equal(pwrite(o.fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(o.fd, 0), -1);
	assert_int_equal(stats().copies, 1);
	close(o.fd);
	close(fd);
}

/* Copies that are kept are bounded, all together. */
static void test_copies(void **state)
{
	enum { MANY = 1024 };
	static int fds[MANY];
	struct proc_opened o;
	uint64_t sum = 0;
	size_t n = 0;
	(void)state;
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		skip();
	int rc = 0;
	while (n < MANY && !(rc = open_copy(&o))) {
		fds[n++] = o.fd;
		sum += o.size;
	}
	assert_int_equal(rc, -ENOSPC);
	assert_true(sum <= READER_COPIES_MAX && sum > READER_COPIES_MAX / 2);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	assert_int_equal(open_copy(&o), 0);
	close(o.fd);
}

/*
 * A child of another user, one page of whose memory is never there: its pid, and where that page
 * is.
 */
static pid_t start_trap(uint64_t *ret_page)
{
	int pipes[2];
	char byte;
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(pipe(pipes), 0);
	pid_t p = fork();
	if (p == 0) {
		struct uffdio_api api = { .api = UFFD_API };
		struct uffdio_register reg = { .range = { (uintptr_t)page, PAGE },
					       .mode = UFFDIO_REGISTER_MODE_MISSING };
		int u = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
		if (u < 0 || ioctl(u, UFFDIO_API, &api) || ioctl(u, UFFDIO_REGISTER, &reg) ||
		    setresuid(USER, USER, USER) ||
		    prctl(PR_SET_PDEATHSIG, SIGKILL) || /* a change of user clears it */
		    write(pipes[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	bool ready = read(pipes[0], &byte, 1) == 1;
	close(pipes[0]);
	munmap(page, PAGE);
	if (!ready) {
		waitpid(p, NULL, 0);
		return 0;
	}
	*ret_page = (uint64_t)(uintptr_t)page;
	return p;
}

static void end_trap(pid_t p)
{
	kill(p, SIGKILL);
	waitpid(p, NULL, 0);
}

/* The longest of these calls, in seconds. */
static double longest;

static int ask_briefly(pid_t p, uint64_t at, void *out, size_t len)
{
	double begin = now_s();
	int rc = proc_read_memory((uint32_t)p, at, out, len);
	if (now_s() - begin > longest)
		longest = now_s() - begin;
	return rc;
}

/*
 * Nobody waits for memory that never comes. Its process is refused after the deadline, and nobody
 * else.
 */
static void test_blocked_memory(void **state)
{
	struct reader_silence silence;
	uint64_t page;
	char got[8];
	(void)state;
	pid_t p = start_trap(&page);
	if (!p)
		skip(); /* no right to userfaultfd */
	expect_read();
	pid_t before = helper("ascribe-reader");
	assert_true(before > 0);
	longest = 0;
	double begin = now_s();
	assert_int_equal(ask_briefly(p, page, got, sizeof(got)), -EINPROGRESS);
	/* Another question to it is not made, another process is read. */
	uint64_t requests = stats().requests;
	assert_int_equal(ask_briefly(p, (uint64_t)(uintptr_t)text, got, sizeof(got)), -EINPROGRESS);
	assert_int_equal(stats().requests, requests);
	expect_read();
	assert_int_equal(stats().abandoned, 0);
	int rc;
	while ((rc = ask_briefly(p, page, got, sizeof(got))) == -EINPROGRESS && now_s() - begin < 5)
		turn();
	double took = now_s() - begin;
	print_message("refused after %.3f s, the longest call %.4f s\n", took, longest);
	assert_int_equal(rc, -EFAULT);
	assert_true(took > 0.15 && took < 1.5);
	assert_true(longest < 0.05);
	assert_int_equal(stats().abandoned, 1);
	assert_true(proc_reader_refuses((uint32_t)p));
	assert_false(proc_reader_refuses((uint32_t)getpid()));
	requests = stats().requests;
	assert_int_equal(read_memory(p, (uint64_t)(uintptr_t)text, got, sizeof(got)), -EFAULT);
	assert_int_equal(stats().requests, requests);
	expect_read();
	/* It is named. */
	proc_reader_silence(&silence);
	assert_int_equal(silence.n, 1);
	assert_int_equal(silence.v[0].tgid, p);
	assert_string_equal(silence.v[0].comm, "test_reader");
	assert_int_equal(silence.v[0].requests, 1 + stats().refused);
	proc_reader_forget_silence();
	proc_reader_silence(&silence);
	assert_int_equal(silence.n, 0);
	end_trap(p);
	assert_false(proc_reader_refuses((uint32_t)p));
}

/* However many processes a user has for it. */
static void test_blocking_user(void **state)
{
	enum { TRAPS = 24 };
	pid_t p[TRAPS];
	uint64_t page[TRAPS];
	char got[8];
	size_t left = TRAPS;
	bool done[TRAPS] = { false };
	(void)state;
	for (size_t i = 0; i < TRAPS; i++)
		if (!(p[i] = start_trap(&page[i])))
			skip();
	longest = 0;
	double begin = now_s();
	while (left && now_s() - begin < 20) {
		for (size_t i = 0; i < TRAPS; i++) {
			if (done[i] || ask_briefly(p[i], page[i], got, sizeof(got)) == -EINPROGRESS)
				continue;
			done[i] = true;
			left--;
		}
		expect_read(); /* root's are read all the same */
		turn();
	}
	double took = now_s() - begin;
	print_message(
		"%u processes that block: %.2f s, the longest call %.4f s, %llu readers abandoned\n",
		TRAPS, took, longest, (unsigned long long)stats().abandoned);
	assert_int_equal(left, 0);
	assert_true(stats().abandoned >= 4 && stats().abandoned <= 8);
	assert_true(longest < 0.05);
	struct reader_silence silence;
	proc_reader_silence(&silence);
	assert_int_equal(silence.n, READER_NAMES);
	assert_true(silence.others >= TRAPS - READER_NAMES);
	for (size_t i = 0; i < TRAPS; i++)
		end_trap(p[i]);
}

static pid_t start_mapped(size_t pages)
{
	int pipes[2];
	char byte;
	assert_int_equal(pipe(pipes), 0);
	pid_t p = fork();
	if (p == 0) {
		char *v = mmap(NULL, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (size_t i = 0; v != MAP_FAILED && i < pages; i += 2)
			mprotect(v + i * PAGE, PAGE, PROT_READ);
		if (write(pipes[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	close(pipes[0]);
	return p;
}

/* The CPU time that it takes to read its mappings, in seconds. */
static double time_to_read(pid_t p)
{
	char path[64], bytes[65536];
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)p);
	int fd = open(path, O_RDONLY);
	clock_t begin = clock();
	while (read(fd, bytes, sizeof(bytes)) > 0)
		;
	close(fd);
	return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

/* A child with so many mappings that reading them takes tens of milliseconds of CPU time. */
static pid_t start_slow(void)
{
	size_t pages = 50000;
	pid_t p = start_mapped(pages);
	while (time_to_read(p) > 0.1 && pages > 1000) {
		end_trap(p);
		p = start_mapped(pages /= 2);
	}
	return p;
}

/* A reader that waits for a CPU is not given up, and its waiting is not charged to the user. */
static void test_starved(void **state)
{
	uint64_t at;
	int rc, n = 0;
	(void)state;
	expect_read();
	pid_t p = start_slow(), h = helper("ascribe-reader"), loop = starve(h, 10);
	if (!loop)
		skip();
	double begin = now_s();
	for (; n < 4; n++) { /* more in all than READER_SPEND_NS */
		while ((rc = proc_find_mapping((uint32_t)p, "no such\nneither", &at)) ==
			       -EINPROGRESS &&
		       now_s() - begin < 60)
			turn();
		if (rc != -ENOENT)
			break;
	}
	print_message("%d of 4 requests answered in %.2f s, the last by %d\n", n, now_s() - begin,
		      rc);
	starve_end(loop);
	end_trap(p);
	assert_int_equal(n, 4);
	assert_int_equal(kill(h, 0), 0);
	assert_int_equal(stats().abandoned, 0);
	assert_int_equal(stats().refused, 0);
}

/* A reader that is gone is replaced, and knows the roots again that were kept open. */
static void test_killed(void **state)
{
	char name[] = "/tmp/ascribe-reader-XXXXXX";
	struct proc_root root = { 0 };
	struct proc_opened o;
	(void)state;
	int fd = mkstemp(name);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ANSWER(proc_root_open(&root, (uint32_t)getpid())), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(kill(helper("ascribe-reader"), SIGKILL), 0);
		expect_read();
		assert_int_equal(ANSWER(proc_root_tmp_file(&root, name + 5, &o)), 0);
		close(o.fd);
	}
	assert_int_equal(kill(helper("ascribe-reader"), SIGSTOP), 0);
	expect_read();
	assert_int_equal(stats().abandoned, 0); /* a reader that is stopped says nothing about us */
	proc_root_close(&root);
	unlink(name);
}

/* Files in /tmp: those of the process's user, and of root's what all may read. */
static void test_owners(void **state)
{
	static const struct {
		uid_t owner;
		mode_t mode;
		int rc;
	} cases[] = {
		{ USER, 0600, 0 },   { USER, 0, 0 },
		{ 0, 0644, 0 },	     { 0, 0604, 0 },
		{ 0, 0600, -EPERM }, { 0, 0640, -EPERM },
		{ 0, 0, -EPERM },    { USER + 1, 0644, -EPERM },
	};
	char name[] = "/tmp/ascribe-reader-XXXXXX", link[64];
	struct proc_root root = { 0 };
	struct proc_opened o;
	uint64_t page;
	(void)state;
	pid_t p = start_trap(&page);
	if (!p)
		skip();
	int fd = mkstemp(name);
	assert_int_equal(ANSWER(proc_root_open(&root, (uint32_t)p)), 0);
	assert_int_equal(root.uid, USER);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(fchown(fd, cases[i].owner, 0), 0);
		assert_int_equal(fchmod(fd, cases[i].mode), 0);
		int rc = ANSWER(proc_root_tmp_file(&root, name + 5, &o));
		if (rc != cases[i].rc)
			fail_msg("user %u, mode %o: %d", cases[i].owner, cases[i].mode, rc);
		if (!rc)
			close(o.fd);
	}
	snprintf(link, sizeof(link), "%s-link", name);
	assert_int_equal(symlink(name, link), 0);
	assert_int_equal(ANSWER(proc_root_tmp_file(&root, link + 5, &o)), -ELOOP);
	proc_root_close(&root);
	end_trap(p);
	unlink(link);
	unlink(name);
	close(fd);
}

/* No capability but those that reading takes, no descriptor of ours. */
static void test_confined(void **state)
{
	char path[64], line[256];
	unsigned long long caps = 0;
	(void)state;
	expect_read();
	snprintf(path, sizeof(path), "/proc/%d/status", (int)helper("ascribe-reader"));
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "CapPrm: %llx", &caps);
	fclose(f);
	/* DAC_READ_SEARCH, SYS_PTRACE, CHECKPOINT_RESTORE */
	assert_int_equal(caps & ~(1ull << 2 | 1ull << 19 | 1ull << 40), 0);
}

int main(void)
{
	if (geteuid() != 0) {
		puts("test_reader: needs root");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_copies, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_blocked_memory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_blocking_user, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_starved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_owners, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_confined, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
