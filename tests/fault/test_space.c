/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Little space, and clocks that are set: what the store leaves out and says, and in what order
 * windows are.
 */
#include "unit/store_model.h"
#include "store/writer.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define SECOND 1000000000ll
#define DAY 8640 /* windows */
#define T0 1700000000000000000ll

/* ---- space ---- */

static uint64_t sum_of(const struct model_window *w)
{
	uint64_t n = 0;
	for (size_t i = 0; i < w->n; i++)
		n += w->rows[i].samples;
	return n;
}

static int add_samples(void *ctx, const struct store_row *r)
{
	*(uint64_t *)ctx += r->samples;
	return 0;
}

/*
 * As much is kept free as `reserve` says: relative to what the file system has, so that the test
 * fits any.
 */
static struct store_writer *open_with(const char *dir, double reserve)
{
	struct store_options o = model_options;
	struct store_writer *w;
	struct statvfs v;
	struct err err = { 0 };
	assert_int_equal(statvfs("/dev/shm", &v), 0);
	o.reserve_bytes = (uint64_t)((double)v.f_bavail * (double)v.f_frsize * reserve) + 1;
	if (store_writer_open_with(&w, dir, &model_meta, &o, &err))
		fail_msg("%s", err.text);
	return w;
}

/*
 * A disk with room, then without: the oldest files go first, and when none is left that could go
 * the window is refused. With room again the store goes on.
 */
static void low_space(void **state)
{
	(void)state;
	char dir[64];
	struct model m = { .random = 6 };
	struct store *s;
	struct err err = { 0 };
	uint64_t samples[4];
	temp_dir(dir);
	if (strncmp(dir, "/dev/shm", 8)) {
		print_message("skipped: there is no /dev/shm\n");
		skip();
	}
	for (size_t i = 0; i < 4; i++) {
		bool full = i == 2;
		struct store_writer *w = open_with(dir, full ? 1.5 : 0.01);
		struct model_window win = { 0 };
		model_fill(&m, w, &win, 60);
		samples[i] = sum_of(&win);
		/* Six hours between them: each has a file of its own. */
		int rc = model_commit_at(w, 6 * 360 * i, &err);
		assert_int_equal(rc, full ? -ENOSPC : 0);
		assert_true(!full || strstr(err.text, "no room"));
		assert_int_equal(store_writer_state(w)->shed, full);
		store_writer_close(w);
		model_window_fini(&win);
	}
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(store_n_windows(s), 2);
	assert_int_equal(store_cut(s, 0)->blocks, 1);
	struct store_cover c;
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, &err),
			 0);
	assert_int_equal(c.n, 3); /* of the first window its parents tell the stacks */
	assert_int_equal(c.coarse, 1);
	for (size_t k = 0; k < 3; k++) {
		uint64_t sum = 0;
		assert_int_equal(c.blocks[k]->level > 0, !k);
		int rc = k ? store_block_rows(s, c.blocks[k], NULL, NULL, add_samples, &sum, &err)
			   : store_block_folded(s, c.blocks[k], add_samples, &sum, &err);
		assert_int_equal(rc, 0);
		assert_int_equal(sum, samples[k == 2 ? 3 : k]);
	}
	store_cover_free(&c);
	store_close(s);
	remove_tree(dir);
}

/* A disk of 8 MiB of our own, in a mount namespace that goes with this process. */
static void small_disk(char *dir)
{
	temp_dir(dir);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", dir, "tmpfs", 0, "size=8m"))
		fail_msg("cannot mount a tmpfs on %s: %s", dir, strerror(errno));
}

