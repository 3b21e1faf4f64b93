/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascribe why: one page about a selection: its time, its waits, who was in its way and its code,
 * against the rest and against before.
 */
#include "cli/cmd.h"
#include "cli/accounting.h"
#include "cli/groups.h"
#include "cli/term.h"
#include "cli/text.h"
#include "export/answer.h"
#include "query/diff.h"
#include "query/why.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINES 5	 /* of each list */

struct why_options {
	struct filter filter;
	int64_t before_ns; /* INT64_MIN: just before */
};

static const struct opt options[] = {
	{ "where", 'w', OPT_STRING, "SELECTOR", "what it is about: {tenant=\"a\"}", offsetof(struct why_options, filter.where), 0, 0 },
	RANGE_OPTIONS(struct why_options, filter),
	{ "before", 0, OPT_TIME, "T", "where the earlier range begins that it is compared with, of the same length\n"
	  "(default: the time just before)", offsetof(struct why_options, before_ns), 0, 0 },
	{ "idle", 'i', OPT_FLAG, NULL, "include idle waits: of a worker for its next work", offsetof(struct why_options, filter.idle), 0, 0 },
	NAMES_OPTIONS(struct why_options, filter),
	JSON_OPTION(struct why_options, filter),
	MEMORY_OPTION(struct why_options, filter),
	EXPLAIN_OPTION(struct why_options, filter),
};

static const struct opt_command command = {
	.name = "why",
	.usage = "[STORE ...] --where SELECTOR [OPTIONS]",
	.about = "Where the time of a selection went, on one page: beside everything else of the same time, and beside itself in an\n"
		 "earlier range. Functions are named only where they differ by more than chance. Waits need a recording with --wall.\n",
	.examples = "  ascribe why --where '{tenant=\"a\"}'\n"
		    "  ascribe why --where '{query_id=\"42\"}' --from now-5m --before now-1d\n",
	.opts = options,
	.pages = true,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = STORE_UNION_MAX,
};

enum { IT, REST, BEFORE, SIDES };
static const char *const side_names[] = { "this", "the rest", "before" };
static const char *const part_names[] = { [WHY_CPU] = "on a CPU", [WHY_RUNQ] = "waiting for a CPU", [WHY_OFF] = "blocked" };

struct why {
	struct reading *r;
	struct why_options *opts;
	struct why_side side[SIDES];
	bool by_work; /* lengths and occupants are kept by what the selector asks for */
};

/* ---- the sides ---- */

static int open_sides(struct why *w, struct err *err)
{
	struct query_spec spec = reading_spec(&w->opts->filter, QUERY_NO_LABELS, NULL);
	spec.parts = SIDES;
	spec.by_start = true; /* so that no window is in two ranges */
	int rc = why_side_open(&w->side[IT], w->r->store, &spec, w->by_work, err);
	const struct why_side *it = &w->side[IT];
	struct query_spec rest = spec;
	rest.rest = true;
	rc = rc ? rc : why_side_open(&w->side[REST], w->r->store, &rest, w->by_work, err);
	if (rc || !it->there)
		return rc;
	int64_t length = it->to_ns - it->from_ns;
	spec.by_start = false; /* a window that reaches into the range from before belongs to what was before */
	spec.to_ns = it->from_ns;
	spec.from_ns = it->from_ns - length;
	if (w->opts->before_ns != INT64_MIN) {
		spec.from_ns = w->opts->before_ns;
		if (__builtin_add_overflow(spec.from_ns, length, &spec.to_ns) || spec.to_ns > it->from_ns)
			spec.to_ns = it->from_ns;
	}
	return spec.from_ns < spec.to_ns ? why_side_open(&w->side[BEFORE], w->r->store, &spec, w->by_work, err) : 0;
}

static bool is_bounded(const struct why *w)
{
	bool any = false;
	for (int i = 0; i < SIDES; i++)
		any |= w->side[i].bounded;
	return any;
}

/* ---- times ---- */

static void print_head(const struct why *w, const char *what)
{
	printf("\n%-20s", what);
	for (int i = 0; i < SIDES; i++)
		if (w->side[i].there)
			printf("  %21s", side_names[i]);
	putchar('\n');
}

