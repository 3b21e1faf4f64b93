/* SPDX-License-Identifier: Apache-2.0 */
/* Segments by label: the largest values, wide keys, some of the labels, parts of a minute. */
#include "unit/segments.h"

#include "store/block/top.h"
#include "store/read/store_int.h"
#include "store/read/symbols.h"
#include "store/top_values.h"
#include "store/writer.h"

/* Of the first event, in rows whose labels hold the text. */
static uint64_t samples_with(const struct model *m, const char *text)
{
	uint64_t samples = 0;
	for (size_t i = 0; i < m->n; i++)
		for (size_t r = 0; r < m->w[i].n; r++)
			if (!m->w[i].rows[r].event && strstr(m->w[i].rows[r].labels, text))
				samples += m->w[i].rows[r].samples;
	return samples;
}

/*
 * The most frequent values of a wide key lie within their bounds, whatever blocks they come from.
 */
static void top_values(void **state)
{
	struct fixture *f = *state;
	struct store_cover c;
	struct store_top top;
	struct err err = { 0 };
	assert_int_equal(store_cover(f->s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err),
			 0);
	assert_int_equal(store_top(f->s, c.blocks, c.n, "tenant", 0, &top, &err), 0);
	assert_true(top.n >= 6);
	uint64_t listed = 0, carrying = samples_with(&f->m, "tenant=");
	for (size_t k = 0; k < top.n; k++) {
		char line[64];
		snprintf(line, sizeof(line), "tenant=%.*s\n", (int)top.v[k].label.str_len,
			 top.v[k].label.str);
		uint64_t samples = samples_with(&f->m, line);
		assert_true(top.v[k].samples <= samples &&
			    samples <= top.v[k].samples + top.v[k].error);
		listed += top.v[k].samples;
	}
	assert_true(listed <= top.total);
	assert_int_equal(top.total, carrying);
	store_top_free(&top);
	store_cover_free(&c);
}

/* ---- all values of a wide key ---- */

#define MANY 700
#define FEW 20

struct value_sums {
	uint64_t few[FEW], many[MANY];
};

static void put_row(struct store_writer *w, struct model *m, struct value_sums *sums)
{
	uint32_t set, name, stack, event, many = model_random(m, MANY), few = model_random(m, FEW),
					  n = 1 + model_random(m, 9);
	struct store_frame f = { .kind = FRAME_USER };
	char text[2][16];
	struct label l[2] = { { .key = "few", .str = text[0], .key_len = 3 },
			      { .key = "many", .str = text[1], .key_len = 4 } };
	bool both = model_random(m, 4);
	l[0].str_len = (uint32_t)snprintf(text[0], 16, "%u", few);
	l[1].str_len = (uint32_t)snprintf(text[1], 16, "%u", many);
	sums->few[few] += n;
	sums->many[many] += both ? n : 0;
	assert_int_equal(store_add_string(w, "f", 1, &name), 0);
	f.function = name;
	assert_int_equal(store_add_frame(w, &f, &stack), 0);
	assert_int_equal(store_add_stack(w, 0, stack, &stack), 0);
	assert_int_equal(store_add_event(w, &model_events[0], &event), 0);
	assert_int_equal(store_add_set(w, l, both ? 2 : 1, &set), 0);
	assert_int_equal(store_add_row(w, set, stack, event, n, n * model_events[0].period), 0);
}

/* The samples of each value, by the query; whether fewer blocks were read than windows. */
static bool is_by_lists(struct store *s, const char *key, const uint64_t *samples, size_t n)
{
	struct query_spec spec = { .labels = QUERY_KEYS,
				   .keys = &key,
				   .n_keys = 1,
				   .from_ns = INT64_MIN,
				   .to_ns = INT64_MAX };
	struct query *q;
	struct query_table *t;
	struct err err = { 0 };
	uint64_t left = 0;
	assert_true(store_is_wide(s, key));
	assert_int_equal(query_open(&q, s, &spec, &err), 0);
	assert_int_equal(query_table(q, &key, 1, &t, &err), 0);
	for (size_t i = 0; i < n; i++)
		left += samples[i] != 0;
	for (size_t i = 0; i < t->n_rows; i++) {
		if (!t->rows[i].present[0])
			continue;
		assert_int_equal(t->rows[i].samples, samples[atoi(t->rows[i].values[0])]);
		left--;
	}
	assert_int_equal(left, 0);
	bool by_lists = query_info(q)->blocks < query_info(q)->windows;
	query_table_free(t);
	query_close(q);
	return by_lists;
}

static void put_windows(struct store_writer *w, struct model *m, int64_t from, int64_t to,
			struct value_sums *sums)
{
	struct err err = { 0 };
	struct store_cpu_totals cpu = { 0, 0, 0, (uint64_t[2]){ 0 }, (uint64_t[1]){ 0 } };
	const struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
	for (int64_t i = from; i < to; i++) {
		for (int row = 0; row < 30; row++)
			put_row(w, m, sums);
		assert_int_equal(store_commit_window(w, T0 + i * 10 * SECOND,
						     T0 + (i + 1) * 10 * SECOND, i + 1, &t, &err),
				 0);
	}
}

