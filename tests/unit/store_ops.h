/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on stores: write, read, verify, repair, copy, convert. For tests in which memory or a
 * call fails. Each run_*() sums up what came of its operation.
 */
#ifndef TESTS_UNIT_STORE_OPS_H
#define TESTS_UNIT_STORE_OPS_H

#include "unit/digest.h"

#include "store/instants.h"
#include "store/old/old.h"
#include "store/ops/copy.h"
#include "store/read/store_int.h"
#include "store/top_values.h"

#define SECOND 1000000000ll
#define T0 1700000000000000000ll
#define ROWS 5

/* Ends of slots of the first levels lie between them. */
static const int64_t times[] = { 0, 10, 70, 130, 400, 1700 };
#define WINDOWS (sizeof(times) / sizeof(times[0]))

static char base[64], whole[80], plain[80], damaged[80], nameless[80], deleted[80], old[80],
	coarse[80];
static char target[80], target_tmp[90];
static struct model_window windows[WINDOWS];
static bool has_old;

/* Around what a test is about; not what is done for it. */
static void begin_faults(void);
static void end_faults(void);

static inline void copy_store(const char *from, const char *to)
{
	char command[300];
	snprintf(command, sizeof(command), "cp -a %s %s", from, to);
	assert_int_equal(system(command), 0);
}

/* ---- writing ---- */

static inline int put_rows(struct store_writer *w, const struct model_window *win)
{
	static struct store_row row;
	static struct store_instant v[ROWS];
	static struct store_instants given;
	int rc = 0;
	for (size_t k = 0; !rc && k < win->n; k++)
		rc = model_put_row(w, &win->rows[k]);
	rc = rc ? rc : model_put_set(w, win->rows[0].labels, &row.set);
	rc = rc ? rc : model_put_stack(w, win->rows[0].stack, &row.stack);
	row.event = win->rows[0].event;
	row.samples = ROWS;
	for (int64_t i = 0; i < ROWS; i++)
		v[i] = (struct store_instant){ win->t0 + i * SECOND, 0, 0, 0 };
	given = (struct store_instants){ &row, 1, v, ROWS, 0 };
	store_set_instants(w, &given);
	return rc;
}

static inline int put_window(struct store_writer *w, size_t i, struct err *err)
{
	uint64_t lost[2] = { i, 1 }, flagged[1] = { 2 };
	struct store_cpu_totals cpu = { 1, 100 + i, 99, lost, flagged };
	const struct store_totals t = { &cpu, 1, i, 3 * i, 1 };
	const struct model_window *win = &windows[i];
	int rc = put_rows(w, win);
	if (!rc)
		return store_commit_window(w, win->t0, win->t1, win->t0 - T0 + 10 * SECOND, &t,
					   err);
	store_commit_window(w, 1, 0, 0, &t, err); /* is refused: what was added is forgotten */
	return rc;
}

static inline int write_store(const char *dir, bool parents, bool *kept, struct err *err)
{
	struct store_options o = model_options;
	struct store_writer *w;
	o.tracks_ns = INT64_MAX;
	o.windows_only = !parents;
	o.wide_values = 3;
	o.symbols_bytes = 1200;
	memset(kept, 0, WINDOWS);
	int rc = store_writer_open_with(&w, dir, &model_meta, &o, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < WINDOWS; i++) {
		int failed = put_window(w, i, err);
		kept[i] = !failed;
		rc = rc ? rc : failed;
		if (i % 3 == 2)
			store_renew(w);
	}
	int compacted = parents ? store_compact(w, err) : 0;
	store_writer_close(w);
	return rc ? rc : compacted;
}

static inline int add_samples(void *ctx, const struct store_row *r)
{
	*(uint64_t *)ctx += r->samples;
	return 0;
}

/* Each window that was kept is there, and no other. */
static inline void check_kept(const char *dir, const bool *kept)
{
	struct store_cover c;
	struct err err = { 0 };
	uint64_t all = 0, folded = 0;
	size_t n = 0;
	assert_sound(dir);
	struct store *s = open_store(dir);
	for (size_t i = 0; i < WINDOWS; i++) {
		uint64_t want = 0, got = 0;
		if (!kept[i])
			continue;
		for (size_t k = 0; k < windows[i].n; k++)
			want += windows[i].rows[k].samples;
		assert_true(n < store_n_windows(s));
		assert_int_equal(store_window(s, n, &err)->t0_ns, windows[i].t0);
		assert_int_equal(store_rows(s, n, add_samples, &got, &err), 0);
		assert_int_equal(got, want);
		all += want;
		n++;
	}
	assert_int_equal(store_n_windows(s), n);
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++)
		assert_int_equal(store_block_folded(s, c.blocks[i], add_samples, &folded, &err), 0);
	assert_int_equal(folded, all);
	store_cover_free(&c);
	store_close(s);
}

