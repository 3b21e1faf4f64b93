/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a block of level 0 from the rows of the open window. Label sets become narrow sets of the
 * segment, and, where wide keys occur, entries of the block's own table.
 */
#include "store/block/keys.h"
#include "store/block/rows.h"
#include "store/block/settable.h"
#include "store/write/writer_int.h"

#include "hist/metrics.h"
#include "store/writer.h"
#include "util/array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* ---- anchors ---- */

/* Realtime drifts against BOOTTIME by less than this between two windows */
#define STEP_NS (1 * SECOND_NS)

static void read_boot_id(uint8_t out[16])
{
	char text[64] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC), n = 0;
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	if (fd >= 0)
		close(fd);
	memset(out, 0, 16);
	for (const char *p = text; *p && n < 32; p++) {
		unsigned int digit;
		if (sscanf((char[]){ *p, 0 }, "%1x", &digit) != 1)
			continue;
		out[n / 2] = (uint8_t)(out[n / 2] << 4 | digit);
		n++;
	}
}

/* A new boot, or a clock that was set: the windows from here on have an anchor of their own. */
static int need_anchor(struct store_writer *w, int64_t t1_ns, int64_t boot_ns, struct err *err)
{
	struct manifest *m = &w->s.manifest;
	const struct store_anchor *last = m->n_anchors ? &m->anchors[m->n_anchors - 1] : NULL;
	struct store_anchor a = { .real_minus_boot_ns = t1_ns - boot_ns };
	memcpy(a.boot_id, w->boot_id, 16);
	if (last && !memcmp(last->boot_id, a.boot_id, 16)) {
		int64_t step = a.real_minus_boot_ns - last->real_minus_boot_ns;
		/* Slow drift is followed, so that it does not add up to a step. */
		if (w->anchor_drift_ns - step < STEP_NS && step - w->anchor_drift_ns < STEP_NS) {
			w->anchor_drift_ns = step;
			return 0;
		}
	}
	if (manifest_add_anchor(m, &a))
		return err_sys(err, -ENOMEM, "cannot write %s", w->s.dir);
	int rc = writer_save_manifest(w, err);
	if (rc)
		m->n_anchors--;
	else
		w->anchor_drift_ns = 0;
	return rc;
}

void commit_init(struct store_writer *w)
{
	read_boot_id(w->boot_id);
}

/* ---- wide keys ---- */

/* Which keys are wide in this window; its segment and the manifest say so before it is written. */
static int choose_wide(struct store_writer *w, int64_t t_ns, struct err *err)
{
	struct segment *g = writer_segment(w, 0);
	if (!g || w->out[0].fresh || writer_ends_file(w, 0, t_ns))
		wide_settle(w);
	if (wide_count(w, t_ns))
		return err_sys(err, -ENOMEM, "cannot write %s", w->s.dir);
	int rc = writer_need_segment(w, 0, t_ns, &g, err);
	if (!rc && wide_list(w, g))
		rc = err_sys(err, -ENOMEM, "cannot write %s", w->s.dir);
	return rc || !w->manifest_due ? rc : writer_save_manifest(w, err);
}

/* ---- label sets ---- */

struct split {
	struct store_writer *w;
	struct settable table;
	uint32_t *narrow; /* by id of the window: narrow set */
	uint32_t *place;  /* by id of the window: entry of the table */
	bool wide;	  /* any set has wide labels */
};

/*
 * The keys of wide labels are strings of the segment too. Those of few values come first: tables
 * are sorted by their labels, and neighbours that have values in common are smaller.
 */
