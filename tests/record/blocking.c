/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filesystem that does not answer the profiler, and programs that lead it there.
 *
 *   blocking serve MNT FILES LOG    FILES, read-only, below each of
 *                                   MNT/{lookup,getattr,open,read,flush,later}: requests of that
 *                                   kind by a process whose name begins with "ascribe" are never
 *                                   answered; "later" answers the first LATER opens of a file. One
 *                                   line is appended to LOG for each.
 *   blocking page FILE              write the page that holds the label descriptor of this program
 *   blocking descriptor FILE S      map it from there, and run S seconds of CPU time
 *   blocking jit S [FILE]           run machine code that no file has; FILE is mapped as a jitdump
 *                                   would be
 *   blocking spin S
 *   blocking libraries S FILE...    in the function "work" of each, in turns
 *   blocking traced S               run S seconds of CPU time, then stay stopped by a tracer
 */
#define FUSE_USE_VERSION 312
#include <ascribe/label.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NODES 4096
#define LATER 1
#define PAGE 4096ul

/* ---- the filesystem ---- */

enum { ROOT = FUSE_ROOT_ID, LOOKUP, GETATTR, OPEN, READ, FLUSH, LATER_OPEN, KINDS };
static const char *const kinds[KINDS] = {
	[LOOKUP] = "lookup", [GETATTR] = "getattr", [OPEN] = "open",
	[READ] = "read",     [FLUSH] = "flush",	    [LATER_OPEN] = "later"
};

/* Nodes below KINDS are the root and its directories. */
static struct {
	int kind;
	char path[400];
	unsigned opens;
} node[NODES];
static fuse_ino_t n_nodes = KINDS;
static const char *files;
static int log_fd;

static int is_profiler(fuse_req_t req)
{
	char path[64], name[16] = "";
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)fuse_req_ctx(req)->pid);
	int fd = open(path, O_RDONLY);
	if (fd >= 0 && read(fd, name, sizeof(name) - 1) < 0)
		name[0] = 0;
	if (fd >= 0)
		close(fd);
	return !strncmp(name, "ascribe", 7);
}

/* True: this request is never answered. */
static int is_kept(fuse_req_t req, fuse_ino_t ino, int kind)
{
	if (node[ino].kind != kind || !is_profiler(req))
		return 0;
	if (kind == LATER_OPEN && node[ino].opens++ < LATER)
		return 0;
	dprintf(log_fd, "%s\n", kinds[kind]);
	return 1;
}

static int stat_of(fuse_ino_t ino, struct stat *st)
{
	int rc = stat(ino < KINDS ? files : node[ino].path, st);
	st->st_ino = ino;
	return rc;
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = { 0 };
	if (parent == ROOT) {
		for (int k = ROOT + 1; k < KINDS; k++)
			if (!strcmp(name, kinds[k]))
				e.ino = (fuse_ino_t)k;
	} else if (is_kept(req, parent, LOOKUP)) {
		return;
	} else if (n_nodes < NODES) {
		snprintf(node[n_nodes].path, sizeof(node[0].path), "%s/%s",
			 parent < KINDS ? files : node[parent].path, name);
		node[n_nodes].kind = node[parent].kind;
		for (e.ino = KINDS; strcmp(node[e.ino].path, node[n_nodes].path) ||
				    node[e.ino].kind != node[parent].kind;)
			e.ino++;
		n_nodes += e.ino == n_nodes;
	}
	if (!e.ino || stat_of(e.ino, &e.attr))
		fuse_reply_err(req, ENOENT);
	else
		fuse_reply_entry(req, &e);
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;
	(void)fi;
	if (is_kept(req, ino, GETATTR))
		return;
	if (stat_of(ino, &st))
		fuse_reply_err(req, ENOENT);
	else
		fuse_reply_attr(req, &st, 0);
}

static void on_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (is_kept(req, ino, OPEN) || is_kept(req, ino, LATER_OPEN))
		return;
	int fd = open(node[ino].path, O_RDONLY);
	fi->fh = (uint64_t)fd;
	if (fd < 0)
		fuse_reply_err(req, ENOENT);
	else
		fuse_reply_open(req, fi);
}

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,
		    struct fuse_file_info *fi)
{
	static char bytes[1 << 20];
	if (is_kept(req, ino, READ))
		return;
	ssize_t n = pread((int)fi->fh, bytes, size < sizeof(bytes) ? size : sizeof(bytes), at);
	fuse_reply_buf(req, bytes, n > 0 ? (size_t)n : 0);
}

