/* SPDX-License-Identifier: Apache-2.0 */
/* What every reading command does first: open the store, ask the query, say what is damaged. */
#include "cli/cmd.h"
#include "cli/known.h"
#include "opt/old_store.h"
#include "opt/temp_store.h"
#include "opt/text.h"
#include "query/selector.h"
#include "util/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 3 /* of a question that retention interrupts */

static int64_t now_ns(void)
{
	return (int64_t)clock_ns(CLOCK_MONOTONIC);
}

void reading_step(struct reading *r, const char *what)
{
	if (!r->explain)
		return;
	int64_t now = now_ns();
	fprintf(stderr, "explain: %-12s %9.3f ms\n", what, (double)(now - r->step_ns) / 1e6);
	r->step_ns = now;
}

/*
 * Limit the memory of answers, where any are asked for. Arrays that grow have mappings of their
 * own: in a heap each growth leaves a hole, which would count as well.
 */
static int open_stores(struct reading *r, uint64_t memory, struct err *err)
{
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	int rc = store_open_all(&r->store, r->dirs, r->n_dirs, err);
	if (!rc && memory)
		store_limit(r->store, &(struct store_limits){ .bytes = memory });
	return rc;
}

static void say_error(int rc, const struct err *err)
{
	cmd_error("%s%s", err->text,
		  rc == -EBADMSG ? "; `ascribe store verify` lists what is damaged, `ascribe store "
				   "repair` cuts it out"
				 : "");
}

static int names_of(const struct filter *f)
{
	static const char *const styles[] = { "full", "folded", "simple" };
	for (int i = 0; f->names && i < 3; i++)
		if (!strcmp(f->names, styles[i]))
			return i;
	return f->names ? -1 : QUERY_NAMES_FULL;
}

/* Fill a store from ClickHouse with what the question needs. */
static int fill_from_fleet(struct reading *r, const struct filter *f, struct err *err)
{
	const bool keys = r->one && r->keys && r->keys->n;
	const bool few = !r->one || r->labels == QUERY_KEYS_STACKS;
	const bool finite = f->from_ns != INT64_MIN && f->to_ns != INT64_MAX && !r->one;
	const struct fleet_question q = {
		.where = f->where,
		/* Questions about changes look at as much time before. */
		.from_ns = finite ? f->from_ns - (f->to_ns - f->from_ns) : f->from_ns,
		.to_ns = f->to_ns,
		.event = f->event,
		.metric = (enum query_metric)reading_metric(f),
		.several = !r->one,
		.idle = f->idle,
		.no_stacks = r->one && (r->labels == QUERY_KEYS || r->labels == QUERY_TOTALS),
		.list_keys = r->one && r->labels == QUERY_TOTALS && !r->every_s,
		.all_labels = r->one && r->labels == QUERY_ALL_LABELS,
		.keys = keys ? (const char *const *)r->keys->v : fleet_few_keys,
		.n_keys = keys	? r->keys->n
			  : few ? FLEET_FEW_KEYS
				: 0,
		.compares = r->against,
		.against = r->against ? r->against->where : NULL,
		.against_from_ns = r->against ? r->against->from_ns : 0,
		.against_to_ns = r->against ? r->against->to_ns : 0,
		.by_start = f->by_start && query_takes_starts(f->from_ns, f->to_ns),
		.rest = r->rest,
		.blame = r->blame,
		.steps = !r->one,
		.step_s = r->every_s,
		.functions = names_of(f) == QUERY_NAMES_FULL ? r->functions : 0,
		.memory = f->memory,
	};
	int rc = temp_store_new(&r->dirs[0], err);
	r->n_dirs = 1;
	r->fleet = !rc;
	return rc ? rc : fleet_fill(r->dirs[0], &f->clickhouse, &q, &r->filled, err);
}

