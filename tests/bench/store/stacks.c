/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of the load: real ones, or made up with shared prefixes. */
#include "bench_store.h"
#include "store/writer.h"

#include <dirent.h>
#include <errno.h>
#include <xxhash.h>

static uint32_t add_string(struct store_writer *w, const char *s, size_t len)
{
	uint32_t id;
	check(store_add_string(w, s, len, &id), "string");
	return id;
}

static uint32_t add_frame(struct store_writer *w, const char *name, size_t len)
{
	struct store_frame f = { 0 };
	uint32_t id;
	bool kernel = len > 4 && !memcmp(name + len - 4, "_[k]", 4);
	f.kind = kernel ? FRAME_KERNEL : FRAME_USER;
	f.function = add_string(w, name, kernel ? len - 4 : len);
	f.module = kernel ? add_string(w, "[kernel]", 8) : add_string(w, "/usr/bin/server", 15);
	check(store_add_frame(w, &f, &id), "frame");
	return id;
}

static void keep_stack(struct corpus *c, const char *line, size_t len)
{
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 65536;
		c->lines = need(reallocarray(c->lines, c->cap, sizeof(*c->lines)));
	}
	c->lines[c->n++] = need(strndup(line, len));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each once, in an order that has nothing to do with the files': the rank in Zipf's law. */
static void distinct(struct corpus *c)
{
	size_t n = 0;
	if (c->n)
		qsort(c->lines, c->n, sizeof(*c->lines), by_text);
	for (size_t i = 0; i < c->n; i++)
		if (!n || strcmp(c->lines[i], c->lines[n - 1]))
			c->lines[n++] = c->lines[i];
	c->n = n;
	for (size_t i = n; i > 1; i--) {
		uint32_t j = draw((uint32_t)i);
		char *t = c->lines[j];
		c->lines[j] = c->lines[i - 1];
		c->lines[i - 1] = t;
	}
	c->ids = need(calloc(n + 1, sizeof(*c->ids)));
}

uint32_t stack_id(const struct corpus *c, uint32_t i)
{
	const char *p = c->lines[i], *end = p + strlen(p);
	if (c->ids[i])
		return c->ids[i];
	for (const char *q; p < end; p = q + 1) {
		q = strchrnul(p, ';');
		check(store_add_stack(c->w, c->ids[i], add_frame(c->w, p, (size_t)(q - p)),
				      &c->ids[i]),
		      "stack");
	}
	return c->ids[i];
}

/*
 * ---- real stacks, read twice: the first time only their hashes are kept, the smallest of which
 * are the choice ----
 */

struct chosen {
	uint64_t *hashes, limit;
	size_t n, cap, want;
};

static int by_hash(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void choose_some(struct chosen *h)
{
	size_t n = 0;
	if (h->n)
		qsort(h->hashes, h->n, sizeof(*h->hashes), by_hash);
	for (size_t i = 0; i < h->n; i++)
		if (!n || h->hashes[i] != h->hashes[n - 1])
			h->hashes[n++] = h->hashes[i];
	h->n = n < h->want ? n : h->want;
	h->limit = n < h->want ? UINT64_MAX : h->hashes[h->want - 1];
}

/* add: the second time. */
static void read_folded(struct corpus *c, struct chosen *h, const char *path, bool add)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t len;
	FILE *f = fopen(path, "re");
	if (!f)
		check(-errno, path);
	while ((len = getline(&line, &cap, f)) > 0) {
		char *end = memrchr(line, ' ', (size_t)len);
		uint64_t hash = end ? XXH3_64bits(line, (size_t)(end - line)) : UINT64_MAX;
		if (!end || hash > h->limit)
			continue;
		if (add) {
			keep_stack(c, line, (size_t)(end - line));
			continue;
		}
		if (h->n == h->cap) {
			choose_some(h);
			h->cap = h->n * 2 > 1 << 20 ? h->n * 2 : 1 << 20;
			h->hashes = need(reallocarray(h->hashes, h->cap, sizeof(*h->hashes)));
		}
		h->hashes[h->n++] = hash;
	}
	free(line);
	fclose(f);
}

static int is_folded(const struct dirent *e)
{
	const char *dot = strrchr(e->d_name, '.');
	return dot && !strcmp(dot, ".folded");
}

void real_stacks(struct corpus *c, const char *dir, uint32_t want)
{
	struct dirent **names;
	struct chosen h = { .limit = UINT64_MAX, .want = want };
	int n = scandir(dir, &names, is_folded, alphasort);
	if (n <= 0)
		check(-ENOENT, dir);
	for (int i = 0; i < 2 * n; i++) {
		char path[4096];
		if (i == n)
			choose_some(&h);
		snprintf(path, sizeof(path), "%s/%s", dir, names[i % n]->d_name);
		read_folded(c, &h, path, i >= n);
	}
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	free(h.hashes);
	distinct(c);
}

