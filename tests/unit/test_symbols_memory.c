/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What dictionaries take in memory is known, and a reader keeps within its limit: it gives up those
 * of the files that were used longest ago, of several stores together, too.
 */
#include "store/read/symbols.h"
#include "store/dict/translate.h"
#include "store/read/store_int.h"
#include "store/store.h"
#include "unit/count_bytes.h"
#include "unit/store_model.h"

#define FILES 12
#define STORES 3
#define MIB ((size_t)1 << 20)

/* ---- what dictionaries take ---- */

#if COUNTS_BYTES
#define HEAP 65536 /* what malloc adds: of large pieces up to a page */
static size_t allocated(void)
{
	return (size_t)used;
}
#else
#define HEAP 0
size_t __sanitizer_get_current_allocated_bytes(void);
static size_t allocated(void)
{
	return __sanitizer_get_current_allocated_bytes();
}
#endif

static void assert_takes(size_t want, size_t before)
{
	assert_in_range(allocated() - before, want, want + HEAP);
}

static void add_entries(struct dicts *d, struct model *m, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char text[24];
		uint32_t id;
		const int len = snprintf(text, sizeof(text), "%x", model_random(m, 1 << 20));
		const struct label l[2] = {
			{ .key = "k", .key_len = 1, .type = LABEL_INT, .num = model_random(m, 9) },
			{ .key = text, .key_len = (uint32_t)len, .str = "v", .str_len = 1 },
		};
		struct store_frame f = { .kind = FRAME_USER, .offset = model_random(m, 5000) };
		assert_int_equal(strings_add(&d->strings, text, (size_t)len, &f.function), 0);
		assert_int_equal(dicts_add_frame(d, &f, &id), 0);
		assert_int_equal(dicts_add_stack(d, model_random(m, d->n_stacks), id, &id), 0);
		assert_int_equal(dicts_add_leaf(d, id, &id), 0);
		assert_int_equal(dicts_add_set(d, l, 1 + model_random(m, 2), &id), 0);
	}
}

static void copy_kind(const struct dicts *from, enum kind kind, struct dicts *to)
{
	struct dict_mark at = { dicts_first(kind), 1 }, next;
	for (; at.next < dicts_count(from, kind); at = next) {
		struct buf b = BUF_INIT;
		assert_int_equal(dicts_encode(from, kind, &at, &b, &next), 0);
		assert_int_equal(dicts_decode(to, kind, b.data, b.len, next.next - at.next), 0);
		buf_fini(&b);
	}
}

static void each_array_is_counted(void **state)
{
	static const enum kind kinds[] = { KIND_STRINGS, KIND_FRAMES, KIND_STACKS, KIND_LEAVES,
					   KIND_SETS };
	struct model m = { .random = 14 };
	struct dicts d, read;
	size_t before = allocated();
	(void)state;
	assert_int_equal(dicts_init(&d, true), 0);
	for (size_t n = 1; n < 20000; n *= 2) {
		add_entries(&d, &m, n);
		assert_takes(dicts_bytes(&d), before);
	}
	before = allocated();
	assert_int_equal(dicts_init(&read, false), 0);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		copy_kind(&d, kinds[i], &read);
		assert_takes(dicts_bytes(&read), before);
	}
	dicts_fini(&read);
	dicts_fini(&d);
}

/* All stacks, and how leaves hang on each other, of one dictionary in another. */
static void what_is_derived_is_counted(void **state)
{
	struct model m = { .random = 15 };
	struct dicts d, to;
	struct translation t = { 0 };
	struct shape shape;
	(void)state;
	assert_int_equal(dicts_init(&d, true), 0);
	add_entries(&d, &m, 3000);
	size_t before = allocated();
	assert_int_equal(shape_init(&shape, &d, NULL), 0);
	assert_takes(shape_bytes(&shape), before);
	shape_fini(&shape);
	assert_int_equal(dicts_init(&to, true), 0);
	t.from = &d;
	t.to = &to;
	before = allocated() - dicts_bytes(&to);
	for (uint32_t i = 1; i < d.n_leaves; i++) {
		uint32_t id;
		assert_int_equal(translate_leaf(&t, i, &id), 0);
		if (!(i & (i - 1)))
			assert_takes(translation_bytes(&t) + dicts_bytes(&to), before);
	}
	translation_fini(&t);
	dicts_fini(&to);
	dicts_fini(&d);
}