static void print_times(const struct why *w)
{
	print_head(w, "TIME");
	for (int p = 0; p < WHY_PARTS; p++) {
		printf("%-20s", part_names[p]);
		for (int i = 0; i < SIDES; i++)
			if (w->side[i].there)
				printf("  %10.3f s %7.2f%%%s", w->side[i].seconds[p], 100 * why_share(&w->side[i], p), " ");
		putchar('\n');
	}
	printf("%-20s", "all");
	for (int i = 0; i < SIDES; i++)
		if (w->side[i].there)
			printf("  %10.3f s %9s", why_wall(&w->side[i]), "");
	putchar('\n');
	if (w->side[IT].idle_s > 0 || w->side[REST].idle_s > 0)
		printf("%-20s", "left out: idle");
	for (int i = 0; i < SIDES && (w->side[IT].idle_s > 0 || w->side[REST].idle_s > 0); i++)
		if (w->side[i].there)
			printf("  %10.3f s %9s%s", w->side[i].idle_s, "", i == SIDES - 1 || !w->side[i + 1].there ? "\n" : "");
}

static void print_lengths(const struct why *w, enum why_part part)
{
	static const double quantiles[] = { 0.5, 0.99, 1 };
	char text[3][32], line[120];
	printf("%-20s", part_names[part]);
	for (int i = 0; i < SIDES; i++) {
		const struct hist_snapshot *h = why_lengths(&w->side[i], part);
		if (!w->side[i].there)
			continue;
		for (size_t q = 0; h && h->total && q < 3; q++)
			text_duration(hist_snapshot_quantile(h, quantiles[q]).value, text[q]);
		if (h && h->total)
			snprintf(line, sizeof(line), "%s/%s/%s", text[0], text[1], text[2]);
		else
			snprintf(line, sizeof(line), "none");
		for (char *p = line, *o = line; (*o = *p); p++) /* "1.2 ms": without the blank, three fit */
			o += *p != ' ';
		printf("  %21s", line);
	}
	putchar('\n');
}

/* ---- code ---- */

/* Functions that differ by more than chance; samples are what the test is about, not nanoseconds. */
static int samples_query(const struct why *w, int side, struct query **ret, struct err *err)
{
	struct query_spec spec = reading_spec(&w->opts->filter, QUERY_NO_LABELS, NULL);
	const struct why_side *s = &w->side[side];
	spec.parts = 4 * SIDES;
	spec.by_start = side != BEFORE;
	spec.rest = side == REST;
	spec.from_ns = s->from_ns;
	spec.to_ns = s->to_ns;
	return query_open(ret, w->r->store, &spec, err);
}

static int print_changes(const struct query_diff *d, int against)
{
	size_t n = 0;
	for (size_t i = 0; i < d->n_rows && d->rows[i].verdict != DIFF_NOISE; i++) {
		const struct query_diff_row *r = &d->rows[i];
		if (n++ >= LINES)
			continue;
		printf("  %6.2f%% here, %6.2f%% %-8s  ", 100 * r->share[0], 100 * r->share[1], against == REST ? "there" : "before");
		if (function_print(r->text, r->module, false, term_room(34)))
			return -ENOMEM;
	}
	if (n > LINES)
		printf("  and %zu more: see `ascribe diff`\n", n - LINES);
	if (!n)
		puts("  none");
	return 0;
}

/* Compare two sides by a function's own samples, or by those with all that it calls. */
static int print_code_by(const struct why *w, int against, bool inclusive, struct query *const q[2], struct err *err)
{
	struct query_diff *d = NULL;
	struct query_diff_spec spec = { .inclusive = inclusive };
	int rc = query_diff(&d, q[0], q[1], &spec, err);
	if (rc)
		return rc;
	char line[160];
	snprintf(line, sizeof(line), "CODE that differs from %s by more than chance, %s (%llu samples here)", side_names[against],
		 inclusive ? "with all that it calls" : "by its own samples", (unsigned long long)w->side[IT].cpu_samples);
	putchar('\n');
	text_fold(stdout, line, 0, 2, term_width());
	rc = print_changes(d, against);
	query_diff_free(d);
	return rc;
}

/*
 * Beside the rest, all callers of what is special differ as well, from main on: own samples say
 * enough there.
 */
static int print_code(const struct why *w, int against, struct err *err)
{
	struct query *q[2] = { NULL, NULL };
	if (!w->side[against].there)
		return 0;
	int rc = samples_query(w, IT, &q[0], err);
	rc = rc ? rc : samples_query(w, against, &q[1], err);
	if (!rc && against == BEFORE)
		rc = print_code_by(w, against, true, q, err);
	rc = rc ? rc : print_code_by(w, against, false, q, err);
	query_close(q[0]);
	query_close(q[1]);
	return rc;
}

/* ---- waits ---- */

static double share_of(const struct query_table *t, uint64_t all, const struct query_table_row *of)
{
	for (size_t i = 0; t && i < t->n_rows; i++)
		if (!strcmp(t->rows[i].text, of->text) && !strcmp(t->rows[i].module ? t->rows[i].module : "", of->module ? of->module : ""))
			return all ? (double)t->rows[i].self / (double)all : 0;
	return 0;
}

