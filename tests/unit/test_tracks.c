/* SPDX-License-Identifier: Apache-2.0 */
/* Tracks: when samples of a window were taken, and ranges within a window that are read by them. */
#include "unit/store_model.h"

#include "query/instants.h"
#include "store/block/track.h"
#include "store/write/writer_int.h"
#include "store/read/tracks.h"
#include "store/writer.h"

#define T0 1700000000000000000ll
#define WINDOW 10000000000ll
#define MS 1000000ll
#define ROWS 400

/* What one row of a window got: text and instants. */
struct drawn {
	struct model_row row;
	int64_t at[40];
	size_t n;
};

struct drawn_window {
	struct drawn v[ROWS];
	struct store_row rows[ROWS];
	struct store_instant instants[ROWS * 40];
	struct store_instants given;
};

/* A window whose rows have one sample for each of their instants. */
static void draw_window(struct model *m, struct store_writer *w, size_t i, struct drawn_window *d)
{
	size_t n = 0;
	for (size_t k = 0; k < ROWS; k++) {
		struct drawn *r = &d->v[k];
		r->n = 1 + model_random(m, 40);
		r->row = (struct model_row){ model_draw_set(m), model_draw_stack(m),
					     model_random(m, 2), r->n, 0 };
		r->row.value = r->n * model_events[r->row.event].period;
		struct store_row *row = &d->rows[k];
		assert_int_equal(model_put_row(w, &r->row), 0);
		assert_int_equal(model_put_set(w, r->row.labels, &row->set), 0);
		assert_int_equal(model_put_stack(w, r->row.stack, &row->stack), 0);
		row->event = r->row.event;
		row->samples = 1;
		for (size_t j = 0; j < r->n; j++) {
			r->at[j] = T0 + (int64_t)i * WINDOW + model_random(m, 10000) * MS;
			d->instants[n++] = (struct store_instant){ r->at[j], (uint32_t)k,
								   model_random(m, 4), 0 };
		}
	}
	d->given = (struct store_instants){ d->rows, ROWS, d->instants, n, 0 };
	store_set_instants(w, &d->given);
}

static void free_window(struct drawn_window *d)
{
	for (size_t k = 0; k < ROWS; k++) {
		free(d->v[k].row.labels);
		free(d->v[k].row.stack);
	}
}

/* What the rows of a range are by what was drawn. */
static struct model_window expect(const struct drawn_window *d, size_t n, int64_t from, int64_t to)
{
	struct model_window w = { 0 };
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < ROWS; k++) {
			const struct drawn *r = &d[i].v[k];
			struct model_row row = r->row;
			row.samples = 0;
			for (size_t j = 0; j < r->n; j++)
				row.samples += r->at[j] >= from && r->at[j] < to;
			if (!row.samples)
				continue;
			row.value = row.samples * model_events[row.event].period;
			row.labels = strdup(row.labels);
			row.stack = strdup(row.stack);
			model_window_add(&w, row);
		}
	model_sort(w.rows, w.n);
	return w;
}

