/* SPDX-License-Identifier: Apache-2.0 */
#include "record/remarks.h"

#include "opt/message.h"
#include "proc/proc.h"
#include "sampler/probe.h"

#include <inttypes.h>
#include <linux/types.h>
#include <stdio.h>
#include "go_wire.h"
#include "luajit_wire.h"
#include "perl_wire.h"
#include "php_wire.h"
#include "python_wire.h"
#include "ruby_wire.h"

static void print_processes(const struct collector_progress *p)
{
	if (p->sideband_gaps)
		cmd_warn("processes: this recorder got no CPU for too long, and the kernel dropped "
			 "records of "
			 "forks, execs and mappings (%" PRIu64 " known of, %" PRIu64
			 " gaps); samples of that time "
			 "(sideband_lost in `ascribe stat`) may have no exe and function names, or "
			 "those of another "
			 "program; as root, or with CAP_SYS_NICE, the recorder runs before others",
			 p->sideband_lost, p->sideband_gaps);
}

static void print_trimmed(const struct collector_progress *p)
{
	if (p->images_trimmed)
		cmd_warn("processes: %" PRIu64 " that had ended were forgotten before the end of "
			 "their window, because more than "
			 "%d ended in it, or their mappings took more than %u MiB; their last "
			 "samples have no exe and no names",
			 p->images_trimmed, PROC_ENDED_MAX, PROC_IMAGES_BYTES_MAX >> 20);
}

static void print_unwinding(const struct unwinding_stats *u)
{
	if (u->evicted || u->over_budget)
		cmd_warn("unwind rules: %" PRIu64 " files gave way to others, %" PRIu64
			 " found no room",
			 u->evicted, u->over_budget);
	if (u->refused)
		cmd_warn("unwind rules: the call frame information of %" PRIu64
			 " files cannot be used",
			 u->refused);
	if (u->refused_entries)
		cmd_warn("unwind rules: %" PRIu64
			 " entries of call frame information cannot be understood, and have none",
			 u->refused_entries);
	if (u->ranges_full)
		cmd_warn("unwind rules: no room for the mappings of %" PRIu64 " processes",
			 u->ranges_full);
	if (u->ranges_evicted)
		cmd_warn("unwind rules: the mappings of %" PRIu64
			 " processes without samples made room for others'",
			 u->ranges_evicted);
}

static void print_silence(const struct reader_stats *r, const struct reader_silence *s)
{
	char names[READER_NAMES * 32] = "";
	size_t len = 0;
	for (size_t i = 0; i < s->n && len < sizeof(names); i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s[%u]", i ? ", " : "",
					s->v[i].comm, s->v[i].tgid);
	if (r->abandoned)
		cmd_warn("other processes: %" PRIu64
			 " reads of their memory or files did not answer in time, %" PRIu64
			 " were then not made; see unanswered in ascribe stat: %s%s",
			 r->abandoned, r->refused, names, s->others ? " and others" : "");
}

static void print_symbols(const struct symbolizer_stats *s, const struct sandbox_stats *p)
{
	if (s->refused)
		cmd_warn("names: %" PRIu64
			 " files refused (damaged, lying or too costly); their frames are "
			 "file+0xoffset",
			 s->refused);
	if (s->debug_unchecked)
		cmd_warn("names: %" PRIu64 " debug links lead to files of more than 64 MiB without "
			 "a build id, which are"
			 " not used; link with --build-id",
			 s->debug_unchecked);
	if (s->lines_refused)
		cmd_warn("names: the DWARF of %" PRIu64
			 " files was given up (damaged or too costly); they have no inlined calls",
			 s->lines_refused);
	if (p->late)
		cmd_warn("names: the parsing child was killed for being late: %" PRIu64, p->late);
	if (p->died)
		cmd_warn("names: the parsing child ended by itself: %" PRIu64, p->died);
	if (p->full)
		cmd_warn("names: %" PRIu64 " times the parsers had no room for a file more",
			 p->full);
}

static void print_jit(const struct jits_stats *j)
{
	if (j->jvms && !j->asked)
		fprintf(stderr,
			"ascribe: the code of %" PRIu64
			" JVMs has no names: record with --jvm-attach, or run"
			" `jcmd PID Compiler.perfmap` before\n",
			j->jvms);
	if (j->refused || j->silent)
		cmd_warn("names of code made at run time: %" PRIu64
			 " maps refused (not the process's own, too large, damaged); "
			 "%" PRIu64 " requests without answer from a JVM",
			 j->refused, j->silent);
}

