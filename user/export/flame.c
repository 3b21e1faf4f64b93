/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flame graph's data, pruned here so that the page stays quick. Nodes below 0.01% of all
 * samples, and the smallest ones beyond a maximum, are summed per parent in one "(other)" node. So
 * every level still adds up.
 *
 * nodes is flat, three numbers a node in depth-first order: depth, samples, frame. frames is flat,
 * three a frame: name, module, kind (enum export_kind). Frame 0 is the root, frame 1 "(other)".
 * With a baseline there is beside them, for each node, what the baseline has of it, and whether
 * that is a difference; what both have together decides what is pruned.
 */
#include "export/export.h"
#include "export/flame_page.h"
#include "export/intern.h"
#include "export/json.h"
#include "query/diff.h"
#include "query/split.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_MAX_NODES 20000

struct flame {
	const struct export_source *src;
	const struct query_info *info;
	const struct query_node *tree;
	size_t n;
	const struct query_diff_tree *diff;	   /* NULL: no baseline */
	const struct query_split *split;	   /* NULL: the root's children are frames */
	uint32_t value_frame[QUERY_SPLIT_MAX + 1]; /* of each value: place in frames, 0: not yet */
	uint64_t (*counts)[2]; /* with a baseline: of each node that was added, both sides */
	size_t n_counts, counts_cap;
	uint32_t root;	       /* what the graph begins with; 0: all */
	uint64_t least;	       /* nodes with less are pruned */
	uint64_t pruned;       /* how many */
	uint32_t *frame_index; /* store frame -> place in frames, 0: not yet */
	struct intern shown;   /* name, module and kind of each frame -> place in frames */
	json_t *nodes, *frames;
};

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x < y) - (x > y);
}

/* The next node of the graph, depth first; 0: that was the last. */
static uint32_t next_node(const struct flame *fl, uint32_t i)
{
	if (fl->tree[i].first_child)
		return fl->tree[i].first_child;
	while (i != fl->root && !fl->tree[i].next_sibling)
		i = fl->tree[i].parent;
	return i == fl->root ? 0 : fl->tree[i].next_sibling;
}

/* A child never has more than its parent, so a limit on samples keeps whole paths. */
static int choose_least(struct flame *fl, uint64_t max_nodes)
{
	size_t n = 0, seen = 0;
	fl->least = fl->tree[fl->root].total / EXPORT_FLAME_LEAST + 1;
	uint64_t *totals = calloc(fl->n, sizeof(*totals));
	if (!totals)
		return -ENOMEM;
	uint32_t i = fl->root;
	do {
		seen++;
		if (fl->tree[i].total >= fl->least)
			totals[n++] = fl->tree[i].total;
	} while ((i = next_node(fl, i)));
	fl->pruned = seen;
	if (n > max_nodes) {
		qsort(totals, n, sizeof(*totals), descending);
		fl->least = totals[max_nodes] + 1;
	}
	free(totals);
	return 0;
}

#define INLINED " (inlined)"

static int append(json_t *array, json_t *value)
{
	return json_array_append_new(array, value) ? -ENOMEM : 0;
}

/*
 * Return the place of a frame in `frames`, adding it where it is new. Frames of the store that
 * differ only in what is not shown, as in their lines, are one frame.
 */
static int add_frame(struct flame *fl, const char *name, const char *module, size_t len,
		     enum export_kind kind, uint32_t *ret)
{
	struct buf key = { 0 };
	bool new = false;
	int rc = buf_add(&key, name, strlen(name) + 1);
	rc = rc ? rc : buf_add(&key, module, len);
	rc = rc ? rc : buf_add(&key, &kind, sizeof(kind));
	rc = rc ? rc : intern_add(&fl->shown, key.data, key.len, ret, &new);
	buf_fini(&key);
	if (rc || !new)
		return rc;
	rc = append(fl->frames, json_text(name, strlen(name)));
	rc = rc ? rc : append(fl->frames, json_text(module, len));
	return rc ? rc : append(fl->frames, json_integer(kind));
}

/* Find the frame that stands for a value. */
static int find_value(struct flame *fl, uint32_t node, uint32_t *ret)
{
	uint32_t v = 0;
	while (fl->split->node[v] != node)
		v++;
	int rc = 0;
	if (!fl->value_frame[v])
		rc = add_frame(fl, fl->split->text[v], "", 0, EXPORT_LABEL, &fl->value_frame[v]);
	*ret = fl->value_frame[v];
	return rc;
}