static void check_range(struct store *s, const struct drawn_window *d, size_t n, int64_t from,
			int64_t to)
{
	struct model_window want = expect(d, n, from, to), got = { 0 };
	struct read_back b = { .s = s };
	struct store_cover c;
	struct err err = { 0 };
	assert_int_equal(store_cover_nearest(s, from, to, STORE_ALL_LABELS, NULL, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++)
		assert_int_equal(
			store_block_rows(s, c.blocks[i], NULL, NULL, read_back_row, &b, &err), 0);
	assert_true(c.from_ns >= from && c.to_ns <= to);
	store_cover_free(&c);
	for (size_t i = 0; i < b.n; i++)
		model_window_add(&got, b.rows[i]);
	free(b.rows);
	model_sort(got.rows, got.n);
	assert_int_equal(got.n, want.n);
	for (size_t i = 0; i < got.n; i++) {
		assert_int_equal(model_row_cmp(&got.rows[i], &want.rows[i]), 0);
		assert_int_equal(got.rows[i].samples, want.rows[i].samples);
		assert_int_equal(got.rows[i].value, want.rows[i].value);
	}
	model_window_fini(&want);
	model_window_fini(&got);
}

/* The same without labels and without stacks: sums of a group, and of all. */
static int add_samples(void *ctx, const struct store_row *row)
{
	*(uint64_t *)ctx += row->samples;
	return 0;
}

static void check_sums(struct store *s, const struct drawn_window *d, size_t n, int64_t from,
		       int64_t to)
{
	struct model_window want = expect(d, n, from, to);
	struct store_cover c;
	struct err err = { 0 };
	uint64_t samples = 0, folded = 0, sums = 0;
	for (size_t i = 0; i < want.n; i++)
		samples += want.rows[i].samples;
	assert_int_equal(store_cover_nearest(s, from, to, STORE_FOLDED, NULL, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++) {
		assert_int_equal(store_block_folded(s, c.blocks[i], add_samples, &folded, &err), 0);
		assert_int_equal(store_block_sums(s, c.blocks[i], add_samples, &sums, &err), 0);
	}
	store_cover_free(&c);
	assert_int_equal(folded, samples);
	assert_int_equal(sums, samples);
	model_window_fini(&want);
}

static struct store_options tracked(void)
{
	struct store_options o = model_options;
	o.tracks_ns = INT64_MAX;
	return o;
}

static void ranges_within_windows(void **state)
{
	static struct drawn_window d[3];
	const struct store_options o = tracked();
	struct model m = { .random = 11 };
	struct store_writer *w;
	struct err err = { 0 };
	char dir[64];
	(void)state;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	for (size_t i = 0; i < 3; i++) {
		draw_window(&m, w, i, &d[i]);
		assert_int_equal(model_commit_at(w, i, &err), 0);
	}
	assert_int_equal(store_writer_state(w)->tracks_failed, 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	for (size_t i = 0; i < 40; i++) {
		int64_t from = T0 + model_random(&m, 25000) * MS,
			to = from + 1 + model_random(&m, 29000000) * 100;
		check_range(s, d, 3, from, to > T0 + 3 * WINDOW ? T0 + 3 * WINDOW : to);
		check_sums(s, d, 3, from, to > T0 + 3 * WINDOW ? T0 + 3 * WINDOW : to);
	}
	check_range(s, d, 3, T0, T0 + 3 * WINDOW);
	store_close(s);
	for (size_t i = 0; i < 3; i++)
		free_window(&d[i]);
	remove_tree(dir);
}

/* A window that lacks its track may have the number of one that has. */
static void a_track_is_of_its_window(void **state)
{
	static struct drawn_window d;
	const struct store_options o = tracked();
	struct model m = { .random = 12 };
	struct store_writer *w;
	struct track t;
	struct err err = { 0 };
	char dir[64];
	(void)state;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	draw_window(&m, w, 0, &d);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_int_equal(segment_load(s, &s->segments[0], &err), 0);
	const struct block_ref *window = &s->segments[0].refs[0];
	assert_int_equal(tracks_read(s, window, &t, &err), 0);
	assert_true(t.n == d.given.n);
	track_fini(&t);
	for (size_t i = 0; i < 4; i++) {
		struct block_ref other = *window;
		other.b.t0_ns += i == 0;
		other.b.t1_ns += i == 1;
		other.b.n_rows += i == 2;
		other.b.seq += i == 3;
		assert_int_equal(tracks_read(s, &other, &t, &err), -ENOENT);
	}
	store_close(s);
	free_window(&d);
	remove_tree(dir);
}

/* Instants of stacks that the window has not are those of the largest row of their label set. */
static void stacks_of_no_row(void **state)
{
	static const uint64_t samples[] = { 3, 9, 5 };
	const struct store_options o = tracked();
	/* The last two are of rows that were not given. */
	const struct store_instant at[] = { { T0 + MS, 0, 0, 0 },
					    { T0 + 2 * MS, 1, 0, 0 },
					    { T0 + 3 * MS, 2, 0, 0 },
					    { T0 + 4 * MS, UINT32_MAX, 0, 0 } };
	struct store_row rows[2] = { { .samples = 1 }, { .samples = 1 } };
	struct store_instants given = { rows, 2, at, 4, 0 };
	struct store_writer *w;
	struct track t;
	struct err err = { 0 };
	uint32_t frame, stack[3];
	char dir[64];
	(void)state;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	assert_int_equal(store_add_event(w, &model_events[1], &rows[0].event), 0);
	assert_int_equal(model_put_set(w, "a=b\n", &rows[0].set), 0);
	for (uint32_t i = 0; i < 3; i++) {
		const struct store_frame f = { .kind = FRAME_USER, .offset = i };
		assert_int_equal(store_add_frame(w, &f, &frame), 0);
		assert_int_equal(store_add_stack(w, 0, frame, &stack[i]), 0);
		assert_int_equal(store_add_row(w, rows[0].set, stack[i], rows[0].event, samples[i],
					       samples[i]),
				 0);
	}
	/* The first id behind those that there may be now, and the last of all. */
	rows[1] = rows[0];
	rows[0].stack = 16;
	rows[1].stack = UINT32_MAX;
	store_set_instants(w, &given);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	assert_int_equal(w->out[0].d.leaf_of_cap, rows[0].stack);
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_int_equal(segment_load(s, &s->segments[0], &err), 0);
	assert_int_equal(tracks_read(s, &s->segments[0].refs[0], &t, &err), 0);
	assert_int_equal(t.n, 2);
	assert_true(t.v[0].row == 1 && t.v[1].row == 1 && t.n_rows == 3);
	track_fini(&t);
	store_close(s);
	remove_tree(dir);
}

/* Rows of a range, added up. */
static int add_row(void *ctx, const struct store_row *row)
{
	struct store_row *sum = ctx;
	sum->samples += row->samples;
	sum->value += row->value;
	return 0;
}

/*
 * Waits lie across the ends of a range: those that ended in it are its samples, and their time is
 * what lies in it. Where none has ended, one is told.
 */
static void waits_within_a_window(void **state)
{
	/* Four waits, that end at 1, 4, 9 and 9.5 s: from 0.5, 2, 5 and 9 s on. */
	const struct store_instant waits[] = { { T0 + 1000 * MS, 0, 0, 500000 },
					       { T0 + 4000 * MS, 0, 1, 2000000 },
					       { T0 + 9000 * MS, 0, 0, 4000000 },
					       { T0 + 9500 * MS, 0, 1, 500000 } };
	static const struct {
		int64_t from_ms, to_ms;
		uint64_t samples, value;
	} ranges[] = { { 0, 3000, 1, 1500000 },	   { 2500, 3500, 1, 1000000 },
		       { 3000, 9200, 2, 5200000 }, { 1200, 1800, 0, 0 },
		       { 0, 9800, 4, 7000000 },	   { 9000, 9001, 1, 1000 } };
	const struct store_event event = { "off-cpu", "microseconds", 0, 0 };
	const struct store_options o = tracked();
	struct store_row row = { .samples = 1 };
	struct store_writer *w;
	struct err err = { 0 };
	char dir[64];
	(void)state;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	assert_int_equal(store_add_event(w, &event, &row.event), 0);
	assert_int_equal(store_add_row(w, 0, 0, row.event, 4, 7000000), 0);
	store_set_instants(w, &(struct store_instants){ &row, 1, waits, 4, 0 });
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct store_row sum = { 0 };
		struct store_cover c;
		assert_int_equal(store_cover_nearest(s, T0 + ranges[i].from_ms * MS,
						     T0 + ranges[i].to_ms * MS, STORE_ALL_LABELS,
						     NULL, 0, &c, &err),
				 0);
		assert_int_equal(c.n, 1);
		assert_int_equal(store_block_rows(s, c.blocks[0], NULL, NULL, add_row, &sum, &err),
				 0);
		store_cover_free(&c);
		assert_int_equal(sum.samples, ranges[i].samples);
		assert_int_equal(sum.value, ranges[i].value);
	}
	store_close(s);
	remove_tree(dir);
}

/* Rows that were folded into one, and a row that is nowhere: the instants of the first stay. */
static void folded_rows(void **state)
{
	static struct drawn_window d;
	const struct store_options o = tracked();
	const uint32_t events[] = { 0, 1 };
	struct model m = { .random = 5 };
	struct store_writer *w;
	struct err err = { 0 };
	struct track t;
	uint64_t folded;
	char dir[64];
	(void)state;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	draw_window(&m, w, 0, &d);
	assert_int_equal(model_put_stack(w, "(other) () 0 0\n", &d.given.other), 0);
	const struct store_folding_rule rule = { 60, d.given.other, UINT32_MAX, events, 2 };
	assert_int_equal(store_fold_small_rows(w, &rule, &folded), 0);
	assert_true(folded > 0);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	struct store_cover c;
	uint64_t samples = 0;
	assert_int_equal(store_cover(s, T0, T0 + 1, STORE_FOLDED, NULL, 0, &c, &err), 0);
	assert_int_equal(c.n, 1);
	assert_int_equal(store_block_folded(s, c.blocks[0], add_samples, &samples, &err), 0);
	assert_int_equal(tracks_read(s, store_ref(c.blocks[0]), &t, &err), 0);
	assert_int_equal(t.n, samples);
	track_fini(&t);
	store_cover_free(&c);
	store_close(s);
	free_window(&d);
	remove_tree(dir);
}

static size_t count_files(const char *dir, uint64_t *ret_bytes)
{
	char path[300];
	size_t n = 0;
	struct stat st;
	*ret_bytes = 0;
	snprintf(path, sizeof(path), "%s/trk", dir);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (strstr(e->d_name, ".trk") && !fstatat(dirfd(d), e->d_name, &st, 0)) {
			*ret_bytes += (uint64_t)st.st_size;
			n++;
		}
	if (d)
		closedir(d);
	return n;
}

/* Which of the first n windows have a track: the oldest go first. */
static void check_kept(const char *dir, size_t n, size_t least)
{
	struct store *s = open_store(dir);
	bool before = false;
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		struct store_cover c;
		struct err err = { 0 };
		int64_t at = T0 + (int64_t)i * WINDOW;
		assert_int_equal(store_cover(s, at, at + 1, STORE_FOLDED, NULL, 0, &c, &err), 0);
		bool has;
		assert_int_equal(tracks_has(s, store_ref(c.blocks[0]), &has, &err), 0);
		assert_true(has || !before);
		before = has;
		kept += has;
		store_cover_free(&c);
	}
	assert_true(kept >= least && kept < n);
	store_close(s);
}

static void the_oldest_go(void **state)
{
	static struct drawn_window d;
	struct model m = { .random = 3 };
	struct store_options o = tracked();
	struct store_writer *w;
	struct err err = { 0 };
	char dir[64];
	uint64_t bytes;
	(void)state;
	/* By age: five windows and the file that the fifth is in. */
	o.tracks_ns = 4 * WINDOW;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	for (size_t i = 0; i < 20; i++) {
		draw_window(&m, w, i, &d);
		assert_int_equal(model_commit_at(w, i, &err), 0);
		free_window(&d);
	}
	assert_in_range(count_files(dir, &bytes), 4, 6);
	assert_int_equal(bytes, store_writer_state(w)->tracks_bytes);
	check_kept(dir, 20, 4);
	store_writer_close(w);
	/* By size, in the files that are there. */
	o.tracks_ns = INT64_MAX;
	o.tracks_bytes = bytes;
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
	for (size_t i = 20; i < 30; i++) {
		draw_window(&m, w, i, &d);
		assert_int_equal(model_commit_at(w, i, &err), 0);
		free_window(&d);
		count_files(dir, &bytes);
		assert_true(bytes <= o.tracks_bytes);
	}
	check_kept(dir, 30, 2);
	store_writer_close(w);
	/* Without tracks they go. */
	o.tracks_ns = 0;
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
	assert_int_equal(count_files(dir, &bytes), 0);
	store_writer_close(w);
	remove_tree(dir);
}

static void what_is_no_track(void **state)
{
	const struct store_instant v[] = { { T0 + 5 * MS, 3, 1, 0 }, { T0 + 9 * MS, 0, 0, 2000 } };
	struct track t = { T0, T0 + WINDOW, 4, (struct store_instant *)(uintptr_t)v, 2, 2 }, got;
	struct buf b = BUF_INIT;
	(void)state;
	assert_int_equal(track_encode(&b, &t), 0);
	assert_int_equal(track_decode(&got, b.data, b.len), 0);
	assert_int_equal(got.n, 2);
	for (size_t i = 0; i < 2; i++)
		assert_true(got.v[i].at_ns == v[i].at_ns && got.v[i].row == v[i].row &&
			    got.v[i].cpu == v[i].cpu && got.v[i].length_us == v[i].length_us);
	track_fini(&got);
	for (size_t n = 0; n < b.len; n++) {
		assert_int_equal(track_decode(&got, b.data, n), -EBADMSG);
		track_fini(&got);
	}
	/* A row that the window has not; one more instant than a list has. */
	t.n_rows = 3;
	b.len = 0;
	assert_int_equal(track_encode(&b, &t), 0);
	assert_int_equal(track_decode(&got, b.data, b.len), -EBADMSG);
	track_fini(&got);
	/* Behind the end of the window. */
	t.n_rows = 4;
	t.t1_ns = T0 + 8 * MS;
	b.len = 0;
	assert_int_equal(track_encode(&b, &t), 0);
	assert_int_equal(track_decode(&got, b.data, b.len), -EBADMSG);
	track_fini(&got);
	buf_fini(&b);
}

/* ---- instants with their stacks and label sets ---- */

struct line {
	char *text;
};

struct lines {
	struct line *v;
	size_t n;
	struct store *s;
};

static void add_line(struct lines *l, int64_t at, uint32_t cpu, const struct model_row *r,
		     uint64_t samples)
{
	l->v = realloc(l->v, (l->n + 1) * sizeof(*l->v));
	assert_true(asprintf(&l->v[l->n++].text, "%lld %u %u %llu %llu\n%s\n%s", (long long)at, cpu,
			     r->event, (unsigned long long)samples, (unsigned long long)r->value,
			     r->labels, r->stack) > 0);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->text, ((const struct line *)b)->text);
}

