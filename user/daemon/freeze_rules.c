/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/freeze_rules.h"

#include "hist/snapshot.h"
#include "opt/options.h"
#include "query/lengths.h"
#include "query/selector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRESSURE_DIR "/proc/pressure/"

static int parse_pressure(struct freeze_rule *r, struct err *err)
{
	char path[64], percent, end;
	if (sscanf(r->text, "%7[a-z] %7[a-z] > %lf%c %c", r->pressure, r->share, &r->percent,
		   &percent, &end) != 4 ||
	    percent != '%' || !(r->percent >= 0 && r->percent < 100) ||
	    (strcmp(r->pressure, "cpu") && strcmp(r->pressure, "io") &&
	     strcmp(r->pressure, "memory")) ||
	    (strcmp(r->share, "some") && strcmp(r->share, "full")))
		return -EAGAIN;
	snprintf(path, sizeof(path), PRESSURE_DIR "%s", r->pressure);
	return access(path, R_OK) ? err_sys(err, -EINVAL, "%s", path) : 0;
}

/* Lengths of waits are kept by the labels of the work. */
static int check_where(const char *where, struct err *err)
{
	static const char *const none[] = { "tgid", "tid", "thread", "parent", "cmdline" };
	const char *keys[SELECTOR_KEYS_MAX], *wrong = NULL;
	struct selector *s;
	int rc = selector_parse(&s, where, NULL, err);
	if (rc)
		return rc;
	const size_t n = selector_keys(s, keys, SELECTOR_KEYS_MAX);
	if (selector_names_wait(s) || selector_names_event(s))
		wrong = "wait or event";
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sizeof(none) / sizeof(none[0]); k++)
			if (!strcmp(keys[i], none[k]))
				wrong = none[k];
	if (wrong)
		rc = err_set(err, -EINVAL, "'%s': lengths of waits have no label %s", where, wrong);
	selector_free(s);
	return rc;
}

/* Take the selector off a rule, from the first brace to the last one. False: it is too long. */
static bool split(const char *text, char to[FREEZE_WHERE_MAX], char where[FREEZE_WHERE_MAX])
{
	const char *open = strchr(text, '{'), *close = strrchr(text, '}');
	*where = 0;
	if (!open || !close || close < open)
		return !open && !close &&
		       snprintf(to, FREEZE_WHERE_MAX, "%s", text) < FREEZE_WHERE_MAX;
	return snprintf(where, FREEZE_WHERE_MAX, "%.*s", (int)(close + 1 - open), open) <
		       FREEZE_WHERE_MAX &&
	       snprintf(to, FREEZE_WHERE_MAX, "%.*s%s", (int)(open - text), text, close + 1) <
		       FREEZE_WHERE_MAX;
}

static int parse_waits(struct freeze_rule *r, bool waits, struct err *err)
{
	char text[FREEZE_WHERE_MAX], metric[8], time[16], unit[16] = "", all[32], end;
	r->pressure[0] = 0;
	if (!split(r->text, text, r->where))
		return -EAGAIN;
	const int n = sscanf(text, "p%lf(%7[a-z]) > %15[0-9.] %15[a-z] %c", &r->quantile, metric,
			     time, unit, &end);
	if ((n != 3 && n != 4) || !(r->quantile > 0 && r->quantile <= 100) ||
	    query_metric_named(metric, &r->metric) ||
	    (r->metric != QUERY_RUNQ && r->metric != QUERY_OFF))
		return -EAGAIN;
	snprintf(all, sizeof(all), "%s%s", time, unit);
	if (opt_duration(all, &r->longer_ns))
		return -EAGAIN;
	r->quantile /= 100;
	if (!waits)
		return err_set(err, -EINVAL, "'%s' needs wall: waits are not recorded", r->text);
	return *r->where ? check_where(r->where, err) : 0;
}

int freeze_rule_parse(struct freeze_rule *ret, const char *text, bool waits, struct err *err)
{
	*ret = (struct freeze_rule){ .text = text };
	int rc = parse_pressure(ret, err);
	if (rc == -EAGAIN)
		rc = parse_waits(ret, waits, err);
	return rc == -EAGAIN
		       ? err_set(err, -EINVAL,
				 "'%.100s' is no rule; try 'cpu some > 40%%' (cpu, io, memory; some, "
				 "full), 'p99(runq) > 50ms' (runq, off) or "
				 "'p99(off{tenant=\"a\"}) > 50ms'",
				 text)
		       : rc;
}

static int pressure(const struct freeze_rule *r, double *ret, struct err *err)
{
	char path[64], line[200], share[8];
	int rc = -ENODATA;
	snprintf(path, sizeof(path), PRESSURE_DIR "%s", r->pressure);
	FILE *f = fopen(path, "re");
	if (!f)
		return err_sys(err, -errno, "cannot open %s", path);
	while (rc && fgets(line, sizeof(line), f))
		if (sscanf(line, "%7s avg10=%lf", share, ret) == 2 && !strcmp(share, r->share))
			rc = 0;
	fclose(f);
	return rc ? err_set(err, rc, "%s has no %s", path, r->share) : 0;
}

/* Of the newest window. */
static int quantile(const struct freeze_rule *r, const char *dir, double *ret, struct err *err)
{
	struct query_spec spec = { .metric = r->metric,
				   .idle = true,
				   .labels = QUERY_TOTALS,
				   .where = *r->where ? r->where : NULL };
	struct query_lengths *l = NULL;
	struct store_cover c = { 0 };
	struct store *s;
	int rc = store_open(&s, dir, err);
	if (rc)
		return rc;
	rc = store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, err);
	spec.to_ns = c.to_ns;
	spec.from_ns = c.to_ns - QUERY_WINDOW_NS;
	rc = rc ? rc : query_lengths(&l, s, &spec, err);
	const struct hist_snapshot *h = rc ? NULL : query_lengths_of(l, NULL, NULL);
	*ret = h ? hist_snapshot_quantile(h, r->quantile).value : 0;
	query_lengths_free(l);
	store_cover_free(&c);
	store_close(s);
	return rc;
}

int freeze_rule_holds(const struct freeze_rule *r, const char *store, bool *ret, double *ret_seen,
		      struct err *err)
{
	int rc = *r->pressure ? pressure(r, ret_seen, err) : quantile(r, store, ret_seen, err);
	*ret = !rc && *ret_seen > (*r->pressure ? r->percent : (double)r->longer_ns);
	return rc;
}