/*
 * Parents have all values of a key with few, so that windows need not be read; and the most
 * frequent ones of a key with many.
 */
static void values_of_wide_keys(void **state)
{
	struct model m = { .random = 17 };
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	struct value_sums sums = { 0 };
	char dir[64];
	(void)state;
	temp_dir(dir);
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	put_windows(w, &m, 0, 200, &sums);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_true(is_by_lists(s, "few", sums.few, FEW));
	(void)is_by_lists(s, "many", sums.many, MANY);
	store_close(s);
	remove_tree(dir);
}

/* ---- some of the labels ---- */

/* "key=value\n" lines of the keys alone. */
static void keep_lines(const char *labels, const struct store_keys *keys, char *out, size_t cap)
{
	size_t len = 0;
	out[0] = 0;
	for (const char *line = labels, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		for (size_t k = 0; k < keys->n; k++) {
			size_t key = strlen(keys->v[k]);
			if (!strncmp(line, keys->v[k], key) && line[key] == '=')
				len += (size_t)snprintf(out + len, cap - len, "%.*s\n",
							(int)(end - line), line);
		}
	}
}

struct left {
	const struct store *s;
	struct {
		char labels[200];
		int64_t samples;
	} v[400];
	size_t n;
	int64_t all;
	bool strange; /* labels that nobody asked for, or that never were */
	bool filtered;
};

static int64_t *left_of(struct left *l, const char *labels, bool add)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i].labels, labels))
			return &l->v[i].samples;
	if (!add || l->n == 400)
		return NULL;
	snprintf(l->v[l->n].labels, sizeof(l->v[0].labels), "%s", labels);
	return &l->v[l->n++].samples;
}

static int take_left(void *ctx, const struct store_row *r)
{
	struct left *l = ctx;
	char *labels = store_labels_text(l->s, r->set);
	int64_t *left = left_of(l, labels, false);
	if (!r->event && left)
		*left -= (int64_t)r->samples;
	l->strange |= !left;
	free(labels);
	return 0;
}

static int take_some_left(void *ctx, const struct store_row *rows, size_t n)
{
	struct left *l = ctx;
	for (size_t i = 0; i < n; i++) {
		l->strange |= rows[i].stack != 0 || rows[i].event != rows[0].event;
		take_left(l, &rows[i]);
	}
	return 0;
}

/* Rows of the second event are left out as a group, so they must not come. */
static int of_first_event(void *ctx, const struct store_row *sum)
{
	(void)ctx;
	return !sum->event;
}

static int take_all(void *ctx, const struct store_row *rows, size_t n)
{
	struct left *l = ctx;
	for (size_t i = 0; i < n; i++) {
		l->strange |= rows[i].set || rows[i].event;
		l->all += (int64_t)rows[i].samples;
	}
	return 0;
}

static int not_of_t1(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx;
	*ret = true;
	for (size_t i = 0; i < n; i++)
		*ret &= labels[i].str_len != 2 || memcmp(labels[i].str, "t1", 2);
	return 0;
}

/*
 * Rows that tell only some labels apart, of all windows, wide keys and narrow ones: the sums of
 * each set that is left, by brute force.
 */
static void some_keys(void **state)
{
	static const char *const all[] = { "comm", "query_id", "tenant", "nope" };
	struct fixture *f = *state;
	struct store_cover c;
	struct err err = { 0 };
	assert_int_equal(
		store_cover(f->s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, &err), 0);
	for (unsigned mask = 0; mask < 32; mask++) {
		const char *v[4];
		struct store_keys keys = { v, 0 };
		struct left *l = calloc(1, sizeof(*l));
		for (unsigned k = 0; k < 4; k++)
			if (mask >> k & 1)
				v[keys.n++] = all[k];
		*l = (struct left){ .s = f->s, .filtered = mask & 16 };
		for (size_t i = 0; i < f->m.n; i++)
			for (size_t r = 0; r < f->m.w[i].n; r++) {
				const struct model_row *row = &f->m.w[i].rows[r];
				char labels[200];
				keep_lines(row->labels, &keys, labels, sizeof(labels));
				if (!l->filtered || !strstr(labels, "tenant=t1\n"))
					*left_of(l, labels, true) +=
						row->event ? 0 : (int64_t)row->samples;
			}
		struct store_reading how = { .keys = &keys,
					     .filter = l->filtered ? not_of_t1 : NULL,
					     .group = of_first_event,
					     .ctx = l };
		int64_t wanted = 0;
		for (size_t i = 0; i < l->n; i++)
			wanted += l->v[i].samples;
		for (size_t i = 0; i < c.n; i++)
			if (mask & 1) {
				assert_int_equal(store_block_rows(f->s, c.blocks[i], &keys,
								  how.filter, take_left, l, &err),
						 0);
			} else {
				how.rows = take_some_left;
				how.fold_stacks = true;
				how.fold_sets = false;
				assert_int_equal(store_block_read(f->s, c.blocks[i], &how, &err),
						 0);
			}
		how.rows = take_all;
		how.fold_stacks = false;
		how.fold_sets = true;
		for (size_t i = 0; i < c.n; i++)
			assert_int_equal(store_block_read(f->s, c.blocks[i], &how, &err), 0);
		assert_int_equal(l->all, wanted);
		assert_false(l->strange);
		assert_true(l->n > 0);
		for (size_t i = 0; i < l->n; i++)
			assert_int_equal(l->v[i].samples, 0);
		free(l);
	}
	store_cover_free(&c);
}

