/* SPDX-License-Identifier: Apache-2.0 */
/* Flame graphs as data and as pages of their own; stacks as other tools want them. */
#include "http/asked.h"

#include "export/export.h"
#include "query/split.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct flame {
	struct asked asked;
	struct query_spec spec[2];
	struct query *query[2]; /* the second: what it is compared with */
	struct export_flame_spec how;
	struct export_source source;
};

static int take_view(const struct request *r, struct query_view_spec *ret, struct err *err)
{
	static const char *const views[] = { "down", "inverted", "callees", "callers" };
	const char *text = request_param(r, "view");
	int i = 0;
	while (text && *text && i < 4 && strcmp(text, views[i]))
		i++;
	if (i == 4)
		return err_set(err, -EINVAL, "view: down, inverted, callees or callers");
	*ret = (struct query_view_spec){ (enum query_view)i, request_param(r, "function"),
					 request_param(r, "module") };
	if (i >= QUERY_VIEW_CALLEES && (!ret->function || !*ret->function))
		return err_set(err, -EINVAL, "function: whose callees or callers?");
	return 0;
}

static bool has_baseline(const struct request *r)
{
	return request_param(r, "against") || request_param(r, "against_from") ||
	       request_param(r, "against_to");
}

/*
 * The sides are of one event, whatever each would choose; of ranges that meet, no window is in
 * both.
 */
static int open_baseline(struct flame *f, const struct request *r, struct store *s, struct err *err)
{
	int rc = asked_against(&f->asked, r, &f->spec[1], err);
	if (rc)
		return rc;
	if (!f->asked.metric && query_info(f->query[0])->event)
		f->spec[1].event = query_info(f->query[0])->event->name;
	f->spec[1].labels = QUERY_NO_LABELS;
	f->spec[1].parts = 3;
	rc = query_open(&f->query[1], s, &f->spec[1], err);
	f->how.against = f->query[1];
	return rc;
}

#define VALUES 8 /* of a label that the graph is split by */

/* split: a key whose values are the first level. */
static int take_split(struct flame *f, const struct request *r, struct err *err)
{
	const char *key = request_param(r, "split");
	if (!key || !*key)
		return 0;
	if (has_baseline(r) || f->how.view.view >= QUERY_VIEW_CALLEES)
		return err_set(err, -EINVAL, "split: not with a baseline, nor around a function");
	if (f->asked.limit > QUERY_SPLIT_MAX)
		return err_set(err, -EINVAL, "limit: at most %d values", QUERY_SPLIT_MAX);
	f->how.split = key;
	f->how.values = f->asked.limit ? (uint32_t)f->asked.limit : VALUES;
	f->spec[0].labels = QUERY_KEYS_STACKS;
	f->spec[0].keys = &f->how.split;
	f->spec[0].n_keys = 1;
	return 0;
}

static void flame_close(struct flame *f)
{
	query_close(f->query[0]);
	query_close(f->query[1]);
	asked_fini(&f->asked);
}

static int flame_open(struct flame *f, const struct request *r, struct store *s, struct err *err)
{
	*f = (struct flame){ 0 };
	int rc = asked_parse(&f->asked, r, err);
	rc = rc ? rc : take_view(r, &f->how.view, err);
	f->spec[0] = f->asked.spec;
	f->spec[0].labels = QUERY_NO_LABELS;
	rc = rc ? rc : take_split(f, r, err);
	f->how.root = request_param(r, "root");
	f->spec[0].least = export_flame_least(&f->how, has_baseline(r));
	f->spec[0].by_start =
		has_baseline(r) && query_takes_starts(f->spec[0].from_ns, f->spec[0].to_ns);
	f->spec[0].parts = has_baseline(r) ? 3 : 1;
	rc = rc ? rc : query_open(&f->query[0], s, &f->spec[0], err);
	rc = rc || !has_baseline(r) ? rc : open_baseline(f, r, s, err);
	f->how.max_nodes = f->asked.max_nodes;
	f->source = (struct export_source){
		.store = s, .query = f->query[0], .where = f->spec[0].where, .idle = f->spec[0].idle
	};
	return rc;
}

int api_flame(struct request *r, struct store *s, struct err *err)
{
	struct flame f;
	json_t *data;
	int rc = flame_open(&f, r, s, err);
	rc = rc ? rc : export_flame_data(&f.source, &f.how, &data, err);
	rc = rc ? rc : request_json(r, data, err);
	flame_close(&f);
	return rc;
}

/* ---- files ---- */

typedef int write_file(const struct flame *f, FILE *out, struct err *err);

static int write_page(const struct flame *f, FILE *out, struct err *err)
{
	return export_flame(&f->source, &f->how, out, err);
}

static int write_profile(const struct flame *f, FILE *out, struct err *err)
{
	return export_pprof(&f->source, EXPORT_BY_EVENT, out, err);
}

static int write_stacks(const struct flame *f, FILE *out, struct err *err)
{
	return export_folded(&f->source, EXPORT_BY_EVENT, out, err);
}

static int answer_file(struct request *r, struct flame *f, const char *type, write_file *write,
		       struct err *err)
{
	char *data = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&data, &len);
	int rc = out ? write(f, out, err) : err_set(err, -ENOMEM, "out of memory");
	if (out && fclose(out) && !rc)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (!rc && buf_add(&r->out, data, len))
		rc = err_set(err, -ENOMEM, "out of memory");
	free(data);
	r->type = type;
	return rc;
}

int export_page(struct request *r, struct store *s, struct err *err)
{
	struct flame f;
	int rc = flame_open(&f, r, s, err);
	rc = rc ? rc : answer_file(r, &f, "text/html; charset=utf-8", write_page, err);
	flame_close(&f);
	return rc;
}

/* key: the label that is written; NULL: all of them. */
static int export_samples(struct request *r, struct store *s, const char *type, write_file *write,
			  const char *key, struct err *err)
{
	struct flame f = { 0 };
	int rc = asked_parse(&f.asked, r, err);
	f.spec[0] = f.asked.spec;
	f.spec[0].labels = key ? QUERY_KEYS_STACKS : QUERY_ALL_LABELS;
	f.spec[0].keys = &key;
	f.spec[0].n_keys = key != NULL;
	rc = rc ? rc : query_open(&f.query[0], s, &f.spec[0], err);
	f.source = (struct export_source){
		.store = s, .query = f.query[0], .where = f.spec[0].where, .idle = f.spec[0].idle
	};
	rc = rc ? rc : answer_file(r, &f, type, write, err);
	flame_close(&f);
	return rc;
}

int export_profile(struct request *r, struct store *s, struct err *err)
{
	return export_samples(r, s, "application/octet-stream", write_profile, NULL, err);
}

int export_stacks(struct request *r, struct store *s, struct err *err)
{
	return export_samples(r, s, "text/plain; charset=utf-8", write_stacks, "comm", err);
}
