/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One content is opened and parsed once. That holds for real processes of one program, of a hard
 * link, of a copy and of a deleted file, while they run and when all others have ended. What is
 * counted are heads and symbol tables that were parsed, and files that were opened.
 */
#include "stacks/frame.h"
#include "stacks/module.h"
#include "store/writer.h"
#include "store_model.h"
#include "symbols/parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/ascribe-modules-XXXXXX";

struct world {
	struct store_writer *store;
	struct symbolizer *symbolizer;
	struct procs *procs;
	struct modules *modules;
	struct frames frames;
};

static int run(const char *cmd)
{
	char text[2048];
	snprintf(text, sizeof(text), "cd %s && %s", dir, cmd);
	return system(text);
}

static const char program[] =
	"#include <stdio.h>\n"
	"#include <unistd.h>\n"
	"__attribute__((noinline)) int first(int v) { asm volatile(\"\"); return v + A; }\n"
	"__attribute__((noinline)) int second(int v) { asm volatile(\"\"); return v * A; }\n"
	"int main(int c, char **v) { (void)v; void *at[2] = { (void *)first, (void *)second };\n"
	" write(1, at, sizeof(at)); pause(); return first(c) + second(c); }\n";

static int setup(void **state)
{
	char path[128];
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/p.c", dir);
	FILE *f = fopen(path, "w");
	if (!f || fputs(program, f) < 0 || fclose(f))
		return -1;
	return run(
		"${CC:-cc} -O1 -DA=3 -Wl,--build-id=sha1 -o with p.c && ${CC:-cc} -O1 -DA=5 -Wl,--build-id=none -o without p.c && "
		"${CC:-cc} -O1 -DA=7 -Wl,--build-id=sha1 -o other p.c");
}

static int teardown(void **state)
{
	char cmd[128];
	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static struct world *world_new(void)
{
	static unsigned n;
	char path[128];
	struct err err;
	struct world *w = calloc(1, sizeof(*w));
	/* Room for one table only: with two programs one of them is always out of memory. */
	struct symbolizer_config c = { .table_bytes = 1 };
	snprintf(path, sizeof(path), "%s/store%u", dir, n++);
	assert_int_equal(store_writer_open_with(&w->store, path, &model_meta, &model_options, &err),
			 0);
	assert_int_equal(symbolizer_new(&w->symbolizer, &c), 0);
	assert_int_equal(procs_new(&w->procs, module_put), 0);
	assert_int_equal(modules_new(&w->modules, w->store, w->symbolizer, w->procs), 0);
	w->frames = (struct frames){ .store = w->store, .modules = w->modules, .life = 1 };
	return w;
}

static void world_free(struct world *w)
{
	procs_free(w->procs);
	modules_free(w->modules);
	symbolizer_free(w->symbolizer);
	store_writer_close(w->store);
	free(w);
}

/* ---- processes ---- */

struct process {
	pid_t pid;
	uint64_t at[2]; /* of first and second */
};

#define STRANGER 47111

/* Be another user, in whose mounts a file of his own stands at another place. */
static void become_stranger(const char *file, const char *place)
{
	char from[256], to[256];
	snprintf(from, sizeof(from), "%s/%s", dir, file);
	snprintf(to, sizeof(to), "%s/%s", dir, place);
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount(from, to, NULL, MS_BIND, NULL) || setgroups(0, NULL) || setgid(STRANGER) ||
	    setuid(STRANGER))
		_exit(126);
}

/* As a stranger with this file at that place; file NULL: as ourselves. */
static struct process start_as(const char *file, const char *place, const char *name)
{
	struct process p;
	char path[256];
	int pipe_fds[2];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(pipe(pipe_fds), 0);
	p.pid = fork();
	if (!p.pid) {
		if (file)
			become_stranger(file, place);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pipe_fds[1], 1);
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		execl(path, name, (char *)NULL);
		_exit(127);
	}
	close(pipe_fds[1]);
	assert_int_equal(read(pipe_fds[0], p.at, sizeof(p.at)), sizeof(p.at));
	close(pipe_fds[0]);
	return p;
}

static struct process start(const char *name)
{
	return start_as(NULL, NULL, name);
}

static void stop(struct world *w, const struct process *p)
{
	modules_settle(w->modules);
	kill(p->pid, SIGKILL);
	assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
	procs_exit(w->procs, (uint32_t)p->pid, proc_now_ns());
	procs_forget(w->procs, UINT64_MAX); /* it ended now, and goes with the second call */
	procs_forget(w->procs, UINT64_MAX);
	assert_null(procs_find(w->procs, (uint32_t)p->pid, UINT64_MAX));
}