static void on_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)fi;
	if (!is_kept(req, ino, FLUSH))
		fuse_reply_err(req, 0);
}

static void on_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	close((int)fi->fh);
	fuse_reply_err(req, 0);
}

static int serve(const char *mnt, const char *log)
{
	static const struct fuse_lowlevel_ops ops = { .lookup = on_lookup,
						      .getattr = on_getattr,
						      .open = on_open,
						      .read = on_read,
						      .flush = on_flush,
						      .release = on_release };
	char *argv[] = { (char *)"blocking", (char *)"-o", (char *)"allow_other,fsname=blocking" };
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	for (int k = ROOT; k < KINDS; k++)
		node[k].kind = k;
	log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	struct fuse_session *s = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (log_fd < 0 || !s || fuse_session_mount(s, mnt))
		return 1;
	fuse_session_loop(s);
	fuse_session_unmount(s);
	fuse_session_destroy(s);
	return 0;
}

/* ---- the programs ---- */

__attribute__((noinline)) void spin(double seconds);
void spin(double seconds)
{
	struct timespec t;
	do {
		for (volatile int i = 0; i < 100000; i++)
			;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < seconds);
}

static int write_page(const char *file)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	uintptr_t at = (uintptr_t)&ascribe_descriptor_v1 & ~(PAGE - 1);
	return write(fd, (void *)at, PAGE) != (ssize_t)PAGE; /* NOLINT */
}

/* Others fault this page in from the file; this program does not look at it again. */
static int map_page(const char *file, double seconds)
{
	struct ascribe_scope scope;
	uintptr_t at = (uintptr_t)&ascribe_descriptor_v1 & ~(PAGE - 1);
	ascribe_attach_string(&scope, "tenant", "blocked");
	int fd = open(file, O_RDONLY);
	if (fd < 0 || mmap((void *)at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
			   0) == MAP_FAILED)
		return 1;
	spin(seconds);
	_exit(0);
}

static int jit(double seconds, const char *dump)
{
#ifdef __x86_64__
	/* mov $100000,%ecx; 1: dec %ecx; jnz 1b; ret */
	static const unsigned char code[] = { 0xb9, 0xa0, 0x86, 0x01, 0x00,
					      0xff, 0xc9, 0x75, 0xfc, 0xc3 };
	struct timespec t;
	int fd = dump ? open(dump, O_RDONLY) : -1;
	if (dump &&
	    (fd < 0 || mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED))
		return 1;
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (p == MAP_FAILED)
		return 1;
	memcpy(p, code, sizeof(code));
	void (*run)(void);
	memcpy(&run, &p, sizeof(run));
	do {
		run();
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < seconds);
#else
	(void)dump;
	spin(seconds);
#endif
	return 0;
}

#define LIBRARIES_MAX 64

static int libraries(double seconds, char **file)
{
	void (*work[LIBRARIES_MAX])(void);
	struct timespec t;
	size_t n = 0;
	for (; file[n] && n < LIBRARIES_MAX; n++) {
		void *lib = dlopen(file[n], RTLD_NOW), *f = lib ? dlsym(lib, "work") : NULL;
		if (!f)
			return 1;
		memcpy(&work[n], &f, sizeof(f));
	}
	do {
		for (size_t i = 0; i < n; i++)
			work[i]();
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < seconds);
	return 0;
}

static int traced(double seconds)
{
	pid_t p = fork();
	if (p == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		spin(seconds);
		raise(SIGSTOP);
		for (;;)
			pause();
	}
	if (p < 0 || ptrace(PTRACE_SEIZE, p, NULL, NULL) || waitpid(p, NULL, __WALL) != p)
		return 1;
	for (;;) /* it stays in its stop until it is killed */
		pause();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "serve") && argc == 5) {
		files = argv[3];
		return serve(argv[2], argv[4]);
	}
	if (!strcmp(mode, "page") && argc == 3)
		return write_page(argv[2]);
	if (!strcmp(mode, "descriptor") && argc == 4)
		return map_page(argv[2], atof(argv[3]));
	if (!strcmp(mode, "jit") && argc >= 3)
		return jit(atof(argv[2]), argv[3]);
	if (!strcmp(mode, "traced") && argc == 3)
		return traced(atof(argv[2]));
	if (!strcmp(mode, "libraries") && argc > 3)
		return libraries(atof(argv[2]), argv + 3);
	if (!strcmp(mode, "spin") && argc == 3)
		spin(atof(argv[2]));
	return 0;
}
