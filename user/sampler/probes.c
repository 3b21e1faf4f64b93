/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching the program to places of files. Since Linux 6.6 one link has all places of an event
 * (uprobe_multi), which takes no capability. Before, each place is a perf event of its own, on any
 * CPU, though it is opened on one.
 */
#include "sampler/loader.h"
#include "sampler/probe_support.h"
#include "sampler/sampler_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(PROBE_PLACES >= MAX_EVENTS * 2 * PROBE_PLACES_MAX, "each place has arguments");

#define MULTI_RETURN 1 /* BPF_F_UPROBE_MULTI_RETURN of Linux 6.6 */

/* From union bpf_attr of Linux 6.6, which our headers may not have. */
struct link_create_uprobe_multi {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid, padding;
};

/* As far as the kernel knows: a filesystem that does not answer is not asked. */
static struct probe_written written(int file)
{
	struct statx x = { 0 };
	(void)!statx(file, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MTIME | STATX_SIZE, &x);
	return (struct probe_written){ x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec, x.stx_size };
}

/* The places of the event from i on in cfg.probes, for one part of the probe. */
static int open_part(struct sampler *s, size_t i, enum probe_part part, struct err *err)
{
	const struct sampler_probe *from = &s->cfg.probes[i];
	int rc = 0;
	for (; !rc && i < s->cfg.n_probes && s->cfg.probes[i].event == from->event; i++) {
		if (s->cfg.probes[i].frees != (part == PROBE_FREE))
			continue;
		s->places[s->n_probes] = s->cfg.probes[i].place.arguments;
		struct open_probe *p = &s->probes[s->n_probes++];
		*p = (struct open_probe){ s->cfg.probes[i], part, { 0 }, -1, -1 };
		p->at.file = fcntl(s->cfg.probes[i].file, F_DUPFD_CLOEXEC, 0);
		if (p->at.file < 0)
			rc = err_sys(err, -errno, "the file of a probe");
		else if (!s->programs.probes_multi)
			rc = loader_probe(p->at.file, &p->at.place, part == PROBE_RETURN, &p->fd,
					  err);
		p->written = written(p->at.file);
	}
	return rc;
}

int sampler_open_probes(struct sampler *s, struct err *err)
{
	const struct sampler_table places = { MAP_probe_places, PROBE_PLACES * sizeof(*s->places),
					      (void **)&s->places };
	const size_t n = s->cfg.n_probes;
	s->probes = n ? calloc(2 * n, sizeof(*s->probes)) : NULL;
	if (n && !s->probes)
		return err_set(err, -ENOMEM, "out of memory");
	int rc = sampler_map_tables(s, &places, n > 0, err);
	for (size_t i = 0; !rc && i < n; i++) {
		const unsigned event = s->cfg.probes[i].event;
		const struct event *e = &s->cfg.event[event];
		if (i && s->cfg.probes[i - 1].event == event)
			continue;
		/* A call whose return is not watched yet would be one that did not return. */
		rc = e->calls  ? open_part(s, i, PROBE_RETURN, err)
		     : e->heap ? open_part(s, i, PROBE_FREE, err)
			       : 0;
		rc = rc ? rc : open_part(s, i, e->calls ? PROBE_CALL : PROBE_HIT, err);
	}
	if (!rc && s->programs.fd[PROGRAM_on_calls_exit] >= 0) {
		rc = sampler_attach_traced(s, PROGRAM_on_calls_exit, &s->calls_exit);
		if (rc)
			err_sys(err, rc, "attaching to sched_process_exit");
	}
	s->cfg.probes = NULL;
	return rc;
}

static uint64_t cookie_of(const struct sampler *s, const struct open_probe *p)
{
	const struct probe_cookie c = { .place = (uint32_t)(p - s->probes),
					.event = (uint8_t)p->at.event,
					.part = p->part & 3 };
	uint64_t word;
	memcpy(&word, &c, sizeof(word));
	return word;
}