static int split_set(struct split *p, uint32_t id)
{
	struct store_writer *w = p->w;
	const struct setpool_set *s = &w->sets.sets[id];
	struct label narrow[SET_LABELS_MAX];
	struct settable_label wide[SET_LABELS_MAX];
	uint32_t most[SET_LABELS_MAX];
	size_t n = 0, n_wide = 0;
	int rc = 0;
	for (uint32_t i = 0; !rc && i < s->n; i++) {
		const struct label *l = &s->labels[i];
		const struct key_stat *k = wide_find(w, l->key, l->key_len);
		if (!k) {
			narrow[n++] = *l;
			continue;
		}
		size_t at = n_wide++;
		for (; at && most[at - 1] > k->most; at--) {
			wide[at] = wide[at - 1];
			most[at] = most[at - 1];
		}
		most[at] = k->most;
		struct settable_label *t = &wide[at];
		*t = settable_value(l);
		rc = strings_add(&w->out[0].d.label_text, l->key, l->key_len, &t->key);
	}
	if (!rc)
		rc = dicts_add_set(&w->out[0].d, narrow, n, &p->narrow[id]);
	if (!rc)
		rc = settable_add(&p->table, p->narrow[id], wide, n_wide);
	p->wide |= n_wide > 0;
	return rc;
}

static int by_entry(const void *pa, const void *pb, void *ctx)
{
	const struct settable *t = ctx;
	const struct settable_set *a = &t->sets[*(const uint32_t *)pa],
				  *b = &t->sets[*(const uint32_t *)pb];
	return settable_compare(t, a, b);
}

/* Sorted, so that neighbours share what they can; place[] is where each went. */
static int sort_table(struct split *p)
{
	size_t n = p->table.n;
	uint32_t *order = malloc(n * sizeof(*order));
	struct settable_set *sorted = malloc(n * sizeof(*sorted));
	int rc = order && sorted ? 0 : -ENOMEM;
	for (uint32_t i = 0; !rc && i < n; i++)
		order[i] = i;
	if (!rc) {
		qsort_r(order, n, sizeof(*order), by_entry, &p->table);
		for (uint32_t i = 0; i < n; i++) {
			sorted[i] = p->table.sets[order[i]];
			p->place[order[i]] = i;
		}
		memcpy(p->table.sets, sorted, n * sizeof(*sorted));
	}
	free(order);
	free(sorted);
	return rc;
}

static int split_sets(struct split *p)
{
	uint32_t n = p->w->sets.n;
	p->narrow = calloc(n, sizeof(*p->narrow));
	p->place = calloc(n, sizeof(*p->place));
	int rc = p->narrow && p->place ? settable_add(&p->table, 0, NULL, 0) : -ENOMEM;
	for (uint32_t id = 1; !rc && id < n; id++)
		rc = split_set(p, id);
	return rc || !p->wide ? rc : sort_table(p);
}

static void split_fini(struct split *p)
{
	settable_fini(&p->table);
	free(p->narrow);
	free(p->place);
}

/* ---- the block ---- */

/* Of a window: the keys of its table. */
static int add_keys(struct store_writer *w, const struct settable *t, struct block *b)
{
	struct block_keys keys = { 0 };
	struct block_key *key;
	int rc = 0;
	for (size_t i = 0; !rc && i < t->n_labels; i++) {
		size_t len;
		const char *text = strings_get(&w->out[0].d.label_text, t->labels[i].key, &len);
		rc = block_keys_need(&keys, text, len, &key);
		if (!rc && key)
			key->windows = 1;
	}
	if (!rc)
		rc = block_keys_encode(&b->column[COLUMN_KEYS], &keys);
	b->has |= 1u << COLUMN_KEYS;
	block_keys_fini(&keys);
	return rc;
}

/* Sorted rows, by groups. */
static int put_rows(struct rows_writer *out, const struct rows *rows)
{
	int rc = 0;
	for (size_t i = 0, end; !rc && i < rows->n; i = end) {
		const struct store_row *v = &rows->v[i];
		for (end = i + 1; end < rows->n && rows->v[end].stack == v->stack &&
				  rows->v[end].event == v->event;
		     end++)
			;
		rc = rows_put(out, v, end - i);
	}
	return rc;
}