/* Waits go by the function of the program, and by what they are for. */
static const char *const blocked_keys[] = { "wait_in", "wait" };
static const char *const occupant_keys[] = { "by.comm" };

/* Print the rows that it has most of, beside the other sides. */
static int print_tables(const struct why *w, struct query *const q[SIDES], const char *const *keys, size_t n_keys, struct err *err)
{
	struct query_table *t[SIDES] = { NULL, NULL, NULL };
	int rc = 0;
	for (int i = 0; !rc && i < SIDES; i++)
		if (q[i])
			rc = query_table(q[i], keys, n_keys, &t[i], err);
	for (size_t k = 0; !rc && t[IT] && k < t[IT]->n_rows && k < LINES; k++) {
		const struct query_table_row *r = &t[IT]->rows[k];
		if (!r->self)
			break;
		unsigned used = 13;
		fputs("  ", stdout);
		for (int i = 0; i < SIDES; i++)
			used += w->side[i].there ? 17 : 0;
		for (int i = 0; i < SIDES; i++)
			if (w->side[i].there)
				printf("%6.2f%% %-9s", q[i] ? 100 * share_of(t[i], query_info(q[i])->samples, r) : 0, side_names[i]);
		fputs("  ", stdout);
		if (keys == blocked_keys)
			printf("%-8s ", r->values[1]);
		if (keys == blocked_keys)
			rc = function_print(r->values[0], r->module, false, term_room(used));
		else if (r->present[0])
			text_put(stdout, *r->text ? r->text : "\"\"", 0);
		else
			fputs("(none)", stdout);
		if (keys != blocked_keys)
			putchar('\n');
	}
	for (int i = 0; i < SIDES; i++)
		query_table_free(t[i]);
	return rc;
}

static int print_blocked(const struct why *w, struct err *err)
{
	struct query *q[SIDES];
	if (!w->side[IT].part[WHY_OFF] || w->side[IT].seconds[WHY_OFF] <= 0)
		return 0;
	for (int i = 0; i < SIDES; i++)
		q[i] = w->side[i].part[WHY_OFF];
	puts("\nBLOCKED in");
	return print_tables(w, q, blocked_keys, 2, err);
}

static bool has_occupants(const struct why *w)
{
	return w->by_work && w->side[IT].part[WHY_RUNQ] && w->side[IT].seconds[WHY_RUNQ] > 0;
}

/* q must be closed whatever the result. */
static int open_occupants(const struct why *w, struct query *q[SIDES], struct err *err)
{
	int rc = 0;
	memset(q, 0, SIDES * sizeof(*q));
	for (int i = 0; !rc && i < SIDES && has_occupants(w); i++) {
		struct query_spec spec = reading_spec(&w->opts->filter, QUERY_KEYS, NULL);
		spec.metric = QUERY_BLAME;
		spec.parts = 4 * SIDES;
		spec.by_start = i != BEFORE;
		spec.rest = i == REST;
		spec.keys = occupant_keys;
		spec.n_keys = 1;
		spec.from_ns = w->side[i].from_ns;
		spec.to_ns = w->side[i].to_ns;
		if (w->side[i].there)
			rc = query_open(&q[i], w->r->store, &spec, err);
	}
	return rc;
}

static int print_occupants(const struct why *w, struct err *err)
{
	struct query *q[SIDES];
	if (!has_occupants(w))
		return 0;
	int rc = open_occupants(w, q, err);
	puts("\nWHO HAD THE CPU while it waited for one");
	rc = rc ? rc : print_tables(w, q, occupant_keys, 1, err);
	for (int i = 0; i < SIDES; i++)
		query_close(q[i]);
	return rc;
}

/* ---- JSON ---- */

static const char *const side_keys[] = { "this", "rest", "before" };
static const char *const part_keys[] = { [WHY_CPU] = "cpu", [WHY_RUNQ] = "runq", [WHY_OFF] = "off" };

static int put_text(json_t *o, const char *key, const char *text)
{
	return json_put(o, key, json_text(text ? text : "", text ? strlen(text) : 0));
}

