/* SPDX-License-Identifier: Apache-2.0 */
/* Stores made of others, beside the plain rows of the model: rules, limits and what is refused. */
#include "unit/copy_model.h"

static int is_sh(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx;
	char *text = model_labels_text(labels, n);
	*ret = strstr(text, "comm=sh\n");
	free(text);
	return 0;
}

static int is_page_faults(void *ctx, const char *event, bool *ret)
{
	(void)ctx;
	*ret = !strcmp(event, "page-faults");
	return 0;
}

static bool is_clock(const struct store_event *e)
{
	return !strcmp(e->name, "cpu-clock");
}

/* Remove from the model what is_sh and event (-1: any) say; returns the samples of `counted`. */
static uint64_t remove_sh(struct model *m, int event, int counted)
{
	uint64_t samples = 0;
	for (size_t i = 0; i < m->n; i++) {
		struct model_window *w = &m->w[i];
		size_t n = 0;
		for (size_t k = 0; k < w->n; k++) {
			struct model_row *r = &w->rows[k];
			if (!strstr(r->labels, "comm=sh\n") ||
			    (event >= 0 && r->event != (uint32_t)event)) {
				w->rows[n++] = *r;
				continue;
			}
			samples += counted < 0 || r->event == (uint32_t)counted ? r->samples : 0;
			free(r->labels);
			free(r->stack);
		}
		w->n = n;
	}
	return samples;
}

static void check_rows(const struct model *m, const char *dir, const char *host)
{
	struct store *s = open_store(dir);
	assert_int_equal(store_n_windows(s), m->n);
	for (size_t i = 0; i < m->n; i++)
		check_window(s, i, &m->w[i], host);
	store_close(s);
}

/* Only rows of some events; what is counted as lost are samples of those that totals count. */
static void events(void **state)
{
	static const struct {
		int (*event)(void *ctx, const char *event, bool *ret);
		bool (*counts)(const struct store_event *e);
		int which, counted;
	} cases[] = {
		{ is_page_faults, NULL, 1, -1 },
		{ NULL, is_clock, -1, 0 },
		{ is_page_faults, is_clock, 1, 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct dirs d;
		struct model m = { .random = 51 + i };
		struct copy_result r;
		struct err err = { 0 };
		const struct store_deletion del = { .from_ns = INT64_MIN,
						    .to_ns = INT64_MAX,
						    .matches = is_sh,
						    .event = cases[i].event,
						    .counts = cases[i].counts };
		make_dirs(&d);
		make_store(&m, d.a, &model_meta, &model_options, 30, MINUTE);
		if (store_delete(d.a, &del, NULL, &r, &err))
			fail_msg("%s", err.text);
		const uint64_t want = remove_sh(&m, cases[i].which, cases[i].counted);
		assert_int_equal(r.removed_samples, want);
		assert_int_equal(r.windows, 30);
		assert_true(r.touched > 20);
		check_rows(&m, d.a, NULL);
		struct store *s = open_store(d.a);
		assert_int_equal(lost_of(s, "deleted"), want);
		store_close(s);
		check_whole(d.a);
		model_fini(&m);
		remove_tree(d.base);
	}
}

/* Of what is stored a part is flagged: it stays one. More than is stored is no part of it. */
static void flags(void **state)
{
	static const char *const names[] = { "idle", "late", "odd" };
	static const uint64_t before[2][3] = { { 400, 399, 401 }, { 10, 0, 5000 } };
	static const uint64_t stored[2] = { 400, 1000 };
	struct dirs d;
	struct model m = { .random = 55 };
	struct model_window win = { .n = 0 };
	struct store_meta meta = model_meta;
	struct store_writer *w;
	struct copy_result r;
	struct err err = { 0 };
	uint64_t none[2] = { 0 };
	struct store_cpu_totals cpu[2];
	const struct store_totals t = { .cpu = cpu, .n_cpus = 2 };
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = is_sh };
	(void)state;
	make_dirs(&d);
	meta.flagged_names = names;
	meta.n_flagged = 3;
	for (size_t i = 0; i < 2; i++)
		cpu[i] = (struct store_cpu_totals){ (uint32_t)i, stored[i], stored[i], none,
						    (uint64_t *)before[i] };
	assert_int_equal(store_writer_open_with(&w, d.a, &meta, &model_options, &err), 0);
	model_fill(&m, w, &win, 6);
	assert_int_equal(store_commit_window(w, T0, T0 + SECOND, 1, &t, &err), 0);
	store_writer_close(w);
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), 0);
	assert_in_range(r.removed_samples, 100, 1300);
	struct store *s = open_store(d.a);
	const struct store_totals *got = &store_window(s, 0, &err)->totals;
	uint64_t removed = 0;
	for (size_t i = 0; i < 2; i++) {
		const struct store_cpu_totals *c = &got->cpu[i];
		const uint64_t share = r.removed_samples * stored[i] / 1400;
		assert_int_equal(c->fired, stored[i]);
		assert_int_equal(c->lost[2], stored[i] - c->stored);
		assert_in_range(c->lost[2], share, share + 1);
		removed += c->lost[2];
		for (size_t k = 0; k < 3; k++) {
			const uint64_t n = before[i][k];
			assert_int_equal(c->flagged[k],
					 n <= stored[i] && n > c->stored ? c->stored : n);
		}
	}
	assert_int_equal(removed, r.removed_samples);
	store_close(s);
	model_window_fini(&win);
	remove_tree(d.base);
}