static void lines_fini(struct lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].text);
	free(l->v);
}

static int add_instant(void *ctx, const struct store_instant *v,
		       const struct store_instant_row *row)
{
	struct lines *l = ctx;
	const struct model_row r = { store_labels_text(l->s, row->row.set),
				     store_stack_text(l->s, row->row.stack), row->row.event,
				     row->row.samples, row->row.value };
	assert_int_equal(row->row.samples, row->instants);
	add_line(l, v->at_ns, v->cpu, &r, row->row.samples);
	free(r.labels);
	free(r.stack);
	return 0;
}

/* The row that the window made of all drawn ones that are equal. */
static struct model_row whole_row(const struct drawn_window *d, uint32_t k)
{
	struct model_row r = d->v[k].row;
	r.samples = r.value = 0;
	for (size_t i = 0; i < ROWS; i++)
		if (!model_row_cmp(&d->v[i].row, &r)) {
			r.samples += d->v[i].row.samples;
			r.value += d->v[i].row.value;
		}
	return r;
}

static void check_instants(struct store *s, const struct drawn_window *d, size_t n, int64_t from,
			   int64_t to, const bool *events)
{
	struct lines want = { 0 }, got = { .s = s };
	const struct query_instants_spec spec = {
		.range = { .from_ns = from, .to_ns = to, .idle = true },
		.events = events,
		.stacks = true,
		.instant = add_instant,
		.ctx = &got
	};
	struct query_instants *q;
	struct err err = { 0 };
	size_t untracked = 1;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < d[i].given.n; k++) {
			const struct store_instant *v = &d[i].instants[k];
			const struct model_row r = whole_row(&d[i], v->row);
			if (v->at_ns >= from && v->at_ns < to && (!events || events[r.event]))
				add_line(&want, v->at_ns, v->cpu, &r, r.samples);
		}
	assert_int_equal(query_instants_open(&q, s, &spec, &err), 0);
	assert_int_equal(query_instants_read(q, &untracked, &err), 0);
	assert_int_equal(untracked, 0);
	query_instants_close(q);
	assert_int_equal(got.n, want.n);
	if (want.n) {
		qsort(want.v, want.n, sizeof(*want.v), by_text);
		qsort(got.v, got.n, sizeof(*got.v), by_text);
	}
	for (size_t i = 0; i < want.n; i++)
		assert_string_equal(got.v[i].text, want.v[i].text);
	lines_fini(&want);
	lines_fini(&got);
}