static int find_frame(struct flame *fl, uint32_t node, uint32_t *ret)
{
	const struct store *s = fl->src->store;
	uint32_t parent, frame;
	char name[4096];
	if (fl->split && node && !fl->tree[node].parent)
		return find_value(fl, node, ret);
	if (fl->diff)
		frame = fl->diff->nodes[node].frame;
	else
		store_stack(s, fl->tree[node].stack, &parent, &frame);
	const struct store_frame *f = store_frame(s, frame);
	if (!f) {
		*ret = 1;
		return 0;
	}
	if (!fl->frame_index[frame]) {
		size_t len;
		const char *module = store_string(s, f->module, &len);
		query_name(fl->src->query, frame, name, sizeof(name) - sizeof(INLINED));
		if (f->flags & FRAME_INLINED)
			strcat(name, INLINED);
		int rc = add_frame(fl, name, module, len, export_frame_kind(s, frame),
				   &fl->frame_index[frame]);
		if (rc)
			return rc;
	}
	*ret = fl->frame_index[frame];
	return 0;
}

static int add_node(struct flame *fl, uint64_t depth, const uint64_t samples[2], uint32_t frame)
{
	int rc = append(fl->nodes, json_count(depth));
	rc = rc ? rc : append(fl->nodes, json_count(samples[0]));
	rc = rc ? rc : append(fl->nodes, json_integer(frame));
	rc = rc || !fl->diff ? rc : ARRAY_RESERVE(fl->counts, fl->counts_cap, fl->n_counts + 1);
	if (!rc && fl->diff)
		memcpy(fl->counts[fl->n_counts++], samples, sizeof(fl->counts[0]));
	return rc;
}

static void add_counts(const struct flame *fl, uint32_t node, uint64_t sum[2])
{
	sum[0] += fl->diff ? fl->diff->nodes[node].total[0] : fl->tree[node].total;
	sum[1] += fl->diff ? fl->diff->nodes[node].total[1] : 0;
}

/* A node that the question has not asked for by itself is one of those that are pruned. */
static bool is_pruned(const struct flame *fl, uint32_t node)
{
	return fl->tree[node].total < fl->least ||
	       (!fl->diff && fl->tree[node].stack == QUERY_OTHER_STACK);
}

/* The first node from here on, among siblings, that is not pruned. */
static uint32_t kept(const struct flame *fl, uint32_t node)
{
	while (node && is_pruned(fl, node))
		node = fl->tree[node].next_sibling;
	return node;
}

/* One node for the children that were pruned, behind those that were not. */
static int add_other(struct flame *fl, uint32_t node, uint64_t depth)
{
	uint64_t sum[2] = { 0, 0 };
	for (uint32_t c = fl->tree[node].first_child; c; c = fl->tree[c].next_sibling) {
		if (is_pruned(fl, c))
			add_counts(fl, c, sum);
	}
	return sum[0] || sum[1] ? add_node(fl, depth + 1, sum, 1) : 0;
}

/* Depth first without recursion: stacks may be deep. */
static int walk(struct flame *fl)
{
	uint64_t depth = 0;
	for (uint32_t i = fl->root, next;; i = next) {
		uint32_t frame = 0;
		uint64_t samples[2] = { 0, 0 };
		int rc = i ? find_frame(fl, i, &frame) : 0;
		add_counts(fl, i, samples);
		rc = rc ? rc : add_node(fl, depth, samples, frame);
		fl->pruned--;
		next = kept(fl, fl->tree[i].first_child);
		if (next) {
			depth++;
			if (rc)
				return rc;
			continue;
		}
		rc = rc ? rc : add_other(fl, i, depth);
		while (!rc && i != fl->root && !(next = kept(fl, fl->tree[i].next_sibling))) {
			i = fl->tree[i].parent;
			rc = add_other(fl, i, --depth);
		}
		if (rc || i == fl->root)
			return rc;
	}
}

static json_t *counts(const char *const *names, const uint64_t *values, size_t n)
{
	json_t *o = json_object();
	for (size_t i = 0; o && i < n; i++) {
		if (json_put(o, names[i], json_count(values[i]))) {
			json_decref(o);
			return NULL;
		}
	}
	return o;
}

static int put_text(json_t *o, const char *key, const char *text)
{
	return json_put(o, key, text ? json_text(text, strlen(text)) : json_text("", 0));
}

