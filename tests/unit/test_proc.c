/* SPDX-License-Identifier: Apache-2.0 */
/* Images and mappings over time, held against a model that keeps one entry per page. */
#include "proc/proc.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGE 4096u
#define PAGES 64
#define NOBODY 0x7fffffffu /* no process has this number: it is more than PID_MAX_LIMIT */

static int n_gone;

static void count_gone(void *binary)
{
	(void)binary;
	n_gone++;
}

/* What a page shows: which file, at which offset. */
struct page {
	int file; /* -1: nothing */
	uint64_t offset;
};

static void check_pages(struct procs *p, uint32_t tgid, uint64_t ns, const struct page *model)
{
	const struct proc_image *im = procs_find(p, tgid, ns);
	assert_non_null(im);
	for (unsigned i = 0; i < PAGES; i++) {
		uint64_t addr = (uint64_t)i * PAGE + 17;
		const struct proc_map *m = proc_image_map(im, addr);
		if (model[i].file < 0) {
			assert_null(m);
			continue;
		}
		char path[32];
		snprintf(path, sizeof(path), "/file%d", model[i].file);
		assert_non_null(m);
		assert_string_equal(m->file->path, path);
		assert_int_equal(addr - m->start + m->pgoff, model[i].offset + 17);
	}
}

static void map_random(struct procs *p, uint32_t tgid, struct page *model, uint64_t ns)
{
	unsigned start = (unsigned)rand() % PAGES, len = 1 + (unsigned)rand() % (PAGES - start);
	int file = rand() % 5;
	uint64_t offset = (uint64_t)(rand() % 100) * PAGE;
	char path[32];
	snprintf(path, sizeof(path), "/file%d", file);
	assert_non_null(procs_mmap(p, tgid, (uint64_t)start * PAGE, (uint64_t)len * PAGE, offset,
				   path, 1, 2, NULL, 0, ns));
	for (unsigned i = 0; i < len; i++)
		model[start + i] = (struct page){ file, offset + (uint64_t)i * PAGE };
}

/* A new mapping replaces what it covers: whole, in part, in the middle. */
static void test_mappings_replace(void **state)
{
	(void)state;
	srand(1);
	for (int round = 0; round < 300; round++) {
		struct procs *p;
		struct page model[PAGES];
		for (int i = 0; i < PAGES; i++)
			model[i].file = -1;
		assert_int_equal(procs_new(&p, NULL), 0);
		procs_fork(p, 7, NOBODY, 100);
		for (int i = 0; i < 30; i++) {
			map_random(p, 7, model, 101 + (uint64_t)i);
			check_pages(p, 7, 1000, model);
		}
		procs_free(p);
	}
}

/*
 * A child has its parent's mappings as they were; what either maps later is its own. Exec starts
 * empty.
 */
static void test_fork_and_exec(void **state)
{
	(void)state;
	struct procs *p;
	struct page parent[PAGES], child[PAGES], fresh[PAGES];
	srand(2);
	for (int i = 0; i < PAGES; i++)
		parent[i].file = fresh[i].file = -1;
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_fork(p, 10, NOBODY, 100);
	procs_exec(p, 10, "parent", 110);
	for (int i = 0; i < 5; i++)
		map_random(p, 10, parent, 120);
	procs_fork(p, 11, 10, 200);
	memcpy(child, parent, sizeof(child));
	for (int i = 0; i < 5; i++) {
		map_random(p, 10, parent, 210);
		map_random(p, 11, child, 211);
	}
	check_pages(p, 10, 250, parent);
	check_pages(p, 11, 250, child);
	assert_string_equal(procs_find(p, 11, 250)->comm, "parent");
	assert_string_equal(procs_find(p, 10, 250)->exe->path, procs_find(p, 11, 250)->exe->path);

	procs_exec(p, 11, "child", 300);
	check_pages(p, 11, 350, fresh);
	check_pages(p, 11, 299, child); /* samples from before the exec still find the old image */
	assert_string_equal(procs_find(p, 11, 350)->comm, "child");
	assert_null(procs_find(p, 11, 350)->exe);
	procs_free(p);
}