/* A reader's label sets. */
static void sets_are_counted(void **state)
{
	struct model m = { .random = 16 };
	struct setpool p;
	const size_t before = allocated();
	(void)state;
	assert_int_equal(setpool_init(&p), 0);
	for (size_t i = 1; i < 50000; i++) {
		char text[24];
		uint32_t id;
		const int len = snprintf(text, sizeof(text), "%x", model_random(&m, 1 << 16));
		const struct label l[2] = {
			{ .key = "k", .key_len = 1, .type = LABEL_INT, .num = (int64_t)i / 2 },
			{ .key = "t", .key_len = 1, .str = text, .str_len = (uint32_t)len },
		};
		assert_int_equal(setpool_add(&p, l, 2, &id), 0);
		if (!(i & (i - 1)))
			assert_takes(setpool_bytes(&p), before);
	}
	assert_takes(setpool_bytes(&p), before);
	setpool_fini(&p);
	assert_takes(0, before);
}

/* ---- what a reader keeps ---- */

static char dirs[STORES][64];

static void make_store(char *dir, uint64_t seed)
{
	struct store_options o = model_options;
	struct model m = { .random = seed };
	struct store_writer *w;
	struct err err = { 0 };
	o.windows_only = true;
	o.symbols_bytes = 1;
	temp_dir(dir);
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
	for (size_t i = 0; i < FILES; i++) {
		store_renew(w);
		store_renew_end(w);
		assert_int_equal(model_commit(&m, w, 20 + 60 * (i % 5), &err), 0);
	}
	store_writer_close(w);
	model_fini(&m);
}

static int make_stores(void **state)
{
	(void)state;
	for (size_t i = 0; i < STORES; i++)
		make_store(dirs[i], 20 + i);
	return 0;
}

static int remove_stores(void **state)
{
	(void)state;
	for (size_t i = 0; i < STORES; i++)
		remove_tree(dirs[i]);
	return 0;
}

static struct store *open_stores(size_t n)
{
	const char *const all[] = { dirs[0], dirs[1], dirs[2] };
	struct store *s;
	struct err err = { 0 };
	if (n == 1 ? store_open(&s, all[0], &err) : store_open_all(&s, all, n, &err))
		fail_msg("%s", err.text);
	return s;
}

/* A file of a store, and what is to be in memory of it. */
struct kept {
	struct store *s;
	size_t segment;
	size_t bytes[4]; /* by what was read: SYMBOLS_* */
	unsigned have;
	size_t used; /* the step of the last use */
};

static const struct dicts *use(const struct kept *k, unsigned what)
{
	const struct block_ref r = { .segment = (uint32_t)k->segment };
	const struct dicts *d;
	struct err err = { 0 };
	if (store_dicts(k->s, &r, what, &d, &err))
		fail_msg("%s", err.text);
	return d;
}

static size_t list_files(struct store *all, size_t n_stores, struct kept *ret)
{
	size_t n = 0;
	for (size_t i = 0; i < n_stores; i++) {
		struct store *s = all->n_parts ? all->parts[i] : all;
		assert_int_equal(s->n_segments, FILES);
		for (size_t k = 0; k < FILES; k++)
			ret[n++] = (struct kept){ .s = s, .segment = k };
	}
	return n;
}

/* As each would take by itself, of another reader. */
static void measure(struct kept *files, size_t n_stores)
{
	for (unsigned what = 1; what <= SYMBOLS_ALL; what++) {
		struct store *s = open_stores(n_stores);
		struct kept other[FILES * STORES];
		const size_t n = list_files(s, n_stores, other);
		for (size_t i = 0; i < n; i++)
			files[i].bytes[what] =
				sizeof(struct symbols) + dicts_bytes(use(&other[i], what));
		store_close(s);
	}
}