static void print_java(const struct hotspots_stats *j)
{
	if (j->unknown)
		cmd_warn("Java: %" PRIu64 " JVMs of an unknown version (%s is missing or wrong): "
			 "their stacks stay native; start them with -XX:+PreserveFramePointer and "
			 "record with --jvm-attach",
			 j->unknown, j->missing);
	if (j->no_room)
		cmd_warn("Java: %" PRIu64 " JVMs found no place in the table of code heaps: their "
			 "stacks stay native; record fewer at a time",
			 j->no_room);
}

static void print_v8(const struct v8s_stats *v)
{
	if (v->unknown)
		cmd_warn("JavaScript: %" PRIu64
			 " processes run a V8 of an unknown version (v8dbg_%s "
			 "is missing or wrong): their functions have no names; start them with "
			 "--perf-basic-prof",
			 v->unknown, v->missing);
	if (v->no_room)
		cmd_warn("JavaScript: %" PRIu64
			 " processes found no place in the table of versions "
			 "of V8: their functions have no names; record fewer versions at a time",
			 v->no_room);
}

static void print_scripts(const struct script_unknown s[SCRIPT_LANGUAGES])
{
	static const struct {
		const char *language, *runtime, *known;
	} of[SCRIPT_LANGUAGES] = {
		[SCRIPT_PYTHON] = { "Python", "CPython", PYTHON_KNOWN },
		[SCRIPT_PHP] = { "PHP", "PHP", PHP_KNOWN },
		[SCRIPT_RUBY] = { "Ruby", "Ruby", RUBY_KNOWN },
		[SCRIPT_PERL] = { "Perl", "Perl", PERL_KNOWN },
		[SCRIPT_LUAJIT] = { "Lua", "LuaJIT", LUAJIT_KNOWN },
	};
	for (unsigned i = 0; i < SCRIPT_LANGUAGES; i++)
		if (s[i].processes)
			cmd_warn("%s: %" PRIu64 " processes run a %s of an unknown version (%s): "
				 "their %s functions have no names; ascribe knows %s",
				 of[i].language, s[i].processes, of[i].runtime, s[i].version,
				 of[i].language, of[i].known);
}

static void print_go(const struct script_unknown *go)
{
	if (go->processes)
		cmd_warn("Go: %" PRIu64 " processes run a Go of an unknown version (%s): their "
			 "stacks do not say who made a goroutine; ascribe knows Go " GO_KNOWN,
			 go->processes, go->version);
}

static void print_unhit(const char *event)
{
	if (probe_is_heap(event))
		cmd_warn("%s: no program allocated with this library. Start it with "
			 "LD_PRELOAD=FILE; in a container that is another file: mount the host's, "
			 "or record heap:/proc/PID/root/...",
			 event);
	else
		cmd_warn("%s: nobody hit it. A program in a container is another file: "
			 "/proc/PID/exe, or /proc/PID/root/...",
			 event);
}

void remarks_print(const struct collector_progress *p, const struct event *events)
{
	print_processes(p);
	print_trimmed(p);
	if (p->unknown_cpus)
		cmd_warn("%u CPUs were added after the recording began and were not recorded: "
			 "begin another one",
			 p->unknown_cpus);
	if (*p->stale)
		cmd_warn("%s ended early: its file was written to; install programs by renaming, "
			 "and record again",
			 p->stale);
	for (unsigned i = 0; i < MAX_EVENTS; i++)
		if (p->unhit >> i & 1)
			print_unhit(events[i].name);
	print_unwinding(&p->unwinding);
	print_symbols(&p->symbols, &p->parsing);
	print_silence(&p->reading, &p->silence);
	print_jit(&p->jit);
	print_java(&p->java);
	print_v8(&p->v8);
	print_scripts(p->script);
	print_go(&p->go);
}

void remarks_explain(const struct collector_progress *p)
{
	const struct unwinding_stats *u = &p->unwinding;
	fprintf(stderr,
		"explain: unwind rules of %" PRIu64 " files, %" PRIu64
		" rows, compiled in %.3f s; at most %" PRIu64 " ranges in %" PRIu64 " lists\n",
		u->compiled, u->rows, (double)u->compile_ns / 1e9, u->ranges, u->range_lists);
	fprintf(stderr,
		"explain: names of code made at run time: maps read %" PRIu64
		" times, JVMs asked %" PRIu64 " times\n",
		p->jit.maps, p->jit.asked);
	fprintf(stderr,
		"explain: Java: code heaps of %" PRIu64 " JVMs, %" PRIu64 " frames named, %" PRIu64
		" whose code was gone, names dropped %" PRIu64 " times\n",
		p->java.jvms, p->java.names, p->java.stale, p->java.forgotten);
	fprintf(stderr,
		"explain: JavaScript: %" PRIu64 " processes, %" PRIu64 " functions named, %" PRIu64
		" frames whose function was gone, names dropped %" PRIu64 " times\n",
		p->v8.programs, p->v8.names, p->v8.stale, p->v8.forgotten);
}