static inline int run_write(struct digest *ret, struct err *err)
{
	bool kept[WINDOWS];
	begin_faults();
	int rc = write_store(target, true, kept, err);
	end_faults();
	if (!access(target, F_OK) && kept[0])
		check_kept(target, kept);
	for (size_t i = 0; i < WINDOWS; i++)
		ret->windows += kept[i];
	return rc;
}

/* ---- reading ---- */

static inline int add_key(void *ctx, const char *key, size_t len)
{
	struct digest *d = ctx;
	char text[40];
	snprintf(text, sizeof(text), "%.*s", (int)len, key);
	d->text += digest_text(1, text);
	return 0;
}

static inline int add_narrow(void *ctx, const char *key, uint32_t sets)
{
	((struct digest *)ctx)->text += digest_text(sets, key);
	return 0;
}

static inline int add_instant(void *ctx, const struct store_instant *v,
			      const struct store_instant_row *r)
{
	((struct digest *)ctx)->text += (uint64_t)(v->at_ns - T0) * (1 + r->row.samples);
	return 0;
}

static inline int add_to_digest(void *ctx, const struct store_row *r)
{
	((struct digest *)ctx)->samples += r->samples;
	return 0;
}

static inline int read_top(struct store *s, const struct store_cover *c, struct digest *d,
			   struct err *err)
{
	struct store_top top;
	int rc = store_top(s, c->blocks, c->n, "tenant", 0, &top, err);
	if (rc)
		return rc;
	d->text += top.total * 3 + top.n;
	store_top_free(&top);
	return 0;
}

static inline int read_folded(struct store *s, const struct store_cover *c, uint32_t least,
			      struct digest *d, struct err *err)
{
	struct store_folding f = { .least = least };
	bool pruned;
	int rc = 0;
	for (size_t i = 0; !rc && i < c->n; i++)
		rc = store_fold_block(s, &f, c->blocks[i], err);
	rc = rc ? rc : store_fold_rows(s, &f, add_to_digest, d, &pruned, err);
	store_folding_fini(&f);
	return rc;
}

static inline int read_blocks(struct store *s, enum store_want want, struct digest *d,
			      struct err *err)
{
	static const char *const keys[] = { "tenant" };
	const struct store_keys some = { keys, 1 };
	struct store_cover c;
	const bool all = want == STORE_ALL_LABELS;
	int rc = store_cover_nearest(s, all ? T0 + SECOND : INT64_MIN, INT64_MAX, want, keys, 1, &c,
				     err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < c.n; i++) {
		struct store_totals *t;
		rc = store_block_rows(s, c.blocks[i], all ? NULL : &some, NULL, add_to_digest, d,
				      err);
		rc = rc ? rc : store_block_sums(s, c.blocks[i], add_to_digest, d, err);
		rc = rc ? rc : store_block_totals(s, c.blocks[i], &t, err);
		if (!rc)
			store_totals_free(t);
	}
	rc = rc ? rc : read_top(s, &c, d, err);
	rc = rc ? rc : read_folded(s, &c, all ? 0 : 50, d, err);
	store_cover_free(&c);
	return rc;
}

static inline int read_instants(struct store *s, struct digest *d, struct err *err)
{
	struct store_cover c;
	const struct store_reading how = { .ctx = d };
	int rc = store_cover(s, T0, T0 + 10 * SECOND, STORE_ALL_LABELS, NULL, 0, &c, err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < c.n; i++)
		rc = store_block_instants(s, c.blocks[i], &how, true, add_instant, err);
	store_cover_free(&c);
	return rc;
}

static inline int read_all(struct store *s, struct digest *d, struct err *err)
{
	int rc = store_each_key(s, add_key, d, err);
	rc = rc ? rc : store_narrow_keys(s, add_narrow, d, err);
	rc = rc ? rc : read_blocks(s, STORE_ALL_LABELS, d, err);
	rc = rc ? rc : read_blocks(s, STORE_KEY_SUMS, d, err);
	rc = rc ? rc : read_blocks(s, STORE_NARROW_KEYS, d, err);
	return rc ? rc : read_instants(s, d, err);
}

