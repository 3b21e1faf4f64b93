/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe labels: which keys there are, and the values of one key. */
#include "cli/accounting.h"
#include "cli/cmd.h"
#include "cli/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_ROWS 100

struct labels {
	struct filter filter;
};

static const struct opt options[] = {
	WHERE_OPTIONS(struct labels, filter),
	LIMIT_OPTION(struct labels, filter, "values to print, 0 for all (default: 100; with --json all)"),
	JSON_OPTION(struct labels, filter),
	EXPLAIN_OPTION(struct labels, filter),
};

static const struct opt_command command = {
	.name = "labels",
	.usage = "[STORE] [KEY] [OPTIONS]",
	.about = "Print the label keys of a store with the number of their values, or the values of KEY with\n"
		 "their samples. One argument alone is a KEY, unless it names an existing path or has a slash.\n",
	.examples = "  ascribe labels                        the keys of " DEFAULT_STORE "\n"
		    "  ascribe labels tenant                 the tenants, by CPU time\n"
		    "  ascribe labels /var/lib/ascribe comm  another store\n",
	.opts = options,
	.n_opts = sizeof(options) / sizeof(options[0]),
	.max_args = 2,
};

/* A key, or a value of the key that was asked for: at first one per label of each matching set, then merged. */
struct found {
	struct label label;
	uint64_t values, samples;
	double seconds;
};

struct list {
	struct found *v;
	size_t n, cap;
	uint64_t samples; /* of which the shares are */
	bool keys;	  /* a list of keys, not of values */
	bool time;	  /* samples stand for time */
};

static int add(struct list *l, const struct label *label, uint64_t samples, double seconds)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 256;
		struct found *v = reallocarray(l->v, cap, sizeof(*v));
		if (!v)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n++] = (struct found){ *label, 1, samples, seconds };
	return 0;
}

static int compare_bytes(const char *a, uint32_t a_len, const char *b, uint32_t b_len)
{
	uint32_t n = a_len < b_len ? a_len : b_len;
	int c = n ? memcmp(a, b, n) : 0;
	return c ? c : (a_len > b_len) - (a_len < b_len);
}

static int compare_keys(const struct label *a, const struct label *b)
{
	return compare_bytes(a->key, a->key_len, b->key, b->key_len);
}

static int compare_values(const struct label *a, const struct label *b)
{
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	if (a->type == LABEL_INT)
		return (a->num > b->num) - (a->num < b->num);
	return compare_bytes(a->str, a->str_len, b->str, b->str_len);
}

static int by_key_and_value(const void *a, const void *b)
{
	const struct label *x = &((const struct found *)a)->label, *y = &((const struct found *)b)->label;
	int c = compare_keys(x, y);
	return c ? c : compare_values(x, y);
}

static int by_samples(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	if (x->samples != y->samples)
		return x->samples < y->samples ? 1 : -1;
	return by_key_and_value(a, b);
}

/* `event` is a label of every sample, though of no set. */
static int add_event(struct list *l, const struct query_info *info)
{
	const struct label label = { .key = "event", .key_len = 5, .str = info->event->name,
				     .str_len = (uint32_t)strlen(info->event->name), .type = LABEL_STRING };
	return info->samples ? add(l, &label, info->samples, info->seconds) : 0;
}

/* The labels of every set that has samples; only those of key when it is given. */
static int collect(const struct reading *r, const char *key, struct list *l)
{
	const struct query_info *info = query_info(r->query);
	double ns = (double)reading_event(r)->ns_per_sample;
	size_t n_rows, key_len = key ? strlen(key) : 0;
	const struct store_row *rows = query_rows(r->query, &n_rows);
	for (size_t i = 0, next; i < n_rows; i = next) {
		const struct label *labels;
		uint64_t samples = 0;
		for (next = i; next < n_rows && rows[next].set == rows[i].set; next++)
			samples += rows[next].samples;
		size_t n = store_set(r->store, rows[i].set, &labels);
		for (size_t j = 0; j < n; j++) {
			if (key && (labels[j].key_len != key_len || memcmp(labels[j].key, key, key_len)))
				continue;
			if (add(l, &labels[j], samples, (double)samples * ns / 1e9))
				return -ENOMEM;
		}
	}
	l->samples = info->samples;
	l->time = ns > 0;
	return !key && info->event ? add_event(l, info) : 0;
}

