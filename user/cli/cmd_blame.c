/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascribe blame: who was running while others waited for it, or who woke those that were blocked,
 * as a matrix by one label key; or the locks in which they were blocked.
 */
#include "cli/accounting.h"
#include "cli/blame_locks.h"
#include "cli/cmd.h"
#include "export/answer.h"
#include "opt/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_VICTIMS 20
#define COLUMNS 6 /* occupants that have a column; the others are summed */
#define ALL 2000  /* a line, or a column, for each, but never more than that */
#define CELL 19	  /* columns of one */

struct blame_options {
	struct filter filter;
	struct opt_list by;
	bool wakers, locks;
};

static const struct opt options[] = {
	{ "by", 'b', OPT_LIST, "KEY", "by this label key (default comm)",
	  offsetof(struct blame_options, by), 0, 0 },
	{ "wakers", 0, OPT_FLAG, NULL,
	  "instead of waits for a CPU those that somebody ended: a column for each who "
	  "woke others (of a recording with --wall --waker)",
	  offsetof(struct blame_options, wakers), 0, 0 },
	{ "locks", 0, OPT_FLAG, NULL,
	  "instead of a matrix the locks for which threads were blocked, each with who ended "
	  "the waits and is known to have held it, or not (of a recording with --wall --waker)",
	  offsetof(struct blame_options, locks), 0, 0 },
	{ "where", 'w', OPT_STRING, "SELECTOR",
	  "only who waited with these labels: {tenant=\"a\"}; labels of the thread "
	  "that was running have by. before them: {by.comm=\"make\"}",
	  offsetof(struct blame_options, filter.where), 0, 0 },
	{ "idle", 'i', OPT_FLAG, NULL,
	  "with --wakers and --locks: include idle waits, of a worker for its next work; "
	  "most of condition variables are",
	  offsetof(struct blame_options, filter.idle), 0, 0 },
	RANGE_OPTIONS(struct blame_options, filter),
	LIMIT_OPTION(
		struct blame_options, filter,
		"victims to print, 0 for all (default: 20; with --json all, at most\n2,000); the "
		"others are summed. With --locks: lines"),
	JSON_OPTION(struct blame_options, filter),
	MEMORY_OPTION(struct blame_options, filter),
	EXPLAIN_OPTION(struct blame_options, filter),
	CLICKHOUSE_OPTIONS(struct blame_options, filter.clickhouse),
};

static const struct opt_command command = {
	.name = "blame",
	.usage = "[STORE ...] [OPTIONS]",
	.about = "Show who waited for a CPU, and who was running there in the same time. Needs a "
		 "recording made with --wall. Each line is one who waited, each column one who had "
		 "the CPU: seconds, and their part of that line's waiting. (idle): nobody had the "
		 "CPU, it was waking up. (other): unknown, since more than 2048 runs of others "
		 "came between, or the wait is not over. With --wakers it shows who was blocked, "
		 "and who woke it. (interrupt): no thread did, but a timer, a device or a packet. "
		 "Idle waits are left out there, unless --idle asks for them. With --locks each "
		 "line is a lock: a futex by its variable, its file or its address, or a lock of "
		 "the kernel or a server. WHO IS says what is known of who ended the waits: the "
		 "holder released the lock; a signaller, or a poster, ended a wait for a "
		 "condition or a semaphore; interrupt: the wait timed out; a waker did it by "
		 "other means, by a signal perhaps. The stack is the one at the release, not "
		 "where the lock was taken.",
	.examples = "  ascribe blame\n"
		    "  ascribe blame --by tenant\n"
		    "  ascribe blame --by tenant --wakers\n"
		    "  ascribe blame --by tenant --locks\n"
		    "  ascribe blame --by comm --where '{tenant=\"acme\"}'\n",
	.opts = options,
	.pages = true,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = STORE_UNION_MAX,
};

static void print_cell(uint64_t ns, uint64_t of)
{
	char text[40];
	if (ns)
		snprintf(text, sizeof(text), "%.3f s %6.2f%%", (double)ns / 1e9,
			 of ? 100.0 * (double)ns / (double)of : 0.0);
	else
		snprintf(text, sizeof(text), "-");
	printf(" %*s", CELL, text);
}

static void print_head(const char *name)
{
	char *text = text_printable(name, strlen(name));
	if (text)
		text_cut(text, CELL);
	putchar(' ');
	text_put(stdout, text ? text : "?", -CELL);
	free(text);
}

static void print_matrix(const struct query_blame *b, const char *key, bool wakers)
{
	print_head(wakers ? "BLOCKED" : "WAITED");
	for (size_t c = 0; c < b->n_occupants; c++)
		print_head(b->occupant[c].name);
	printf("  ");
	text_put(stdout, key, 0);
	putchar('\n');
	for (size_t i = 0; i < b->n_victims; i++) {
		const struct blame_party *p = &b->victim[i];
		print_cell(p->ns, b->total);
		for (size_t c = 0; c < b->n_occupants; c++)
			print_cell(query_blame_ns(b, i, c), p->ns);
		printf("  ");
		text_put(stdout, *p->name ? p->name : "\"\"", 0);
		putchar('\n');
	}
	if (b->victims > b->n_victims)
		printf("\nthe rest: %zu who %s; -n 0 prints all\n", b->victims - b->n_victims + 1,
		       wakers ? "were blocked" : "waited");
	if (b->occupants > b->n_occupants)
		printf("\nthe rest: %zu who %s; --json has all\n",
		       b->occupants - b->n_occupants + 1, wakers ? "woke them" : "were running");
}

