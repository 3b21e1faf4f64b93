/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe store: what a store holds, whether it is whole, its parents, its repair. */
#include "cli/cmd_store.h"
#include "opt/old_store.h"
#include "opt/text.h"
#include "store/damage.h"
#include "store/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define STORES_MAX 64 /* of one merge */

static const struct opt options[] = {
	{ "output", 'o', OPT_STRING, "STORE", "snapshot, merge: the new store",
	  offsetof(struct store_command, output), 0, 0 },
	{ "where", 'w', OPT_STRING, "SELECTOR",
	  "delete: the samples with these labels: {tenant=\"a\",query_id=~\"4.*\"}",
	  offsetof(struct store_command, where), 0, 0 },
	{ "from", 0, OPT_TIME, "T",
	  "delete: only from here on: -1h, 14:05, \"2026-11-23 14:05\", epoch seconds",
	  offsetof(struct store_command, from_ns), 0, 0 },
	{ "to", 0, OPT_TIME, "T", "delete: only up to here, in whole windows",
	  offsetof(struct store_command, to_ns), 0, 0 },
};

static const struct opt_note actions[] = {
	{ "info", "what the store holds: blocks by level, tables, what retention has cut" },
	{ "verify", "read every byte and say what is damaged; exit status 1 when anything is" },
	{ "compact",
	  "write the blocks of the segment tree above the windows, so that long ranges are "
	  "read faster; a store of an older version (format 2) is rewritten, which needs "
	  "room for both" },
	{ "repair", "cut out what is damaged, keep all the rest, say exactly what was cut" },
	{ "snapshot",
	  "copy a store that may be written meanwhile to -o STORE; files that are complete "
	  "become hard links where that is possible" },
	{ "merge", "write the windows of several stores to -o STORE, in order of time. Samples get "
		   "the label `host` where they have none" },
	{ "delete",
	  "remove the samples that match --where for good, from all levels. The store is "
	  "written anew beside the old one, so as much space is needed again; exit status 1 "
	  "when nothing matches" },
	{ NULL, NULL },
};

static const struct opt_command command = {
	.name = "store",
	.usage = "info|verify|compact|repair|snapshot|merge|delete STORE ... [OPTIONS]",
	.about = "Look after stores: the directories that record and daemon write.",
	.examples =
		"  ascribe store info ./ascribe.data\n"
		"  ascribe store verify /var/lib/ascribe\n"
		"  ascribe store snapshot /var/lib/ascribe -o /tmp/copy\n"
		"  ascribe store merge web1 web2 -o web && ascribe report web --by host\n"
		"  ascribe store delete ./ascribe.data --where '{tenant=\"acme\"}' --to now-1d\n",
	.notes_title = "Actions",
	.notes = actions,
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.pages = true,
	.max_args = 1 + STORES_MAX,
};

static void print_level(struct store *s, uint8_t level, const struct store_cover *all)
{
	size_t n = 0;
	uint64_t rows = 0, folded = 0;
	int64_t from = 0, to = 0;
	char range[120] = "";
	for (size_t i = 0; i < all->n; i++) {
		const struct store_block *b = all->blocks[i];
		if (b->level != level)
			continue;
		from = !n || b->t0_ns < from ? b->t0_ns : from;
		to = !n || b->t1_ns > to ? b->t1_ns : to;
		rows += b->n_rows;
		folded += b->n_folded;
		n++;
	}
	const struct store_cut *cut = store_cut(s, level);
	if (n)
		text_range(from, to, range);
	if (n)
		printf("  level %-4s %8zu blocks  %10" PRIu64 " rows with labels  %10" PRIu64
		       " folded   %s\n",
		       store_level_name(level), n, rows, folded, range);
	if (cut && cut->blocks)
		printf("  level %-4s %8" PRIu64 " blocks cut by retention: %" PRIu64
		       " bytes by age, %" PRIu64 " by size\n",
		       store_level_name(level), cut->blocks, cut->bytes_by_age, cut->bytes_by_size);
}

/* A key that is wide in many files is told once, with the most values. */
static void print_wide_keys(struct store *s)
{
	struct store_wide_key k, other;
	for (size_t i = 0; store_wide_key(s, i, &k); i++) {
		bool told = false;
		size_t files = 1;
		char from[40];
		for (size_t j = 0; j < i && !told && store_wide_key(s, j, &other); j++)
			told = !strcmp(other.key, k.key);
		for (size_t j = i + 1; !told && store_wide_key(s, j, &other); j++) {
			if (strcmp(other.key, k.key))
				continue;
			k.values = other.values > k.values ? other.values : k.values;
			files++;
		}
		if (told)
			continue;
		fputs("  wide    ", stdout);
		text_put(stdout, k.key, 0);
		if (k.values > STORE_WIDE_VALUES)
			printf(": %s%" PRIu32 " values in an hour, more than %d",
			       k.values >= 8 * STORE_WIDE_VALUES ? "at least " : "", k.values,
			       STORE_WIDE_VALUES);
		else
			printf(": the label sets became too many, and it had the most values, %" PRIu32,
			       k.values);
		text_time(k.from_ns, from);
		printf("; in %zu of %zu files, the first from %s on\n", files, store_n_files(s),
		       from);
	}
}

static int print_narrow_key(void *ctx, const char *key, uint32_t sets)
{
	(void)ctx;
	fputs("  narrow  ", stdout);
	text_put(stdout, key, 0);
	printf(": in %" PRIu32 " label sets\n", sets);
	return 0;
}

/* Values of wide keys stand in the windows themselves, those of narrow keys once in a file. */
static void print_keys(struct store *s)
{
	struct err err = { 0 };
	puts("label keys:");
	print_wide_keys(s);
	if (store_narrow_keys(s, print_narrow_key, NULL, &err))
		cmd_warn("%s", err.text);
}