/* ---- made-up stacks ---- */

/* Some 50 bytes: words as programs have them, in a few name spaces. */
static int made_name(char *out, size_t cap)
{
	static const char *const words[] = {
		"read",	 "write", "lock",  "page",   "node",   "hash",	"table",  "index",
		"query", "parse", "token", "buffer", "stream", "frame", "block",  "cache",
		"merge", "sort",  "scan",  "visit",  "expr",   "plan",	"commit", "send",
	};
	int n = snprintf(out, cap, "%s::%s_%s::", words[draw(4)], words[draw(12)], words[draw(24)]);
	for (uint32_t i = 0, k = 3 + draw(3); i < k; i++)
		n += snprintf(out + n, cap - (size_t)n, "%s%s", words[draw(24)],
			      i + 1 < k ? "_" : "");
	return n + snprintf(out + n, cap - (size_t)n, "%u(%s)", draw(100),
			    draw(2) ? "int" : "std::string const&");
}

/* Each stack leaves an earlier one somewhere on its way: shared prefixes, as in programs. */
void made_stacks(struct corpus *c, uint32_t want)
{
	uint32_t(*paths)[64] = need(calloc(want, sizeof(*paths)));
	uint8_t *depth = need(calloc(want, 1));
	char(*names)[160] = need(calloc(MADE_FUNCTIONS, sizeof(*names)));
	static char line[64 * 161];
	for (uint32_t i = 0; i < MADE_FUNCTIONS; i++)
		made_name(names[i], sizeof(names[i]));
	for (uint32_t i = 0; i < want; i++) {
		uint32_t from = i ? draw(i) : 0, leave = 1 + draw(draw(8) + 1u);
		uint32_t keep = depth[from] > leave ? depth[from] - leave : 0,
			 length = 8 + draw(14) + draw(15);
		memcpy(paths[i], paths[from], keep * sizeof(uint32_t));
		if (keep >= length || keep > 60)
			length = keep + 1;
		else if (i > 64 && length > keep + 6)
			length = keep + 1 + draw(6);
		depth[i] = (uint8_t)(length > 63 ? 63 : length);
		keep = keep < depth[i] ? keep : depth[i] - 1u;
		for (uint32_t k = keep; k < depth[i]; k++)
			paths[i][k] = draw(MADE_FUNCTIONS);
		char *p = line;
		for (uint32_t k = 0; k < depth[i]; k++)
			p += sprintf(p, "%s%s", k ? ";" : "", names[paths[i][k]]);
		keep_stack(c, line, (size_t)(p - line));
	}
	free(paths);
	free(depth);
	free(names);
	distinct(c);
}

/* ---- windows as they were recorded ---- */

static uint32_t find_line(const struct corpus *c, const uint32_t *order, const char *line)
{
	size_t low = 0, high = c->n;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (strcmp(c->lines[order[mid]], line) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return order[low];
}

static const struct corpus *ordered;

static int by_line(const void *a, const void *b)
{
	return strcmp(ordered->lines[*(const uint32_t *)a], ordered->lines[*(const uint32_t *)b]);
}

static void read_window(const struct corpus *c, const uint32_t *order, const char *path,
			struct recorded *w)
{
	char *line = NULL;
	size_t cap = 0, room = 0;
	FILE *f = fopen(path, "re");
	if (!f)
		check(-errno, path);
	for (ssize_t len; (len = getline(&line, &cap, f)) > 0;) {
		char *end = memrchr(line, ' ', (size_t)len);
		if (!end)
			continue;
		*end = 0;
		if (w->n == room) {
			room = room ? 2 * room : 1024;
			w->v = need(reallocarray(w->v, room, sizeof(*w->v)));
		}
		w->v[w->n].stack = find_line(c, order, line);
		w->v[w->n++].samples = (uint32_t)strtoul(end + 1, NULL, 10);
	}
	free(line);
	fclose(f);
}

size_t real_windows(const struct corpus *c, const char *dir, struct recorded **ret)
{
	uint32_t *order = need(calloc(c->n + 1, sizeof(*order)));
	struct dirent **names;
	int n = scandir(dir, &names, is_folded, alphasort);
	if (n <= 0)
		check(-ENOENT, dir);
	for (uint32_t i = 0; i < c->n; i++)
		order[i] = i;
	ordered = c;
	qsort(order, c->n, sizeof(*order), by_line);
	*ret = need(calloc((size_t)n, sizeof(**ret)));
	for (int i = 0; i < n; i++) {
		char path[4096];
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
		read_window(c, order, path, &(*ret)[i]);
		free(names[i]);
	}
	free(names);
	free(order);
	return (size_t)n;
}
