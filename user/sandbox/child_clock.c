/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/child_clock.h"

#include "sandbox/channel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LOOKS 10u /* at a child within its limit, once it may be late */

struct times {
	uint64_t cpu_ns, queued_ns;
};

static size_t read_proc(pid_t pid, const char *name, char *text, size_t cap)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	FILE *f = pid > 0 ? fopen(path, "re") : NULL;
	size_t n = f ? fread(text, 1, cap - 1, f) : 0;
	if (f)
		fclose(f);
	text[n] = 0;
	return n;
}

/* CPU time and time in the run queue, since v2.6.23. Children have one thread. */
static struct times times_of(pid_t pid)
{
	struct times t = { 0 };
	char text[128];
	if (!read_proc(pid, "schedstat", text, sizeof(text)) ||
	    sscanf(text, "%" SCNu64 " %" SCNu64, &t.cpu_ns, &t.queued_ns) != 2)
		t = (struct times){ 0 };
	return t;
}

char sandbox_child_state(pid_t pid)
{
	char text[512];
	read_proc(pid, "stat", text, sizeof(text));
	const char *p = strrchr(text, ')');
	return p && p[1] == ' ' ? p[2] : '?';
}

void child_clock_start(struct child_clock *c, pid_t pid, uint64_t blocked_max, uint64_t cpu_max)
{
	const struct times t = times_of(pid);
	uint64_t now = channel_now_ns(), least = blocked_max < cpu_max ? blocked_max : cpu_max;
	*c = (struct child_clock){ blocked_max, cpu_max, now, now + least, t.cpu_ns, t.queued_ns };
}

static uint64_t above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Return the time that counts, and its limit. */
static uint64_t used_ns(const struct child_clock *c, pid_t pid, uint64_t now, uint64_t *ret_max)
{
	bool runnable = sandbox_child_state(pid) == 'R';
	const struct times t = times_of(pid);
	*ret_max = runnable ? c->cpu_max : c->blocked_max;
	return runnable ? above(t.cpu_ns, c->cpu_ns)
			: above(now - c->begin_ns, above(t.queued_ns, c->queued_ns));
}

uint64_t child_clock_used_ns(const struct child_clock *c, pid_t pid, uint64_t now)
{
	uint64_t max;
	return used_ns(c, pid, now, &max);
}

bool child_clock_is_late(struct child_clock *c, pid_t pid, uint64_t now)
{
	uint64_t max;
	if (now < c->look_ns)
		return false;
	uint64_t used = used_ns(c, pid, now, &max);
	c->look_ns = now + c->blocked_max / LOOKS;
	return now - c->begin_ns >= CHILD_STARVED_NS || used >= max;
}