static inline int run_read(struct digest *ret, struct err *err)
{
	struct store *s;
	begin_faults();
	int rc = store_open(&s, whole, err);
	if (!rc) {
		rc = read_all(s, ret, err);
		store_close(s);
	}
	end_faults();
	return rc;
}

static inline int run_read_two(struct digest *ret, struct err *err)
{
	const char *const dirs[] = { whole, whole };
	struct store *s;
	begin_faults();
	int rc = store_open_all(&s, dirs, 2, err);
	if (!rc) {
		rc = store_each_key(s, add_key, ret, err);
		rc = rc ? rc : read_blocks(s, STORE_KEY_SUMS, ret, err);
		store_close(s);
	}
	end_faults();
	return rc;
}

static inline int run_verify(struct digest *ret, struct err *err)
{
	bool bad = false;
	begin_faults();
	int rc = store_verify(whole, digest_finding, &bad, err);
	end_faults();
	ret->windows = bad;
	return rc;
}

/* ---- other stores ---- */

static inline void count_finding(void *ctx, const struct store_finding *f)
{
	((struct digest *)ctx)->text += f->kind != STORE_TORN;
}

/* What a try without memory has left can be repaired by the next. */
static inline int repair(const char *from, struct digest *ret, struct err *err)
{
	struct digest ignored = { 0 };
	struct err none = { 0 };
	copy_store(from, target);
	begin_faults();
	int rc = store_repair(target, count_finding, &ignored, err);
	end_faults();
	if (rc)
		assert_int_equal(store_repair(target, count_finding, &ignored, &none), 0);
	assert_null(digest(target, ret));
	return rc;
}

static inline int run_repair(struct digest *ret, struct err *err)
{
	return repair(damaged, ret, err);
}

/* What files there are is not forgotten where they cannot be listed. */
static inline int run_rebuild(struct digest *ret, struct err *err)
{
	return repair(nameless, ret, err);
}

static inline int run_snapshot(struct digest *ret, struct err *err)
{
	struct snapshot_result r;
	begin_faults();
	int rc = store_snapshot(whole, target, NULL, &r, err);
	end_faults();
	if (!rc)
		assert_null(digest(target, ret));
	return rc;
}

static inline int run_merge(struct digest *ret, struct err *err)
{
	const char *const from[] = { plain, plain };
	struct copy_result r;
	begin_faults();
	int rc = store_merge(from, 2, target, NULL, &r, err);
	end_faults();
	if (!rc)
		assert_null(digest(target, ret));
	return rc;
}

static inline int is_t1(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx;
	*ret = false;
	for (size_t i = 0; i < n; i++)
		*ret |= labels[i].key_len == 6 && !memcmp(labels[i].key, "tenant", 6) &&
			labels[i].str_len == 2 && !memcmp(labels[i].str, "t1", 2);
	return 0;
}

/* Of parents whose windows are gone: what their sums and projections tell. */
static inline int run_merge_coarse(struct digest *ret, struct err *err)
{
	const char *const from[] = { coarse };
	struct copy_result r;
	begin_faults();
	int rc = store_merge(from, 1, target, NULL, &r, err);
	end_faults();
	if (rc)
		return rc;
	assert_true(r.coarse > 0);
	assert_null(digest(target, ret));
	return 0;
}

static inline int run_delete_coarse(struct digest *ret, struct err *err)
{
	static const char *const keys[] = { "tenant" };
	const struct store_deletion d = { .from_ns = INT64_MIN,
					  .to_ns = INT64_MAX,
					  .matches = is_t1,
					  .keys = keys,
					  .n_keys = 1 };
	struct copy_result r;
	struct digest before, after;
	copy_store(coarse, target);
	assert_null(digest(target, &before));
	begin_faults();
	int rc = store_delete(target, &d, NULL, &r, err);
	end_faults();
	assert_null(digest(target, &after));
	if (!rc)
		*ret = after;
	else
		assert_true(same_digest(&before, &after));
	return rc;
}

/* Whether a store is as it was or, where the failure came late, as it should become. */
static inline void check_either(const struct digest *got, const struct digest *before)
{
	struct digest after;
	assert_null(digest(deleted, &after));
	assert_true(same_digest(got, before) || same_digest(got, &after));
}

static inline int delete_t1(const char *dir, struct err *err)
{
	const struct store_deletion d = { .from_ns = INT64_MIN,
					  .to_ns = INT64_MAX,
					  .matches = is_t1 };
	struct copy_result r;
	return store_delete(dir, &d, NULL, &r, err);
}