/* A record older than the newest image neither hides nor ends nor renames that image. */
static void test_late_news(void **state)
{
	(void)state;
	struct procs *p;
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_exec(p, 20, "child", 200);
	procs_fork(p, 20, NOBODY, 100);
	procs_comm(p, 20, "late", 150);
	procs_exit(p, 20, 150);
	assert_null(procs_mmap(p, 20, PAGE, PAGE, 0, "/late", 1, 2, NULL, 0, 150));
	const struct proc_image *im = procs_find(p, 20, UINT64_MAX);
	assert_string_equal(im->comm, "child");
	assert_false(im->leader_exited);
	assert_int_equal(im->to_ns, UINT64_MAX);
	assert_int_equal(im->n_maps, 0);
	assert_null(im->older);
	procs_free(p);
}

static int n_ends;
static void count_ends(void *ctx, struct proc_image *im)
{
	assert_ptr_equal(im->layer[PROC_LABELS], ctx);
	im->layer[PROC_LABELS] = NULL;
	n_ends++;
}

/* Each layer hears once of each of its images that ended, when the window is over. */
static void test_layers(void **state)
{
	(void)state;
	struct procs *p;
	int mine;
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_on_end(p, PROC_LABELS, count_ends, &mine);
	procs_exec(p, NOBODY - 1, "a", 100);
	procs_exec(p, NOBODY - 2, "b", 100);
	procs_exec(p, NOBODY - 3, "c", 100);
	procs_find(p, NOBODY - 1, 100)->layer[PROC_LABELS] = &mine;
	procs_find(p, NOBODY - 2, 100)->layer[PROC_LABELS] = &mine;
	procs_exec(p, NOBODY - 1, "d", 200);
	procs_exit(p, NOBODY - 3, 200);
	assert_int_equal(n_ends, 0);
	procs_forget(p, 150);
	assert_int_equal(n_ends, 1);
	procs_forget(p, 150);
	assert_int_equal(n_ends, 1);
	assert_string_equal(procs_find(p, NOBODY - 1, 150)->comm, "a"); /* it stays for late rows */
	procs_free(p);
	assert_int_equal(n_ends, 2);
}

/* Children share their parent's mappings until they map something; of those that ended only so many
 * are kept. */
static void test_fork_storm(void **state)
{
	(void)state;
	const uint32_t forks = 100000, parent = 10;
	const size_t before = mallinfo2().uordblks;
	struct procs *p;
	size_t most = 0, trimmed = 0;
	assert_int_equal(procs_new(&p, count_gone), 0);
	procs_exec(p, parent, "parent", 1);
	for (uint64_t i = 0; i < 300; i++)
		assert_non_null(
			procs_mmap(p, parent, 2 * i * PAGE, PAGE, 0, "/library", 1, i, NULL, 0, 2));
	for (uint32_t i = 0; i < forks; i++) {
		uint32_t child =
			0x40000000 + i; /* no such process is there: proc_image_alive asks /proc */
		procs_fork(p, child, parent, 10 + i);
		procs_exit(p, child, 10 + i);
		if (i % 1000 == 0) {
			trimmed += procs_trim(p);
			most = mallinfo2().uordblks > most ? mallinfo2().uordblks : most;
		}
	}
	trimmed += procs_trim(p);
	assert_true(most - before < 40u << 20);
	assert_int_equal(procs_count(p), PROC_ENDED_MAX + 1);
	assert_int_equal(trimmed, forks - PROC_ENDED_MAX);
	assert_null(procs_find(p, 0x40000000, UINT64_MAX)); /* those that ended first went */
	const struct proc_image *last = procs_find(p, 0x40000000 + forks - 1, UINT64_MAX);
	assert_int_equal(last->n_maps, 300);
	/* The last child maps something: only its own list changes. */
	assert_non_null(procs_mmap(p, 0x40000000 + forks - 1, PAGE, PAGE, 0, "/own", 1, 2, NULL, 0,
				   1u << 30));
	assert_int_equal(last->n_maps, 301);
	assert_int_equal(procs_find(p, parent, UINT64_MAX)->n_maps, 300);
	assert_int_equal(procs_find(p, 0x40000000 + forks - 2, UINT64_MAX)->n_maps, 300);
	procs_free(p);
}