static int add_header(const struct flame *fl, json_t *o)
{
	const struct query_info *info = fl->info;
	const struct store_meta *m = store_meta(fl->src->store);
	const struct store_event *e = info->event;
	int rc = put_text(o, "what", m->what);
	rc = rc ? rc : put_text(o, "host", m->host);
	rc = rc ? rc : put_text(o, "os", m->os);
	rc = rc ? rc : put_text(o, "where", fl->src->where);
	rc = rc ? rc : put_text(o, "event", e ? e->name : NULL);
	rc = rc ? rc : json_put(o, "ns_per_sample", json_count(e ? e->ns_per_sample : 0));
	rc = rc ? rc : put_text(o, "counts", query_counts(info));
	rc = rc ? rc : json_put(o, "from", json_real((double)info->from_ns / 1e9));
	rc = rc ? rc : json_put(o, "to", json_real((double)info->to_ns / 1e9));
	rc = rc ? rc : json_put(o, "samples", json_count(info->samples));
	rc = rc ? rc : json_put(o, "seconds", json_real(info->seconds));
	rc = rc ? rc : json_put(o, "idle", json_count(info->idle));
	rc = rc ? rc : json_put(o, "idle_waits", json_count(info->idle_waits));
	rc = rc ? rc : json_put(o, "idle_included", json_boolean(fl->src->idle));
	if (info->bounded)
		rc = rc ? rc : json_put(o, "bounded", json_true());
	rc = rc ? rc : json_put(o, "fired", json_count(info->fired));
	rc = rc ? rc : json_put(o, "stored", json_count(info->stored));
	rc = rc ? rc : json_put(o, "lost", counts(m->lost_names, info->lost, m->n_lost));
	return rc ? rc
		  : json_put(o, "flagged", counts(m->flagged_names, info->flagged, m->n_flagged));
}

/* ---- the part below one frame ---- */

static uint32_t fnv1a(const char *s, size_t len, uint32_t h)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)s[i]) * 16777619u;
	return h;
}

static int hash_frame(struct flame *fl, uint32_t node, uint32_t *ret)
{
	uint32_t frame;
	int rc = find_frame(fl, node, &frame);
	if (rc)
		return rc;
	const json_t *name = json_array_get(fl->frames, 3 * frame),
		     *module = json_array_get(fl->frames, 3 * frame + 1);
	uint32_t h = fnv1a(json_string_value(name), json_string_length(name) + 1, 2166136261u);
	*ret = fnv1a(json_string_value(module), json_string_length(module), h);
	return 0;
}

/* One step down; *ret 0: no child has that hash. */
static int find_child(struct flame *fl, uint32_t parent, uint32_t hash, uint32_t *ret)
{
	for (uint32_t c = fl->tree[parent].first_child; c; c = fl->tree[c].next_sibling) {
		uint32_t h;
		int rc = hash_frame(fl, c, &h);
		if (rc)
			return rc;
		if (h == hash) {
			*ret = c;
			return 0;
		}
	}
	return -ENOENT;
}

static int find_root(struct flame *fl, const char *root, struct err *err)
{
	for (const char *p = root; p && *p;) {
		char digits[9] = "";
		memcpy(digits, p, strnlen(p, 8));
		if (strspn(digits, "0123456789abcdef") != 8 || (p[8] && (p[8] != '.' || !p[9])))
			return err_set(
				err, -EINVAL,
				"root: eight hexadecimal digits for each frame, with dots between");
		int rc = find_child(fl, fl->root, (uint32_t)strtoul(digits, NULL, 16), &fl->root);
		if (rc)
			return rc == -ENOENT ? err_set(err, rc, "root: no such frame in this range")
					     : err_sys(err, rc, "flame graph");
		p += p[8] ? 9 : 8;
	}
	return 0;
}

/* What leads to the root of the graph, outermost first: name, module, samples of each. */
static json_t *path_json(struct flame *fl)
{
	json_t *v = json_array();
	int rc = v ? 0 : -ENOMEM;
	for (uint32_t i = fl->root; i && !rc;) {
		uint32_t frame = 0;
		uint64_t samples[2] = { 0, 0 };
		i = fl->tree[i].parent;
		add_counts(fl, i, samples);
		rc = i ? find_frame(fl, i, &frame) : 0;
		rc = rc || !json_array_insert_new(v, 0, json_count(samples[0])) ? rc : -ENOMEM;
		rc = rc || !json_array_insert(v, 0, json_array_get(fl->frames, 3 * frame + 1))
			     ? rc
			     : -ENOMEM;
		rc = rc || !json_array_insert(v, 0, json_array_get(fl->frames, 3 * frame))
			     ? rc
			     : -ENOMEM;
	}
	if (!rc)
		return v;
	json_decref(v);
	return NULL;
}

