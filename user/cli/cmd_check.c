/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascribe check: try what recording needs, one thing at a time, and say how to get what is missing.
 */
#include "cli/cmd.h"
#include "cli/processes.h"
#include "cli/rights.h"
#include "cli/runtimes.h"
#include "pods/pods.h"
#include "daemon/settings.h"
#include "opt/term.h"
#include "proc/proc.h"
#include "sampler/sampler.h"
#include "symbols/symbols.h"
#include "util/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PODS_CHECK_NS 8000000000ull /* for a source to answer */

struct check_options {
	bool json;
};

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print JSON", offsetof(struct check_options, json), 0, 0 },
};

static const struct opt_command command = {
	.name = "check",
	.usage = "[OPTIONS]",
	.about = "Try everything that recording needs on this host, and print the fix for what is "
		 "missing. Exit status 1 when recording cannot work at all.",
	.examples = "  ascribe check    # as root\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.pages = true,
	.max_args = 0,
};

enum verdict { GOOD, NOTE, BAD };

struct checks {
	json_t *list;
	bool json, failed;
	bool pod; /* fixes are lines of its manifest */
};

static void tell(struct checks *c, enum verdict v, const char *what, const char *fmt, va_list ap)
{
	static const char *const words[] = { "ok", "note", "FAIL" };
	char text[2100];
	vsnprintf(text, sizeof(text), fmt, ap);
	if (v == BAD)
		c->failed = true;
	if (!c->json) {
		term_begin(stdout, v == GOOD ? TERM_GOOD : v == NOTE ? TERM_WARN : TERM_BAD);
		printf("%-5s", words[v]);
		term_end(stdout);
		printf(" %-18s %s\n", what, text);
	} else {
		json_array_append_new(c->list, json_pack("{s:s,s:s,s:s}", "check", what, "result",
							 words[v], "text", text));
	}
}

/* One line: what was tried, what was seen; for NOTE and BAD the fix stands in the text. */
static void __attribute__((format(printf, 4, 5))) say(struct checks *c, enum verdict v,
						      const char *what, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	tell(c, v, what, fmt, ap);
	va_end(ap);
}

/* Say that a right is missing; in a pod also what that costs, and the line that gives it. */
static void __attribute__((format(printf, 4, 5)))
say_missing(struct checks *c, enum verdict v, enum right right, const char *fmt, ...)
{
	const struct right_info *r = &right_info[right];
	va_list ap;
	va_start(ap, fmt);
	tell(c, v, r->name, fmt, ap);
	va_end(ap);
	if (!c->pod)
		return;
	if (!c->json) {
		printf("      lost: %s\n      add:  %s\n", r->effect, r->yaml);
		return;
	}
	json_t *last = json_array_get(c->list, json_array_size(c->list) - 1);
	json_object_set_new(last, "effect", json_string(r->effect));
	json_object_set_new(last, "yaml", json_string(r->yaml));
}

static bool read_line(const char *path, char *out, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	out[n] = 0;
	out[strcspn(out, "\n")] = 0;
	return true;
}

/* All of them at once: setcap replaces what a file has. */
static void setcap_command(char *out, size_t cap)
{
	char path[300];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path));
	bool whole = len > 0 && len < (ssize_t)sizeof(path);
	size_t n = (size_t)snprintf(out, cap, "setcap ");
	for (size_t i = 0; i < N_CAPABILITIES; i++)
		n += (size_t)snprintf(out + n, cap - n, "%s%s", i ? "," : "", right_info[i].name);
	snprintf(out + n, cap - n, "+ep %.*s", whole ? (int)len : 7, whole ? path : "ascribe");
}

