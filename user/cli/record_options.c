/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/record_options.h"

#include <stddef.h>
#include <stdint.h>

static const struct opt options[] = {
	{ "frequency", 'F', OPT_UINT, "HZ",
	  "samples per second and CPU of clocks and hardware events (default 99)",
	  offsetof(struct record_options, hz), 1, 50000 },
	{ "period", 'c', OPT_UINT, "N",
	  "a sample each N of hardware events, faults, switches, ... (default: at the rate, or "
	  "each one)",
	  offsetof(struct record_options, period), 1, 1u << 30 },
	{ "duration", 'd', OPT_DURATION, "TIME",
	  "stop after 10s, 2m, ... (default: at Ctrl-C or when the command ends)",
	  offsetof(struct record_options, duration_ns), 0, 0 },
	{ "all", 'a', OPT_FLAG, NULL, "every process (the default without -p, -t, -G and COMMAND)",
	  offsetof(struct record_options, all), 0, 0 },
	{ "pid", 'p', OPT_LIST, "PID,..", "only these processes and their children to come",
	  offsetof(struct record_options, target.tgids), 0, 0 },
	{ "tid", 't', OPT_LIST, "TID,..", "only these threads",
	  offsetof(struct record_options, target.tids), 0, 0 },
	{ "cgroup", 'G', OPT_LIST, "CGROUP,..",
	  "only what runs in these v2 cgroups or below them: each a directory, or a path from "
	  "the root of the hierarchy",
	  offsetof(struct record_options, target.cgroups), 0, 0 },
	{ "exclude-cgroup", 0, OPT_LIST, "CGROUP,..",
	  "all but what runs in these. With -G the deepest cgroup that is named decides",
	  offsetof(struct record_options, target.excluded), 0, 0 },
	{ "event", 'e', OPT_LIST, "EVENT,..",
	  "what to sample: cpu-clock, cycles, ..., r1a8, cpu/event=0x3c,umask=0/ (:u user mode, :k "
	  "kernel, :p precise behind them); every hit of page-faults, "
	  "context-switches, ..., of a tracepoint subsystem:name, of a function "
	  "uprobe:FILE:SYMBOL, and of a static probe usdt:FILE:PROVIDER:NAME, both with "
	  ":argN=UNIT where an argument is to be summed (bytes, ns, count) or to be the "
	  "label argN (int, label, text; both: :arg1=label:arg2=bytes); how long calls of "
	  "a function take, uretprobe:FILE:SYMBOL, with label in=SYMBOL on what happens in them; "
	  "heap: allocations of programs that run with libascribe-heap.so (docs/memory.md) "
	  "(default: cycles where there is a PMU, else cpu-clock)",
	  offsetof(struct record_options, events), 0, 0 },
	{ "label-keep", 0, OPT_LIST, "KEY,..",
	  "of the labels that programs attach keep only these; prefix* stands for all "
	  "that begin so, and the longest rule decides",
	  offsetof(struct record_options, labels.keep), 0, 0 },
	{ "label-drop", 0, OPT_LIST, "KEY,..", "leave these labels out; cmdline is one of them",
	  offsetof(struct record_options, labels.drop), 0, 0 },
	{ "label-redact", 0, OPT_LIST, "KEY,..",
	  "record of their values only a hash whose key is never written: different "
	  "values stay different",
	  offsetof(struct record_options, labels.redact), 0, 0 },
	{ "label-credentials", 0, OPT_FLAG, NULL,
	  "record values as they are that look like credentials: keys of clouds, JWTs, private "
	  "keys, password=... (default: a hash of them, as by label-redact)",
	  offsetof(struct record_options, labels.credentials), 0, 0 },
	{ "debuginfod", 0, OPT_LIST, "URL,..",
	  "ask these servers for debug files that this host has not, by build id; "
	  "env stands for what DEBUGINFOD_URLS says (default: nobody is asked)",
	  offsetof(struct record_options, debuginfod), 0, 0 },
	{ "debuginfod-cache", 0, OPT_STRING, "DIR",
	  "where such files are kept (default: ascribe/debuginfod in XDG_CACHE_HOME; "
	  "without it in /var/cache for root, in ~/.cache for others)",
	  offsetof(struct record_options, debuginfod_cache), 0, 0 },
	{ "wall", 0, OPT_FLAG, NULL,
	  "all time, not only that on a CPU: also measure every wait, blocked (event off-cpu) or "
	  "for a CPU (runq), with its stack and the thread that was running",
	  offsetof(struct record_options, wall), 0, 0 },
	{ "jvm-attach", 0, OPT_FLAG, NULL,
	  "name Java code: ask JVMs (HotSpot 17 or later) for their maps by their attach "
	  "protocol, which sends them SIGQUIT",
	  offsetof(struct record_options, jvm_attach), 0, 0 },
	{ "waker", 0, OPT_FLAG, NULL,
	  "with --wall: also who ended each wait that was no wait for a CPU: its labels, and the "
	  "stack it had; see report --metric waker and blame --wakers",
	  offsetof(struct record_options, waker), 0, 0 },
	{ "latency", 0, OPT_STRING, "KEY",
	  "all time, weighed by the values of this label (query_id, tenant): what each value costs "
	  "of wall-clock time, and which code of it ran alone; see report --metric latency",
	  offsetof(struct record_options, latency), 0, 0 },
	{ "tracks", 0, OPT_FLAG, NULL,
	  "also keep when each sample was taken, on which CPU, and each wait from 1 ms on, for "
	  "ranges shorter than 10 s",
	  offsetof(struct record_options, tracks), 0, 0 },
	{ "host", 0, OPT_STRING, "URL",
	  "let the daemon there record, beside its own samples: http://, https:// or unix:/ and a "
	  "path; with -F up to 999 and -d up to 60s (default 10s)",
	  offsetof(struct record_options, host), 0, 0 },
	{ "where", 'w', OPT_STRING, "SELECTOR", "with --host: only samples with these labels",
	  offsetof(struct record_options, where), 0, 0 },
	{ "token-file", 0, OPT_STRING, "FILE",
	  "with --host: the token for captures is in this file (capture-token-file of the daemon)",
	  offsetof(struct record_options, token_file), 0, 0 },
	{ "ca-file", 0, OPT_STRING, "FILE",
	  "with --host: certificates of the CA, PEM (default: those of the system)",
	  offsetof(struct record_options, ca_file), 0, 0 },
	{ "output", 'o', OPT_STRING, "STORE",
	  "the store to write (default ./ascribe.data); an earlier recording there "
	  "is kept as STORE.old",
	  offsetof(struct record_options, out), 0, 0 },
	{ "recipes", 0, OPT_STRING, "PATH",
	  "more label paths: a *.recipe file, or a directory of them; one with the name of "
	  "a built-in recipe replaces it",
	  offsetof(struct record_options, recipes), 0, 0 },
	{ "no-recipes", 0, OPT_FLAG, NULL, "no built-in label paths",
	  offsetof(struct record_options, no_recipes), 0, 0 },
	{ "append", 0, OPT_FLAG, NULL, "add to the store that is there",
	  offsetof(struct record_options, append), 0, 0 },
	{ "quiet", 'q', OPT_FLAG, NULL, "no progress, errors only",
	  offsetof(struct record_options, quiet), 0, 0 },
	{ "explain", 0, OPT_FLAG, NULL,
	  "say how large the tables are, and what was read and compiled for stacks and names",
	  offsetof(struct record_options, explain), 0, 0 },
};