/* Measured amounts are what they are; sampled ones are tested by the samples they come from. */
static int judge(const struct flame *fl, const uint64_t all[2], uint8_t *ret)
{
	uint64_t grain = fl->info->amounts ? fl->info->grain : 1;
	uint64_t(*counts)[2] = calloc(fl->n_counts + 1, sizeof(*counts));
	int rc = counts ? 0 : -ENOMEM;
	for (size_t i = 0; i < fl->n_counts && !rc && !grain; i++) {
		double a = all[0] ? (double)fl->counts[i][0] / (double)all[0] : 0,
		       b = all[1] ? (double)fl->counts[i][1] / (double)all[1] : 0;
		ret[i] = a > b ? DIFF_MORE : a < b ? DIFF_LESS : DIFF_NOISE;
	}
	for (size_t i = 0; i < fl->n_counts && !rc && grain; i++) {
		counts[i][0] = fl->counts[i][0] / grain;
		counts[i][1] = fl->counts[i][1] / grain;
	}
	if (!rc && grain)
		rc = query_diff_verdicts((const uint64_t(*)[2])counts, fl->n_counts,
					 (const uint64_t[]){ all[0] / grain, all[1] / grain }, ret);
	free(counts);
	return rc;
}

static int add_baseline(struct flame *fl, json_t *o, const struct query_info *against)
{
	uint64_t all[2] = { fl->info->samples, against->samples };
	uint8_t *verdict = malloc(fl->n_counts + 1);
	json_t *counts = json_array(), *verdicts = json_array();
	int rc = verdict && counts && verdicts ? judge(fl, all, verdict) : -ENOMEM;
	for (size_t i = 0; i < fl->n_counts && !rc; i++) {
		rc = append(counts, json_count(fl->counts[i][1]));
		rc = rc ? rc : append(verdicts, json_integer(verdict[i]));
	}
	rc = rc ? rc : json_put(o, "against", json_incref(counts));
	rc = rc ? rc : json_put(o, "verdicts", json_incref(verdicts));
	rc = rc ? rc : json_put(o, "against_samples", json_count(all[1]));
	if (against->bounded)
		rc = rc ? rc : json_put(o, "bounded", json_true());
	json_decref(counts);
	json_decref(verdicts);
	free(verdict);
	return rc;
}

/* The values in order: who draws the part below one of them gives it the same colour. */
static int add_values(const struct flame *fl, json_t *o)
{
	json_t *v = json_array();
	int rc = v ? 0 : -ENOMEM;
	for (uint32_t i = 0; !rc && i < fl->split->n_values; i++)
		rc = append(v, json_text(fl->split->text[i], strlen(fl->split->text[i])));
	rc = rc ? rc : json_put(o, "values", json_incref(v));
	json_decref(v);
	return rc;
}

/* Frames that were made to look for the root stay, though no node may need them. */
static int add_tree(struct flame *fl, json_t *o, const struct export_flame_spec *spec,
		    struct err *err)
{
	fl->frame_index =
		calloc((size_t)store_n_frames(fl->src->store) + 1, sizeof(*fl->frame_index));
	fl->nodes = json_array();
	fl->frames = json_array();
	int rc = fl->frame_index ? 0 : -ENOMEM;
	uint32_t place;
	rc = rc ? rc : add_frame(fl, "all", "", 0, EXPORT_OTHER, &place);
	rc = rc ? rc : add_frame(fl, "(other)", "", 0, EXPORT_OTHER, &place);
	rc = rc ? rc : find_root(fl, spec->root, err);
	rc = rc ? rc : choose_least(fl, spec->max_nodes ? spec->max_nodes : DEFAULT_MAX_NODES);
	rc = rc ? rc : walk(fl);
	rc = rc || !fl->root ? rc : json_put(o, "path", path_json(fl));
	rc = rc ? rc : json_put(o, "pruned", json_count(fl->pruned));
	rc = rc ? rc : json_put(o, "frames", json_incref(fl->frames));
	rc = rc ? rc : json_put(o, "nodes", json_incref(fl->nodes));
	rc = rc || !fl->split ? rc : add_values(fl, o);
	rc = rc || !fl->diff ? rc : add_baseline(fl, o, query_info(spec->against));
	json_decref(fl->frames);
	json_decref(fl->nodes);
	free(fl->frame_index);
	intern_fini(&fl->shown);
	free(fl->counts);
	return rc;
}

