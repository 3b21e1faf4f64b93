/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that fail: each write, sync, open, rename, ... of a store's life, one at a time and in
 * rows. The program goes on, says which windows it lost, and all others are there.
 */
#include "fault/faults.h"
#include "fault/run.h"
#include "fault/scenario.h"

#include "store/read/store_int.h"
#include "store/writer.h"

#define N_WINDOWS 36

static struct scenario scenario;

struct way {
	const char *name;
	unsigned int calls;
	int error;
	bool half;
	long times;
};

static const struct way ways[] = {
	{ "ENOSPC", FAULT_ALL, ENOSPC, false, 1 },
	{ "EIO", FAULT_ALL, EIO, false, 1 },
	{ "half a write, then ENOSPC", FAULT_WRITE, ENOSPC, true, 2 },
	{ "half a write, then the rest", FAULT_WRITE, ENOSPC, true, 1 },
	{ "ENOSPC for 25 calls", FAULT_ALL, ENOSPC, false, 25 },
	{ "EIO for 25 calls", FAULT_ALL, EIO, false, 25 },
	{ "EIO of 3 syncs", FAULT_FSYNC | FAULT_FDATASYNC, EIO, false, 3 },
};
#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

struct life {
	bool kept[SCENARIO_MAX];
	size_t lost;
	long calls, hit;
	bool late; /* a window was lost though nothing failed any more */
};

/* The life of a store in which the calls from `at` on fail. */
static void live(const char *dir, const struct way *way, long at, struct life *ret)
{
	struct store_writer *w = NULL;
	struct err err = { 0 };
	*ret = (struct life){ 0 };
	faults_below(dir);
	faults = (struct faults){ .calls = way->calls,
				  .at = at,
				  .times = way->times,
				  .error = way->error,
				  .half = way->half };
	for (size_t i = 0; i < N_WINDOWS; i++) {
		long before = faults.hit;
		int rc = scenario_before(&w, dir, i, &err);
		if (!rc)
			rc = scenario_commit(&scenario, w, i, &err);
		if (rc && !err.text[0])
			ret->late = true; /* an error must have a text */
		ret->kept[i] = rc == 0;
		ret->lost += rc != 0;
		ret->late |= rc != 0 && faults.hit == before;
		err.text[0] = 0;
	}
	store_writer_close(w);
	ret->calls = faults.n;
	ret->hit = faults.hit;
	faults.calls = 0;
}

struct sweep {
	const struct way *way;
	long calls; /* of a life without failures */
	size_t step, offset;
	struct {
		size_t runs, lost, bad, after_all;
		char first[900];
	} *sum;
};

static void one(struct sweep *s, const char *dir, long at, size_t k)
{
	static struct life l;
	live(dir, s->way, at, &l);
	bool may[SCENARIO_MAX], here[SCENARIO_MAX];
	/*
	 * What one failure loses is gone. Where the next calls fail too, the block can be whole on
	 * the disk and neither be cut nor struck off the manifest before the writer closes. As
	 * after a crash, it is then there.
	 */
	for (size_t i = 0; i < N_WINDOWS + 1; i++)
		may[i] = l.kept[i] || s->way->times > 2;
	const char *bad = scenario_judge(&scenario, dir, l.kept, may, here);
	if (!bad && l.late)
		bad = "a window was lost though no call failed, or without a word";
	if (!bad)
		bad = scenario_go_on(&scenario, dir, here, here, N_WINDOWS);
	for (size_t i = 0; !bad && i < N_WINDOWS; i++)
		s->sum[k].after_all += here[i] && !l.kept[i];
	s->sum[k].runs++;
	s->sum[k].lost += l.lost;
	if (bad && !s->sum[k].bad++)
		snprintf(s->sum[k].first, sizeof(s->sum[k].first),
			 "%s at call %ld, %zu windows lost: %.700s", s->way->name, at, l.lost, bad);
	remove_tree(dir);
}

static void sweep_some(void *ctx, size_t k, size_t n)
{
	struct sweep *s = ctx;
	char base[64], dir[80];
	snprintf(dir, sizeof(dir), "%s/store", temp_dir(base));
	for (long at = 1 + (long)s->offset, i = 0; at <= s->calls; at += (long)s->step, i++)
		if ((size_t)i % n == k)
			one(s, dir, at, k);
	remove_tree(base);
}

/* A life without failures cuts blocks of each level that has a limit, and of no other. */
static void check_cuts(const char *dir)
{
	struct store *s;
	struct err err = { 0 };
	assert_int_equal(store_open(&s, dir, &err), 0);
	for (uint8_t k = 0; k < STORE_N_LEVELS; k++)
		assert_int_equal(store_cut(s, k)->blocks > 0, k < SCENARIO_KEPT);
	store_close(s);
}

