/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window that cannot be read: its slot gets no parent on any level, all others get theirs, and
 * every other window can be read.
 */
#include "unit/copied.h"

#include "store/file/format.h"
#include "store/read/block_data.h"
#include "store/read/store_int.h"
#include "store/writer.h"

#define WINDOW (10 * SECOND)
#define BEGIN (1700000000ll / 3600 * HOUR)
#define WINDOWS 270 /* 45 minutes */
#define LOST 77

static char dir[64];
static uint64_t samples[WINDOWS + 10];

static struct store_writer *open_writer(bool windows_only)
{
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	o.windows_only = windows_only;
	o.symbols_bytes = 1;
	if (store_writer_open_with(&w, dir, &model_meta, &o, &err))
		fail_msg("%s", err.text);
	return w;
}

static void commit(struct store_writer *w, struct model *m, size_t i)
{
	const int64_t t0 = BEGIN + (int64_t)i * WINDOW;
	const struct store_totals none = { 0 };
	struct model_window win = { .n = 0 };
	struct err err = { 0 };
	if (i % 10 == 0)
		store_renew(w);
	store_renew_end(w);
	model_fill(m, w, &win, 4);
	for (size_t k = 0; k < win.n; k++)
		samples[i] += win.rows[k].samples;
	if (store_commit_window(w, t0, t0 + WINDOW, (int64_t)(i + 1) * WINDOW, &none, &err))
		fail_msg("%s", err.text);
	model_window_fini(&win);
}

/* A bit of the stacks of the window. */
static void damage(void)
{
	char path[sizeof((struct file){ 0 }.path)] = "";
	struct err err = { 0 };
	struct store *s = open_store(dir);
	off_t at = 0;
	uint8_t byte;
	for (size_t i = 0; i < s->n_segments; i++) {
		assert_int_equal(segment_load(s, &s->segments[i], &err), 0);
		for (size_t k = 0; k < s->segments[i].n_refs; k++) {
			const struct block_ref *r = &s->segments[i].refs[k];
			if (r->b.level || r->b.seq != LOST)
				continue;
			assert_int_equal(s->segments[i].m.state, SEGMENT_SEALED);
			snprintf(path, sizeof(path), "%s", s->segments[i].file.path);
			struct block_data d;
			assert_int_equal(block_read(s, r, 0, &d, &err), 0);
			at = (off_t)r->offset + FRAME_SIZE + d.head.column[COLUMN_LEAF].at;
			block_data_fini(&d);
		}
	}
	store_close(s);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

/* How many blocks a level has, none of them in the slot of the lost window. */
static size_t count_blocks(struct store *s, uint8_t level)
{
	const int64_t lost = slot_of(level, BEGIN + LOST * WINDOW);
	struct err err = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < s->n_segments; i++) {
		struct segment *g = &s->segments[i];
		if (g->m.level != level)
			continue;
		assert_int_equal(segment_load(s, g, &err), 0);
		for (size_t k = 0; k < g->n_refs; k++, n++)
			assert_int_not_equal(slot_of(level, g->refs[k].b.t0_ns), lost);
	}
	return n;
}

static int add_samples(void *ctx, const struct store_row *row)
{
	*(uint64_t *)ctx += row->samples;
	return 0;
}

/* Everything but the lost window, which says what is wrong. */
static void check_reading(struct store *s, size_t windows)
{
	struct store_cover c;
	struct err err = { 0 };
	uint64_t want = 0, got = 0;
	uint32_t covered = 0;
	size_t bad = 0;
	for (size_t i = 0; i < windows; i++)
		want += i == LOST ? 0 : samples[i];
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++) {
		const struct store_block *b = c.blocks[i];
		int rc = store_block_folded(s, b, add_samples, &got, &err);
		covered += b->n_windows;
		if (!rc)
			continue;
		assert_int_equal(rc, -EBADMSG);
		assert_int_equal(b->level, 0);
		assert_int_equal(b->seq, LOST);
		bad++;
	}
	store_cover_free(&c);
	assert_int_equal(bad, 1);
	assert_int_equal(covered, windows);
	assert_int_equal(got, want);
}

static void check_levels(size_t windows)
{
	/* Slots that have ended, but for that of the lost window. */
	const size_t minutes = windows / 6,
		     want[] = { minutes - 1, minutes / 5 - 1, minutes / 20 - 1, 0 };
	struct store *s = open_store(dir);
	for (uint8_t level = 1; level < 5; level++)
		assert_int_equal(count_blocks(s, level), want[level - 1]);
	check_reading(s, windows);
	store_close(s);
}

static void others_go_on(void **state)
{
	struct model m = { .random = 9 };
	struct err err = { 0 };
	(void)state;
	temp_dir(dir);
	struct store_writer *w = open_writer(true);
	for (size_t i = 0; i < WINDOWS; i++)
		commit(w, &m, i);
	store_writer_close(w);
	damage();
	w = open_writer(false);
	assert_int_equal(store_compact(w, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "is damaged at offset"));
	assert_int_equal(store_writer_state(w)->parents_failed, 1);
	assert_string_equal(store_writer_state(w)->last_error, err.text);
	check_levels(WINDOWS);
	/* It is not tried again, and windows that come get their parents. */
	for (size_t i = WINDOWS; i < WINDOWS + 6; i++)
		commit(w, &m, i);
	assert_int_equal(store_compact(w, &err), 0);
	assert_int_equal(store_writer_state(w)->parents_failed, 1);
	check_levels(WINDOWS + 6);
	store_writer_close(w);
	/* The next writer tries once more. */
	w = open_writer(false);
	assert_int_equal(store_compact(w, &err), -EBADMSG);
	assert_int_equal(store_writer_state(w)->parents_failed, 1);
	store_writer_close(w);
	check_levels(WINDOWS + 6);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(others_go_on) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
