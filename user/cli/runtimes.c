/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runtimes.h"

#include "proc/hotspot.h"
#include "stacks/scripts.h"
#include "symbols/symbols.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "luajit_wire.h"
#include "perl_wire.h"
#include "php_wire.h"
#include "python_wire.h"
#include "ruby_wire.h"

#define PROCESSES_MAX 65536
#define TEXT_MAX (128u << 10) /* of a command line, and of an environment */

/* HotSpot's frames are walked and named without an option: include/hotspot_wire.h. */
#if defined(__x86_64__)
#define JAVA_IS_WALKED true
#define JAVA_LACK \
	"a HotSpot of an unknown version without -XX:+PreserveFramePointer: stacks end in Java code"
#else
#define JAVA_IS_WALKED false
#define JAVA_LACK "without -XX:+PreserveFramePointer: stacks end in Java code"
#endif

const struct runtime_advice runtime_advice[N_RUNTIMES] = {
	[RUNTIME_JAVA] = { "Java", JAVA_LACK,
			   "start them with it, or with JAVA_TOOL_OPTIONS=-XX:+PreserveFramePointer" },
	[RUNTIME_NODE] = { "Node",
			   "a V8 of an unknown version without --perf-basic-prof: JavaScript has no "
			   "names",
			   "start them with it, or with NODE_OPTIONS=--perf-basic-prof" },
	[RUNTIME_PYTHON] = { "Python",
			     "a CPython of an unknown version: Python functions have no names",
			     "ascribe knows " PYTHON_KNOWN },
	[RUNTIME_PHP] = { "PHP", "a PHP of an unknown version: PHP functions have no names",
			  "ascribe knows " PHP_KNOWN },
	[RUNTIME_RUBY] = { "Ruby", "a Ruby of an unknown version: Ruby methods have no names",
			   "ascribe knows " RUBY_KNOWN },
	[RUNTIME_PERL] = { "Perl", "a Perl of an unknown version: Perl subs have no names",
			   "ascribe knows " PERL_KNOWN },
	[RUNTIME_LUAJIT] = { "LuaJIT",
			     "a LuaJIT of an unknown version: Lua functions have no names",
			     "ascribe knows " LUAJIT_KNOWN },
};

static const struct how {
	const char *exe, *option, *variable; /* option NULL: none helps */
	const char *library; /* that may hold it instead of the executable: how its name begins */
} how[N_RUNTIMES] = {
	[RUNTIME_JAVA] = { "java", "-XX:+PreserveFramePointer", "JAVA_TOOL_OPTIONS=", "libjvm.so" },
	[RUNTIME_NODE] = { "node", "--perf-basic-prof", "NODE_OPTIONS=", "libnode.so" },
	[RUNTIME_PYTHON] = { "python3*", NULL, NULL, "libpython3" },
	[RUNTIME_PHP] = { "php*", NULL, NULL, "libphp" },
	[RUNTIME_RUBY] = { "ruby*", NULL, NULL, "libruby" },
	[RUNTIME_PERL] = { "perl*", NULL, NULL, "libperl" },
	[RUNTIME_LUAJIT] = { "luajit*", NULL, NULL, "libluajit" },
};

/* Strings, each with a NUL; one more at the end. The length, 0 when it cannot be read. */
static size_t read_strings(const char *tgid, const char *file, char *out)
{
	char path[64];
	size_t n = 0;
	ssize_t more;
	snprintf(path, sizeof(path), "/proc/%s/%s", tgid, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n < TEXT_MAX && (more = read(fd, out + n, TEXT_MAX - n)) > 0)
		n += (size_t)more;
	if (fd >= 0)
		close(fd);
	out[n] = out[n + 1] = 0;
	return n;
}

/* Is there a string that begins with `start` and has `word` in it? */
static bool has(const char *text, size_t n, const char *start, const char *word)
{
	for (const char *p = text; p < text + n; p += strlen(p) + 1)
		if (!strncmp(p, start, strlen(start)) && strstr(p, word))
			return true;
	return false;
}

static bool has_option(const char *tgid, const struct how *h, char *text)
{
	if (!h->option)
		return false;
	if (has(text, read_strings(tgid, "cmdline", text), h->option, ""))
		return true;
	return has(text, read_strings(tgid, "environ", text), h->variable, h->option);
}