/* Files end at hours of the day, and ids begin anew: the rows stay the same. */
static void across_files(void **state)
{
	struct dirs d;
	struct model m = { .random = 61 };
	struct copy_result r;
	struct err err = { 0 };
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = is_sh };
	const char *from[1];
	(void)state;
	make_dirs(&d);
	from[0] = d.a;
	make_store(&m, d.a, &model_meta, &model_options, 60, HOUR);
	if (store_merge(from, 1, d.out, NULL, &r, &err))
		fail_msg("%s", err.text);
	assert_int_equal(r.windows, 60);
	check_rows(&m, d.out, "host");
	check_whole(d.out);
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), 0);
	remove_sh(&m, -1, -1);
	check_rows(&m, d.a, NULL);
	check_whole(d.a);
	struct store *s = open_store(d.a);
	size_t files = 0;
	for (size_t i = 0; i < s->n_segments; i++)
		files += !s->segments[i].m.level;
	assert_int_equal(files, 11); /* of six hours each, from 22:13 on */
	store_close(s);
	model_fini(&m);
	remove_tree(d.base);
}

static char readied[2][100];
static int ready_rc;

static int on_ready(void *ctx, const char *from, const char *to, struct err *err)
{
	(void)ctx;
	snprintf(readied[0], sizeof(readied[0]), "%s", from);
	snprintf(readied[1], sizeof(readied[1]), "%s", to);
	return ready_rc ? err_set(err, ready_rc, "not now") : 0;
}

/* Who is asked before the exchange may refuse; nobody is where nothing is exchanged. */
static void asked_before(void **state)
{
	struct dirs d;
	struct model m = { .random = 71 };
	struct copy_result r;
	struct err err = { 0 };
	struct store_deletion del = {
		.from_ns = INT64_MIN, .to_ns = INT64_MAX, .matches = is_sh, .ready = on_ready
	};
	char tmp[100];
	bool stop = true;
	(void)state;
	make_dirs(&d);
	snprintf(tmp, sizeof(tmp), "%s.tmp", d.a);
	make_store(&m, d.a, &model_meta, &model_options, 12, MINUTE);
	ready_rc = -ECANCELED;
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), -ECANCELED);
	assert_string_equal(err.text, "not now");
	assert_string_equal(readied[0], d.a);
	assert_string_equal(readied[1], tmp);
	assert_absent(d.a, ".tmp");
	check_rows(&m, d.a, NULL);
	readied[0][0] = 0;
	assert_int_equal(store_delete(d.a, &del, &stop, &r, &err), -EINTR);
	assert_string_equal(err.text, "interrupted");
	assert_string_equal(readied[0], "");
	assert_absent(d.a, ".tmp");
	check_rows(&m, d.a, NULL);
	ready_rc = 0;
	assert_int_equal(chmod(d.a, 0751), 0);
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), 0);
	assert_string_equal(readied[0], d.a);
	remove_sh(&m, -1, -1);
	check_rows(&m, d.a, NULL);
	struct stat st;
	assert_int_equal(stat(d.a, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0751);
	/* Again: no row matches. */
	readied[0][0] = 0;
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), 0);
	assert_string_equal(readied[0], "");
	assert_int_equal(r.removed_samples, 0);
	model_fini(&m);
	remove_tree(d.base);
}

