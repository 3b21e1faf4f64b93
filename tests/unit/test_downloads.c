/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files from servers: what the cache keeps, what who downloads may do, what servers that are
 * not there cost.
 */
#include "sandbox/confine.h"
#include "sandbox/download_cache.h"
#include "sandbox/downloader.h"
#include "sandbox/downloads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "secret.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define CONFINED 0 /* see confine.c */
#else
#define CONFINED 1
#endif

#define DAY 86400

static char dir[64];

/* ---- the cache ---- */

static void put(int files, const char *id, const char *name, size_t bytes, time_t age)
{
	char path[256], *zeros = calloc(1, bytes + 1);
	time_t then = time(NULL) - age;
	const struct timespec times[2] = { { .tv_sec = then }, { .tv_sec = then } };
	assert_true(!mkdirat(files, id, 0700) || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/%s", id, name);
	int fd = openat(files, path, O_WRONLY | O_CREAT | O_EXCL, 0400);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, zeros, bytes), bytes);
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
	free(zeros);
}

static bool there(int files, const char *path)
{
	struct stat st;
	return !fstatat(files, path, &st, AT_SYMLINK_NOFOLLOW);
}

static void test_trim(void **state)
{
	struct err err = { 0 };
	struct stat st;
	char path[128];
	int files, fd;
	(void)state;
	snprintf(path, sizeof(path), "%s/new/below/cache", dir);
	assert_int_equal(download_cache_open(path, &files, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	put(files, "aa01", "debuginfo", 100000, 8 * DAY);
	put(files, "aa02", "debuginfo", 100000, 3 * DAY);
	put(files, "aa03", "debuginfo", 100000, 1 * DAY);
	put(files, "aa04", "debuginfo", 100000, 2 * DAY);
	put(files, "aa05", "debuginfo", 0, 60);
	put(files, "aa05", "debuginfo.Xyz123", 5000, 2 * 3600);
	put(files, "aa06", "debuginfo.Xyz124", 5000, 60);
	put(files, "not an id", "debuginfo", 5000, 90 * DAY);
	/* It is used: the youngest now */
	assert_int_equal(download_cache_file(files, "aa02", &fd), 0);
	close(fd);
	assert_int_equal(download_cache_file(files, "aa05", &fd), -ENOENT); /* nobody has it */
	assert_int_equal(download_cache_file(files, "aa99", &fd), -ENOENT);
	download_cache_trim(files, 1u << 30, 7 * DAY);
	assert_false(there(files, "aa01"));
	assert_true(there(files, "aa02/debuginfo") && there(files, "aa03/debuginfo") &&
		    there(files, "aa04/debuginfo"));
	assert_true(there(files, "aa05/debuginfo"));
	assert_false(there(files, "aa05/debuginfo.Xyz123")); /* broken off */
	/* Being written, perhaps by another recorder */
	assert_true(there(files, "aa06/debuginfo.Xyz124"));
	assert_true(there(files, "not an id/debuginfo")); /* not ours to remove */
	download_cache_trim(files, 240000, 7 * DAY);
	assert_false(there(files, "aa04")); /* unused for longest */
	assert_true(there(files, "aa02/debuginfo") && there(files, "aa03/debuginfo"));
	download_cache_remove(files, "aa02");
	assert_false(there(files, "aa02"));
	close(files);
}

static void test_cache_of_others(void **state)
{
	struct err err = { 0 };
	char path[128], link[128];
	int files;
	(void)state;
	snprintf(path, sizeof(path), "%s/others", dir);
	snprintf(link, sizeof(link), "%s/link", dir);
	assert_int_equal(mkdir(path, 0777), 0);
	assert_int_equal(symlink(path, link), 0);
	assert_int_not_equal(download_cache_open(link, &files, &err), 0);
	assert_non_null(strstr(err.text, link));
	if (geteuid())
		skip();
	assert_int_equal(chown(path, 1234, 1234), 0);
	assert_int_equal(download_cache_open(path, &files, &err), -EPERM);
	assert_non_null(strstr(err.text, "somebody else"));
}

/* ---- who downloads ---- */

static void *nothing(void *arg)
{
	return arg;
}

/* 0, or the line of what should have been otherwise. */
#define SHOULD(x) \
	do { \
		if (!(x)) \
			_exit(__LINE__ & 0xff); \
	} while (0)

/* In the directory of files; 0a01 is the one that is downloaded, 0b02 that of another program. */
static void try_files(void)
{
	char big[8192] = { 0 };
	int fd = open("0a01/debuginfo.X", O_RDWR | O_CREAT, 0600);
	SHOULD(fd >= 0);
	SHOULD(write(fd, big, sizeof(big)) == 4096 && write(fd, big, 1) < 0 && errno == EFBIG);
	SHOULD(!rename("0a01/debuginfo.X", "0a01/debuginfo"));
	SHOULD(mkdir("0a01/below", 0700) && errno == EACCES);
	SHOULD(open("cache_miss_s", O_RDWR | O_CREAT, 0600) >= 0);
	SHOULD(open("0b02/debuginfo", O_RDONLY) >= 0);
	SHOULD(open("0b02/debuginfo", O_WRONLY) < 0 && errno == EACCES);
	SHOULD(open("0b02/more", O_WRONLY | O_CREAT, 0600) < 0 && errno == EACCES);
	SHOULD(rename("0a01/debuginfo", "0b02/debuginfo") && (errno == EACCES || errno == EXDEV));
	SHOULD(unlink("0b02/debuginfo") && errno == EACCES);
	SHOULD(open("more", O_WRONLY | O_CREAT, 0600) < 0 && errno == EACCES);
	SHOULD(mkdir("0c03", 0700) && errno == EACCES);
}

static _Noreturn void try_things(void)
{
	char name[] = "true", *args[] = { name, NULL };
	pthread_t t;
	signal(SIGXFSZ, SIG_IGN);
	SHOULD(!downloader_confine("0a01", 4096));
	try_files();
	SHOULD(open("/etc/hosts", O_RDONLY) >= 0 || errno == ENOENT);
	SHOULD(open("/proc/self/maps", O_RDONLY) < 0 && errno == EACCES);
	SHOULD(open("../out", O_WRONLY | O_CREAT, 0600) < 0 && errno == EACCES);
	SHOULD(open("/tmp/out", O_WRONLY | O_CREAT, 0600) < 0 && errno == EACCES);
	SHOULD(execv("/bin/true", args) && errno == EPERM);
	SHOULD(fork() < 0);
	SHOULD(!pthread_create(&t, NULL, nothing, NULL) && !pthread_join(t, NULL));
	SHOULD(socket(AF_INET, SOCK_STREAM, 0) >= 0 && socket(AF_INET6, SOCK_STREAM, 0) >= 0);
	SHOULD(socket(AF_PACKET, SOCK_RAW, 0) < 0 && errno == EAFNOSUPPORT);
	SHOULD(socket(AF_ALG, SOCK_SEQPACKET, 0) < 0 && errno == EAFNOSUPPORT);
	SHOULD(kill(getppid(), 0) < 0 && errno == EPERM);
	_exit(0);
}

static void test_confined(void **state)
{
	int status;
	(void)state;
	if (!CONFINED ||
	    syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 0)
		skip();
	pid_t p = fork();
	if (p == 0) {
		SHOULD(!chdir(dir) && !mkdir("work", 0777) && !chdir("work"));
		SHOULD(!download_cache_begin(AT_FDCWD, "0a01"));
		put(AT_FDCWD, "0b02", "debuginfo", 1000, 60);
		SHOULD(!chmod("0b02/debuginfo", 0600));
		try_things();
	}
	assert_int_equal(waitpid(p, &status, 0), p);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* One that was taken over makes files without end, under other names. */
static void test_full(void **state)
{
	char path[128], name[64];
	int files;
	struct err err = { 0 };
	(void)state;
	snprintf(path, sizeof(path), "%s/full", dir);
	assert_int_equal(download_cache_open(path, &files, &err), 0);
	assert_int_equal(download_cache_begin(files, "0a01"), 0);
	put(files, "0a01", "debuginfo.X", 100000, 0);
	assert_true(download_cache_fits(files, "0a01", 200000));
	assert_false(download_cache_fits(files, "0a01", 50000));
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "%050u", i); /* longer than any that is known */
		put(files, "0a01", name, 0, 0);
	}
	assert_false(download_cache_fits(files, "0a01", 200000));
	put(files, "0a01", "debuginfo", 1000, 0);
	download_cache_end(files, "0a01");
	assert_true(there(files, "0a01/debuginfo"));
	assert_false(there(files, "0a01/debuginfo.X"));
	assert_false(there(files, name) || download_cache_fits(files, "0a01", 1));
	download_cache_remove(files, "0a01");
	assert_false(there(files, "0a01"));
	close(files);
}

/* ---- servers that are not there ---- */

static unsigned closed_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	close(fd);
	return ntohs(a.sin_port);
}