/* ---- where the tree comes from ---- */

struct graph {
	struct query_view_tree view;
	struct query_split *split;
	struct query_diff_tree *diff;
	struct query_node *both; /* the tree of a difference, by the sums of both */
};

static void graph_free(struct graph *g)
{
	query_view_free(&g->view);
	query_split_free(g->split);
	query_diff_tree_free(g->diff);
	free(g->both);
}

static int graph_of_both(struct graph *g, struct err *err)
{
	size_t n = g->diff->n_nodes;
	g->both = calloc(n + !n, sizeof(*g->both));
	if (!g->both)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct query_diff_node *d = &g->diff->nodes[i];
		g->both[i] = (struct query_node){ .parent = d->parent,
						  .first_child = d->first_child,
						  .next_sibling = d->next_sibling,
						  .self = d->self[0] + d->self[1],
						  .total = d->total[0] + d->total[1] };
	}
	return 0;
}

static int split_open(struct graph *g, struct flame *fl, const struct export_flame_spec *spec,
		      struct err *err)
{
	int rc =
		query_split(&g->split, fl->src->query, spec->split, spec->values, &spec->view, err);
	fl->split = g->split;
	fl->tree = rc ? NULL : g->split->nodes;
	fl->n = rc ? 0 : g->split->n;
	return rc;
}

static int graph_open(struct graph *g, struct flame *fl, const struct export_flame_spec *spec,
		      struct err *err)
{
	int rc;
	*g = (struct graph){ 0 };
	if (spec->split)
		return split_open(g, fl, spec, err);
	if (!spec->against) {
		rc = query_view(&g->view, fl->src->query, &spec->view, err);
		fl->tree = g->view.nodes;
		fl->n = g->view.n;
		return rc;
	}
	rc = query_diff_view(&g->diff, fl->src->query, spec->against, &spec->view, err);
	rc = rc ? rc : graph_of_both(g, err);
	fl->tree = g->both;
	fl->n = rc ? 0 : g->diff->n_nodes;
	fl->diff = g->diff;
	return rc;
}

int export_flame_data(const struct export_source *src, const struct export_flame_spec *spec,
		      json_t **ret, struct err *err)
{
	struct err why = { 0 };
	struct flame fl = { .src = src, .info = query_info(src->query) };
	struct graph g;
	json_t *o = NULL;
	int rc = graph_open(&g, &fl, spec, &why);
	if (!rc) {
		o = json_object();
		rc = add_header(&fl, o);
	}
	rc = rc ? rc : add_tree(&fl, o, spec, &why);
	graph_free(&g);
	if (rc) {
		json_decref(o);
		return why.code ? err_set(err, rc, "%s", why.text)
				: err_sys(err, rc, "flame graph");
	}
	*ret = o;
	return 0;
}

int export_flame_json(const struct export_source *src, const struct export_flame_spec *spec,
		      FILE *f, struct err *err)
{
	json_t *data;
	int rc = export_flame_data(src, spec, &data, err);
	if (rc)
		return rc;
	errno = EIO;
	if (json_print(data, NULL, f) || fflush(f))
		rc = err_sys(err, -errno, "flame graph");
	json_decref(data);
	return rc;
}

int export_flame(const struct export_source *src, const struct export_flame_spec *spec, FILE *f,
		 struct err *err)
{
	json_t *data;
	int rc = export_flame_data(src, spec, &data, err);
	if (rc)
		return rc;
	const char *mark = strstr(flame_page, FLAME_PAGE_DATA);
	size_t head = (size_t)(mark - flame_page);
	errno = EIO;
	if (fwrite(flame_page, 1, head, f) != head || json_print_script(data, f) ||
	    fputs(mark + strlen(FLAME_PAGE_DATA), f) == EOF || fflush(f))
		rc = err_sys(err, -errno, "flame graph");
	json_decref(data);
	return rc;
}