/* N_RUNTIMES: another program. */
static enum runtime runtime_of(const char *tgid)
{
	char path[64], exe[4096];
	snprintf(path, sizeof(path), "/proc/%s/exe", tgid);
	ssize_t n = readlink(path, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = 0;
	const char *base = strrchr(exe, '/');
	enum runtime r = 0;
	while (r < N_RUNTIMES && !(base && !fnmatch(how[r].exe, base + 1, 0)))
		r++;
	return r;
}

/* ---- what a file is ---- */

#define FILES_MAX 16

static struct file {
	dev_t dev;
	ino_t ino;
	int rc; /* of reading it */
	struct binary_runtime is;
} files[FILES_MAX];
static size_t n_files;

/* Where a process has the file that holds its runtime. */
struct place {
	char path[96];	/* in /proc */
	uint64_t start; /* of its executable mapping; 0: it is the executable */
	uint64_t pgoff;
};

static struct place find_place(const char *tgid, enum runtime r)
{
	struct place p = { .start = 0 };
	char line[4400];
	snprintf(p.path, sizeof(p.path), "/proc/%s/maps", tgid);
	FILE *f = fopen(p.path, "re");
	snprintf(p.path, sizeof(p.path), "/proc/%s/exe", tgid);
	while (f && !p.start && fgets(line, sizeof(line), f)) {
		unsigned long from, to, off;
		char rights[5];
		const char *slash = strrchr(line, '/');
		if (slash && !strncmp(slash + 1, how[r].library, strlen(how[r].library)) &&
		    sscanf(line, "%lx-%lx %4s %lx", &from, &to, rights, &off) == 4 &&
		    rights[2] == 'x') {
			snprintf(p.path, sizeof(p.path), "/proc/%s/map_files/%lx-%lx", tgid, from,
				 to);
			p.start = from;
			p.pgoff = off;
		}
	}
	if (f)
		fclose(f);
	return p;
}

/*
 * What the file of a runtime is. Files that many processes run are read once; ret->bias is then of
 * the first of them. False: it cannot be read, or there are too many.
 */
static bool read_file(const struct place *p, struct binary_runtime *ret)
{
	struct stat st;
	struct file *f = files;
	int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool ok = fd >= 0 && !fstat(fd, &st);
	while (ok && f < files + n_files && (f->dev != st.st_dev || f->ino != st.st_ino))
		f++;
	ok = ok && f < files + FILES_MAX;
	if (ok && f == files + n_files) {
		*f = (struct file){ .dev = st.st_dev, .ino = st.st_ino };
		f->rc = binary_runtime_of(fd, p->start, p->pgoff, &f->is);
		f->is.bias -= p->start;
		n_files++;
	}
	if (fd >= 0)
		close(fd);
	if (!ok || f->rc)
		return false;
	*ret = f->is;
	ret->bias += p->start;
	return true;
}

/* Read the tables of a JVM. What cannot be read, or is not there yet, may be walked later. */
static bool java_is_walked(const char *tgid, const struct binary_runtime *is, char *ret_missing)
{
	uint64_t at[HOTSPOT_SYMBOLS];
	struct hotspot_jvm jvm;
	for (size_t i = 0; i < HOTSPOT_SYMBOLS; i++)
		at[i] = is->bias + is->hotspot.at[i];
	return proc_hotspot_locate((uint32_t)strtoul(tgid, NULL, 10), at, &jvm, ret_missing) !=
	       -EPROTONOSUPPORT;
}

static bool is_walked(const char *tgid, enum runtime r, struct runtime_count *c)
{
	struct place p = find_place(tgid, r);
	struct binary_runtime is;
	char missing[sizeof(c->missing)] = "";
	bool walked = true;
	if (r == RUNTIME_JAVA && !JAVA_IS_WALKED)
		return false;
	if (!read_file(&p, &is))
		return r != RUNTIME_NODE;
	if (r == RUNTIME_JAVA) {
		walked = !p.start || (is.hotspot.at[0] && java_is_walked(tgid, &is, missing));
	} else if (r == RUNTIME_NODE) {
		walked = is.v8.found && !is.v8.missing[0];
		snprintf(missing, sizeof(missing), "v8dbg_%.*s", (int)sizeof(missing) - 8,
			 is.v8.missing);
	} else if (r >= RUNTIME_PHP && !is.script.version) {
		return true; /* another program of such a name */
	} else {
		walked = script_is_known(&is.script);
		script_version(&is.script, missing);
	}
	if (!walked)
		memcpy(c->missing, missing, sizeof(missing));
	return walked;
}

static void look_at(const char *tgid, char *text, struct runtime_count *ret)
{
	enum runtime r = runtime_of(tgid);
	if (r == N_RUNTIMES)
		return;
	ret[r].n++;
	if (has_option(tgid, &how[r], text) || is_walked(tgid, r, &ret[r]))
		return;
	if (ret[r].n_without < sizeof(ret->tgid) / sizeof(ret->tgid[0]))
		ret[r].tgid[ret[r].n_without] = (uint32_t)strtoul(tgid, NULL, 10);
	ret[r].n_without++;
}

void runtimes_look(struct runtime_count ret[N_RUNTIMES])
{
	char *text = malloc(TEXT_MAX + 2);
	DIR *d = opendir("/proc");
	struct dirent *e;
	memset(ret, 0, N_RUNTIMES * sizeof(*ret));
	for (unsigned n = 0; text && d && n < PROCESSES_MAX && (e = readdir(d)); n++)
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			look_at(e->d_name, text, ret);
	if (d)
		closedir(d);
	free(text);
}