/* The name at an address of a process, as the kernel's own maps tell it. */
static void assert_name(struct world *w, const struct process *p, unsigned which, const char *want)
{
	struct symbol sym;
	const struct proc_image *im = procs_find(w->procs, (uint32_t)p->pid, UINT64_MAX);
	if (!im)
		assert_int_equal(procs_scan_one(w->procs, (uint32_t)p->pid), 0);
	im = procs_find(w->procs, (uint32_t)p->pid, UINT64_MAX);
	const struct user_frame u = frame_locate(&w->frames, im, p->at[which], true);
	assert_non_null(u.module);
	assert_true(u.has_vaddr);
	assert_int_equal(frame_symbol(&w->frames, &u, &sym), 0);
	assert_string_equal(sym.name, want);
}

/* The same mapping as a record of the kernel with a build id. */
static void tell_with_build_id(struct world *w, const struct process *p, const char *name)
{
	char maps[64], line[512], path[256], file[256];
	unsigned long begin, end, offset;
	uint8_t id[20];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(maps, sizeof(maps), "cd %s && readelf -nW %s", dir, name);
	FILE *f = popen(maps, "r");
	const char *hex = NULL;
	while (!hex && fgets(line, sizeof(line), f))
		hex = strstr(line, "Build ID: ");
	assert_non_null(hex);
	for (size_t i = 0; i < sizeof(id); i++)
		assert_int_equal(sscanf(hex + 10 + 2 * i, "%2hhx", &id[i]), 1);
	pclose(f);
	snprintf(maps, sizeof(maps), "/proc/%d/maps", p->pid);
	f = fopen(maps, "r");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx r-xp %lx %*s %*u %255s", &begin, &end, &offset, file) ==
			    4 &&
		    !strcmp(file, path))
			procs_mmap(w->procs, (uint32_t)p->pid, begin, end - begin, offset, path, 0,
				   0, id, sizeof(id), proc_now_ns());
	fclose(f);
}

struct counts {
	uint64_t heads, tables, reread, opened;
};

static struct counts counts(const struct world *w)
{
	struct symbolizer_stats s;
	struct modules_stats m;
	symbolizer_stats(w->symbolizer, &s);
	modules_stats(w->modules, &m);
	return (struct counts){ s.heads, s.tables, s.reread, m.opened };
}

/* Descriptors of files in our directory that we have open. */
static unsigned open_files(void)
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; (e = readdir(d));) {
		char link[300], path[512];
		snprintf(link, sizeof(link), "/proc/self/fd/%s", e->d_name);
		ssize_t len = readlink(link, path, sizeof(path) - 1);
		path[len > 0 ? len : 0] = 0;
		n += strstr(path, "/with") || strstr(path, "/without") || strstr(path, "/other");
	}
	closedir(d);
	return n;
}

/* ---- tests ---- */

/* One after the other, each forgotten before the next one starts. */
static void one_parse(const char *name, bool by_record)
{
	struct world *w = world_new();
	for (unsigned i = 0; i < 20; i++) {
		struct process p = start(name);
		if (by_record)
			tell_with_build_id(w, &p, name);
		assert_name(w, &p, 0, "first");
		assert_name(w, &p, 1, "second");
		stop(w, &p);
		assert_int_equal(open_files(), 0);
	}
	struct counts c = counts(w);
	assert_int_equal(c.heads, 1);
	assert_int_equal(c.tables, 1);
	/* What the kernel tells by build id needs no look at the file. */
	assert_int_equal(c.opened, by_record ? 1 : 20);
	world_free(w);
}

static void test_one_parse(void **state)
{
	(void)state;
	one_parse("with", false);
	one_parse("without", false);
	one_parse("with", true);
}