static void check_capabilities(struct checks *c)
{
	uint64_t have = rights_capabilities();
	char setcap[600];
	setcap_command(setcap, sizeof(setcap));
	bool admin = have >> 21 & 1; /* CAP_SYS_ADMIN implies BPF, PERFMON and CHECKPOINT_RESTORE */
	for (size_t i = 0; i < N_CAPABILITIES; i++) {
		const struct capability_info *k = &capability_info[i];
		const char *name = right_info[i].name;
		bool covered = admin && k->bit >= 38;
		if ((have >> k->bit & 1) || covered) {
			say(c, GOOD, name, "%s", k->use);
			continue;
		}
		say_missing(c, k->needed ? BAD : NOTE, (enum right)i, "missing, needed %s%s%s%s",
			    k->use, c->pod ? "" : ": run as root, or `", c->pod ? "" : setcap,
			    c->pod ? "" : "`");
	}
}

static void check_kernel(struct checks *c)
{
	struct utsname u;
	char text[256];
	uname(&u);
	int major = 0, minor = 0;
	sscanf(u.release, "%d.%d", &major, &minor);
	if (major * 100 + minor >= 519)
		say(c, GOOD, "kernel", "%s %s", u.release, u.machine);
	else
		say(c, BAD, "kernel", "%s is older than 5.19: boot a newer kernel", u.release);
	if (!access("/sys/kernel/btf/vmlinux", R_OK))
		say(c, GOOD, "BTF", "/sys/kernel/btf/vmlinux");
	else
		say(c, BAD, "BTF",
		    "/sys/kernel/btf/vmlinux: %s: needs a kernel with CONFIG_DEBUG_INFO_BTF=y",
		    strerror(errno));
	if (!read_line("/proc/sys/kernel/perf_event_paranoid", text, sizeof(text)))
		say(c, BAD, "perf_event_paranoid",
		    "this kernel has no perf events (CONFIG_PERF_EVENTS)");
	else if (strtol(text, NULL, 10) > 2 && !(rights_capabilities() >> 21 & 1))
		say_missing(c, BAD, RIGHT_SYS_ADMIN,
			    "%s: then Debian's kernels want CAP_SYS_ADMIN; or set "
			    "kernel.perf_event_paranoid=2",
			    text);
	else
		say(c, GOOD, "perf_event_paranoid", "%s (does not matter with CAP_PERFMON)", text);
	if (read_line("/sys/kernel/security/lockdown", text, sizeof(text)) &&
	    strstr(text, "[confidentiality]"))
		say(c, BAD, "lockdown",
		    "confidentiality mode forbids BPF to read memory: boot with lockdown=integrity");
	else
		say(c, GOOD, "lockdown", "does not stand in the way");
}

static void check_namespace(struct checks *c)
{
	struct err err = { 0 };
	uint32_t id;
	if (proc_namespace(&id, &err))
		say_missing(c, BAD, RIGHT_HOST_PID, "%s", err.text);
	else if (id)
		say_missing(c, NOTE, RIGHT_HOST_PID, "%s",
			    c->pod ? "one of its own" : PROC_NAMESPACE_WARNING);
	else
		say(c, GOOD, "PID namespace", "that of the host");
}

/* What only a pod can lack. */
static void check_pod(struct checks *c)
{
	if (rights_see_cgroups())
		say(c, GOOD, "cgroups", "those of the host");
	else
		say_missing(c, NOTE, RIGHT_CGROUP, "the host's cgroups are not mounted");
	if (!access(DAEMON_STORE, W_OK))
		say(c, GOOD, "store", DAEMON_STORE " can be written");
	else
		say_missing(c, NOTE, RIGHT_STORE, DAEMON_STORE ": %s", strerror(errno));
	if (!access(PODS_CREDENTIALS "/token", R_OK))
		say(c, GOOD, "service account", "its token can be read");
	else
		say_missing(c, NOTE, RIGHT_TOKEN, PODS_CREDENTIALS "/token: %s", strerror(errno));
	if (getenv("NODE_NAME"))
		say(c, GOOD, "NODE_NAME", "%s", getenv("NODE_NAME"));
	else
		say_missing(c, NOTE, RIGHT_NODE_NAME, "not set");
}

