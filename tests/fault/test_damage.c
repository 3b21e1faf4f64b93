/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cut files, flipped bits, full disks: what is read is always a prefix of the committed windows, or
 * an error.
 */
#include "unit/store_model.h"

#include "query/query.h"
#include "store/writer.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

struct image {
	unsigned char *data[N_STORE_FILES];
	size_t len[N_STORE_FILES];
};

static void file_path(char *out, const char *dir, size_t i)
{
	snprintf(out, 128, "%s/%s", dir, store_files[i]);
}

static void put(const char *dir, size_t i, const void *data, size_t len)
{
	char path[128];
	file_path(path, dir, i);
	int fd = open(path, O_WRONLY | O_TRUNC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

static void load_image(struct image *m, const char *dir)
{
	char path[128];
	for (size_t i = 0; i < N_STORE_FILES; i++) {
		struct stat st;
		file_path(path, dir, i);
		assert_int_equal(stat(path, &st), 0);
		m->len[i] = (size_t)st.st_size;
		m->data[i] = malloc(m->len[i] + 1);
		int fd = open(path, O_RDONLY);
		assert_int_equal(read(fd, m->data[i], m->len[i]), m->len[i]);
		close(fd);
	}
}

static void put_image(const struct image *m, const char *dir)
{
	for (size_t i = 0; i < N_STORE_FILES; i++)
		put(dir, i, m->data[i], m->len[i]);
}

static void free_image(struct image *m)
{
	for (size_t i = 0; i < N_STORE_FILES; i++)
		free(m->data[i]);
}

/* clean: as the writer left it; else as a crash behind the last commit would. */
static void small_store(struct model *m, const char *dir, int windows, struct image *image,
			bool clean)
{
	struct store_writer *w;
	struct err err = { 0 };
	assert_int_equal(store_writer_open(&w, dir, &model_meta, &err), 0);
	for (int i = 0; i < windows; i++)
		assert_int_equal(model_commit(m, w, 4, &err), 0);
	if (clean)
		store_writer_close(w);
	load_image(image, dir);
	if (!clean) {
		store_writer_close(w);
		put_image(image, dir);
	}
}

struct outcome {
	int rc;
	size_t windows;
	bool told; /* there was something to say about damage */
};

/* Open and compare everything; a wrong count fails the test here. */
static struct outcome look(const struct model *m, const char *dir)
{
	struct store *s;
	struct err err = { 0 };
	struct outcome o = { .rc = store_open(&s, dir, &err) };
	if (o.rc) {
		assert_true(err.text[0] != 0);
		return o;
	}
	o.windows = store_n_windows(s);
	o.told = store_damage(s) != NULL;
	assert_in_range(o.windows, 0, m->n);
	for (size_t i = 0; i < o.windows && !o.rc; i++) {
		int rc = model_differs(m, s, i);
		assert_true(rc <= 0);
		o.rc = rc;
	}
	store_close(s);
	return o;
}

#define FIRST_LOG 2 /* of store_files; before it are those that are replaced as a whole */

static void every_truncation(void **state)
{
	(void)state;
	char dir[64];
	struct model m = { .random = 11 };
	struct image image;
	small_store(&m, temp_dir(dir), 4, &image, false);
	for (size_t i = 0; i < N_STORE_FILES; i++) {
		size_t last = 0;
		for (size_t len = 0; len <= image.len[i]; len++) {
			put(dir, i, image.data[i], len);
			struct outcome o = look(&m, dir);
			if (i < FIRST_LOG && len < image.len[i]) {
				assert_int_equal(o.rc, -EBADMSG);
				continue;
			}
			assert_int_equal(o.rc, 0);
			assert_true(o.windows >= last);
			assert_true(o.windows == m.n || o.told || i == N_STORE_FILES - 1);
			last = o.windows;
		}
		assert_int_equal(last, m.n);
		put(dir, i, image.data[i], image.len[i]);
	}
	free_image(&image);
	model_fini(&m);
	remove_tree(dir);
}

static void every_bit(void **state)
{
	(void)state;
	char dir[64], path[128];
	struct model m = { .random = 12 };
	struct image image;
	size_t refused = 0, shorter = 0, harmless = 0;
	small_store(&m, temp_dir(dir), 3, &image, true);
	for (size_t i = 0; i < N_STORE_FILES; i++) {
		file_path(path, dir, i);
		int fd = open(path, O_WRONLY);
		for (size_t bit = 0; bit < 8 * image.len[i]; bit++) {
			unsigned char c = image.data[i][bit / 8] ^ (unsigned char)(1u << bit % 8);
			assert_int_equal(pwrite(fd, &c, 1, (off_t)(bit / 8)), 1);
			struct outcome o = look(&m, dir);
			refused += o.rc != 0;
			shorter += !o.rc && o.windows < m.n;
			harmless += !o.rc && o.windows == m.n;
			/* The writer ended cleanly: nothing is taken for a torn end. */
			if (o.rc != -EBADMSG)
				fail_msg("%s, bit %zu: %d, %zu windows", store_files[i], bit, o.rc,
					 o.windows);
			assert_int_equal(pwrite(fd, &image.data[i][bit / 8], 1, (off_t)(bit / 8)),
					 1);
		}
		close(fd);
	}
	print_message("flipped bits: %zu refused, %zu without the last window, %zu harmless\n",
		      refused, shorter, harmless);
	assert_int_equal(harmless, 0);
	free_image(&image);
	model_fini(&m);
	remove_tree(dir);
}

/* A writer cuts a torn segment file and goes on; what it adds is read back with what was whole. */
static void writer_after_truncation(void **state)
{
	(void)state;
	char dir[64];
	struct image image;
	struct err err = { 0 };
	struct model m = { .random = 13 };
	size_t seg = N_STORE_FILES - 1;
	small_store(&m, temp_dir(dir), 3, &image, false);
	for (size_t len = 32; len <= image.len[seg]; len++) {
		struct store_writer *w;
		struct model part = { .random = 100 + len };
		put_image(&image, dir);
		put(dir, seg, image.data[seg], len);
		size_t whole = look(&m, dir).windows;
		assert_int_equal(store_writer_open(&w, dir, &model_meta, &err), 0);
		memcpy(part.w, m.w, whole * sizeof(m.w[0]));
		part.n = whole;
		assert_int_equal(model_commit(&part, w, 5, &err), 0);
		assert_int_equal(model_commit(&part, w, 5, &err), 0);
		store_writer_close(w);
		model_check(&part, dir);
		model_window_fini(&part.w[whole]);
		model_window_fini(&part.w[whole + 1]);
	}
	free_image(&image);
	model_fini(&m);
	remove_tree(dir);
}

/*
 * No crash shortens a dictionary below what a block names: the writer must not cut windows away for
 * it.
 */
static void writer_refuses_damage(void **state)
{
	(void)state;
	char dir[64], path[128];
	struct image image, after;
	struct err err = { 0 };
	struct model m = { .random = 14 };
	struct store_writer *w;
	small_store(&m, temp_dir(dir), 3, &image, true);
	put(dir, 2, image.data[2], image.len[2] - 1);
	assert_int_equal(store_writer_open(&w, dir, &model_meta, &err), -EBADMSG);
	load_image(&after, dir);
	for (size_t i = 0; i < N_STORE_FILES; i++) {
		assert_int_equal(after.len[i], image.len[i] - (i == 2));
		assert_memory_equal(after.data[i], image.data[i], after.len[i]);
	}
	put_image(&image, dir);
	file_path(path, dir, 2);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(store_writer_open(&w, dir, &model_meta, &err), -EBADMSG);
	assert_non_null(strstr(err.text, ".sym is missing"));
	assert_int_equal(look(&m, dir).rc, -EBADMSG);
	free_image(&image);
	free_image(&after);
	model_fini(&m);
	remove_tree(dir);
}

static void names_the_place(void **state)
{
	(void)state;
	char dir[64];
	struct image image;
	struct err err = { 0 };
	struct store *s;
	struct model m = { .random = 15 };
	size_t seg = N_STORE_FILES - 1;
	small_store(&m, temp_dir(dir), 3, &image, true);
	image.data[seg][32 + 45] ^= 4;
	put_image(&image, dir);
	assert_int_equal(store_open(&s, dir, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "seg/10s-00000001.seg is damaged at offset 32"));
	free_image(&image);
	model_fini(&m);
	remove_tree(dir);
}

/* ---- right checksums around wrong contents ---- */

static uint32_t crc_by_bits(const unsigned char *p, size_t len)
{
	uint32_t crc = ~0u;
	for (size_t i = 0; i < len * 8; i++)
		crc = (crc ^ p[i / 8] >> i % 8) & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
	return ~crc;
}

static uint32_t get32(const unsigned char *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(v >> 8 * i);
}

/* Everything that a reading command does. It may refuse or give odd answers; it must come back. */
static bool use_all(const char *dir)
{
	struct store *s;
	struct query *q = NULL;
	struct query_table *t;
	struct err err = { 0 };
	const struct query_node *nodes;
	const struct label *labels;
	size_t n;
	const char *const keys[] = { "tenant", "comm" };
	struct query_spec spec = { .from_ns = INT64_MIN,
				   .to_ns = INT64_MAX,
				   .where = "tenant!~\"x.*\"" };
	if (store_open(&s, dir, &err))
		return false;
	for (uint32_t i = 0; i < store_n_stacks(s); i++)
		free(store_stack_text(s, i));
	for (uint32_t i = 0; i < store_n_sets(s); i++)
		store_set(s, i, &labels);
	bool ok = !query_open(&q, s, &spec, &err);
	if (ok) {
		assert_int_equal(query_tree(q, &nodes, &n, &err), 0);
		assert_int_equal(query_table(q, NULL, 0, &t, &err), 0);
		query_table_free(t);
		assert_int_equal(query_table(q, keys, 2, &t, &err), 0);
		query_table_free(t);
	}
	query_close(q);
	store_close(s);
	return ok;
}

/* The checksums of a block's columns and of its head. */
static void fix_block(unsigned char *p, size_t len)
{
	size_t n = p[25], at = 168 + 16 * n;
	if (n > 32 || at > len)
		return;
	for (size_t i = 0; i < n; i++) {
		unsigned char *entry = p + 168 + 16 * i;
		size_t stored = get32(entry + 8);
		if (stored > len - at)
			break;
		put32(entry + 12, crc_by_bits(p + at, stored));
		at += stored;
	}
	put32(p + 164, 0);
	put32(p + 164, crc_by_bits(p, 168 + 16 * n));
}

static size_t mutate_frame(const char *dir, size_t i, const struct image *image, size_t frame,
			   size_t *ret_tried)
{
	static const unsigned char masks[] = { 0x01, 0x80, 0x7f, 0xff };
	unsigned char *d = image->data[i], *copy = malloc(image->len[i]);
	size_t size = get32(d + frame + 28), accepted = 0;
	/* Of the frame header: codec, first id, count, length before compression. */
	for (size_t at = 5; at < 40 + size; at++) {
		if (at == 6 || (at >= 28 && at < 40))
			at = at == 6 ? 16 : 40;
		for (size_t k = 0; k < sizeof(masks); k++) {
			memcpy(copy, d, image->len[i]);
			copy[frame + at] ^= masks[k];
			if (i == N_STORE_FILES - 1)
				fix_block(copy + frame + 40, size);
			put32(copy + frame + 32, crc_by_bits(copy + frame + 40, size));
			put32(copy + frame + 36, crc_by_bits(copy + frame, 36));
			put(dir, i, copy, image->len[i]);
			accepted += use_all(dir);
			++*ret_tried;
		}
	}
	free(copy);
	return accepted;
}

static void hostile_contents(void **state)
{
	(void)state;
	char dir[64];
	struct image image;
	struct model m = { .random = 16 };
	size_t tried = 0, accepted = 0;
	small_store(&m, temp_dir(dir), 2, &image, false);
	for (size_t i = FIRST_LOG; i < N_STORE_FILES; i++) {
		for (size_t frame = 32; frame < image.len[i];
		     frame += 40 + get32(image.data[i] + frame + 28))
			accepted += mutate_frame(dir, i, &image, frame, &tried);
		put(dir, i, image.data[i], image.len[i]);
	}
	print_message("changed bytes with right checksums: %zu tried, %zu accepted\n", tried,
		      accepted);
	assert_true(tried > 4000);
	free_image(&image);
	model_fini(&m);
	remove_tree(dir);
}

/*
 * A window that cannot be written is gone, its ids are not. `hurt` makes the next commit fail with
 * rc, `heal` lets it succeed again.
 */
static void commit_around_failure(struct model *m, struct store_writer *w, const char *dir,
				  void (*hurt)(const char *), void (*heal)(const char *), int rc,
				  size_t n_rows)
{
	struct err err = { 0 };
	hurt(dir);
	assert_int_equal(model_commit(m, w, n_rows, &err), rc);
	assert_true(strstr(err.text, "cannot ") != NULL);
	heal(dir);
	model_check(m, dir);
	assert_int_equal(model_commit(m, w, 20, &err), 0);
	model_check(m, dir);
}

/* ---- limits and full disks ---- */

static rlim_t file_limit;

static void limit_files(const char *dir)
{
	(void)dir;
	struct rlimit l = { file_limit, RLIM_INFINITY };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static void lift_limit(const char *dir)
{
	(void)dir;
	struct rlimit l = { RLIM_INFINITY, RLIM_INFINITY };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

/* Each limit stops the commit at another byte of another file, mostly in the middle of a write. */
static void write_fails_anywhere(void **state)
{
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	for (file_limit = 33; file_limit < 700; file_limit += 13) {
		char dir[64];
		struct store_writer *w;
		struct model m = { .random = 1000 + file_limit };
		struct err err = { 0 };
		assert_int_equal(store_writer_open(&w, temp_dir(dir), &model_meta, &err), 0);
		if (file_limit % 2)
			assert_int_equal(model_commit(&m, w, 1, &err), 0);
		for (int i = 0; i < 3; i++)
			commit_around_failure(&m, w, dir, limit_files, lift_limit, -ENOSPC, 200);
		store_writer_close(w);
		model_check(&m, dir);
		assert_int_equal(store_writer_open(&w, dir, &model_meta, &err), 0);
		assert_int_equal(model_commit(&m, w, 30, &err), 0);
		store_writer_close(w);
		model_check(&m, dir);
		model_fini(&m);
		remove_tree(dir);
	}
}

/* A file beside the store takes what is left of the disk, but for some bytes. */
static void fill_disk(const char *dir)
{
	char path[128], page[512] = { 1 };
	snprintf(path, sizeof(path), "%s/../ballast", dir);
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	while (write(fd, page, sizeof(page)) > 0)
		;
	close(fd);
}

static void empty_disk(const char *dir)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/../ballast", dir);
	assert_int_equal(unlink(path), 0);
}

static void full_disk(void **state)
{
	(void)state;
	char base[64], dir[80];
	struct store_writer *w;
	struct err err = { 0 };
	struct store_options o;
	struct model m = { .random = 17 };
	temp_dir(base);
	/*
	 * Files fill up their last page even on a full disk: the window must be larger than that.
	 */
	/* A mount namespace of its own, so that nothing stays mounted when the test fails. */
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", base, "tmpfs", 0, "size=256k")) {
		const char *ci = getenv("CI");
		int why = errno;
		rmdir(base);
		if (ci && !strcmp(ci, "true"))
			fail_msg("cannot mount a tmpfs: %s", strerror(why));
		print_message("skipped: cannot mount a tmpfs: %s\n", strerror(why));
		skip();
	}
	snprintf(dir, sizeof(dir), "%s/store", base);
	/* All rows whatever the space: what is left out is another test's. */
	store_options_default(&o);
	o.reserve_bytes = 1;
	assert_int_equal(store_writer_open_with(&w, dir, &model_meta, &o, &err), 0);
	for (int i = 0; i < 3; i++)
		commit_around_failure(&m, w, dir, fill_disk, empty_disk, -ENOSPC, 2000);
	while (!model_commit(&m, w, 300, &err))
		;
	assert_int_equal(err.code, -ENOSPC);
	model_check(&m, dir);
	store_writer_close(w);
	assert_int_equal(store_writer_open(&w, dir, &model_meta, &err), 0);
	store_writer_close(w);
	model_check(&m, dir);
	model_fini(&m);
	assert_int_equal(umount(base), 0);
	remove_tree(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_truncation),	   cmocka_unit_test(every_bit),
		cmocka_unit_test(writer_after_truncation), cmocka_unit_test(writer_refuses_damage),
		cmocka_unit_test(names_the_place),	   cmocka_unit_test(write_fails_anywhere),
		cmocka_unit_test(hostile_contents),	   cmocka_unit_test(full_disk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