static void test_dead(void **state)
{
	struct err err = { 0 };
	struct downloads *d;
	struct downloads_stats s;
	struct download got;
	char url[64], cache[128];
	uint8_t id[20] = { 1, 2, 3 };
	(void)state;
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", closed_port());
	snprintf(cache, sizeof(cache), "%s/dead", dir);
	struct downloads_config cfg = { .urls = url, .cache = cache };
	int files;
	assert_int_equal(download_cache_open(cache, &files, &err), 0);
	put(files, "0a0b", "debuginfo", 1000, 60);
	assert_int_equal(fchownat(files, "0a0b", CONFINE_DOWNLOADER, (gid_t)-1, 0) && !geteuid(),
			 0);
	assert_int_equal(fchownat(files, "0a0b/debuginfo", CONFINE_DOWNLOADER, (gid_t)-1, 0) &&
				 !geteuid(),
			 0);
	close(files);
	assert_int_equal(downloads_new(&d, &cfg, &err), 0);
	assert_int_equal(downloads_tick(d), -1);
	assert_int_equal(downloads_ask(d, id, 0), -ENOENT);
	assert_int_equal(downloads_ask(d, id, DOWNLOADS_ID_MAX + 1), -ENOENT);
	assert_int_equal(downloads_ask(d, id, sizeof(id)), 0);
	assert_int_equal(downloads_ask(d, id, sizeof(id)), 0);
	id[0]++;
	assert_int_equal(downloads_ask(d, id, sizeof(id)), 0);
	downloads_stats(d, &s);
	assert_int_equal(s.asked, 2);
	assert_int_equal(s.waiting, 2);
	assert_true(downloads_busy(d));
	do {
		struct pollfd p = { .fd = downloads_fd(d), .events = POLLIN };
		assert_int_equal(poll(&p, 1, 15000), 1);
		/* not the last word: servers come back */
		assert_int_equal(downloads_take(d, &got), -EAGAIN);
		downloads_stats(d, &s);
	} while (!s.failed);
	assert_int_equal(s.failed, 1);
	assert_int_equal(s.waiting, 2);
	assert_false(downloads_busy(d)); /* for now nobody is asked */
	assert_true(downloads_tick(d) > 1000);
	/* What the cache has comes all the same. */
	const uint8_t kept[2] = { 0x0a, 0x0b };
	assert_int_equal(downloads_ask(d, kept, 2), 0);
	assert_true(downloads_busy(d));
	struct pollfd p = { .fd = downloads_fd(d), .events = POLLIN };
	assert_int_equal(poll(&p, 1, 15000), 1);
	assert_int_equal(downloads_take(d, &got), 0);
	assert_int_equal(got.len, 2);
	assert_memory_equal(got.id, kept, 2);
	assert_true(got.fd >= 0);
	close(got.fd);
	downloads_stats(d, &s);
	assert_int_equal(s.came, 1);
	assert_true(downloads_tick(d) > 1000);
	downloads_discard(d, kept, 2); /* it was of no use: not asked for again, not kept */
	assert_int_equal(downloads_ask(d, kept, 2), -ENOENT);
	downloads_stats(d, &s);
	assert_int_equal(s.came, 0);
	assert_int_equal(s.refused, 1);
	downloads_free(d);
}