/* `labels event` names every event that matches, not only the one that a query is about. */
static int collect_events(const struct reading *r, const struct filter *f, struct list *l, struct err *err)
{
	for (uint32_t id = 0; id <= store_n_events(r->store); id++) {
		const struct store_event *e = store_event(r->store, id);
		bool again = !e || (f->event && strcmp(f->event, e->name));
		for (uint32_t i = 0; i < id && !again; i++)
			again = store_event(r->store, i) && !strcmp(store_event(r->store, i)->name, e->name);
		if (again)
			continue;
		struct query_spec spec = { .where = f->where, .from_ns = f->from_ns, .to_ns = f->to_ns, .event = e->name, .idle = f->idle };
		struct query *q = NULL;
		int rc = query_open(&q, r->store, &spec, err);
		if (rc)
			return rc;
		rc = add_event(l, query_info(q));
		l->samples += query_info(q)->samples;
		l->time |= e->ns_per_sample > 0;
		query_close(q);
		if (rc)
			return rc;
	}
	return 0;
}

static void absorb(struct found *to, const struct found *f)
{
	to->samples += f->samples;
	to->seconds += f->seconds;
}

/* Merge equal values; then, for the list of keys, equal keys. */
static void merge(struct list *l)
{
	size_t n = 0;
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_key_and_value);
	for (size_t i = 0; i < l->n; i++) {
		struct found *last = n ? &l->v[n - 1] : NULL;
		if (last && !by_key_and_value(last, &l->v[i]))
			absorb(last, &l->v[i]);
		else
			l->v[n++] = l->v[i];
	}
	l->n = n;
	for (size_t i = n = 0; l->keys && i < l->n; i++) {
		struct found *last = n ? &l->v[n - 1] : NULL;
		if (last && !compare_keys(&last->label, &l->v[i].label)) {
			absorb(last, &l->v[i]);
			last->values++;
		} else {
			l->v[n++] = l->v[i];
		}
	}
	if (l->keys)
		l->n = n;
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_samples);
}

/* A value's whole text, to be freed; its length goes to ret_len. */
static char *value_text(const struct label *l, size_t *ret_len)
{
	char *s = NULL;
	if (l->type == LABEL_INT) {
		int n = asprintf(&s, "%lld", (long long)l->num);
		*ret_len = n < 0 ? 0 : (size_t)n;
		return n < 0 ? NULL : s;
	}
	s = malloc(l->str_len + 1u);
	if (s) {
		memcpy(s, l->str, l->str_len);
		s[l->str_len] = 0;
	}
	*ret_len = l->str_len;
	return s;
}

static json_t *found_json(const struct found *f, bool keys)
{
	const struct label *l = &f->label;
	json_t *o = json_object();
	size_t len;
	int rc;
	if (keys) {
		rc = json_put(o, "key", json_text(l->key, l->key_len));
		rc = rc ? rc : json_put(o, "values", json_count(f->values));
		rc = rc ? rc : json_put(o, "samples", json_count(f->samples));
	} else {
		char *text = value_text(l, &len);
		rc = json_put(o, "value", text ? json_text(text, len) : NULL);
		free(text);
		rc = rc ? rc : json_put(o, "samples", json_count(f->samples));
		rc = rc ? rc : json_put(o, "seconds", json_real(f->seconds));
	}
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

static int print_json(const struct reading *r, const struct list *l, size_t limit)
{
	const struct query_info *info = query_info(r->query);
	json_t *o = json_object(), *rows = json_array();
	int rc = o && rows ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < l->n && i < limit; i++)
		rc = json_array_append_new(rows, found_json(&l->v[i], l->keys)) ? -ENOMEM : 0;
	rc = rc ? rc : json_put(o, l->keys ? "keys" : "values", json_incref(rows));
	rc = rc ? rc : json_put(o, "samples", json_count(info->samples));
	rc = rc ? rc : json_put(o, "seconds", json_real(info->seconds));
	rc = rc ? rc : json_put(o, "blocks", json_count(info->blocks));
	rc = rc ? rc : json_put(o, "windows", json_count(info->windows));
	rc = rc ? rc : accounting_add(o, r->store, info);
	rc = rc ? rc : json_print(o, stdout);
	json_decref(rows);
	json_decref(o);
	return rc;
}