int reading_open_store(struct reading *r, char *const *dirs, size_t n, const struct filter *f)
{
	struct err err = { 0 };
	if (n > STORE_UNION_MAX) {
		cmd_error("more than %d stores", STORE_UNION_MAX);
		return EXIT_USAGE;
	}
	r->dirs[0] = DEFAULT_STORE;
	r->n_dirs = n ? n : 1;
	for (size_t i = 0; i < n; i++)
		r->dirs[i] = dirs[i];
	r->explain = f && f->explain;
	r->started_ns = r->step_ns = now_ns();
	if (f && f->clickhouse.url && n) {
		cmd_error("--clickhouse and a store exclude each other");
		return EXIT_USAGE;
	}
	int rc = f && f->clickhouse.url ? fill_from_fleet(r, f, &err)
					: old_store_copies(r->dirs, r->n_dirs, &err);
	rc = rc ? rc : open_stores(r, f ? f->memory : 0, &err);
	if (rc == -ENOENT && !n && !r->fleet) {
		cmd_error("%s; record one with `ascribe record`, or name a store", err.text);
		return EXIT_FAILED;
	}
	if (rc) {
		say_error(rc, &err);
		return r->fleet && rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	const char *damage = store_damage(r->store);
	if (damage && store_lost_windows(r->store))
		cmd_incomplete("%s; `ascribe store verify` says more", damage);
	else if (damage)
		cmd_warn("%s", damage);
	reading_step(r, "open store");
	return EXIT_OK;
}

void reading_show_place(const char *text, size_t at)
{
	char *shown = text_printable(text, strlen(text)), *before = text_printable(text, at);
	if (shown && before)
		fprintf(stderr, "  %s\n  %*s^\n", shown, (int)text_width(before), "");
	free(shown);
	free(before);
}

static int check_selector(const char *option, const char *text)
{
	struct selector *s = NULL;
	struct err err = { 0 };
	size_t at = 0;
	int rc = selector_parse(&s, text, &at, &err);
	selector_free(s);
	if (!rc)
		return EXIT_OK;
	cmd_error("%s: %s", option, err.text);
	if (rc == -EINVAL)
		reading_show_place(text, at);
	return rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}

int reading_metric(const struct filter *f)
{
	enum query_metric metric;
	int rc = query_metric_named(f->metric, &metric);
	return rc || (metric == QUERY_BLAME && !f->blames) ? -1 : (int)metric;
}

int reading_check(const struct filter *f, const char *where, const char *from)
{
	if (reading_metric(f) < 0) {
		cmd_error("--metric: %s is none of " QUERY_METRICS, f->metric);
		return EXIT_USAGE;
	}
	if (f->metric && f->event && reading_metric(f) != QUERY_VALUE) {
		cmd_error("--metric and --event exclude each other, but for --metric value");
		return EXIT_USAGE;
	}
	if (names_of(f) < 0) {
		cmd_error("--names: %s is none of full, folded, simple", f->names);
		return EXIT_USAGE;
	}
	if (f->from_ns >= f->to_ns) {
		cmd_error("%s must be before %.*sto", from, (int)(strlen(from) - strlen("from")),
			  from);
		return EXIT_USAGE;
	}
	return check_selector(where, f->where);
}

/* Has retention cut anything that the range would have? */
static bool was_cut(const struct store *s, int64_t from_ns)
{
	for (uint8_t level = 0; level < STORE_N_LEVELS; level++) {
		const struct store_cut *cut = store_cut(s, level);
		if (cut && cut->before_ns && cut->before_ns > from_ns)
			return true;
	}
	return false;
}

void reading_no_data(struct store *s, int64_t from_ns, int64_t to_ns)
{
	struct store_cover all = { 0 };
	struct err err = { 0 };
	char range[120];
	if (store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &all, &err)) {
		cmd_warn("no data: %s", err.text);
		return;
	}
	bool empty = !all.n;
	int64_t first = all.from_ns, last = all.to_ns;
	store_cover_free(&all);
	if (empty) {
		cmd_warn("no data: the store holds no window");
		return;
	}
	text_range(first, last, range);
	cmd_warn(
		"no data in this time range, which %s; the store holds %s",
		to_ns <= first
			? was_cut(s, from_ns)
				  ? "is past retention: it ends before the first window that was kept"
				  : "ends before the first window"
		: from_ns >= last ? "begins after the last window"
				  : "lies where nothing was recorded",
		range);
}

bool reading_of_threads(const struct filter *f, const struct opt_list *keys)
{
	return query_of_threads(f->where, keys ? (const char *const *)keys->v : NULL,
				keys ? keys->n : 0);
}

struct query_spec reading_spec(const struct filter *f, enum query_labels labels,
			       const struct opt_list *keys)
{
	struct query_spec spec = { .where = f->where,
				   .from_ns = f->from_ns,
				   .to_ns = f->to_ns,
				   .event = f->event,
				   .metric = (enum query_metric)reading_metric(f),
				   .idle = f->idle,
				   .names = (enum query_names)names_of(f),
				   .labels = labels,
				   .by_start =
					   f->by_start && query_takes_starts(f->from_ns, f->to_ns),
				   .parts = f->parts,
				   .least = f->least };
	if (keys) {
		spec.keys = (const char *const *)keys->v;
		spec.n_keys = keys->n;
	}
	return spec;
}

void reading_labels_gone(const struct query_info *info)
{
	if (info->coarse)
		cmd_warn("%" PRIu64 " of %" PRIu64
			 " windows have these labels no more, for age or want of space: their "
			 "samples count as having none",
			 info->coarse, info->windows);
	if (info->gone)
		cmd_warn("windows left out, since they are cut and with them these labels: %" PRIu64
			 " (stacks without labels have what is known of them)",
			 info->gone);
}

void reading_bounded(const struct filter *f, bool bounded)
{
	if (bounded)
		fprintf(stderr,
			"The answer was cut to fit %" PRIu64
			" MiB: the smallest rows are summed as (other).\n",
			f->memory >> 20);
}

void reading_lacks(struct store *s, const struct filter *f, const struct query_info *info)
{
	if (!info->blocks)
		reading_no_data(s, f->from_ns, f->to_ns);
	reading_labels_gone(info);
	reading_bounded(f, info->bounded);
}