/* Say why much of a row may be (other): a window keeps so many pairs and no more. */
static void print_cut(struct store *s, const struct query_info *info)
{
	const struct store_meta *m = store_meta(s);
	for (size_t i = 0; i < m->n_flagged; i++) {
		const char *name = m->flagged_names[i];
		if (info->flagged[i] &&
		    (!strcmp(name, "blame_cut") || !strcmp(name, "wait_parts_full")))
			fprintf(stderr, "%" PRIu64 " %s: %s\n", info->flagged[i], name,
				counter_help(name));
	}
}

static int print_text(const struct reading *r, const struct query_blame *b, const char *key,
		      const struct blame_options *opts)
{
	const struct query_info *info = query_info(b->query);
	bool wakers = opts->wakers;
	char range[120];
	accounting_title(r->store);
	if (info->blocks) {
		text_range(info->from_ns, info->to_ns, range);
		puts(range);
	}
	printf("%s: %.3f s", wakers ? "blocked" : "waited for a CPU", info->seconds);
	if (info->idle_waits)
		printf("; idle waits left out: %.3f s", (double)info->idle_waits / 1e9);
	printf("\n\n");
	if (b->n_victims)
		print_matrix(b, key, wakers);
	accounting_footer(r->store, info);
	print_cut(r->store, info);
	return 0;
}

static int blame(struct reading *r, const struct blame_options *opts, const char *key)
{
	const struct filter *f = &opts->filter;
	struct query_spec spec = reading_spec(f, QUERY_KEYS, NULL);
	const struct answer a = { .store = r->store, .where = f->where };
	size_t victims = f->limit != UINT64_MAX ? f->limit : f->json ? 0 : DEFAULT_VICTIMS;
	struct query_blame *b = NULL;
	struct err err = { 0 };
	int rc = query_blame(&b, r->store, &spec, key, victims ? victims : ALL,
			     f->json ? ALL : COLUMNS, &err);
	if (rc) {
		cmd_error("%s", err.text);
		return rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	int status = reading_check_values(r, f, query_info(b->query));
	if (status) {
		query_blame_free(b);
		return status;
	}
	reading_lacks(r->store, f, query_info(b->query));
	reading_step(r, "matrix");
	rc = f->json ? cmd_print_json(answer_blame(&a, key, b)) : print_text(r, b, key, opts);
	query_blame_free(b);
	if (rc == -ENOMEM)
		cmd_error("out of memory");
	return rc ? EXIT_FAILED : EXIT_OK;
}

static int print_lock_text(const struct reading *r, const struct query_locks *l, const char *key)
{
	const struct query_info *info = query_info(l->query);
	char range[120];
	accounting_title(r->store);
	if (info->blocks) {
		text_range(info->from_ns, info->to_ns, range);
		puts(range);
	}
	printf("blocked in locks: %.3f s", (double)l->ns / 1e9);
	if (info->idle_waits)
		printf("; idle waits left out: %.3f s", (double)info->idle_waits / 1e9);
	printf("\n");
	if (l->n)
		blame_print_locks(l, key);
	accounting_footer(r->store, info);
	return 0;
}

static int locks(struct reading *r, const struct blame_options *opts, const char *key)
{
	const struct filter *f = &opts->filter;
	struct query_spec spec = reading_spec(f, QUERY_KEYS_STACKS, NULL);
	const struct answer a = { .store = r->store, .where = f->where };
	size_t max = f->limit != UINT64_MAX ? f->limit : f->json ? 0 : DEFAULT_VICTIMS;
	struct query_locks *l = NULL;
	struct err err = { 0 };
	int rc = query_locks(&l, r->store, &spec, key, max ? max : ALL, &err);
	if (rc) {
		cmd_error("%s", err.text);
		return rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	reading_lacks(r->store, f, query_info(l->query));
	reading_step(r, "locks");
	rc = f->json ? cmd_print_json(answer_locks(&a, key, l)) : print_lock_text(r, l, key);
	query_locks_free(l);
	if (rc == -ENOMEM)
		cmd_error("out of memory");
	return rc ? EXIT_FAILED : EXIT_OK;
}

int cmd_blame(int argc, char **argv)
{
	static char blamed[] = "blame", waker[] = "waker", comm[] = "comm";
	struct blame_options opts = { .filter = FILTER_INIT };
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	opts.filter.metric = opts.wakers || opts.locks ? waker : blamed;
	opts.filter.blames = true;
	char *key = opts.by.n ? opts.by.v[0] : comm;
	if (opts.by.n > 1) {
		cmd_error("blame: --by takes one key");
		opt_release(&command, &opts);
		return EXIT_USAGE;
	}
	if (reading_of_threads(&opts.filter, &(struct opt_list){ &key, 1 })) {
		cmd_error(
			"blame: waits are kept here by the labels of the work, not by tgid, tid or thread");
		opt_release(&command, &opts);
		return EXIT_USAGE;
	}
	if (opts.locks && (opts.wakers || opts.filter.clickhouse.url)) {
		cmd_error("blame: --locks goes without %s",
			  opts.wakers ? "--wakers" : "--clickhouse");
		opt_release(&command, &opts);
		return EXIT_USAGE;
	}
	status = reading_check(&opts.filter, "--where", "--from");
	const struct opt_list keys = { &key, 1 };
	reading_ask_one(&r, QUERY_KEYS, &keys);
	r.blame = true;
	status = status ? status : reading_open_store(&r, args.v, args.n, &opts.filter);
	status = status ? status
			: reading_check_keys(&r, &opts.filter, (const char *const *)&key, 1);
	if (!status)
		status = opts.locks ? locks(&r, &opts, key) : blame(&r, &opts, key);
	reading_close(&r);
	opt_release(&command, &opts);
	return status;
}
