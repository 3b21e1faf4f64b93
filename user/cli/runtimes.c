/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runtimes.h"

#include "symbols/symbols.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROCESSES_MAX 65536
#define TEXT_MAX (128u << 10) /* of a command line, and of an environment */

const struct runtime_advice runtime_advice[N_RUNTIMES] = {
	[RUNTIME_JAVA] = { "Java", "without -XX:+PreserveFramePointer: stacks end in Java code",
			   "start them with it, or with JAVA_TOOL_OPTIONS=-XX:+PreserveFramePointer" },
	[RUNTIME_NODE] = { "Node",
			   "a V8 of an unknown version without --perf-basic-prof: JavaScript has no "
			   "names",
			   "start them with it, or with NODE_OPTIONS=--perf-basic-prof" },
};

static const struct {
	const char *exe, *option, *variable;
} how[N_RUNTIMES] = {
	[RUNTIME_JAVA] = { "java", "-XX:+PreserveFramePointer", "JAVA_TOOL_OPTIONS=" },
	[RUNTIME_NODE] = { "node", "--perf-basic-prof", "NODE_OPTIONS=" },
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

/* N_RUNTIMES: another program. */
static enum runtime runtime_of(const char *tgid)
{
	char path[64], exe[4096];
	snprintf(path, sizeof(path), "/proc/%s/exe", tgid);
	ssize_t n = readlink(path, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = 0;
	const char *base = strrchr(exe, '/');
	enum runtime r = 0;
	while (r < N_RUNTIMES && !(base && !strcmp(base + 1, how[r].exe)))
		r++;
	return r;
}

/* HotSpot's frames are walked and named without an option: include/hotspot_wire.h. */
#if defined(__x86_64__)
#define JAVA_IS_WALKED true
#else
#define JAVA_IS_WALKED false
#endif

/* A V8 that publishes how its frames look needs no option, either: include/v8_wire.h. */
#define FILES_MAX 16

static struct node_file {
	dev_t dev;
	ino_t ino;
	bool known;
	char missing[V8_MISSING_MAX];
} files[FILES_MAX];
static size_t n_files;

/* Files that many processes run are read once. NULL: it cannot be read, or there are too many. */
static const struct node_file *node_file(const char *tgid)
{
	char path[64];
	struct stat st;
	struct binary_v8 v;
	struct node_file *f = files;
	snprintf(path, sizeof(path), "/proc/%s/exe", tgid);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st))
		goto out;
	while (f < files + n_files && (f->dev != st.st_dev || f->ino != st.st_ino))
		f++;
	if (f == files + n_files && n_files < FILES_MAX) {
		*f = (struct node_file){ .dev = st.st_dev, .ino = st.st_ino };
		n_files++;
		if (!binary_v8_of(fd, &v)) {
			memcpy(f->missing, v.missing, sizeof(f->missing));
			f->known = !v.missing[0];
		}
	}
out:
	if (fd >= 0)
		close(fd);
	return f < files + n_files ? f : NULL;
}

static bool is_walked(const char *tgid, enum runtime r, struct runtime_count *c)
{
	if (r == RUNTIME_JAVA)
		return JAVA_IS_WALKED;
	const struct node_file *f = node_file(tgid);
	if (f && f->missing[0])
		memcpy(c->missing, f->missing, sizeof(c->missing));
	return f && f->known;
}

static void look_at(const char *tgid, char *text, struct runtime_count *ret)
{
	enum runtime r = runtime_of(tgid);
	if (r == N_RUNTIMES)
		return;
	size_t n = read_strings(tgid, "cmdline", text);
	bool with = has(text, n, how[r].option, "");
	n = read_strings(tgid, "environ", text);
	with = with || has(text, n, how[r].variable, how[r].option) || is_walked(tgid, r, &ret[r]);
	ret[r].n++;
	if (with)
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
