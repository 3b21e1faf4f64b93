/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file/meta.h"

#include "store/file/format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct names {
	const char *v[COUNTERS_MAX];
	size_t n;
};

static int name_counter(struct names *t, const char *name, size_t *ret)
{
	for (*ret = 0; *ret < t->n; ++*ret)
		if (!strcmp(t->v[*ret], name))
			return 0;
	if (t->n == COUNTERS_MAX)
		return -E2BIG;
	t->v[t->n++] = name;
	return 0;
}

static int map_names(struct names *t, const char *const *names, size_t n, size_t **ret)
{
	*ret = calloc(n, sizeof(**ret));
	int rc = *ret ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++)
		rc = name_counter(t, names[i], &(*ret)[i]);
	return rc;
}

static int copy_names(const struct names *t, const char *const **ret, size_t *ret_n)
{
	char **v = calloc(t->n, sizeof(*v));
	*ret = (const char *const *)v;
	for (*ret_n = 0; v && *ret_n < t->n; ++*ret_n)
		if (!(v[*ret_n] = strdup(t->v[*ret_n])))
			return -ENOMEM;
	return v ? 0 : -ENOMEM;
}

/* "a, b"; shortened to `size`. */
static void join(char *out, size_t size, const char *text)
{
	size_t n = strlen(out);
	snprintf(out + n, size - n, "%s%.200s", n ? ", " : "", text);
}

static bool came_before(const struct store_meta *const *from, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(from[k]->host, from[i]->host))
			return true;
	return false;
}

int meta_join(struct store_meta *ret, const struct store_meta *const *from, size_t n,
	      struct meta_map *ret_maps)
{
	struct names lost = { .n = 0 }, flagged = { .n = 0 };
	struct store_meta m = { .created_ns = from[0]->created_ns };
	char host[1024] = "", what[1024] = "";
	const char *os = from[0]->os;
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		rc = map_names(&lost, from[i]->lost_names, from[i]->n_lost, &ret_maps[i].lost_at);
		rc = rc ? rc
			: map_names(&flagged, from[i]->flagged_names, from[i]->n_flagged,
				    &ret_maps[i].flagged_at);
		m.created_ns =
			from[i]->created_ns < m.created_ns ? from[i]->created_ns : m.created_ns;
		os = strcmp(os, from[i]->os) ? "several" : os;
		if (!came_before(from, i))
			join(host, sizeof(host), from[i]->host);
		if (!strstr(what, from[i]->what))
			join(what, sizeof(what), from[i]->what);
	}
	rc = rc ? rc : copy_names(&lost, &m.lost_names, &m.n_lost);
	rc = rc ? rc : copy_names(&flagged, &m.flagged_names, &m.n_flagged);
	m.host = strdup(host);
	m.os = strdup(os);
	m.what = strdup(what);
	if (!rc && (!m.host || !m.os || !m.what))
		rc = -ENOMEM;
	if (rc)
		meta_fini(&m);
	else
		*ret = m;
	return rc;
}

void meta_map_fini(struct meta_map *m)
{
	free(m->lost_at);
	free(m->flagged_at);
	*m = (struct meta_map){ 0 };
}

static void free_names(const char *const *names, size_t n)
{
	for (size_t i = 0; names && i < n; i++)
		free((char *)names[i]);
	free((void *)names);
}

void meta_fini(struct store_meta *m)
{
	free((char *)m->host);
	free((char *)m->os);
	free((char *)m->what);
	free_names(m->lost_names, m->n_lost);
	free_names(m->flagged_names, m->n_flagged);
	*m = (struct store_meta){ 0 };
}