int reading_check_keys(struct reading *r, const struct filter *f, const char *const *keys, size_t n)
{
	struct err err;
	/* What came from ClickHouse knows the keys of this question and range alone. */
	if (r->fleet || !known_keys(r->store, f->where, keys, n, &err))
		return EXIT_OK;
	cmd_error("%s", err.text);
	return EXIT_USAGE;
}

int reading_check_values(struct reading *r, const struct filter *f, const struct query_info *info)
{
	const struct query_spec spec = reading_spec(f, QUERY_NO_LABELS, NULL);
	struct err err;
	if (r->fleet || info->samples || !info->blocks || !known_values(r->store, &spec, &err))
		return EXIT_OK;
	cmd_error("%s", err.text);
	return EXIT_USAGE;
}

bool reading_again(struct reading *r, const struct filter *f, int *rc, struct err *err)
{
	if (*rc != -ESTALE || r->tries++ >= TRIES)
		return false;
	store_close(r->store);
	r->store = NULL;
	*rc = open_stores(r, f->memory, err);
	return !*rc;
}

int reading_query(struct reading *r, const struct filter *f, enum query_labels labels,
		  const struct opt_list *keys)
{
	struct err err = { 0 };
	struct query_spec spec = reading_spec(f, labels, keys);
	int status = reading_check_keys(r, f, spec.keys, spec.n_keys);
	if (status)
		return status;
	int rc;
	do
		rc = query_open(&r->query, r->store, &spec, &err);
	while (reading_again(r, f, &rc, &err));
	if (rc) {
		say_error(rc, &err);
		return rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	status = reading_check_values(r, f, query_info(r->query));
	if (status)
		return status;
	reading_lacks(r->store, f, query_info(r->query));
	reading_step(r, "query");
	return EXIT_OK;
}

void reading_ask_one(struct reading *r, enum query_labels labels, const struct opt_list *keys)
{
	r->one = true;
	r->labels = labels;
	r->keys = keys;
}

void reading_ask_series(struct reading *r, int64_t step_ns, const struct opt_list *keys)
{
	reading_ask_one(r, keys->n ? QUERY_KEYS : QUERY_TOTALS, keys);
	r->every_s = fleet_step_s(step_ns);
}

int reading_open_keys(struct reading *r, char *const *dirs, size_t n, const struct filter *f,
		      enum query_labels labels, const struct opt_list *keys)
{
	int status = reading_check(f, "--where", "--from");
	reading_ask_one(r, labels, keys);
	if (!status)
		status = reading_open_store(r, dirs, n, f);
	return status ? status : reading_query(r, f, labels, keys);
}

int reading_open(struct reading *r, char *const *dirs, size_t n, const struct filter *f)
{
	return reading_open_keys(r, dirs, n, f, QUERY_ALL_LABELS, NULL);
}

const struct store_event *reading_event(const struct reading *r)
{
	static const struct store_event none = { "", "", 0, 0 };
	const struct store_event *e = query_info(r->query)->event;
	return e ? e : &none;
}

/* The files of the store with their sizes; a store is at most two levels deep. */
static uint64_t list_files(int parent, const char *name, const char *prefix, int depth)
{
	uint64_t sum = 0;
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (!d) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	for (struct dirent *e; (e = readdir(d));) {
		struct stat st;
		char path[512];
		if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		snprintf(path, sizeof(path), "%s%s", prefix, e->d_name);
		if (S_ISDIR(st.st_mode) && depth) {
			strncat(path, "/", sizeof(path) - strlen(path) - 1);
			sum += list_files(dirfd(d), e->d_name, path, depth - 1);
		} else if (S_ISREG(st.st_mode)) {
			fprintf(stderr, "explain: file %-24s %12lld bytes\n", path,
				(long long)st.st_size);
			sum += (uint64_t)st.st_size;
		}
	}
	closedir(d);
	return sum;
}

void reading_explain(struct reading *r)
{
	if (!r->explain)
		return;
	for (size_t i = 0; i < r->n_dirs; i++) {
		uint64_t bytes = list_files(AT_FDCWD, r->dirs[i], "", 2);
		fprintf(stderr, "explain: store %s: %llu bytes\n", r->dirs[i],
			(unsigned long long)bytes);
	}
	fprintf(stderr, "explain: read: %u strings, %u frames, %u stacks, %u label sets\n",
		store_n_strings(r->store), store_n_frames(r->store), store_n_stacks(r->store),
		store_n_sets(r->store));
	if (r->query) {
		const struct query_info *info = query_info(r->query);
		size_t matched;
		query_rows(r->query, &matched);
		fprintf(stderr,
			"explain: %llu blocks that hold %llu windows, %zu rows merged from those "
			"that matched\n",
			(unsigned long long)info->blocks, (unsigned long long)info->windows,
			matched);
	}
	fprintf(stderr, "explain: %-12s %9.3f ms\n", "in all",
		(double)(now_ns() - r->started_ns) / 1e6);
}

void reading_close(struct reading *r)
{
	query_close(r->query);
	store_close(r->store);
	fleet_result_fini(&r->filled);
	r->query = NULL;
	r->store = NULL;
}
