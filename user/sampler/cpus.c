/* SPDX-License-Identifier: Apache-2.0 */
/* Events per CPU: open them when the CPU comes online, and close them when it goes offline. */
#include "sampler/loader.h"
#include "sampler/sampler_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

int sampler_cpu_list(const char *path, void (*cb)(void *, unsigned), void *ctx)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -EIO;
	text[n] = 0;
	for (char *p = text; *p && *p != '\n';) {
		char *end;
		unsigned long a = strtoul(p, &end, 10), b = a;
		if (end == p)
			return -EBADMSG;
		if (*end == '-')
			b = strtoul(end + 1, &end, 10);
		for (unsigned long c = a; c <= b && c < 65536; c++)
			cb(ctx, (unsigned)c);
		p = *end == ',' ? end + 1 : end;
	}
	return 0;
}

int sampler_attach_cpu(struct sampler *s, unsigned cpu, struct err *err)
{
	struct cpu *c = &s->cpu[cpu];
	for (unsigned i = 0; i < s->cfg.n_events; i++) {
		const struct event *e = &s->cfg.event[i];
		if (e->wait || e->probe)
			continue;
		int rc = loader_event(e, cpu, &c->fd[i], err);
		if (rc)
			return rc;
		/* This event only counts: the program is attached to the tracepoint once */
		if (e->tracepoint)
			continue;
		rc = sampler_attach_event(s, PROGRAM_on_event, c->fd[i], i, &c->link[i]);
		if (rc)
			return err_sys(err, rc, "attaching to event '%s' on CPU %u", e->name, cpu);
	}
	c->online = c->counted = true;
	return 0;
}

void sampler_detach_cpu(struct sampler *s, unsigned cpu)
{
	struct cpu *c = &s->cpu[cpu];
	for (unsigned i = 0; i < s->cfg.n_events; i++) {
		uint64_t v;
		if (c->fd[i] >= 0 && !event_count(c->fd[i], &v))
			c->base[i] += v;
		sampler_detach(&c->link[i]);
		if (c->fd[i] >= 0)
			close(c->fd[i]);
		c->fd[i] = -1;
	}
	c->online = false;
}

void sampler_set_cpu(struct sampler *s, unsigned cpu, unsigned long what)
{
	for (unsigned i = 0; i < s->cfg.n_events; i++)
		if (s->cpu[cpu].fd[i] >= 0)
			ioctl(s->cpu[cpu].fd[i], what, 0);
}

static void mark_online(void *ctx, unsigned cpu)
{
	uint8_t *online = ctx;
	if (cpu < 65536)
		online[cpu] = 1;
}

/*
 * Detect a CPU that went offline and came back between two checks: its events are open but count
 * nothing. Read a clock only if it had no tick since the last check, because reading it interrupts
 * the CPU.
 */
static bool is_frozen(struct sampler *s, unsigned cpu)
{
	struct cpu *c = &s->cpu[cpu];
	for (unsigned i = 0; i < s->cfg.n_events; i++) {
		uint64_t count = 0, covered = c->covered[i] + sampler_half_of(s, cpu)->covered[i];
		if (!event_is_clock(&s->cfg.event[i]) || c->fd[i] < 0)
			continue;
		bool ticked = covered != c->look_covered;
		c->look_covered = covered;
		if (ticked || event_count(c->fd[i], &count))
			return false;
		bool same = count == c->look_count;
		c->look_count = count;
		return same && s->running;
	}
	return false;
}

int sampler_follow_cpus(struct sampler *s, void (*on_change)(void *, unsigned, bool), void *ctx)
{
	uint8_t *online = calloc(65536, 1);
	int changes = 0;
	if (!online || sampler_cpu_list("/sys/devices/system/cpu/online", mark_online, online)) {
		free(online);
		return 0;
	}
	for (unsigned c = 0; c < s->n_cpus; c++) {
		if (s->cpu[c].online && (!online[c] || is_frozen(s, c))) {
			sampler_detach_cpu(s, c);
			changes++;
			if (on_change)
				on_change(ctx, c, false);
		}
		if (s->cpu[c].online || !online[c])
			continue;
		if (sampler_attach_cpu(s, c, NULL))
			sampler_detach_cpu(s, c);
		else if (s->running)
			sampler_set_cpu(s, c, PERF_EVENT_IOC_ENABLE);
		changes++;
		if (on_change && s->cpu[c].online)
			on_change(ctx, c, true);
	}
	unsigned unknown = 0;
	for (unsigned c = s->n_cpus; c < 65536; c++)
		unknown += online[c];
	if (unknown > s->unknown_cpus)
		s->unknown_cpus = unknown;
	free(online);
	return changes;
}

unsigned sampler_unknown_cpus(const struct sampler *s)
{
	return s->unknown_cpus;
}