static void instants_of_rows(void **state)
{
	static struct drawn_window d[2];
	const struct store_options o = tracked();
	const bool second[8] = { false, true };
	struct model m = { .random = 23 };
	struct store_writer *w;
	struct err err = { 0 };
	char dir[64];
	(void)state;
	assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta, &o, &err), 0);
	for (size_t i = 0; i < 2; i++) {
		draw_window(&m, w, i, &d[i]);
		assert_int_equal(model_commit_at(w, i, &err), 0);
	}
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_true(store_n_events(s) <= sizeof(second));
	check_instants(s, d, 2, INT64_MIN, INT64_MAX, NULL);
	check_instants(s, d, 2, T0 + 3 * MS, T0 + WINDOW + 700 * MS, second);
	check_instants(s, d, 2, T0 + WINDOW, T0 + WINDOW + 1, NULL);
	store_close(s);
	for (size_t i = 0; i < 2; i++)
		free_window(&d[i]);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_within_windows),    cmocka_unit_test(folded_rows),
		cmocka_unit_test(instants_of_rows),	    cmocka_unit_test(the_oldest_go),
		cmocka_unit_test(what_is_no_track),	    cmocka_unit_test(waits_within_a_window),
		cmocka_unit_test(a_track_is_of_its_window), cmocka_unit_test(stacks_of_no_row),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