/* Another user's signal. */
static int signal_as(uid_t user, pid_t pid, int sig)
{
	int status;
	pid_t p = fork();
	if (p == 0)
		_exit(setuid(user) ? 255 : kill(pid, sig) ? errno : 0);
	assert_int_equal(waitpid(p, &status, 0), p);
	return WEXITSTATUS(status);
}

/*
 * User 65534 cannot signal the downloader, which holds nothing of what we had read. It writes where
 * its user may, although nothing was given to that user.
 */
static void test_nobody(void **state)
{
	struct err err = { 0 };
	struct downloads *d;
	struct stat st;
	static const char *const left[] = { "0c0d/debuginfo", "0c0d" };
	char path[128];
	int files, child = 0;
	(void)state;
	if (geteuid())
		skip();
	snprintf(path, sizeof(path), "%s/nobody", dir);
	assert_int_equal(download_cache_open(path, &files, &err), 0);
	assert_true(!fstat(files, &st) && st.st_uid == geteuid() && (st.st_mode & 07777) == 0777);
	put(files, "0c0d", "debuginfo", 1000, 60);
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		assert_int_equal(fchownat(files, left[i], CONFINE_DOWNLOADER, (gid_t)-1, 0), 0);
	struct downloads_config cfg = { .urls = "http://127.0.0.1:1", .cache = path };
	make_secret();
	assert_int_equal(downloads_new(&d, &cfg, &err), 0);
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *f = fopen(path, "r");
	if (!f || fscanf(f, "%d", &child) != 1)
		skip();
	fclose(f);
	const uint8_t kept[2] = { 0x0c, 0x0d };
	struct download got;
	assert_int_equal(downloads_ask(d, kept, 2), 0);
	struct pollfd p = { .fd = downloads_fd(d), .events = POLLIN };
	assert_int_equal(poll(&p, 1, 15000), 1);
	assert_int_equal(downloads_take(d, &got), 0);
	close(got.fd);
	assert_false(holds_secret(child));
	assert_int_equal(signal_as(65534, child, SIGSTOP), EPERM);
	assert_int_equal(signal_as(65534, child, SIGKILL), EPERM);
	downloads_discard(d, kept, 2);
	for (unsigned ms = 0; there(files, "0c0d") && ms < 5000; ms++)
		usleep(1000);
	assert_false(there(files, "0c0d"));
	downloads_free(d);
	close(files);
}

