/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/known.h"

#include "opt/options.h"
#include "opt/text.h"
#include "query/found.h"
#include "query/selector.h"
#include "top/view.h"
#include "util/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 12	 /* of what there is */
#define CANDIDATES 20000 /* of which the nearest is looked for */

/* Printable texts, to choose from and to show. */
struct names {
	char **v;
	size_t n, cap;
};

static int names_add(struct names *l, const char *text, size_t len)
{
	char *copy = text_printable(text, len);
	if (!copy || ARRAY_RESERVE(l->v, l->cap, l->n + 2)) {
		free(copy);
		return -ENOMEM;
	}
	l->v[l->n++] = copy;
	l->v[l->n] = NULL; /* as opt_suggest wants it */
	return 0;
}

static void names_fini(struct names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

/* "; did you mean a? what: a, b, c, ... (9 more)" */
static void describe(const struct names *l, const char *word, const char *what, char *out,
		     size_t cap)
{
	const char *near = l->n ? opt_suggest(word, (const char *const *)l->v) : NULL;
	size_t shown = l->n < SHOWN ? l->n : SHOWN;
	int len =
		near ? snprintf(out, cap, "; did you mean \"%s\"?", near) : snprintf(out, cap, ";");
	for (size_t i = 0; i < shown && len > 0 && (size_t)len < cap; i++)
		len += snprintf(out + len, cap - (size_t)len, "%s%s", i ? ", " : what,
				*l->v[i] ? l->v[i] : "\"\"");
	if (shown < l->n && len > 0 && (size_t)len < cap)
		snprintf(out + len, cap - (size_t)len, ", ... (%zu more)", l->n - shown);
	if (!l->n)
		out[0] = '\0';
}

/* ---- keys ---- */

static int add_key(void *ctx, const char *key, uint32_t sets)
{
	(void)sets;
	return names_add(ctx, key, strlen(key));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Of the newest file, and all that are wide, each once. */
static int list_keys(struct store *s, struct names *l, struct err *err)
{
	struct store_wide_key wide;
	size_t n = 0;
	int rc = store_narrow_keys(s, add_key, l, err);
	for (size_t i = 0; !rc && store_wide_key(s, i, &wide); i++)
		rc = names_add(l, wide.key, strlen(wide.key));
	if (!rc)
		rc = names_add(l, "event", 5);
	if (rc)
		return rc;
	qsort(l->v, l->n, sizeof(*l->v), by_text);
	for (size_t i = 0; i < l->n; i++) {
		if (n && !strcmp(l->v[n - 1], l->v[i]))
			free(l->v[i]);
		else
			l->v[n++] = l->v[i];
	}
	l->n = n;
	l->v[n] = NULL;
	return 0;
}

static bool is_known(struct store *s, const char *key)
{
	struct err ignored;
	bool has = true;
	if (query_is_wait_key(key))
		return true;
	if (!strncmp(key, "by.", 3)) /* who was running, or ended a wait */
		key += 3;
	if (!strcmp(key, "event") || query_is_system_key(key))
		return true;
	return store_has_key(s, key, &has, &ignored) || has;
}

static int unknown_key(struct store *s, const char *key, struct err *err)
{
	struct names l = { 0 };
	struct err ignored;
	char there[400] = "", *shown = text_printable(key, strlen(key));
	if (!list_keys(s, &l, &ignored) && shown)
		describe(&l, shown, " keys here: ", there, sizeof(there));
	int rc = err_set(err, -EINVAL, "unknown label key \"%s\"%s", shown ? shown : "?", there);
	free(shown);
	names_fini(&l);
	return rc;
}

int known_keys(struct store *s, const char *where, const char *const *keys, size_t n,
	       struct err *err)
{
	const char *asked[SELECTOR_KEYS_MAX];
	struct selector *sel = NULL;
	struct err ignored;
	int rc = 0;
	if (!store_n_files(s))
		return 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = is_known(s, keys[i]) ? 0 : unknown_key(s, keys[i], err);
	if (rc || selector_parse(&sel, where, NULL, &ignored))
		return rc;
	size_t n_asked = selector_keys(sel, asked, SELECTOR_KEYS_MAX);
	for (size_t i = 0; !rc && i < n_asked && i < SELECTOR_KEYS_MAX; i++)
		rc = is_known(s, asked[i]) ? 0 : unknown_key(s, asked[i], err);
	selector_free(sel);
	return rc;
}

/* ---- values ---- */

/* Whether any sample of the store matches, of any event. */
static bool any_matches(struct store *s, const char *where)
{
	bool any = false;
	for (uint32_t id = 0; !any && id < store_n_events(s); id++) {
		const struct query_spec spec = { .where = where,
						 .from_ns = INT64_MIN,
						 .to_ns = INT64_MAX,
						 .event = store_event(s, id)->name,
						 .idle = true,
						 .labels = QUERY_NO_LABELS };
		struct query *q;
		struct err ignored;
		if (query_open(&q, s, &spec, &ignored))
			return true;
		any = query_info(q)->samples > 0;
		query_close(q);
	}
	return any;
}

/* Of the range that was asked for, by samples. */
static int list_values(struct store *s, const struct query_spec *asked, const char *key,
		       struct names *l)
{
	struct query_spec spec = { .from_ns = asked->from_ns,
				   .to_ns = asked->to_ns,
				   .event = asked->event,
				   .labels = QUERY_KEYS,
				   .keys = &key,
				   .n_keys = 1 };
	struct found_list found = { 0 };
	struct query *q = NULL;
	struct err ignored;
	int rc = query_open(&q, s, &spec, &ignored);
	rc = rc ? rc : found_collect(&found, s, q, &spec, key, &ignored);
	for (size_t i = 0; !rc && i < found.n && i < CANDIDATES; i++) {
		size_t len;
		char *text = found_text(&found.v[i].label, &len);
		rc = text ? names_add(l, text, len) : -ENOMEM;
		free(text);
	}
	found_fini(&found);
	query_close(q);
	return rc;
}

static int unknown_value(struct store *s, const struct query_spec *asked, const char *key,
			 const char *value, struct err *err)
{
	struct names l = { 0 };
	char there[400] = "", *shown_key = text_printable(key, strlen(key)),
	     *shown = text_printable(value, strlen(value));
	int rc = -ENOMEM;
	if (shown && shown_key) {
		if (!list_values(s, asked, key, &l))
			describe(&l, shown, " values in this time: ", there, sizeof(there));
		rc = err_set(err, -EINVAL, "no sample has %s=\"%s\"%s", shown_key, shown, there);
	}
	free(shown);
	free(shown_key);
	names_fini(&l);
	return rc;
}

int known_values(struct store *s, const struct query_spec *asked, struct err *err)
{
	struct selector *sel = NULL;
	struct err ignored;
	int rc = 0;
	if (!asked->where || selector_parse(&sel, asked->where, NULL, &ignored))
		return 0;
	for (size_t i = 0; !rc && i < SELECTOR_KEYS_MAX; i++) {
		const char *key, *bytes;
		size_t len;
		if (!selector_equal(sel, i, &key, &bytes, &len) || memchr(bytes, '\0', len))
			continue;
		char *value = strndup(bytes, len),
		     *where = value ? view_narrow(NULL, key, value) : NULL;
		if (where && !any_matches(s, where))
			rc = unknown_value(s, asked, key, value, err);
		free(where);
		free(value);
	}
	selector_free(sel);
	return rc;
}