/* The n places of one event, from p on. */
static int attach_multi(const struct sampler *s, struct open_probe *p, size_t n)
{
	uint64_t offsets[PROBE_PLACES_MAX], semaphores[PROBE_PLACES_MAX], cookies[PROBE_PLACES_MAX];
	char path[64];
	bool any = false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->at.file);
	for (size_t i = 0; i < n; i++) {
		offsets[i] = p[i].at.place.offset;
		semaphores[i] = p[i].at.place.semaphore;
		cookies[i] = cookie_of(s, &p[i]);
		any |= semaphores[i];
	}
	const struct link_create_uprobe_multi a = {
		.prog_fd = (uint32_t)s->programs.fd[PROGRAM_on_probe],
		.attach_type = PROBES_ATTACH_MULTI,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offsets,
		.ref_ctr_offsets = any ? (uintptr_t)semaphores : 0,
		.cookies = (uintptr_t)cookies,
		.count = (uint32_t)n,
		.multi_flags = p->part == PROBE_RETURN ? MULTI_RETURN : 0,
	};
	p->link = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &a, sizeof(a));
	return p->link < 0 ? -errno : 0;
}

static int attach_one(const struct sampler *s, struct open_probe *p)
{
	int rc = sampler_attach_event(s, PROGRAM_on_probe, p->fd, cookie_of(s, p), &p->link);
	return rc ? rc : ioctl(p->fd, PERF_EVENT_IOC_ENABLE, 0) ? -errno : 0;
}

int sampler_attach_probes(struct sampler *s, struct err *err)
{
	int rc = 0;
	for (size_t i = 0, some; !rc && i < s->n_probes; i += some) {
		struct open_probe *p = &s->probes[i];
		for (some = 1; s->programs.probes_multi && i + some < s->n_probes; some++)
			if (p[some].at.event != p->at.event || p[some].part != p->part)
				break;
		rc = s->programs.probes_multi ? attach_multi(s, p, some) : attach_one(s, p);
		if (rc)
			err_sys(err, rc, "attaching to '%s'", s->cfg.event[p->at.event].name);
	}
	return rc;
}

void sampler_detach_probes(struct sampler *s)
{
	for (size_t i = 0; i < s->n_probes; i++)
		sampler_detach(&s->probes[i].link);
}

static void close_probe(struct open_probe *p)
{
	sampler_detach(&p->link);
	sampler_detach(&p->fd);
	sampler_detach(&p->at.file);
}

static bool is_stale(const struct open_probe *p)
{
	const struct probe_written now = written(p->at.file);
	return p->at.file >= 0 && memcmp(&now, &p->written, sizeof(now)) != 0;
}

const struct event *sampler_end_stale_probes(struct sampler *s)
{
	size_t i = 0;
	while (i < s->n_probes && !is_stale(&s->probes[i]))
		i++;
	if (i == s->n_probes)
		return NULL;
	const unsigned event = s->probes[i].at.event;
	for (size_t k = 0; k < s->n_probes; k++)
		if (s->probes[k].at.event == event)
			close_probe(&s->probes[k]);
	return &s->cfg.event[event];
}

static bool is_hit(const struct sampler *s, unsigned event)
{
	uint64_t ran = 0;
	for (unsigned cpu = 0; cpu < s->n_cpus; cpu++)
		ran += s->cpu[cpu].ran[event];
	return ran != 0;
}

uint32_t sampler_unhit_probes(const struct sampler *s)
{
	uint32_t unhit = 0;
	for (size_t i = 0; i < s->n_probes; i++)
		if (!is_hit(s, s->probes[i].at.event))
			unhit |= 1u << s->probes[i].at.event;
	return unhit;
}

void sampler_close_probes(struct sampler *s)
{
	for (size_t i = 0; i < s->n_probes; i++)
		close_probe(&s->probes[i]);
	if (s->places)
		munmap(s->places, PROBE_PLACES * sizeof(*s->places));
	s->places = NULL;
	free(s->probes);
	s->probes = NULL;
	s->n_probes = 0;
}