static void test_links_copies_deleted(void **state)
{
	struct world *w = world_new();
	(void)state;
	assert_int_equal(
		run("ln -f with with-link && cp with with-copy && cp with with-gone && ln -f without without-link"),
		0);
	struct process p = start("with"), q = start("without");
	assert_name(w, &p, 0, "first");
	assert_name(w, &q, 0, "first");
	stop(w, &p);
	stop(w, &q);
	struct counts before = counts(w), now;
	assert_int_equal(before.heads, 2);
	assert_int_equal(before.tables, 2);
	/* Hard links are the same file. */
	p = start("with-link");
	q = start("without-link");
	assert_name(w, &p, 0, "first");
	assert_name(w, &q, 0, "first");
	now = counts(w);
	assert_int_equal(now.heads, before.heads);
	stop(w, &p);
	stop(w, &q);
	/*
	 * A copy is another file: its head says that the content is known. A record with a build id
	 * says it before.
	 */
	p = start("with-copy");
	tell_with_build_id(w, &p, "with-copy");
	assert_name(w, &p, 0, "first");
	assert_int_equal(counts(w).opened, now.opened);
	stop(w, &p);
	p = start("with-copy");
	assert_name(w, &p, 0, "first");
	assert_int_equal(counts(w).heads, before.heads + 1);
	stop(w, &p);
	/*
	 * Deleted after its start: what is known has a name; what is not is read from the mapping
	 * itself.
	 */
	p = start("with-gone");
	assert_int_equal(run("rm with-gone"), 0);
	assert_name(w, &p, 0, "first");
	now = counts(w);
	assert_int_equal(now.tables, before.tables);
	assert_int_equal(now.reread, 0);
	assert_name(w, &p, 1, "second");
	assert_int_equal(counts(w).reread, 1);
	stop(w, &p);
	world_free(w);
}

/*
 * What is known costs nothing; what is not opens the file once more, and both have the right name.
 */
static void test_again(void **state)
{
	struct world *w = world_new();
	(void)state;
	struct process p = start("with"), q = start("other");
	assert_name(w, &p, 0, "first");
	assert_name(w, &q, 0, "first"); /* its table takes the place of the other one */
	stop(w, &p);
	p = start("with");
	tell_with_build_id(w, &p, "with");
	struct counts before = counts(w), now;
	assert_name(w, &p, 0, "first");
	now = counts(w);
	assert_memory_equal(&now, &before, sizeof(now));
	assert_name(w, &p, 1, "second");
	now = counts(w);
	assert_int_equal(now.opened, before.opened + 1);
	assert_int_equal(now.heads, before.heads + 1);
	assert_int_equal(now.reread, before.reread + 1);
	stop(w, &p);
	stop(w, &q);
	world_free(w);
}

/* A program that was built anew under its name is another content. */
static void test_rebuilt(void **state)
{
	struct world *w = world_new();
	(void)state;
	assert_int_equal(run("cp without without-a"), 0);
	struct process p = start("without-a");
	assert_name(w, &p, 0, "first");
	stop(w, &p);
	assert_int_equal(
		run("sed 's/first/third/g' p.c >q.c && ${CC:-cc} -O1 -DA=5 -Wl,--build-id=none -o without-b q.c && cat without-b >without-a"),
		0);
	p = start("without-a");
	assert_name(w, &p, 0, "third");
	stop(w, &p);
	world_free(w);
}

static void needs_root(void)
{
	if (!geteuid())
		return;
	print_message("skipped: needs root to be another user\n");
	skip();
}

/*
 * A user gives the build id of another program to a file of his own. His names are never those of
 * the other program: at another path, at the same path in his own mounts, and after he has ended.
 */
static void test_stolen_id(void **state)
{
	(void)state;
	needs_root();
	assert_int_equal(
		run("sed 's/first/third/g' p.c >q.c && chmod 755 . && "
		    "id=$(readelf -n with | sed -n 's/.*Build ID: //p') && "
		    "${CC:-cc} -O1 -DA=3 -Wl,--build-id=0x$id -o stolen q.c && chown 47111 stolen"),
		0);
	static const char *const of_stranger[] = { "stolen", "with" };
	for (size_t i = 0; i < 2; i++) {
		struct world *w = world_new();
		struct process thief = start_as("stolen", of_stranger[i], of_stranger[i]);
		tell_with_build_id(w, &thief, of_stranger[i]);
		assert_name(w, &thief, 0, "third");
		struct process p = start("with");
		tell_with_build_id(w, &p, "with");
		assert_name(w, &p, 0, "first");
		stop(w, &p);
		stop(w, &thief);
		p = start("with");
		tell_with_build_id(w, &p, "with");
		assert_name(w, &p, 0, "first");
		thief = start_as("stolen", of_stranger[i], of_stranger[i]);
		tell_with_build_id(w, &thief, of_stranger[i]);
		assert_name(w, &p, 0, "first");
		stop(w, &p);
		stop(w, &thief);
		world_free(w);
	}
}