static inline int run_delete(struct digest *ret, struct err *err)
{
	struct digest before, got;
	copy_store(plain, target);
	begin_faults();
	int rc = delete_t1(target, err);
	end_faults();
	assert_null(digest(target, rc ? &got : ret));
	if (rc) {
		assert_null(digest(plain, &before));
		check_either(&got, &before);
	}
	return rc;
}

static inline int run_convert(struct digest *ret, struct err *err)
{
	struct store_conversion c;
	begin_faults();
	int rc = store_convert(old, target, false, &c, err);
	end_faults();
	if (!rc)
		assert_null(digest(target, ret));
	return rc;
}

/* The next try brings the result, whatever the failed one left. */
static inline int run_rewrite(struct digest *ret, struct err *err)
{
	struct store_conversion c;
	struct err none = { 0 };
	copy_store(old, target);
	begin_faults();
	int rc = store_rewrite(target, &c, err);
	end_faults();
	if (rc && store_is_old(target))
		assert_int_equal(store_rewrite(target, &c, &none), 0);
	assert_null(digest(target, ret));
	return rc;
}

/* ---- the stores ---- */

static inline void damage(void)
{
	char path[sizeof((struct file){ 0 }.path)];
	struct err err = { 0 };
	struct store *s = open_store(damaged);
	uint64_t at = 0;
	for (size_t i = 0; i < s->n_segments; i++) {
		assert_int_equal(segment_load(s, &s->segments[i], &err), 0);
		if (s->segments[i].n_refs < 2)
			continue;
		snprintf(path, sizeof(path), "%s", s->segments[i].file.path);
		at = s->segments[i].refs[0].offset + FRAME_SIZE + BLOCK_SIZE;
		break;
	}
	store_close(s);
	assert_true(at);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "damage", 6, (off_t)at), 6);
	close(fd);
}

/* Retention cuts the windows, and parents of a minute, of all files but the newest. */
static inline void cut_windows(void)
{
	struct store_options o = model_options;
	struct store_writer *w;
	struct err err = { 0 };
	uint64_t lost[2] = { 0 }, flagged[1] = { 0 };
	struct store_cpu_totals cpu = { 1, 9, 9, lost, flagged };
	const struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
	const int64_t t0 = T0 + 90000 * SECOND;
	o.symbols_bytes = 1;
	o.keep_ns[0] = o.keep_ns[1] = SECOND;
	if (store_writer_open_with(&w, coarse, &model_meta, &o, &err) ||
	    store_commit_window(w, t0, t0 + SECOND, t0 - T0 + SECOND, &t, &err))
		fail_msg("%s", err.text);
	store_writer_close(w);
}

static inline int make_stores(void **state)
{
	struct model m = { .random = 3 };
	struct err err = { 0 };
	bool kept[WINDOWS];
	char command[300];
	(void)state;
	temp_dir(base);
	snprintf(whole, sizeof(whole), "%s/whole", base);
	snprintf(plain, sizeof(plain), "%s/plain", base);
	snprintf(damaged, sizeof(damaged), "%s/damaged", base);
	snprintf(nameless, sizeof(nameless), "%s/nameless", base);
	snprintf(coarse, sizeof(coarse), "%s/coarse", base);
	snprintf(deleted, sizeof(deleted), "%s/deleted", base);
	snprintf(target_tmp, sizeof(target_tmp), "%s/target.tmp", base);
	snprintf(old, sizeof(old), "%s/old", base);
	snprintf(target, sizeof(target), "%s/target", base);
	for (size_t i = 0; i < WINDOWS; i++) {
		windows[i].t0 = T0 + times[i] * SECOND;
		windows[i].t1 = windows[i].t0 + 10 * SECOND;
		model_fill(&m, NULL, &windows[i], ROWS);
	}
	if (write_store(whole, true, kept, &err) || write_store(plain, false, kept, &err))
		fail_msg("%s", err.text);
	copy_store(whole, damaged);
	damage();
	copy_store(whole, coarse);
	cut_windows();
	copy_store(plain, nameless);
	snprintf(command, sizeof(command), "%s/MANIFEST", nameless);
	assert_int_equal(unlink(command), 0);
	copy_store(plain, deleted);
	if (delete_t1(deleted, &err))
		fail_msg("%s", err.text);
	snprintf(command, sizeof(command), "python3 tests/tools/old_store.py %s >/dev/null 2>&1",
		 old);
	has_old = !system(command);
	return 0;
}

static inline int remove_stores(void **state)
{
	(void)state;
	for (size_t i = 0; i < WINDOWS; i++)
		model_window_fini(&windows[i]);
	remove_tree(base);
	return 0;
}

#endif
