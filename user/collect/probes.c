/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is probed may lie on a filesystem of another user, who does not answer. So a reader
 * opens it: once to be read, as a copy where that is so, and once as a place to be probed. Closing
 * either asks nobody.
 */
#include "collect/probes.h"

#include "proc/proc.h"
#include "proc/reader.h"
#include "util/array.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_S 5
#define LOOK_MS 10
#define DEBUG_PATH_MAX 256 /* with the longest build id */

static int open_in_time(struct sandbox *s, const char *path, bool place, struct proc_opened *ret)
{
	const uint64_t until = clock_ns(CLOCK_MONOTONIC) + OPEN_S * 1000000000ull;
	struct pollfd p[] = { { .fd = proc_reader_fd(), .events = POLLIN },
			      { .fd = sandbox_fd(s), .events = POLLIN } };
	int rc;
	while ((rc = proc_open_path(path, place, ret)) == -EINPROGRESS || rc == -EAGAIN ||
	       rc == -EINTR) {
		if (clock_ns(CLOCK_MONOTONIC) >= until)
			return -ETIMEDOUT;
		poll(p, 2, LOOK_MS);
		sandbox_tick(s);
		proc_reader_tick();
	}
	return rc;
}

/* The part of a path that leads into the root of another process: /proc/PID/root; or none. */
static size_t root_of(const char *path)
{
	int n = 0;
	sscanf(path, "/proc/%*[0-9]/root%n", &n);
	return n > 0 && path[n] == '/' ? (size_t)n : 0;
}

static int cannot_open(const char *file, int rc, struct err *err)
{
	if (rc == -EINVAL)
		return err_set(err, rc, "%s is no file, so no 64-bit ELF file", file);
	if (rc == -ENOENT && !root_of(file))
		return err_set(err, rc,
			       "cannot open %s: no such file; one of a container is "
			       "/proc/PID/root/..., with any process of it",
			       file);
	if (rc != -ETIMEDOUT && rc != -EBUSY)
		return err_sys(err, rc, "cannot open %s", file);
	return err_set(err, rc,
		       "cannot open %s: its filesystem does not answer; name a copy elsewhere",
		       file);
}

static int open_file(struct sandbox *s, const char *file, int *ret_content, int *ret_place,
		     struct err *err)
{
	char path[PATH_MAX + PROBE_FILE_MAX];
	struct proc_opened content, place;
	if (file[0] == '/')
		snprintf(path, sizeof(path), "%s", file);
	else if (!getcwd(path, PATH_MAX))
		return err_sys(err, -errno, "cannot open %s", file);
	else
		snprintf(path + strlen(path), PROBE_FILE_MAX + 1, "/%s", file);
	int rc = open_in_time(s, path, false, &content);
	if (rc)
		return cannot_open(file, rc, err);
	rc = open_in_time(s, path, true, &place);
	if (rc) {
		close(content.fd);
		return cannot_open(file, rc, err);
	}
	*ret_content = content.fd;
	*ret_place = place.fd;
	return content.dev == place.dev && content.ino == place.ino
		       ? 0
		       : err_set(err, -ESTALE, "%s is replaced just now: try again", file);
}

/* Open the debug file of what was found: in the root of the file, or in ours. -1: there is none. */
static int open_debug(struct sandbox *s, const char *file, const struct probe_found *f)
{
	struct proc_opened o = { .fd = -1 };
	char path[DEBUG_PATH_MAX], in_root[PROBE_FILE_MAX + DEBUG_PATH_MAX];
	const size_t root = root_of(file);
	if (symbols_build_id_path(f->build_id, f->build_id_len, path, sizeof(path)))
		return -1;
	snprintf(in_root, sizeof(in_root), "%.*s%s", (int)root, file, path);
	if (root && !open_in_time(s, in_root, false, &o))
		return o.fd;
	return open_in_time(s, path, false, &o) ? -1 : o.fd;
}

static int find_places(struct sandbox *s, const struct probe_spec *spec, int content,
		       struct probe_found *ret, struct err *err)
{
	char path[DEBUG_PATH_MAX];
	int rc = probe_find(s, spec, content, -1, ret, err);
	if ((rc && rc != -ENOENT) || !ret->build_id_len)
		return rc;
	const int debug = open_debug(s, spec->file, ret);
	if (debug >= 0) {
		rc = probe_find(s, spec, content, debug, ret, err);
		close(debug);
	} else if (rc &&
		   !symbols_build_id_path(ret->build_id, ret->build_id_len, path, sizeof(path))) {
		rc = err_set(err, rc,
			     "%s is stripped, and exports no function %s: install its debug "
			     "symbols (%s)",
			     spec->file, spec->name, path);
	}
	return rc;
}

/* The places of one probe of an event; content: of its file. */
static int add_places(struct probes *p, struct sandbox *s, const struct probe_spec *spec,
		      unsigned index, int content, bool frees, struct err *err)
{
	struct probe_found found;
	int rc = find_places(s, spec, content, &found, err);
	if (!rc && ARRAY_RESERVE(p->v, p->cap, p->n + found.n))
		rc = err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; !rc && i < found.n; i++)
		p->v[p->n++] =
			(struct sampler_probe){ index, frees, p->file[index], found.place[i] };
	return rc;
}

static int find(struct probes *p, struct sandbox *s, const struct event *e, unsigned index,
		struct err *err)
{
	struct probe_spec spec;
	int content = -1, rc = probe_parse(&spec, e->name, err);
	rc = rc ? rc : open_file(s, spec.file, &content, &p->file[index], err);
	if (!rc && spec.kind != PROBE_HEAP)
		rc = add_places(p, s, &spec, index, content, false, err);
	for (int frees = 0; !rc && spec.kind == PROBE_HEAP && frees < 2; frees++) {
		const struct probe_spec of = probe_of_heap(&spec, frees);
		rc = add_places(p, s, &of, index, content, frees, err);
	}
	if (content >= 0)
		close(content);
	return rc;
}

int probes_find(struct probes *p, struct sandbox *s, struct sampler_config *cfg, struct err *err)
{
	int rc = 0;
	for (unsigned i = 0; !rc && i < cfg->n_events; i++)
		rc = cfg->event[i].probe ? find(p, s, &cfg->event[i], i, err) : 0;
	cfg->probes = p->v;
	cfg->n_probes = p->n;
	return rc;
}

void probes_fini(struct probes *p, struct sampler_config *cfg)
{
	for (unsigned i = 0; i < MAX_EVENTS; i++)
		if (p->file[i] >= 0)
			close(p->file[i]);
	free(p->v);
	*p = (struct probes){ 0 };
	cfg->probes = NULL;
}