/* A user runs a stripped program of root's, with a debug file of his own in his mounts. */
static void test_stolen_debug_file(void **state)
{
	(void)state;
	needs_root();
	assert_int_equal(
		run("objcopy --only-keep-debug stolen thief.debug && chown 47111 thief.debug && "
		    ": >lean.debug && strip -o lean with && "
		    "objcopy --add-gnu-debuglink=lean.debug lean"),
		0);
	struct world *w = world_new();
	struct process thief = start_as("thief.debug", "lean.debug", "lean"), p = start("lean");
	const struct process *both[] = { &thief, &p };
	for (size_t i = 0; i < 2; i++) {
		struct symbol sym;
		assert_int_equal(procs_scan_one(w->procs, (uint32_t)both[i]->pid), 0);
		const struct proc_image *im =
			procs_find(w->procs, (uint32_t)both[i]->pid, UINT64_MAX);
		const struct user_frame u = frame_locate(&w->frames, im, both[i]->at[0], true);
		assert_non_null(u.module);
		assert_int_equal(frame_symbol(&w->frames, &u, &sym), 0);
		assert_string_equal(sym.name, ""); /* none */
	}
	stop(w, &thief);
	stop(w, &p);
	world_free(w);
}

/* A file is opened between two frames of one stack: the first one stays what it was. */
static void test_opened_between(void **state)
{
	static const sandbox_op ops[] = { parser_op_open, parser_op_load };
	const struct sandbox_config of_sandbox = { .ops = ops,
						   .n_ops = 2,
						   .memory = SYMBOLS_MEMORY };
	struct world *w = world_new();
	struct sandbox *s;
	struct err err;
	(void)state;
	assert_int_equal(sandbox_new(&s, &of_sandbox, &err), 0);
	symbolizer_free(w->symbolizer);
	modules_free(w->modules);
	const struct symbolizer_config c = { .sandbox = s };
	assert_int_equal(symbolizer_new(&w->symbolizer, &c), 0);
	assert_int_equal(modules_new(&w->modules, w->store, w->symbolizer, w->procs), 0);
	w->frames.modules = w->modules;
	struct process p = start("with");
	assert_int_equal(procs_scan_one(w->procs, (uint32_t)p.pid), 0);
	const struct proc_image *im = procs_find(w->procs, (uint32_t)p.pid, UINT64_MAX);
	const struct user_frame first = frame_locate(&w->frames, im, p.at[0], true);
	assert_null(first.module->binary);
	struct user_frame second = first;
	for (int i = 0; i < 1000 && !second.module->binary; i++) {
		usleep(10000);
		sandbox_wait(s, 0);
		second = frame_locate(&w->frames, im, p.at[1], false);
	}
	assert_non_null(second.module->binary);
	assert_null(first.module->binary);
	assert_ptr_equal(first.module->opened, second.module);
	modules_settle(w->modules);
	stop(w, &p);
	world_free(w);
	sandbox_free(s);
}

/* Idle contents are bounded. */
static void test_bounded(void **state)
{
	enum { FILES = MODULES_IDLE_MAX + 500 };
	struct world *w = world_new();
	struct modules_stats s;
	struct stat st;
	char path[256];
	(void)state;
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/many%u", dir, i);
		int fd = open(path, O_CREAT | O_WRONLY, 0600);
		assert_int_equal(write(fd, path, strlen(path)), strlen(path));
		assert_int_equal(fstat(fd, &st), 0);
		close(fd);
		uint64_t now = proc_now_ns();
		procs_exec(w->procs, (uint32_t)getpid(), "many", now);
		procs_forget(w->procs, now); /* one process maps PROC_FILES_MAX at most */
		struct proc_file *f = procs_mmap(w->procs, (uint32_t)getpid(), 4096, 4096, 0, path,
						 st.st_dev, st.st_ino, NULL, 0, now);
		struct proc_image *im = procs_find(w->procs, (uint32_t)getpid(), UINT64_MAX);
		assert_non_null(f);
		assert_non_null(modules_of(w->modules, im, &im->maps[0]));
	}
	procs_exec(w->procs, (uint32_t)getpid(), "done", proc_now_ns());
	procs_forget(w->procs, proc_now_ns() + 1);
	modules_settle(w->modules);
	modules_stats(w->modules, &s);
	assert_int_equal(s.opened, FILES);
	assert_int_equal(s.idle, MODULES_IDLE_MAX);
	assert_int_equal(s.known, MODULES_IDLE_MAX);
	assert_int_equal(s.dropped, FILES - MODULES_IDLE_MAX);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_parse),      cmocka_unit_test(test_links_copies_deleted),
		cmocka_unit_test(test_again),	       cmocka_unit_test(test_rebuilt),
		cmocka_unit_test(test_stolen_id),      cmocka_unit_test(test_stolen_debug_file),
		cmocka_unit_test(test_opened_between), cmocka_unit_test(test_bounded),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