/* A call fails although we have its capabilities: the seccomp filter does not know it. */
static void check_filter(struct checks *c)
{
	uint64_t have = rights_capabilities();
	for (int i = RIGHT_BPF; i <= RIGHT_PERFMON; i++)
		if (!(have >> capability_info[i].bit & 1))
			return;
	if (!rights_filtered())
		return;
	say_missing(c, BAD, RIGHT_SECCOMP,
		    "the filter of this container forbids bpf or perf_event_open");
}

static void check_events(struct checks *c)
{
	const char *name = event_default();
	struct event e;
	struct err err = { 0 };
	int fd = -1;
	if (strcmp(name, "cycles"))
		say(c, NOTE, "PMU",
		    "no hardware counters (a virtual machine?): cpu-clock is used instead of cycles");
	else
		say(c, GOOD, "PMU", "cycles");
	if (event_parse(&e, name, 99, &err) || event_open(&e, 0, &fd, &err))
		say(c, BAD, "event", "%s", err.text);
	else
		say(c, GOOD, "event", "%s opens", name);
	if (fd >= 0)
		close(fd);
	if (!access("/sys/kernel/tracing/events", R_OK) ||
	    !access("/sys/kernel/debug/tracing/events", R_OK))
		say(c, GOOD, "tracefs", "tracepoints can be used as events");
	else
		say_missing(c, NOTE, RIGHT_TRACING,
			    "no tracepoint events: mount -t tracefs tracefs /sys/kernel/tracing");
}

/* The real thing: load and attach what record uses, with `waits` also --waker and --latency. */
static void try_sampler(struct checks *c, bool waits)
{
	struct sampler_config cfg = {
		.n_events = 1, .hz = 99, .window_s = 10, .wakers = waits, .instants = true
	};
	const char *name = waits ? "BPF for --wall" : "BPF";
	if (waits)
		cfg.latency[0] = 'k'; /* any key */
	struct sampler *s = NULL;
	struct sampler_memory memory;
	struct err err = { 0 };
	(void)proc_namespace(&cfg.pid_namespace, &err); /* check_namespace says what is wrong */
	int rc = event_parse(&cfg.event[0], event_default(), 99, &err);
	if (!rc && waits)
		rc = events_add_waits(cfg.event, &cfg.n_events, MAX_EVENTS, &err);
	if (rc || sampler_open(&s, &cfg, &err)) {
		say(c, waits ? NOTE : BAD, name, "%s", err.text);
		if (!waits && c->pod && err.code == -EPERM)
			check_filter(c);
		return;
	}
	sampler_memory(s, &memory);
	say(c, GOOD, name, "programs load and attach; tables of %zu KiB for %u CPUs at 99 Hz",
	    memory.tables / 1024, sampler_n_cpus(s));
	sampler_close(s);
}

static void check_symbols(struct checks *c)
{
	struct kernel_symbols *k = NULL;
	struct err err = { 0 };
	char path[64];
	if (kernel_symbols_read(&k, "/proc/kallsyms", &err))
		say(c, NOTE, "kernel symbols", "%s", err.text);
	else
		say(c, GOOD, "kernel symbols", "/proc/kallsyms");
	kernel_symbols_free(k);
	snprintf(path, sizeof(path), "/proc/1/root");
	char link[256];
	if (readlink(path, link, sizeof(link)) < 0)
		say(c, NOTE, "other processes",
		    "%s: %s: only your own processes get names and labels", path, strerror(errno));
	else
		say(c, GOOD, "other processes", "their files and label slots can be read");
	if (read_line("/proc/sys/kernel/perf_event_max_stack", link, sizeof(link)) &&
	    atoi(link) < KERNEL_FRAMES_MAX)
		say(c, NOTE, "stack depth",
		    "%s frames: sysctl kernel.perf_event_max_stack=%d for deeper stacks", link,
		    KERNEL_FRAMES_MAX);
	say(c, GOOD, "user stacks",
	    "by the unwind rules of the binaries (.eh_frame), by frame pointers where there are none");
}