static int print_found(const struct list *l, const struct found *f)
{
	const struct label *label = &f->label;
	size_t len = label->key_len;
	char *value = l->keys ? NULL : value_text(label, &len);
	char *text = l->keys || value ? text_printable(l->keys ? label->key : value, len) : NULL;
	free(value);
	if (!text)
		return -ENOMEM;
	double low, high;
	query_interval(f->samples, l->samples, &low, &high);
	if (l->keys)
		printf("%9llu ", (unsigned long long)f->values);
	printf("%9llu ", (unsigned long long)f->samples);
	if (l->time)
		printf("%10.3f ", f->seconds);
	printf("%6.2f%%  %6.2f%% - %6.2f%%   %s\n", 100.0 * (double)f->samples / (double)l->samples, 100 * low,
	       100 * high, *text ? text : "\"\"");
	free(text);
	return 0;
}

static int print_text(const struct reading *r, const struct list *l, size_t limit)
{
	int rc = 0;
	if (l->n)
		printf("%s%9s %s%7s  %-18s  %s\n", l->keys ? "   VALUES " : "", "SAMPLES", l->time ? "   SECONDS " : "",
		       "SHARE", "     95% INTERVAL", l->keys ? "KEY" : "VALUE");
	for (size_t i = 0; !rc && i < l->n && i < limit; i++)
		rc = print_found(l, &l->v[i]);
	if (l->n > limit)
		printf("\n%zu more; -n 0 prints all\n", l->n - limit);
	accounting_footer(r->store, query_info(r->query));
	return rc;
}

static int labels(struct reading *r, const struct filter *f, const char *key)
{
	struct list l = { .keys = !key };
	struct err err = { .text = "out of memory" };
	uint64_t limit = f->limit;
	if (limit == UINT64_MAX && !f->json)
		limit = DEFAULT_ROWS;
	if (!limit)
		limit = UINT64_MAX;
	int rc = key && !strcmp(key, "event") ? collect_events(r, f, &l, &err) : collect(r, key, &l);
	if (!rc) {
		merge(&l);
		reading_step(r, "merge");
		rc = f->json ? print_json(r, &l, limit) : print_text(r, &l, limit);
	}
	if (!rc && key && !l.n && query_info(r->query)->samples)
		cmd_warn("no sample has a label '%s'; `ascribe labels` lists the keys", key);
	if (rc && rc != -EIO)
		cmd_error("%s", err.text);
	free(l.v);
	reading_explain(r);
	return rc ? EXIT_FAILED : EXIT_OK;
}

int cmd_labels(int argc, char **argv)
{
	struct labels opts = { .filter = FILTER_INIT };
	struct reading r = { 0 };
	struct opt_args args;
	int status;
	if (!cmd_parse(&command, argc, argv, &opts, &args, &status))
		return status;
	const char *dir = args.n ? args.v[0] : NULL, *key = args.n > 1 ? args.v[1] : NULL;
	if (args.n == 1 && !strchr(dir, '/') && access(dir, F_OK)) {
		key = dir;
		dir = NULL;
	}
	char *keys[] = { (char *)key };
	const struct opt_list list = { keys, 1 };
	status = reading_open_keys(&r, dir, &opts.filter, key ? QUERY_KEYS : QUERY_ALL_LABELS, key ? &list : NULL);
	if (!status)
		status = labels(&r, &opts.filter, key);
	reading_close(&r);
	opt_release(&command, &opts);
	return status;
}