/* Fewer stay where rows are read when that is due, and none of those is counted as trimmed. */
static void test_fork_storm_read(void **state)
{
	(void)state;
	const uint32_t forks = 100000, parent = 10;
	struct procs *p;
	size_t most = 0, trimmed = 0, reads = 0;
	assert_int_equal(procs_new(&p, count_gone), 0);
	procs_exec(p, parent, "parent", 1);
	for (uint32_t i = 0; i < forks; i++) {
		procs_fork(p, 0x40000000 + i, parent, 10 + i);
		procs_exit(p, 0x40000000 + i, 10 + i);
		if (procs_read_is_due(p)) {
			procs_read(p, 10 + i); /* but for the last one */
			reads++;
		}
		trimmed += procs_trim(p);
		most = procs_count(p) > most ? procs_count(p) : most;
	}
	assert_int_equal(trimmed, 0);
	assert_int_equal(reads, forks / PROC_UNREAD_DUE);
	assert_true(most <= PROC_READ_MAX + PROC_UNREAD_DUE + 2);
	assert_non_null(procs_find(p, 0x40000000 + forks - PROC_READ_MAX, UINT64_MAX));
	assert_null(procs_find(p, 0x40000000, UINT64_MAX));
	procs_free(p);
}

/* A tgid that is used again is another process. */
static void test_reuse(void **state)
{
	(void)state;
	struct procs *p;
	assert_int_equal(procs_new(&p, count_gone), 0);
	procs_fork(p, 999999999, NOBODY, 100);
	procs_comm(p, 999999999, "first", 110);
	struct proc_file *f = procs_mmap(p, 999999999, 0, PAGE, 0, "/first", 1, 2, NULL, 0, 120);
	assert_non_null(f);
	f->binary = f;
	procs_exit(p, 999999999, 200);
	procs_fork(p, 999999999, NOBODY, 300);
	procs_comm(p, 999999999, "second", 310);
	assert_string_equal(procs_find(p, 999999999, 199)->comm, "first");
	assert_string_equal(procs_find(p, 999999999, 320)->comm, "second");
	assert_null(procs_find(p, 999999999, 99));

	n_gone = 0;
	procs_forget(p, 150);
	assert_string_equal(procs_find(p, 999999999, 199)->comm, "first");
	procs_forget(p, 250); /* the first ended at 200, with its only thread */
	assert_null(procs_find(p, 999999999, 199));
	assert_int_equal(n_gone, 1); /* nobody maps its file any more */
	procs_exit(p, 999999999, 500);
	procs_forget(p, UINT64_MAX);
	assert_int_equal(procs_count(p), 0);
	procs_free(p);
}