/* Only what runs is spoken of. */
static void check_runtimes(struct checks *c)
{
	struct runtime_count count[N_RUNTIMES];
	runtimes_look(count);
	for (int r = 0; r < N_RUNTIMES; r++) {
		const struct runtime_advice *a = &runtime_advice[r];
		char list[64] = "";
		for (uint32_t i = 0; i < count[r].n_without && i < 4; i++)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%u",
				 i ? ", " : "", count[r].tgid[i]);
		if (count[r].n_without)
			say(c, NOTE, a->name, "%u of %u processes (%s%s) run %s%s%s%s: %s",
			    count[r].n_without, count[r].n, list,
			    count[r].n_without > 4 ? ", ..." : "", a->lack,
			    count[r].missing[0] ? " (missing, wrong or not known: " : "",
			    count[r].missing, count[r].missing[0] ? ")" : "", a->fix);
		else if (count[r].n)
			say(c, GOOD, a->name, "%u processes run with what names their code",
			    count[r].n);
	}
}

/* Ask as the daemon would, and say who answered. */
static void check_pods(struct checks *c)
{
	static const char name[] = "names of pods";
	struct pods_config cfg = { 0 };
	struct pods *p = NULL;
	struct pods_stats st = { 0 };
	struct err err = { 0 };
	if (pods_open(&p, &cfg, &err)) {
		say(c, NOTE, name, "%s", err.text);
		return;
	}
	if (!p) {
		say(c, GOOD, name, "no Kubernetes, container runtime or engine here");
		return;
	}
	const uint64_t until = clock_ns(CLOCK_MONOTONIC) + PODS_CHECK_NS;
	while (!st.ok && clock_ns(CLOCK_MONOTONIC) < until) {
		struct pollfd f = { .fd = pods_fd(p), .events = POLLIN };
		poll(&f, 1, 100);
		pods_receive(p);
		pods_stats(p, &st);
	}
	const char *text = *st.text ? st.text : "no answer yet";
	if (st.ok)
		say(c, GOOD, name, "%s; %" PRIu64 " pods, %" PRIu64 " containers", text,
		    st.table.pods, st.table.containers);
	else if (strstr(text, " answers 403")) /* nothing else tells of a refusal */
		say_missing(c, NOTE, RIGHT_READ_PODS, "%s", text);
	else
		say(c, NOTE, name, "%s", text);
	pods_close(p);
}

static void tell_process(void *ctx, const char *name, const char *rights, const char *differs)
{
	if (*differs)
		say(ctx, NOTE, name, "%s. Differs from docs/security.md: %s", rights, differs);
	else
		say(ctx, GOOD, name, "%s", rights);
}

/* The rights of the daemons that run, beside those that they should have. */
static void check_processes(struct checks *c)
{
	const int n = processes_look(tell_process, c);
	if (n < 0)
		say(c, NOTE, "daemon", "cannot list the processes of /proc: %s", strerror(-n));
	else if (!n)
		say(c, GOOD, "daemon", "none runs here");
}

int cmd_check(int argc, char **argv)
{
	struct check_options o = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &o, &args, &status))
		return status;
	struct checks c = { .json = o.json, .list = json_array(), .pod = rights_in_pod() };
	check_kernel(&c);
	check_namespace(&c);
	check_capabilities(&c);
	if (c.pod)
		check_pod(&c);
	check_events(&c);
	try_sampler(&c, false);
	try_sampler(&c, true);
	check_symbols(&c);
	check_runtimes(&c);
	check_pods(&c);
	check_processes(&c);
	if (o.json) {
		json_t *root = json_pack("{s:b,s:o}", "ok", !c.failed, "checks", c.list);
		json_dumpf(root, stdout, JSON_INDENT(1));
		putchar('\n');
		json_decref(root);
	} else {
		json_decref(c.list);
		puts(c.failed ? "\nRecording does not work on this host yet: see FAIL above."
			      : "\nThis host can be recorded.");
	}
	return c.failed ? EXIT_FAILED : EXIT_OK;
}
