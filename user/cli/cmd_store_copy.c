/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe store snapshot, merge and delete. */
#include "cli/cmd_store.h"

#include "daemon/freeze.h"
#include "query/selector.h"
#include "push/rewritten.h"
#include "store/ops/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

static volatile bool stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = true;
}

/* The first signal ends the work and removes what was begun; the second ends the program. */
static void catch_signals(void)
{
	const struct sigaction a = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
}

static int failed(const char *verb, const struct err *err)
{
	cmd_error("store %s: %s", verb, err->text);
	return EXIT_FAILED;
}

int store_command_snapshot(const struct store_command *c)
{
	struct snapshot_result r;
	struct err err = { 0 };
	if (c->n_dirs != 1 || !c->output) {
		cmd_error("store snapshot: %s (see ascribe store --help)",
			  c->output ? "name one store" : "where to? -o COPY");
		return EXIT_USAGE;
	}
	catch_signals();
	if (store_snapshot(c->dirs[0], c->output, &stopped, &r, &err))
		return failed("snapshot", &err);
	printf("%s: %zu windows; %zu files linked, %zu copied (%" PRIu64 " bytes)\n", c->output,
	       r.windows, r.linked, r.copied, r.bytes_copied);
	return EXIT_OK;
}

static void say_coarse(const char *dir, const struct copy_result *r)
{
	if (r->coarse)
		cmd_say("%s: retention had cut the windows of %zu blocks; each is one window now, "
			"with the labels that it can tell",
			dir, r->coarse);
}

int store_command_merge(const struct store_command *c)
{
	struct copy_result r;
	struct err err = { 0 };
	if (!c->output) {
		cmd_error("store merge: where to? -o STORE (see ascribe store --help)");
		return EXIT_USAGE;
	}
	catch_signals();
	if (store_merge(c->dirs, c->n_dirs, c->output, &stopped, &r, &err))
		return failed("merge", &err);
	printf("%s: %zu windows of %zu stores\n", c->output, r.windows, c->n_dirs);
	say_coarse(c->output, &r);
	return EXIT_OK;
}

/* ---- delete ---- */

struct deleting {
	struct selector *s;
	struct err *err;
};

static int match_set(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	const struct deleting *d = ctx;
	return selector_match(d->s, labels, n, ret, d->err);
}

static int match_event(void *ctx, const char *event, bool *ret)
{
	const struct deleting *d = ctx;
	return selector_match_event(d->s, event, ret, d->err);
}

/* What was sent stays sent. */
static int keep_cursors(void *ctx, const char *from, const char *to, struct err *err)
{
	(void)ctx;
	return push_cursors_move(from, to, err);
}

static int print_deleted(const struct store_command *c, const struct copy_result *r)
{
	if (r->blind)
		cmd_incomplete("%s: %zu blocks whose windows retention has cut cannot tell which "
			       "of their samples match: those were kept",
			       c->dirs[0], r->blind);
	if (!r->touched) {
		cmd_error("store delete: nothing in %s matches %s; the store is as it was",
			  c->dirs[0], c->where);
		return EXIT_FAILED;
	}
	printf("%s: %" PRIu64 " samples deleted, of %zu windows\n", c->dirs[0], r->removed_samples,
	       r->touched);
	say_coarse(c->dirs[0], r);
	return EXIT_OK;
}

/* Frozen stores have the same samples, and would go with the old directory. */
static int check_frozen(const char *dir, struct err *err)
{
	char path[600];
	snprintf(path, sizeof(path), "%s/" FREEZE_DIR, dir);
	if (!rmdir(path) || errno == ENOENT || errno == ENOTDIR)
		return 0;
	return err_set(err, -EEXIST,
		       "%s has stores with samples of the same time: move them elsewhere, and "
		       "delete from each",
		       path);
}

static int delete_matching(const struct store_command *c, struct selector *s)
{
	const char *keys[SELECTOR_KEYS_MAX];
	struct err err = { 0 };
	struct deleting ctx = { s, &err };
	struct copy_result r;
	size_t n = selector_keys(s, keys, SELECTOR_KEYS_MAX);
	const struct store_deletion d = {
		.from_ns = c->from_ns,
		.to_ns = c->to_ns,
		.matches = match_set,
		.event = selector_names_event(s) ? match_event : NULL,
		.counts = query_counts_samples,
		.keys = keys,
		.n_keys = n < SELECTOR_KEYS_MAX ? n : SELECTOR_KEYS_MAX,
		.ready = keep_cursors,
		.ctx = &ctx,
	};
	catch_signals();
	if (check_frozen(c->dirs[0], &err) || store_delete(c->dirs[0], &d, &stopped, &r, &err))
		return failed("delete", &err);
	return print_deleted(c, &r);
}

int store_command_delete(const struct store_command *c)
{
	const struct filter f = { .where = c->where, .from_ns = c->from_ns, .to_ns = c->to_ns };
	struct selector *s;
	struct err err = { 0 };
	if (c->n_dirs != 1 || !c->where) {
		cmd_error("store delete: %s (see ascribe store --help)",
			  c->where ? "name one store" : "which samples? --where SELECTOR");
		return EXIT_USAGE;
	}
	int status = reading_check(&f, "--where", "--from");
	if (status)
		return status;
	if (selector_parse(&s, c->where, NULL, &err))
		return failed("delete", &err);
	if (selector_names_wait(s)) {
		cmd_error("store delete: `wait` is no label of samples: select by other labels, or "
			  "by event");
		status = EXIT_USAGE;
	} else {
		status = delete_matching(c, s);
	}
	selector_free(s);
	return status;
}