static struct symbols *symbols_of(const struct kept *k)
{
	return k->s->segments[k->segment].symbols;
}

static size_t sum_files(const struct kept *files, size_t n)
{
	size_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += files[i].bytes[files[i].have];
	return sum;
}

/* Those that were used longest ago go, but for the one that was read just now. */
static void give_up(struct kept *files, size_t n, const struct kept *now, size_t room)
{
	while (sum_files(files, n) > room) {
		struct kept *oldest = NULL;
		for (size_t i = 0; i < n; i++)
			if (files[i].have && &files[i] != now &&
			    (!oldest || files[i].used < oldest->used))
				oldest = &files[i];
		if (!oldest)
			return;
		oldest->have = 0;
	}
}

static void check_kept(const struct kept *files, size_t n, const struct store *all, size_t own)
{
	for (size_t i = 0; i < n; i++) {
		const struct symbols *y = symbols_of(&files[i]);
		assert_int_equal(y ? y->have : 0, files[i].have);
	}
	assert_int_equal(store_dictionaries(all), own + sum_files(files, n));
}

static void walk(size_t n_stores, uint64_t seed)
{
	struct model m = { .random = seed };
	struct kept files[FILES * STORES];
	struct store *s = open_stores(n_stores);
	const size_t n = list_files(s, n_stores, files), own = store_dictionaries(s);
	size_t given_up = 0;
	measure(files, n_stores);
	for (size_t step = 1; step <= 2000; step++) {
		struct kept *k = &files[model_random(&m, (uint32_t)n)];
		const unsigned what = 1 + model_random(&m, 3);
		const bool reads = what & ~k->have;
		const size_t had = sum_files(files, n);
		k->have |= what;
		k->used = step;
		/* Just what it takes, a byte less, or about a half; and now and then hardly any. */
		size_t room = sum_files(files, n) - model_random(&m, 2);
		room = step % 7 ? room : room / 2;
		size_t limit = own + room;
		if (step % 50 == 0)
			limit = own / 2;
		if (own >= limit / 2)
			room = limit / 2;
		store_limit(s, &(struct store_limits){ .symbols = limit });
		use(k, what);
		if (reads)
			give_up(files, n, k, room);
		given_up += had > sum_files(files, n);
		check_kept(files, n, s, own);
	}
	assert_true(given_up > 100);
	store_close(s);
}

static void the_oldest_are_given_up(void **state)
{
	(void)state;
	for (size_t stores = 1; stores <= STORES; stores++)
		for (uint64_t seed = 1; seed <= 3; seed++)
			walk(stores, seed);
}

/* Three quarters of the reader's memory, at least 16 MiB; 48 MiB where nobody has set a limit. */
static void limits(void **state)
{
	static const struct {
		struct store_limits limits;
		size_t want;
	} cases[] = {
		{ { .bytes = 0 }, 48 * MIB },
		{ { .bytes = 1 }, 16 * MIB },
		{ { .bytes = 20 * MIB }, 16 * MIB },
		{ { .bytes = 24 * MIB }, 18 * MIB },
		{ { .bytes = 100 * MIB }, 75 * MIB },
		{ { .symbols = 5 }, 5 },
		{ { .bytes = 100 * MIB, .symbols = 7 }, 7 },
	};
	struct store *s = open_stores(2);
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		store_limit(s, &cases[i].limits);
		assert_int_equal(symbols_limit(s), cases[i].want);
		assert_int_equal(symbols_limit(s->parts[1]), cases[i].want);
	}
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_array_is_counted),
		cmocka_unit_test(what_is_derived_is_counted),
		cmocka_unit_test(sets_are_counted),
		cmocka_unit_test(the_oldest_are_given_up),
		cmocka_unit_test(limits),
	};
	return cmocka_run_group_tests(tests, make_stores, remove_stores);
}