/* Files are told apart by build id, else by device and inode. */
static void test_files(void **state)
{
	(void)state;
	struct procs *p;
	uint8_t a[20] = { 1 }, b[20] = { 2 };
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_exec(p, 5, "x", 1);
	struct proc_file *f1 = procs_mmap(p, 5, 0x1000, PAGE, 0, "/bin/x", 0, 0, a, 20, 2);
	struct proc_file *f2 = procs_mmap(p, 5, 0x3000, PAGE, 0, "/bin/x", 0, 0, b, 20, 3);
	struct proc_file *f3 = procs_mmap(p, 5, 0x5000, PAGE, 0, "/bin/x", 0, 0, a, 20, 4);
	struct proc_file *f4 = procs_mmap(p, 5, 0x7000, PAGE, 0, "/bin/x", 8, 99, NULL, 0, 5);
	const struct proc_image *im = procs_find(p, 5, UINT64_MAX);
	assert_false(im->again);
	procs_mmap(p, 5, 0x7000, PAGE, 0, "/bin/x", 8, 99, NULL, 0, 6);
	assert_true(im->again);
	procs_mmap(p, 5, 0x7000, PAGE, PAGE, "/bin/x", 8, 99, NULL, 0, 7);
	assert_false(im->again);
	procs_mmap(p, 5, 0x9000, PAGE, 0, "/bin/x", 8, 99, NULL, 0, 8);
	assert_false(im->again);
	assert_ptr_equal(f1, f3);
	assert_ptr_not_equal(f1, f2);
	assert_ptr_not_equal(f1, f4);
	assert_int_equal(f1->refs, 3); /* two mappings, and it is the executable */
	procs_free(p);
}

/*
 * A process that maps ever more files keeps PROC_FILES_MAX, and all processes of a user keep their
 * share. Others are not harmed, and what is unmapped makes room.
 */
static void test_many_files(void **state)
{
	(void)state;
	struct procs *p;
	char path[64];
	uint64_t ns = 1;
	uint32_t n = 0, user = 0, tgid = NOBODY;
	const struct proc_file *f = NULL;
	assert_int_equal(procs_new(&p, NULL), 0);
	for (; user < 2; tgid--) {
		procs_exec(p, tgid, "x", ns++);
		struct proc_image *im = procs_find(p, tgid, ns);
		im->user = user;
		im->user_known = true;
		for (uint32_t i = 0; i < PROC_FILES_MAX + 2; i++, n++) {
			snprintf(path, sizeof(path), "/file/%u", n);
			f = procs_mmap(p, tgid, PAGE * (i + 1), PAGE, 0, path, 1, n, NULL, 0, ns);
			if (strcmp(f->path, path) != 0)
				break;
		}
		assert_string_equal(f->path, PROC_MORE_FILES);
		user += im->n_maps < PROC_FILES_MAX + 1; /* this user has its share */
		if (user == 1 && im->n_maps < PROC_FILES_MAX + 1)
			assert_in_range(n,
					PROC_FILES_BYTES_MAX / 4 * 3 / (PROC_FILE_BYTES + 12) - 1,
					PROC_FILES_BYTES_MAX / 4 * 3 / PROC_FILE_BYTES);
	}
	assert_in_range(n, PROC_FILES_BYTES_MAX / (PROC_FILE_BYTES + 12) - 2,
			PROC_FILES_BYTES_MAX / PROC_FILE_BYTES);
	procs_exit(p, NOBODY, ns++);
	procs_forget(p, UINT64_MAX);
	f = procs_mmap(p, tgid + 1, PAGE, PAGE, 0, "/file/again", 1, n, NULL, 0, ns);
	assert_string_equal(f->path, "/file/again");
	procs_free(p);
}

/*
 * Our own process, as /proc tells it, against the linker's own addresses; then its files can be
 * opened.
 */
