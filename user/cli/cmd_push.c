/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe push: the windows of a store to a receiver of profiles. */
#include "cli/cmd.h"
#include "opt/push_options.h"
#include "opt/signals.h"
#include "push/pusher.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct push_options, member)
#define GIVE_UP_NS 300000000000ll

static const struct opt options[] = {
	PUSH_TARGET_OPTIONS(struct push_options),
	{ "to", 0, OPT_TIME, "T", "end with windows that begin before this", AT(to_ns), 0, 0 },
	{ "follow", 0, OPT_FLAG, NULL, "go on with the windows that come, until a signal",
	  AT(follow), 0, 0 },
	{ "give-up", 0, OPT_DURATION, "TIME",
	  "end when the receiver takes nothing for so long (default 5m; with --follow never)",
	  AT(give_up_ns), 0, 0 },
	{ "keeper", 0, OPT_STRING, "STORE", NULL, AT(keeper), 0, 0 },
};

static const struct opt_command command = {
	.name = "push",
	.usage = "STORE URL [OPTIONS]",
	.about = "Send the windows of a store to a receiver of profiles, each once. A cursor in "
		 "the store says what was sent: started again, the command goes on there.",
	.examples =
		"  ascribe push ascribe.data http://collector:4318\n"
		"  ascribe push ascribe.data https://pyroscope:4040 --format pyroscope --tenant a "
		"--max-age 52w\n"
		"  ascribe push /var/lib/ascribe https://parca:7070 --format parca --follow -l "
		"cluster=prod\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = 2,
};

/* Each text once, until a window was sent. */
static void tell(void *ctx, const struct push_stats *st)
{
	struct push_stats *told = ctx;
	bool new = st->text[0] && strcmp(st->text, told->text);
	if (new && (st->failing || st->refused > told->refused || st->rejected > told->rejected))
		cmd_warn("%s%s", st->text, st->failing ? "; it is tried again" : "");
	if (told->failing && !st->failing)
		cmd_warn("sending again");
	*told = *st;
}

static void summarize(const struct push_stats *st)
{
	cmd_say("sent: %" PRIu64 " windows, %" PRIu64 " messages, %" PRIu64 " rows, %" PRIu64
		" bytes",
		st->windows, st->messages, st->rows, st->bytes);
	if (st->coarse)
		cmd_warn("older than the receiver keeps them whole: %" PRIu64
			 " windows; it has their sums by the minute, hour or day (docs/fleet.md)",
			 st->coarse);
	if (st->too_old)
		cmd_warn("not sent, as they are older than the receiver takes: %" PRIu64
			 " windows (--max-age)",
			 st->too_old);
	if (st->cut)
		cmd_warn("not sent, as retention cut them before: %" PRIu64 " windows", st->cut);
	if (st->refused)
		cmd_warn("refused by the receiver: %" PRIu64 " messages; the last one: %s",
			 st->refused, st->text);
	if (st->rejected)
		cmd_warn("not kept by the receiver: %" PRIu64 " profiles", st->rejected);
}

static int run(const struct push_options *o, const char *store)
{
	struct push_stats told = { 0 }, st = { 0 };
	struct push_receiver r;
	struct err err = { 0 };
	if (push_options_config(o, &r, &err)) {
		cmd_error("push: %s", err.text);
		return EXIT_USAGE;
	}
	r.c.store = store;
	r.c.give_up_ns = o->give_up_ns || o->follow ? o->give_up_ns : GIVE_UP_NS;
	r.c.stop_fd = signals_take_once();
	r.c.report = tell;
	r.c.ctx = &told;
	int rc = push_run(&r.c, &st, &err);
	summarize(&st);
	if (rc)
		cmd_error("%s", err.text);
	return rc ? EXIT_FAILED : EXIT_OK;
}

/* For a daemon, which says over a socket what to do (push/pusher.h). */
static int keep(const char *store)
{
	struct push_section s = { 0 };
	struct err err = { 0 };
	char *text;
	int rc = pusher_take_text(&text);
	if (!rc) {
		rc = push_section_parse(&s, text, &err);
		free(text);
	}
	s.r.c.store = store;
	if (!rc)
		pusher_keep(&s.r.c);
	push_section_fini(&s);
	return EXIT_FAILED;
}

int cmd_push(int argc, char **argv)
{
	struct push_options o = PUSH_OPTIONS_INIT;
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &o, &args, &status))
		return status;
	if (o.keeper) {
		status = keep(o.keeper);
	} else if (args.n != 2) {
		cmd_error("push: which store, and to which URL?");
		status = EXIT_USAGE;
	} else {
		o.url = args.v[1];
		status = run(&o, args.v[0]);
	}
	opt_release(&command, &o);
	return status;
}