/* The downloader is gone: nothing comes, nothing hangs. */
static void test_gone(void **state)
{
	struct err err = { 0 };
	struct downloads *d;
	struct downloads_stats s;
	struct download got;
	char cache[128];
	const uint8_t id[20] = { 1 };
	(void)state;
	snprintf(cache, sizeof(cache), "%s/gone", dir);
	struct downloads_config cfg = { .urls = "http://127.0.0.1:1", .cache = cache };
	assert_int_equal(downloads_new(&d, &cfg, &err), 0);
	shutdown(downloads_fd(d), SHUT_RDWR);
	assert_int_equal(downloads_ask(d, id, sizeof(id)), 0);
	assert_int_equal(downloads_take(d, &got), -EAGAIN);
	assert_int_equal(downloads_fd(d), -1);
	assert_int_equal(downloads_ask(d, id, sizeof(id)), -ENOENT);
	assert_false(downloads_busy(d));
	downloads_stats(d, &s);
	assert_int_equal(s.waiting, 0);
	downloads_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trim),	 cmocka_unit_test(test_cache_of_others),
		cmocka_unit_test(test_confined), cmocka_unit_test(test_dead),
		cmocka_unit_test(test_gone),	 cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_full),
	};
	char rm[80];
	snprintf(dir, sizeof(dir), "/tmp/ascribe-downloads-XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(rm, sizeof(rm), "rm -rf %s", dir);
	return system(rm) || rc;
}