static void test_scan_self(void **state)
{
	(void)state;
	struct procs *p;
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	assert_true(n > 0);
	exe[n] = 0;
	assert_int_equal(procs_new(&p, NULL), 0);
	assert_int_equal(procs_scan_one(p, (uint32_t)getpid()), 0);
	assert_int_equal(procs_scan_one(p, 0x7ffffffe), -ENOENT);
	const struct proc_image *im = procs_find(p, (uint32_t)getpid(), proc_now_ns());
	assert_non_null(im);
	const struct proc_map *m = proc_image_map(im, (uint64_t)(uintptr_t)&test_scan_self);
	assert_non_null(m);
	assert_string_equal(m->file->path, exe);
	assert_string_equal(im->exe->path, exe);
	assert_ptr_equal(im->exe, m->file); /* one and the same, as news of an exec have it */
	assert_int_equal(im->parent, getppid());
	/* The stack is not executable */
	assert_null(proc_image_map(im, (uint64_t)(uintptr_t)state));

	unsigned try = 0, opened = 0;
	struct proc_opened o;
	struct stat st, want;
	assert_int_equal(stat(exe, &want), 0);
	while (!proc_map_open(p, im, m, &try, &o)) {
		assert_int_equal(fstat(o.fd, &st), 0);
		assert_int_equal(st.st_ino, want.st_ino);
		assert_int_equal(o.ino, want.st_ino);
		assert_int_equal(o.dev, want.st_dev);
		assert_int_equal(o.size, want.st_size);
		assert_false(o.copied);
		close(o.fd);
		opened++;
	}
	assert_true(opened >= 1);

	/* News from before /proc was read is old news. */
	assert_null(procs_mmap(p, (uint32_t)getpid(), m->start, PAGE, 0, "/other", 1, 1, NULL, 0,
			       im->read_ns - 1));
	assert_string_equal(proc_image_map(im, m->start)->file->path, exe);
	procs_free(p);
}

/* A program that is unlinked while it runs, in a directory whose name has the kernel's mark. */
static void test_marked_path(void **state)
{
	static const char dir[] = "/tmp/ascribe (deleted) proc",
			  exe[] = "/tmp/ascribe (deleted) proc/a";
	struct procs *p;
	int status;
	(void)state;
	assert_int_equal(system("mkdir -p '/tmp/ascribe (deleted) proc' && "
				"cp /bin/sleep '/tmp/ascribe (deleted) proc/a'"),
			 0);
	pid_t child = fork();
	if (!child) {
		execl(exe, "a", "60", NULL);
		_exit(1);
	}
	char link[64], now[4096] = "";
	snprintf(link, sizeof(link), "/proc/%d/exe", child);
	while (strcmp(now, exe) && !waitpid(child, &status, WNOHANG)) {
		ssize_t n = readlink(link, now, sizeof(now) - 1);
		now[n > 0 ? n : 0] = 0;
	}
	assert_int_equal(unlink(exe) | rmdir(dir), 0);
	assert_int_equal(procs_new(&p, NULL), 0);
	assert_int_equal(procs_scan_one(p, (uint32_t)child), 0);
	const struct proc_image *im = procs_find(p, (uint32_t)child, proc_now_ns());
	assert_non_null(im);
	assert_string_equal(im->exe->path, exe);
	procs_free(p);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
}

/* What was unmapped fills the list, as no record tells of it: then /proc is read again. */
static void test_mappings_fill(void **state)
{
	(void)state;
	struct procs *p;
	assert_int_equal(procs_new(&p, NULL), 0);
	assert_int_equal(procs_scan_one(p, (uint32_t)getpid()), 0);
	struct proc_image *im = procs_find(p, (uint32_t)getpid(), proc_now_ns());
	const uint32_t n = im->n_maps;
	const uint64_t later = im->read_ns + PROC_FULL_RETRY_NS + 1;
	for (uint64_t i = 0; i + n < PROC_MAPS_MAX + 10; i++)
		procs_mmap(p, (uint32_t)getpid(), (1 + 2 * i) * PAGE, PAGE, 0, "/gone", 1, 1, NULL,
			   0, i + n < PROC_MAPS_MAX ? im->read_ns + 1 : later);
	assert_in_range(im->n_maps, PROC_MAPS_MAX - 1, PROC_MAPS_MAX);
	const struct proc_id id = { .start_ns = im->tick_ns, .tgid = (uint32_t)getpid() };
	assert_ptr_equal(procs_identify(p, &id, later, PROC_MAPS), im);
	assert_int_equal(im->n_maps, n);
	assert_null(proc_image_map(im, PAGE));
	assert_non_null(proc_image_map(im, (uint64_t)(uintptr_t)&test_mappings_fill));
	procs_free(p);
}