/* rows name sets of the window and stacks; they come out as they are written. */
static int encode_rows(struct store_writer *w, struct split *p, struct rows *rows, struct block *b)
{
	struct rows_writer out = { .events = w->out[0].d.events };
	int rc = 0;
	for (size_t i = 0; !rc && i < rows->n; i++) {
		struct store_row *row = &rows->v[i];
		row->set = p->wide ? p->place[row->set] : p->narrow[row->set];
		rc = dicts_add_leaf(&w->out[0].d, row->stack, &row->stack);
	}
	if (!rc) {
		rows_sort(rows);
		rc = put_rows(&out, rows);
	}
	if (rc) {
		rows_writer_fini(&out);
		return rc;
	}
	rows_finish(&out, b);
	if (p->wide)
		rc = settable_encode(b, &p->table);
	return rc || !p->wide ? rc : add_keys(w, &p->table, b);
}

/* Drop rows whose samples moved to others. */
static void drop_empty_rows(struct rows *rows)
{
	size_t n = 0;
	for (size_t i = 0; i < rows->n; i++)
		if (rows->v[i].samples)
			rows->v[n++] = rows->v[i];
	rows->n = n;
}

static int write_window(struct store_writer *w, struct block *b, const struct store_totals *totals,
			struct err *err)
{
	const struct store_meta *m = &w->s.header.meta;
	struct split p = { .w = w };
	struct block_ref ref;
	int rc = split_sets(&p);
	if (!rc)
		rc = totals_encode(&b->column[COLUMN_TOTALS], totals, w->n_lost, w->n_flagged,
				   m->n_lost, m->n_flagged);
	b->has |= 1u << COLUMN_TOTALS;
	drop_empty_rows(&w->rows);
	if (!rc)
		rc = encode_rows(w, &p, &w->rows, b);
	/*
	 * Its parent's range has it in any case: a window that is not on these lists would be taken
	 * for summed up.
	 */
	if (!rc && (pending_reserve(&w->pending[0]) || pending_reserve(&w->unposted)))
		rc = -ENOMEM;
	if (rc)
		err_sys(err, rc, "cannot write %s", w->s.dir);
	else
		rc = writer_put_block(w, b, &ref, err);
	if (!rc && ref.b.n_table)
		postings_note(w, &p.table, ref.b.seq);
	if (!rc)
		tracks_write(w, &w->rows, p.wide ? p.place : p.narrow, &ref);
	split_fini(&p);
	if (rc)
		return rc;
	w->state.windows++;
	w->pending[0].v[w->pending[0].n++] = ref;
	if (ref.b.n_table)
		w->unposted.v[w->unposted.n++] = ref;
	return 0;
}

enum anchor_rule {
	ANCHOR_NOW,   /* the window ends now */
	ANCHOR_LAST,  /* realtime of the window says nothing about the clocks of this host */
	ANCHOR_GIVEN, /* the block names one */
};

static int set_anchor(struct store_writer *w, struct block *b, enum anchor_rule rule,
		      struct err *err)
{
	const struct manifest *m = &w->s.manifest;
	if (rule == ANCHOR_GIVEN && b->info.anchor < m->n_anchors)
		return 0;
	int rc = rule == ANCHOR_NOW || !m->n_anchors
			 ? need_anchor(w, b->info.t1_ns, b->info.boot_ns, err)
			 : 0;
	if (!rc)
		b->info.anchor = (uint32_t)m->n_anchors - 1;
	return rc;
}

static int commit(struct store_writer *w, struct block *b, const struct store_totals *totals,
		  enum anchor_rule rule, struct err *err)
{
	if (b->info.t0_ns >= b->info.t1_ns || totals->n_cpus > CPUS_MAX)
		return err_set(err, -EINVAL, "a window must end after it begins");
	/* Before anything is written, which may spend the reserve */
	if (!retain_make_room(w, b->info.t1_ns))
		return err_set(err, -ENOSPC,
			       "cannot write %s: the file system has no room but the reserve",
			       w->s.dir);
	int rc = choose_wide(w, b->info.t0_ns, err);
	rc = rc ? rc : set_anchor(w, b, rule, err);
	return rc ? rc : write_window(w, b, totals, err);
}