/* A link is followed: the store that it names is exchanged. */
static void linked(void **state)
{
	struct dirs d;
	struct model m = { .random = 81 };
	struct copy_result r;
	struct err err = { 0 };
	struct stat st;
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = is_sh };
	(void)state;
	make_dirs(&d);
	make_store(&m, d.a, &model_meta, &model_options, 12, MINUTE);
	assert_int_equal(symlink(d.a, d.out), 0);
	assert_int_equal(store_delete(d.out, &del, NULL, &r, &err), 0);
	assert_int_equal(lstat(d.out, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	remove_sh(&m, -1, -1);
	check_rows(&m, d.a, NULL);
	assert_int_equal(store_delete(d.b, &del, NULL, &r, &err), -ENOENT);
	assert_non_null(strstr(err.text, "there is no store"));
	model_fini(&m);
	remove_tree(d.base);
}

/* One loss more than there may be names of. */
static void too_many_losses(void **state)
{
	static char text[256][8];
	static const char *names[256];
	static uint64_t none[256];
	(void)state;
	for (size_t i = 0; i < 256; i++) {
		snprintf(text[i], sizeof(text[i]), "n%zu", i);
		names[i] = text[i];
	}
	for (size_t n = 255; n <= 256; n++) {
		struct dirs d;
		struct model m = { .random = 91 };
		struct model_window win = { .n = 0 };
		struct store_meta meta = model_meta;
		struct store_writer *w;
		struct copy_result r;
		struct err err = { 0 };
		struct store_cpu_totals cpu = { 0, 500, 500, none, none };
		const struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
		const struct store_deletion del = { .from_ns = INT64_MIN,
						    .to_ns = INT64_MAX,
						    .matches = is_sh };
		make_dirs(&d);
		meta.lost_names = names;
		meta.n_lost = n;
		assert_int_equal(store_writer_open_with(&w, d.a, &meta, &model_options, &err), 0);
		model_fill(&m, w, &win, 30);
		assert_int_equal(store_commit_window(w, T0, T0 + SECOND, 1, &t, &err), 0);
		store_writer_close(w);
		int rc = store_delete(d.a, &del, NULL, &r, &err);
		assert_int_equal(rc, n == 256 ? -E2BIG : 0);
		assert_absent(d.a, ".tmp");
		check_whole(d.a);
		struct store *s = open_store(d.a);
		assert_int_equal(store_meta(s)->n_lost, 256);
		assert_string_equal(store_meta(s)->lost_names[255], n == 256 ? "n255" : "deleted");
		store_close(s);
		model_window_fini(&win);
		remove_tree(d.base);
	}
}

/* The newest dictionary is cut short: who copies would lose windows that were acknowledged. */
static void lost_windows(void **state)
{
	static const char says[] = "windows are left out; repair the store first";
	struct dirs d;
	struct model m = { .random = 101 };
	struct copy_result r;
	struct snapshot_result snapshot;
	struct err err = { 0 };
	const struct store_deletion del = { .from_ns = INT64_MIN,
					    .to_ns = INT64_MAX,
					    .matches = is_sh };
	struct stat st;
	char path[120];
	(void)state;
	make_dirs(&d);
	const char *const from[] = { d.a };
	make_store(&m, d.a, &model_meta, &model_options, 6, MINUTE);
	snprintf(path, sizeof(path), "%s/seg/10s-00000001.sym", d.a);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - 1), 0);
	assert_int_equal(store_merge(from, 1, d.out, NULL, &r, &err), -EBADMSG);
	assert_non_null(strstr(err.text, says));
	assert_int_equal(store_delete(d.a, &del, NULL, &r, &err), -EBADMSG);
	assert_non_null(strstr(err.text, says));
	assert_int_equal(store_snapshot(d.a, d.out, NULL, &snapshot, &err), -EBADMSG);
	assert_non_null(strstr(err.text, says));
	struct store_writer *w;
	assert_int_equal(store_writer_open(&w, d.a, &model_meta, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "windows are left out; the store is not appended to"));
	assert_absent(d.out, "");
	assert_absent(d.out, ".tmp");
	assert_int_equal(store_merge(NULL, 0, d.out, NULL, &r, &err), -EINVAL);
	model_fini(&m);
	remove_tree(d.base);
}

static void ignore_finding(void *ctx, const struct store_finding *f)
{
	(void)ctx, (void)f;
}

/* A repaired store has files that are closed and not sealed: a copy has both of each. */
static void closed_files(void **state)
{
	struct dirs d;
	struct model m = { .random = 111 };
	struct snapshot_result r;
	struct err err = { 0 };
	char path[120];
	(void)state;
	make_dirs(&d);
	make_store(&m, d.a, &model_meta, &model_options, 6, MINUTE);
	snprintf(path, sizeof(path), "%s/MANIFEST", d.a);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(store_repair(d.a, ignore_finding, NULL, &err), 0);
	struct store *s = open_store(d.a);
	size_t closed = 0;
	for (size_t i = 0; i < s->n_segments; i++)
		closed += s->segments[i].m.state == SEGMENT_CLOSED;
	assert_int_equal(closed, s->n_segments);
	store_close(s);
	assert_int_equal(store_snapshot(d.a, d.out, NULL, &r, &err), 0);
	assert_int_equal(r.linked, 2 * closed);
	assert_int_equal(r.copied, 0);
	assert_int_equal(r.windows, 6);
	check_whole(d.out);
	check_rows(&m, d.out, NULL);
	model_fini(&m);
	remove_tree(d.base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events),	   cmocka_unit_test(across_files),
		cmocka_unit_test(asked_before),	   cmocka_unit_test(linked),
		cmocka_unit_test(too_many_losses), cmocka_unit_test(lost_windows),
		cmocka_unit_test(closed_files),	   cmocka_unit_test(flags),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
