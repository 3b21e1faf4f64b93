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
#include <sys/syscall.h>
#include <unistd.h>

/* From union bpf_attr of Linux 6.6, which our headers may not have. */
struct link_create_uprobe_multi {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid, padding;
};

int sampler_open_probes(struct sampler *s, struct err *err)
{
	const size_t n = s->cfg.n_probes;
	int rc = 0;
	s->probes = n ? calloc(n, sizeof(*s->probes)) : NULL;
	if (n && !s->probes)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		s->probes[i] = (struct open_probe){ s->cfg.probes[i], -1, -1 };
		s->probes[i].at.file = -1;
	}
	for (size_t i = 0; !rc && i < n; i++) {
		struct open_probe *p = &s->probes[i];
		if (!s->programs.probes_multi) {
			rc = loader_probe(s->cfg.probes[i].file, &p->at.place, &p->fd, err);
			continue;
		}
		p->at.file = fcntl(s->cfg.probes[i].file, F_DUPFD_CLOEXEC, 0);
		if (p->at.file < 0)
			rc = err_sys(err, -errno, "the file of a probe");
	}
	s->cfg.probes = NULL;
	return rc;
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
		cookies[i] = p->at.event;
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
	};
	p->link = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &a, sizeof(a));
	return p->link < 0 ? -errno : 0;
}

static int attach_one(const struct sampler *s, struct open_probe *p)
{
	int rc = sampler_attach_event(s, PROGRAM_on_probe, p->fd, p->at.event, &p->link);
	return rc ? rc : ioctl(p->fd, PERF_EVENT_IOC_ENABLE, 0) ? -errno : 0;
}

int sampler_attach_probes(struct sampler *s, struct err *err)
{
	const size_t n = s->probes ? s->cfg.n_probes : 0;
	int rc = 0;
	for (size_t i = 0, some; !rc && i < n; i += some) {
		struct open_probe *p = &s->probes[i];
		for (some = 1; s->programs.probes_multi && i + some < n; some++)
			if (p[some].at.event != p->at.event)
				break;
		rc = s->programs.probes_multi ? attach_multi(s, p, some) : attach_one(s, p);
		if (rc)
			err_sys(err, rc, "attaching to '%s'", s->cfg.event[p->at.event].name);
	}
	return rc;
}

void sampler_detach_probes(struct sampler *s)
{
	for (size_t i = 0; s->probes && i < s->cfg.n_probes; i++)
		sampler_detach(&s->probes[i].link);
}

void sampler_close_probes(struct sampler *s)
{
	sampler_detach_probes(s);
	for (size_t i = 0; s->probes && i < s->cfg.n_probes; i++) {
		sampler_detach(&s->probes[i].fd);
		sampler_detach(&s->probes[i].at.file);
	}
	free(s->probes);
	s->probes = NULL;
}
