/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/probe_support.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static bool is_since(const struct utsname *u, unsigned major, unsigned minor)
{
	unsigned a = 0, b = 0;
	return sscanf(u->release, "%u.%u", &a, &b) == 2 &&
	       (a > major || (a == major && b >= minor));
}

/* Does the first line of the file have the word? False, too, where it cannot be read. */
static bool has_word(const char *path, const char *word)
{
	char line[4096] = "";
	FILE *f = fopen(path, "re");
	bool found = f && fgets(line, sizeof(line), f) && strstr(line, word);
	if (f)
		fclose(f);
	return found;
}

/* With PREEMPT_DYNAMIC the command line chooses; distributions choose `voluntary` else. */
static bool may_preempt(const struct utsname *u)
{
	static const char chosen[] = "/sys/kernel/debug/sched/preempt";
	if (!strstr(u->version, "PREEMPT"))
		return false;
	if (!strstr(u->version, "PREEMPT_DYNAMIC"))
		return true;
	return has_word(chosen, "(full)") || has_word(chosen, "(lazy)") ||
	       has_word("/proc/cmdline", "preempt=full") ||
	       has_word("/proc/cmdline", "preempt=lazy");
}

bool probe_support_is_deadly(void)
{
#ifdef __x86_64__
	struct utsname u;
	return !uname(&u) && is_since(&u, 6, 18);
#else
	return false;
#endif
}

int probe_support_find(struct probe_support *ret, struct err *err)
{
	struct utsname u;
	if (uname(&u))
		return err_sys(err, -errno, "uname");
	ret->multi = is_since(&u, 6, 6);
	/* bpf_preempt_disable came with 6.10; calls of global functions behind it with 6.15. */
	ret->guard = is_since(&u, 6, 15);
	if (ret->guard || !may_preempt(&u))
		return 0;
	return err_set(err, -ENOTSUP,
		       "probes: this kernel preempts its own code (%s), and before Linux 6.15 a "
		       "BPF program cannot forbid that: %s",
		       u.version,
		       strstr(u.version, "PREEMPT_RT")
			       ? "boot Linux 6.15 or later, or a kernel without PREEMPT_RT"
			       : "start it with preempt=voluntary");
}