static int info(const struct store_command *c)
{
	const char *dir = c->dirs[0];
	struct reading r = { 0 };
	struct err err = { 0 };
	struct store_cover all = { 0 };
	int status = reading_open_store(&r, (char *[]){ (char *)dir }, 1, NULL);
	if (status)
		return status;
	const struct store_meta *m = store_meta(r.store);
	text_put(stdout, m->what, 0);
	printf("; host ");
	text_put(stdout, m->host, 0);
	printf(", ");
	text_put(stdout, m->os, 0);
	putchar('\n');
	printf("%zu windows in %zu files; %" PRIu32 " events\n", store_n_windows(r.store),
	       store_n_files(r.store), store_n_events(r.store));
	print_keys(r.store);
	printf("in the cover of the whole range:\n");
	if (store_cover(r.store, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &all, &err)) {
		cmd_error("store info: %s", err.text);
		status = EXIT_FAILED;
	} else {
		for (uint8_t level = 0; level < STORE_N_LEVELS; level++)
			print_level(r.store, level, &all);
		store_cover_free(&all);
	}
	reading_close(&r);
	return status;
}

struct findings {
	size_t damaged, torn, cut;
};

static void on_finding(void *ctx, const struct store_finding *f)
{
	static const char *const words[] = { "damaged", "torn", "cut" };
	struct findings *n = ctx;
	printf("%-8s ", words[f->kind]);
	text_put(stdout, f->path, 0);
	printf(" at %" PRIu64 ": %s\n", f->offset, f->text);
	n->damaged += f->kind == STORE_DAMAGED;
	n->torn += f->kind == STORE_TORN;
	n->cut += f->kind == STORE_CUT;
}

static int verify(const struct store_command *c)
{
	const char *dir = c->dirs[0];
	struct findings n = { 0 };
	struct err err = { 0 };
	if (store_verify(dir, on_finding, &n, &err)) {
		cmd_error("store verify: %s", err.text);
		return EXIT_FAILED;
	}
	printf("%s: %zu damaged, %zu torn ends\n", n.damaged ? "damaged" : "whole", n.damaged,
	       n.torn);
	return n.damaged ? EXIT_FAILED : EXIT_OK;
}

static int repair(const struct store_command *c)
{
	const char *dir = c->dirs[0];
	struct findings n = { 0 };
	struct err err = { 0 };
	if (store_repair(dir, on_finding, &n, &err)) {
		cmd_error("store repair: %s", err.text);
		return EXIT_FAILED;
	}
	printf("repaired: %zu damaged, %zu torn, %zu cut\n", n.damaged, n.torn, n.cut);
	return EXIT_OK;
}

/* Parents are written by a writer: it takes the lock, with the counters that the store has. */
static int compact(const struct store_command *c)
{
	const char *dir = c->dirs[0];
	struct reading r = { 0 };
	struct store_writer *w = NULL;
	struct store_options keep;
	struct err err = { 0 };
	uint64_t rewritten;
	if (old_store_rewrite(dir, cmd_say, &rewritten, &err)) {
		cmd_error("store compact: %s", err.text);
		return EXIT_FAILED;
	}
	int status = reading_open_store(&r, (char *[]){ (char *)dir }, 1, NULL);
	if (status)
		return status;
	store_options_default(&keep);
	keep.windows_only = true;
	int rc = store_writer_open_with(&w, dir, store_meta(r.store), &keep, &err);
	rc = rc ? rc : store_compact(w, &err);
	if (rc)
		cmd_error("store compact: %s", err.text);
	else
		printf("%s: %" PRIu64 " bytes written\n", dir,
		       rewritten + store_writer_state(w)->bytes_written);
	store_writer_close(w);
	reading_close(&r);
	return rc ? EXIT_FAILED : EXIT_OK;
}

/* An option that the verb would pass over is a mistake. */
static const struct verb {
	const char *name;
	int (*run)(const struct store_command *c);
	/* Takes --output; --where, --from and --to; more than one store */
	bool makes, selects, many;
} verbs[] = {
	{ "info", info, false, false, false },
	{ "verify", verify, false, false, false },
	{ "compact", compact, false, false, false },
	{ "repair", repair, false, false, false },
	{ "snapshot", store_command_snapshot, true, false, false },
	{ "merge", store_command_merge, true, false, true },
	{ "delete", store_command_delete, false, true, false },
};

static int run_verb(const struct verb *v, const struct store_command *c)
{
	bool selects = c->where || c->from_ns != INT64_MIN || c->to_ns != INT64_MAX;
	const char *wrong = c->output && !v->makes   ? "--output is not for this"
			    : selects && !v->selects ? "--where, --from and --to are not for this"
			    : c->n_dirs > 1 && !v->many ? "name one store"
							: NULL;
	if (!wrong)
		return v->run(c);
	cmd_error("store %s: %s (see ascribe store --help)", v->name, wrong);
	return EXIT_USAGE;
}

int cmd_store(int argc, char **argv)
{
	static const char *const standard[] = { DEFAULT_STORE };
	struct store_command c = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &c, &args, &status))
		return status;
	c.dirs = args.n > 1 ? (const char *const *)args.v + 1 : standard;
	c.n_dirs = args.n > 1 ? args.n - 1 : 1;
	for (size_t i = 0; args.n && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(args.v[0], verbs[i].name))
			return run_verb(&verbs[i], &c);
	cmd_error("store: %s%s%s; there are info, verify, compact, repair, snapshot, merge and "
		  "delete (see ascribe store --help)",
		  args.n ? "no '" : "what is to be done", args.n ? args.v[0] : "",
		  args.n ? "'" : "");
	return EXIT_USAGE;
}