/* Others take every byte. */
static void fill_disk(const char *filler)
{
	static const char page[4096];
	int fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	errno = 0;
	while (write(fd, page, sizeof(page)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
	close(fd);
}

static int open_short(struct store_writer **ret, const char *dir, int64_t keep_s, struct err *err)
{
	struct store_options o = model_options;
	for (int k = 0; k < STORE_N_LEVELS; k++)
		o.keep_ns[k] = keep_s * SECOND;
	o.reserve_bytes = 64 << 10;
	return store_writer_open_with(ret, dir, &model_meta, &o, err);
}

static int put(struct model *m, struct store_writer *w, size_t at, struct err *err)
{
	struct model_window win = { 0 };
	model_fill(m, w, &win, 60);
	model_window_fini(&win);
	return model_commit_at(w, at, err);
}

/*
 * The disk is full: what is old goes, by the reserve, and makes room for the window; without one it
 * cannot, and the window is refused. With room again all is as before.
 */
static void full_disk(bool has_reserve)
{
	char disk[64], dir[100], reserve[120], filler[100];
	struct model m = { .random = 9 };
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	struct stat st;
	small_disk(disk);
	snprintf(dir, sizeof(dir), "%s/store", disk);
	snprintf(reserve, sizeof(reserve), "%s/reserve", dir);
	snprintf(filler, sizeof(filler), "%s/filler", disk);
	assert_int_equal(open_short(&w, dir, 0, &err), 0);
	assert_int_equal(put(&m, w, 0, &err), 0);
	assert_int_equal(put(&m, w, 2 * DAY, &err), 0);
	store_writer_close(w);
	assert_int_equal(stat(reserve, &st), 0);
	assert_true(st.st_blocks * 512 >= 128 << 10);
	assert_int_equal(open_short(&w, dir, 3600, &err), 0);
	assert_true(has_reserve || !unlink(reserve));
	fill_disk(filler);
	assert_int_equal(put(&m, w, 2 * DAY + 1, &err), has_reserve ? 0 : -ENOSPC);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(store_n_windows(s), 2);
	assert_int_equal(store_cut(s, 0)->before_ns > 0, has_reserve);
	store_close(s);
	assert_int_equal(unlink(filler), 0);
	assert_int_equal(open_short(&w, dir, 3600, &err), 0);
	assert_int_equal(put(&m, w, 2 * DAY + 2, &err), 0);
	store_writer_close(w);
	assert_int_equal(stat(reserve, &st), 0);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(store_n_windows(s), has_reserve ? 3 : 2);
	store_close(s);
	assert_int_equal(umount2(disk, MNT_DETACH), 0);
	rmdir(disk);
}

static void full_disk_with_reserve(void **state)
{
	(void)state;
	full_disk(true);
}

static void full_disk_without(void **state)
{
	(void)state;
	full_disk(false);
}

/* ---- clocks ---- */

static const char *boot_id = "11111111-2222-3333-4444-555555555555";

/* What the store asks the kernel for which boot this is, answered here. */
int open(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
	va_end(ap);
	if (strcmp(path, "/proc/sys/kernel/random/boot_id"))
		return openat(AT_FDCWD, path, flags, mode);
	int pipes[2];
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(write(pipes[1], boot_id, strlen(boot_id)), strlen(boot_id));
	close(pipes[1]);
	return pipes[0];
}

struct moment {
	int64_t real, boot; /* seconds, of the end of the window */
	char new_boot;
	uint32_t anchor;
};

#define TEN_YEARS 315360000

/*
 * Ten seconds each; the clock drifts, is set forward and back, the host sleeps (BOOTTIME goes on)
 * and boots.
 */
static const struct moment moments[] = {
	{ 100, 10, 0, 0 },	   { 110, 20, 0, 0 },	  { 120, 30, 0, 0 },
	{ 3730, 40, 0, 1 },	   { 3740, 50, 0, 1 },	  /* 1 h forward */
	{ 150, 60, 0, 2 },	   { 160, 70, 0, 2 },	  /* and back: before others */
	{ TEN_YEARS, 80, 0, 3 },			  /* far ahead */
	{ 180, 90, 0, 4 },				  /* and back */
	{ 20170, 20080, 0, 4 },				  /* asleep for hours */
	{ 20300, 15, '6', 5 },	   { 20310, 25, '6', 5 }, /* another boot */
	{ 130, 12, '7', 6 },				  /* one with a clock that is wrong */
	{ TEN_YEARS, 22, '7', 7 },			  /* more so */
	{ 20500, 32, '7', 8 },				  /* set right */
};
#define N_MOMENTS (sizeof(moments) / sizeof(moments[0]))

static int by_seq(const void *pa, const void *pb)
{
	const struct store_block *a = *(const struct store_block *const *)pa,
				 *b = *(const struct store_block *const *)pb;
	return (a->seq > b->seq) - (a->seq < b->seq);
}

static void clock_steps(void **state)
{
	(void)state;
	char dir[64], boot[40];
	struct model m = { .random = 8 };
	struct store_writer *w = NULL;
	struct store *s;
	struct err err = { 0 };
	struct store_cover c;
	uint64_t samples = 0, lost[2] = { 1, 0 }, flagged[1] = { 0 };
	struct store_cpu_totals cpu = { 0, 3, 2, lost, flagged };
	struct store_totals t = { &cpu, 1, 0, 0, 0 };
	struct store_options o = model_options;
	/* Each window has a file of its own, and none is as old as this but by a wrong clock. */
	o.symbols_bytes = 1;
	for (int k = 0; k < STORE_N_LEVELS; k++)
		o.keep_ns[k] = 24 * 3600 * SECOND;
	temp_dir(dir);
	strcpy(boot, boot_id);
	boot_id = boot;
	for (size_t i = 0; i < N_MOMENTS; i++) {
		const struct moment *at = &moments[i];
		if (!w || (at->new_boot && boot[0] != at->new_boot)) {
			store_writer_close(w);
			boot[0] = at->new_boot ? at->new_boot : boot[0];
			assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
		}
		store_renew(w);
		struct model_window win = { 0 };
		model_fill(&m, w, &win, 5);
		samples += sum_of(&win);
		model_window_fini(&win);
		int64_t t1 = T0 + at->real * SECOND;
		assert_int_equal(
			store_commit_window(w, t1 - 10 * SECOND, t1, at->boot * SECOND, &t, &err),
			0);
	}
	/* And parents over all of it. */
	assert_int_equal(store_compact(w, &err), 0);
	store_writer_close(w);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &c, &err),
			 0);
	assert_int_equal(c.n, N_MOMENTS);
	qsort(c.blocks, c.n, sizeof(*c.blocks), by_seq);
	for (size_t i = 0; i < c.n; i++) {
		const struct store_block *b = c.blocks[i];
		const struct store_anchor *a = store_anchor(s, b->anchor);
		assert_int_equal(b->t1_ns, T0 + moments[i].real * SECOND);
		assert_int_equal(b->boot_ns, moments[i].boot * SECOND);
		assert_int_equal(b->anchor, moments[i].anchor);
		assert_non_null(a);
		assert_int_equal(a->boot_id[0] >> 4,
				 moments[i].new_boot ? moments[i].new_boot - '0' : 1);
		assert_int_equal(a->boot_id[15], 0x55);
		/* The order of writing is that of anchors, and of BOOTTIME under one. */
		if (i)
			assert_true(c.blocks[i - 1]->anchor < b->anchor ||
				    (c.blocks[i - 1]->anchor == b->anchor &&
				     c.blocks[i - 1]->boot_ns < b->boot_ns));
		/* Under an anchor realtime is BOOTTIME and its difference, to a second. */
		int64_t off = b->t1_ns - b->boot_ns - a->real_minus_boot_ns;
		assert_true(off > -SECOND && off < SECOND);
	}
	assert_null(store_anchor(s, 9));
	store_cover_free(&c);
	uint64_t windows = 0, all = 0;
	assert_int_equal(store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &c, &err), 0);
	for (size_t i = 0; i < c.n; i++) {
		windows += c.blocks[i]->n_windows;
		assert_int_equal(store_block_folded(s, c.blocks[i], add_samples, &all, &err), 0);
	}
	assert_int_equal(windows, N_MOMENTS);
	assert_int_equal(all, samples);
	assert_true(c.n < N_MOMENTS);
	store_cover_free(&c);
	store_close(s);
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(low_space),
		cmocka_unit_test(full_disk_with_reserve),
		cmocka_unit_test(full_disk_without),
		cmocka_unit_test(clock_steps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