/*
 * What can be made up for later: said, counted, not a failure of the window. On a full disk what is
 * old goes all the same.
 */
static void after_commit(struct store_writer *w, int64_t now_ns, int64_t boot_ns, size_t rows,
			 bool committed)
{
	struct err err = { 0 };
	if (w->opt.windows_only && !w->opt.recent_ns)
		return;
	int rc = committed && !w->opt.windows_only ? compact_due(w, now_ns, rows, &err) : 0;
	if (!rc)
		rc = retain_due(w, now_ns, boot_ns, &err);
	if (rc) {
		w->state.parents_failed++;
		snprintf(w->state.last_error, sizeof(w->state.last_error), "%s", err.text);
	}
}

static void forget_window(struct store_writer *w)
{
	w->rows.n = 0;
	idhash_clear(&w->row_hash);
	setpool_clear(&w->sets);
	w->tracks.given = NULL;
}

int writer_commit_copy(struct store_writer *w, const struct store_block *of,
		       const struct store_totals *totals, struct err *err)
{
	struct block b = { .info = { .t0_ns = of->t0_ns,
				     .t1_ns = of->t1_ns,
				     .boot_ns = of->boot_ns,
				     .n_windows = 1,
				     .anchor = of->anchor } };
	int rc = commit(w, &b, totals, ANCHOR_GIVEN, err);
	block_fini(&b);
	forget_window(w);
	return rc;
}

int store_commit_window(struct store_writer *w, int64_t t0_ns, int64_t t1_ns, int64_t boot_ns,
			const struct store_totals *totals, struct err *err)
{
	METRIC_TIME(store_write);
	struct block b = {
		.info = { .t0_ns = t0_ns, .t1_ns = t1_ns, .boot_ns = boot_ns, .n_windows = 1 }
	};
	size_t rows = w->rows.n;
	int rc = commit(w, &b, totals, ANCHOR_NOW, err);
	block_fini(&b);
	forget_window(w);
	if (!rc || rc == -ENOSPC)
		after_commit(w, t1_ns, boot_ns, rows, !rc);
	return rc;
}

int store_commit_apart(struct store_writer *w, int64_t t0_ns, int64_t t1_ns, int64_t boot_ns,
		       int (*fill)(struct store_writer *w, void *ctx), void *ctx, struct err *err)
{
	struct block b = {
		.info = { .t0_ns = t0_ns, .t1_ns = t1_ns, .boot_ns = boot_ns, .n_windows = 1 }
	};
	const struct store_totals none = { 0 };
	const struct setpool sets = w->sets;
	const struct rows rows = w->rows;
	const struct idhash row_hash = w->row_hash;
	const struct store_instants *instants = w->tracks.given;
	w->tracks.given = NULL;
	w->sets = (struct setpool){ 0 };
	w->rows = (struct rows){ 0 };
	w->row_hash = (struct idhash){ 0 };
	int rc = setpool_init(&w->sets) ? err_sys(err, -ENOMEM, "cannot write %s", w->s.dir) : 0;
	if (!rc && (rc = fill(w, ctx)))
		err_sys(err, rc, "cannot write %s", w->s.dir);
	if (!rc && w->rows.n)
		rc = commit(w, &b, &none, ANCHOR_LAST, err);
	block_fini(&b);
	setpool_fini(&w->sets);
	rows_fini(&w->rows);
	idhash_fini(&w->row_hash);
	w->sets = sets;
	w->rows = rows;
	w->row_hash = row_hash;
	w->tracks.given = instants;
	return rc;
}