/* Samples of the first event in the blocks, by whether a label set holds the text. */
struct holding {
	const struct store *s;
	const char *text;
	uint64_t with, all;
};

static int count_holding(void *ctx, const struct store_row *r)
{
	struct holding *h = ctx;
	char *labels = store_labels_text(h->s, r->set);
	h->with += !r->event && strstr(labels, h->text) ? r->samples : 0;
	h->all += r->event ? 0 : r->samples;
	free(labels);
	return 0;
}

static struct holding holding(struct store *s, enum store_want want, int64_t to, const char *text,
			      struct store_cover *c)
{
	static const char *const keys[] = { "comm" };
	struct holding h = { s, text, 0, 0 };
	struct err err = { 0 };
	assert_int_equal(store_cover(s, T0, to, want, keys, want == STORE_NARROW_KEYS, c, &err), 0);
	for (size_t i = 0; i < c->n; i++)
		assert_int_equal(
			want == STORE_FOLDED
				? store_block_folded(s, c->blocks[i], count_holding, &h, &err)
				: store_block_rows(s, c->blocks[i], NULL, NULL, count_holding, &h,
						   &err),
			0);
	return h;
}

/*
 * A window is cut by a repair when its five minutes are not over. The other windows are still found
 * by label, and all blocks above have what the window had, without labels.
 */
static void part_of_a_minute(void **state)
{
	(void)state;
	char dir[64], path[128], comm[] = "comm=sh\n";
	struct store_writer *w;
	struct store *s;
	struct store_cover c;
	struct err err = { 0 };
	struct findings n = { 0 };
	struct model m = { .random = 77 };
	int64_t t = T0 + 100 * SECOND; /* where five minutes begin */
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	for (; m.n < 20; t += 10 * SECOND)
		commit_at(&m, w, t, 12);
	store_writer_close(w);
	snprintf(path, sizeof(path), "%s/seg/10s-00000001.seg", dir);
	int fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "damaged!", 8, 100), 8);
	close(fd);
	assert_int_equal(store_repair(dir, count, &n, &err), 0);
	assert_int_equal(n.cut, 1);

	uint64_t with = samples_with(&m, comm), all = samples_with(&m, ""), cut_with = 0, cut = 0;
	for (size_t r = 0; r < m.w[0].n; r++) {
		const struct model_row *row = &m.w[0].rows[r];
		cut += row->event ? 0 : row->samples;
		cut_with += !row->event && strstr(row->labels, comm) ? row->samples : 0;
	}
	assert_true(cut_with > 0 && cut_with < with);
	assert_int_equal(store_open(&s, dir, &err), 0);
	struct holding h = holding(s, STORE_NARROW_KEYS, t, comm, &c);
	assert_int_equal(h.with, with - cut_with);
	assert_int_equal(h.all, all - cut);
	assert_int_equal(c.gone, 1);
	assert_int_equal(c.coarse, 0);
	store_cover_free(&c);
	assert_int_equal(holding(s, STORE_FOLDED, t, comm, &c).all, all);
	assert_int_equal(c.gone, 0);
	assert_int_equal(c.blocks[0]->level, 1);
	store_cover_free(&c);
	store_close(s);

	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &model_options, &err), 0);
	for (; m.n < 30; t += 10 * SECOND)
		commit_at(&m, w, t, 12);
	int64_t end = t;
	commit_at(&m, w, t + 3600 * SECOND, 12); /* past the grace of five minutes */
	store_writer_close(w);
	m.n--;
	with = samples_with(&m, comm);
	all = samples_with(&m, "");
	m.n++;
	assert_int_equal(store_open(&s, dir, &err), 0);
	h = holding(s, STORE_NARROW_KEYS, end, comm, &c);
	assert_int_equal(c.gone, 1);
	assert_int_equal(c.coarse, 0);
	assert_int_equal(h.with, with - cut_with);
	assert_int_equal(h.all, all - cut);
	store_cover_free(&c);
	assert_int_equal(holding(s, STORE_FOLDED, end, comm, &c).all, all);
	assert_int_equal(c.n, 1);
	assert_true(c.blocks[0]->level >= 2);
	store_cover_free(&c);
	store_close(s);
	assert_int_equal(verify(dir).damaged, 0);
	remove_tree(dir);
	model_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(top_values),
		cmocka_unit_test(values_of_wide_keys),
		cmocka_unit_test(some_keys),
		cmocka_unit_test(part_of_a_minute),
	};
	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