static void every_call_fails(void **state)
{
	(void)state;
	char base[64], dir[80];
	struct life whole;
	size_t bad = 0, part = part_of("calls", 3);
	scenario_make(&scenario, N_WINDOWS + 1, 6);
	for (size_t i = 0; i < N_WAYS; i++) {
		struct sweep s = { .way = &ways[i], .step = part * run_step(29, 1) };
		size_t runs = 0, lost = 0, after_all = 0;
		s.offset = run_offset(s.step);
		snprintf(dir, sizeof(dir), "%s/store", temp_dir(base));
		live(dir, &ways[i], 0, &whole);
		check_cuts(dir);
		remove_tree(base);
		assert_int_equal(whole.lost, 0);
		s.calls = whole.calls;
		s.sum = run_shared(8 * sizeof(*s.sum));
		assert_int_equal(run_parallel(sweep_some, &s), 0);
		for (size_t k = 0; k < 8; k++) {
			runs += s.sum[k].runs;
			lost += s.sum[k].lost;
			after_all += s.sum[k].after_all;
			bad += s.sum[k].bad;
			if (s.sum[k].bad)
				print_message("  %zu bad, the first: %s\n", s.sum[k].bad,
					      s.sum[k].first);
		}
		munmap(s.sum, 8 * sizeof(*s.sum));
		print_message(
			"%s: at %zu of %ld calls; %zu windows said to be lost, %zu there after all, none of the others lost\n",
			ways[i].name, runs, s.calls, lost, after_all);
		assert_true(runs && runs >= (size_t)s.calls / s.step && s.calls > 100);
	}
	scenario_fini(&scenario);
	assert_int_equal(bad, 0);
}

/* ---- cutting ---- */

static bool is_named(const struct store *s, const char *name)
{
	char path[FILE_NAME_SIZE];
	bool found = false;
	for (size_t i = 0; i < s->n_segments; i++) {
		const struct manifest_segment *m = &s->segments[i].m;
		file_name(path, (struct place){ KIND_BLOCKS, m->serial, m->level });
		found |= !strcmp(strrchr(path, '/') + 1, name);
		file_name(path, (struct place){ KIND_SYMBOLS, m->serial, m->level });
		found |= m->state != SEGMENT_SEALED && !strcmp(strrchr(path, '/') + 1, name);
	}
	return found;
}

/* The first file that the manifest does not name, while the writer goes on. */
static const char *find_leak(const char *dir)
{
	static char leak[400];
	char path[200];
	struct store *s;
	struct err err = { 0 };
	if (store_open(&s, dir, &err))
		return "it does not open";
	leak[0] = 0;
	snprintf(path, sizeof(path), "%s/seg", dir);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (e->d_name[0] != '.' && !is_named(s, e->d_name))
			snprintf(leak, sizeof(leak), "seg/%s", e->d_name);
	closedir(d);
	store_close(s);
	return leak[0] ? leak : NULL;
}

/* Windows six hours apart, each in a file of its own, of which twelve hours are kept. */
static void commit_far(struct store_writer *w, size_t i)
{
	struct model m = { .random = i };
	struct model_window win = { 0 };
	struct err err = { 0 };
	store_renew(w);
	store_renew_end(w);
	model_fill(&m, w, &win, 2);
	model_window_fini(&win);
	/* it may fail: what is cut meanwhile is looked at here */
	model_commit_at(w, 6 * 360 * i, &err);
}

static struct store_writer *open_far(const char *dir)
{
	struct store_options o = scenario_options;
	struct store_writer *w;
	struct err err = { 0 };
	o.windows_only = true;
	o.recent_ns = 12 * 3600 * 1000000000ll;
	o.symbols_bytes = 1;
	if (store_writer_open_with(&w, dir, &model_meta, &o, &err))
		fail_msg("%s", err.text);
	return w;
}

/* Call `at` of the commits that cut fails. Returns how many they make. */
static long cut_with(const char *dir, long at, int error)
{
	struct store_writer *w = open_far(dir);
	struct store *s;
	struct err err = { 0 };
	for (size_t i = 0; i < 6; i++)
		commit_far(w, i);
	faults_below(dir);
	faults = (struct faults){ .calls = FAULT_ALL, .at = at, .times = 1, .error = error };
	for (size_t i = 6; i < 9; i++)
		commit_far(w, i);
	long calls = faults.n;
	faults.calls = 0;
	for (size_t i = 9; i < 12; i++)
		commit_far(w, i);
	const char *leak = find_leak(dir);
	if (leak)
		fail_msg("after call %ld of %ld: no manifest names %s", at, calls, leak);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_true(store_cut(s, 0)->blocks > 5 && s->n_segments < 6);
	store_close(s);
	store_writer_close(w);
	return calls;
}

/*
 * Each call of the commits that cut fails once. Some commits later, the writer still open, nothing
 * is left that no manifest names.
 */
static void cutting_fails(void **state)
{
	(void)state;
	char base[64], dir[80];
	size_t runs = 0, step = run_step(11, 1);
	snprintf(dir, sizeof(dir), "%s/store", temp_dir(base));
	long calls = cut_with(dir, 0, EIO);
	remove_tree(dir);
	for (long at = 1 + (long)run_offset(step); at <= calls; at += (long)step, runs++) {
		cut_with(dir, at, runs % 2 ? EIO : ENOSPC);
		remove_tree(dir);
	}
	print_message("%zu of %ld calls failed\n", runs, calls);
	assert_true(runs && runs >= (size_t)calls / step);
	remove_tree(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_fails),
		cmocka_unit_test(cutting_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