const struct opt_command record_command = {
	.name = "record",
	.usage = "[OPTIONS] [--] [COMMAND ...]",
	.about = "Profile every process of the host, or a selection, into a store that the other "
		 "commands read. Samples carry the labels of the work that the thread was doing. "
		 "With COMMAND, that and its children are profiled while it runs, and its exit "
		 "status is passed on. As root; members of a daemon's group may have the daemon of "
		 "this host record.",
	.examples =
		"  ascribe record -d 10s                     # the whole host, ten seconds\n"
		"  ascribe record -F 999 -- ./server --once   # one command\n"
		"  ascribe record -p 1234,1240 -o /tmp/slow   # two processes, until Ctrl-C\n"
		"  ascribe record -e page-faults -d 1m\n"
		"  ascribe record --label-drop 'auth*' --label-redact user -d 1m\n"
		"  ascribe record --wall -d 30s               # and what they waited for\n"
		"  ascribe record --wall --waker -d 30s       # and who ended it\n"
		"  ascribe record --latency tenant -d 30s     # and each tenant's wall-clock time\n"
		"  ascribe record --host https://node-1:4041 --token-file t -F 999 -d 10s\n"
		"  ascribe record --debuginfod https://debuginfod.debian.net -d 1m\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = SIZE_MAX,
	.runs_command = true,
};