/*
 * Paths belong to the process: a link out of its root, a FIFO, a directory are not opened as files.
 */
static void test_open_refuses(void **state)
{
	(void)state;
	struct procs *p;
	char fifo[] = "/tmp/ascribe_fifo_XXXXXX";
	int fd = mkstemp(fifo);
	assert_true(fd >= 0);
	close(fd);
	unlink(fifo);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(procs_new(&p, NULL), 0);
	procs_fork(p, 0x7ffffff0, NOBODY, 1);
	const char *const paths[] = { fifo,	  "/tmp",   "/dev/zero",    "/proc/self/exe",
				      "relative", "[anon]", "/no/such/file" };
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		procs_mmap(p, 0x7ffffff0, 0x1000, PAGE, 0, paths[i], 1, 1, NULL, 0, 2 + i);
		const struct proc_image *im = procs_find(p, 0x7ffffff0, 100);
		const struct proc_map *m = proc_image_map(im, 0x1000);
		unsigned try = 0;
		struct proc_opened o;
		assert_int_equal(proc_map_open(p, im, m, &try, &o), -ENOENT);
	}
	unlink(fifo);
	procs_free(p);
}

static void test_cgroup_names(void **state)
{
	(void)state;
	const char *id;
	char pod[64];
	static const char hex[] =
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	char path[300];
	snprintf(path, sizeof(path),
		 "/kubepods/burstable/pod12345678-1234-1234-1234-123456789abc/%s", hex);
	assert_int_equal(proc_container_id(path, &id), 64);
	assert_memory_equal(id, hex, 64);
	assert_int_equal(proc_pod_uid(path, pod, sizeof(pod)), 36);
	assert_string_equal(pod, "12345678-1234-1234-1234-123456789abc");
	snprintf(
		path, sizeof(path),
		"/kubepods.slice/kubepods-pod12345678_1234_1234_1234_123456789abc.slice/cri-containerd-%s.scope",
		hex);
	assert_int_equal(proc_container_id(path, &id), 64);
	assert_int_equal(proc_pod_uid(path, pod, sizeof(pod)), 36);
	assert_string_equal(pod, "12345678-1234-1234-1234-123456789abc");
	assert_int_equal(proc_container_id("/system.slice/nginx.service", &id), 0);
	assert_int_equal(proc_container_id("", &id), 0);
	snprintf(path, sizeof(path), "/x/%sff", hex); /* 66 digits are no container id */
	assert_int_equal(proc_container_id(path, &id), 0);
	assert_int_equal(proc_pod_uid("/podium/pod123", pod, sizeof(pod)), 0);
}

static void test_lxc_names(void **state)
{
	(void)state;
	static const struct {
		const char *path, *name;
	} of[] = {
		{ "/lxc.payload.web", "web" },
		{ "/lxc.payload.web/system.slice/nginx.service", "web" },
		{ "/lxc.payload/web/x", "web" },
		{ "/lxc/web", "web" },
		{ "/machine/lxc/web/lxc/inner", "web" },
		{ "/lxc.payload.", "" },
		{ "/lxc/", "" },
		{ "/lxc.monitor.web", "" },
		{ "/system.slice/lxc-net.service", "" },
		{ "", "" },
	};
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		const char *name = "";
		size_t n = proc_lxc_name(of[i].path, &name);
		assert_int_equal(n, strlen(of[i].name));
		assert_memory_equal(name, of[i].name, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mappings_replace),
		cmocka_unit_test(test_fork_and_exec),
		cmocka_unit_test(test_reuse),
		cmocka_unit_test(test_late_news),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_fork_storm),
		cmocka_unit_test(test_fork_storm_read),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_many_files),
		cmocka_unit_test(test_scan_self),
		cmocka_unit_test(test_marked_path),
		cmocka_unit_test(test_mappings_fill),
		cmocka_unit_test(test_open_refuses),
		cmocka_unit_test(test_cgroup_names),
		cmocka_unit_test(test_lxc_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