/* {"cpu": {"seconds", "share"}, "runq": {.., "waits", "quantiles", ..}, ...} */
static json_t *side_json(const struct why_side *s)
{
	json_t *o = json_object();
	int rc = json_put(o, "from", json_real((double)s->from_ns / 1e9));
	rc = rc ? rc : json_put(o, "to", json_real((double)s->to_ns / 1e9));
	rc = rc ? rc : json_put(o, "covered", json_real(s->covered_s));
	rc = rc ? rc : json_put(o, "wall", json_real(why_wall(s)));
	for (int p = 0; !rc && p < WHY_PARTS; p++) {
		const struct hist_snapshot *h = p == WHY_CPU ? NULL : why_lengths(s, p);
		json_t *part = json_pack("{s:f,s:f}", "seconds", s->seconds[p], "share", why_share(s, p));
		rc = p == WHY_CPU ? json_put(part, "samples", json_count(s->cpu_samples)) : 0;
		rc = rc || !h ? rc : json_put(part, "waits", json_count(h->total));
		rc = rc || !h ? rc : json_put(part, "quantiles", answer_quantile_values(h));
		rc = rc || p != WHY_OFF ? rc : json_put(part, "idle_waits", json_real(s->idle_s));
		int rc2 = json_put(o, part_keys[p], part);
		rc = rc ? rc : rc2;
	}
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

/* Shares of a row on each side; null where the side is not there. */
static json_t *shares_json(const struct why *w, struct query *const q[SIDES], struct query_table *const t[SIDES],
			   const struct query_table_row *r)
{
	json_t *o = json_object();
	int rc = 0;
	for (int i = 0; !rc && i < SIDES; i++)
		rc = json_put(o, side_keys[i], w->side[i].there && q[i] ? json_real(share_of(t[i], query_info(q[i])->samples, r)) : json_null());
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

static int tables_json(json_t *list, const struct why *w, struct query *const q[SIDES], const char *const *keys, size_t n_keys,
		       struct err *err)
{
	struct query_table *t[SIDES] = { NULL, NULL, NULL };
	int rc = 0;
	for (int i = 0; !rc && i < SIDES; i++)
		if (q[i])
			rc = query_table(q[i], keys, n_keys, &t[i], err);
	for (size_t k = 0; !rc && t[IT] && k < t[IT]->n_rows && t[IT]->rows[k].self; k++) {
		const struct query_table_row *r = &t[IT]->rows[k];
		json_t *o = json_object();
		if (keys == blocked_keys) {
			rc = put_text(o, "function", r->values[0]);
			rc = rc ? rc : put_text(o, "module", r->module);
			rc = rc ? rc : put_text(o, "wait", r->values[1]);
		} else {
			rc = json_put(o, "occupant", r->present[0] ? json_text(r->text, strlen(r->text)) : json_null());
		}
		rc = rc ? rc : json_put(o, "share", shares_json(w, q, t, r));
		int rc2 = json_array_append_new(list, o) ? -ENOMEM : 0;
		rc = rc ? rc : rc2;
	}
	for (int i = 0; i < SIDES; i++)
		query_table_free(t[i]);
	return rc;
}

static int blocked_json(json_t *list, const struct why *w, struct err *err)
{
	struct query *q[SIDES];
	if (!w->side[IT].part[WHY_OFF])
		return 0;
	for (int i = 0; i < SIDES; i++)
		q[i] = w->side[i].part[WHY_OFF];
	return tables_json(list, w, q, blocked_keys, 2, err);
}

static int occupants_json(json_t *list, const struct why *w, struct err *err)
{
	struct query *q[SIDES];
	int rc = open_occupants(w, q, err);
	rc = rc ? rc : tables_json(list, w, q, occupant_keys, 1, err);
	for (int i = 0; i < SIDES; i++)
		query_close(q[i]);
	return rc;
}

static int code_json(json_t *list, const struct why *w, int against, struct err *err)
{
	struct query *q[2] = { NULL, NULL };
	struct query_diff *d = NULL;
	struct query_diff_spec spec = { 0 };
	if (!w->side[against].there)
		return 0;
	int rc = samples_query(w, IT, &q[0], err);
	rc = rc ? rc : samples_query(w, against, &q[1], err);
	rc = rc ? rc : query_diff(&d, q[0], q[1], &spec, err);
	for (size_t i = 0; !rc && i < d->n_rows && d->rows[i].verdict != DIFF_NOISE; i++) {
		const struct query_diff_row *r = &d->rows[i];
		json_t *o = json_pack("{s:[f,f],s:f,s:s}", "share", r->share[0], r->share[1], "q", r->q, "verdict",
				      answer_verdicts[r->verdict]);
		rc = put_text(o, "function", r->text);
		rc = rc ? rc : put_text(o, "module", r->module);
		int rc2 = json_array_append_new(list, o) ? -ENOMEM : 0;
		rc = rc ? rc : rc2;
	}
	query_diff_free(d);
	query_close(q[0]);
	query_close(q[1]);
	return rc;
}

static int print_json(const struct why *w, struct err *err)
{
	json_t *o = json_object(), *blocked = json_array(), *occupants = json_array(), *rest = json_array(), *before = json_array();
	int rc = put_text(o, "where", w->opts->filter.where);
	for (int i = 0; !rc && i < SIDES; i++)
		rc = json_put(o, side_keys[i], w->side[i].there ? side_json(&w->side[i]) : json_null());
	rc = rc ? rc : blocked_json(blocked, w, err);
	rc = rc ? rc : occupants_json(occupants, w, err);
	rc = rc ? rc : code_json(rest, w, REST, err);
	rc = rc ? rc : code_json(before, w, BEFORE, err);
	if (is_bounded(w))
		rc = rc ? rc : json_put(o, "bounded", json_true());
	rc = rc ? rc : json_put(o, "blocked", json_incref(blocked));
	rc = rc ? rc : json_put(o, "occupants", json_incref(occupants));
	rc = rc ? rc : json_put(o, "differs_from_rest", json_incref(rest));
	rc = rc ? rc : json_put(o, "differs_from_before", json_incref(before));
	rc = rc ? rc : answer_accounting(o, w->r->store, query_info(w->side[IT].part[WHY_CPU]));
	rc = rc ? rc : cmd_print_json(json_incref(o));
	json_decref(blocked);
	json_decref(occupants);
	json_decref(rest);
	json_decref(before);
	json_decref(o);
	return rc;
}

/* ---- the page ---- */

static void print_title(const struct why *w)
{
	char range[120];
	accounting_title(w->r->store);
	fputs("why ", stdout);
	text_put(stdout, w->opts->filter.where, 0);
	putchar('\n');
	for (int i = IT; i < SIDES; i++) {
		if (i == REST || !w->side[i].there)
			continue;
		text_range(w->side[i].from_ns, w->side[i].to_ns, range);
		printf("%-8s %s\n", side_names[i], range);
	}
	if (!w->side[BEFORE].there)
		puts("before   nothing was recorded");
}

static int print_page(const struct why *w, struct err *err)
{
	print_title(w);
	print_times(w);
	if (w->side[IT].waits && w->by_work) {
		print_head(w, "WAITS p50/p99/max");
		print_lengths(w, WHY_RUNQ);
		print_lengths(w, WHY_OFF);
	}
	int rc = print_blocked(w, err);
	rc = rc ? rc : print_occupants(w, err);
	rc = rc ? rc : print_code(w, REST, err);
	return rc ? rc : print_code(w, BEFORE, err);
}

static int why(struct why *w)
{
	struct err err = { 0 };
	int rc = open_sides(w, &err);
	reading_step(w->r, "query");
	if (!rc && !w->side[IT].there)
		reading_no_data(w->r->store, w->opts->filter.from_ns, w->opts->filter.to_ns);
	else if (!rc)
		rc = w->opts->filter.json ? print_json(w, &err) : print_page(w, &err);
	cmd_flush();
	if (!rc)
		reading_labels_gone(query_info(w->side[IT].part[WHY_CPU]));
	if (!rc)
		reading_bounded(&w->opts->filter, is_bounded(w));
	if (!rc && w->side[IT].there && why_wall(&w->side[IT]) <= 0)
		cmd_warn("nothing matches");
	if (!rc && !w->side[IT].waits)
		cmd_warn("this store has no waits: record with --wall");
	else if (!rc && !w->by_work)
		cmd_warn("lengths of waits, and who had the CPU, are not kept by tgid, tid or thread");
	if (rc)
		cmd_error("%s", err.text[0] ? err.text : strerror(-rc));
	reading_explain(w->r);
	return !rc ? EXIT_OK : rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}

int cmd_why(int argc, char **argv)
{
	struct why_options opts = { .filter = FILTER_INIT, .before_ns = INT64_MIN };
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	if (!opts.filter.where) {
		cmd_error("why: --where SELECTOR says about what (see ascribe why --help)");
		return EXIT_USAGE;
	}
	if (!opts.filter.names && !opts.filter.json)
		opts.filter.names = "simple";
	struct why w = { .r = &r, .opts = &opts, .by_work = !reading_of_threads(&opts.filter, NULL) };
	status = reading_check(&opts.filter, "--where", "--from");
	if (!status)
		status = reading_open_store(&r, args.v, args.n, &opts.filter);
	if (!status)
		status = reading_check_keys(&r, &opts.filter, NULL, 0);
	if (!status)
		status = why(&w);
	for (int i = 0; i < SIDES; i++)
		why_side_close(&w.side[i]);
	reading_close(&r);
	return status;
}
