/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage of stores that ended cleanly.
 *
 * Every bit of stores of a MiB together (`make reliability-full`; else one in so many of one store,
 * others each day). verify looks at every file by itself, and in segments at every frame. So one
 * bit is flipped in each of them at once, and each must be named. The kinds (segments;
 * dictionaries; header; manifest) take turns, because damage in one may be told of another too.
 * Segments that have no bit left to flip are taken out of the copy, as a look at the whole store
 * takes milliseconds. That they are missing is told of them alone. The stores are small, as there
 * are as many looks as the longest frame has bits, and each takes longer in a larger store.
 *
 * Single bits, a sample: verify finds it, and whatever is asked is answered right or not at all.
 *
 * Several faults at once, at random, in a small store. The same holds.
 */
#include "fault/run.h"
#include "fault/scenario.h"

#include "query/query.h"
#include "store/damage.h"
#include "store/writer.h"

#define FILES_MAX 400
#define UNITS_MAX 4000
#define FRAME_HEADER_BITS 320

static char base[64], whole[80];
static struct {
	char path[100]; /* within the store */
	unsigned char *data;
	size_t len;
	int kind;
} files[FILES_MAX];
static size_t n_files, n_bytes;

/* ---- the store ---- */

static const char *const kinds[] = { ".seg", ".sym", "HEADER.copy", "HEADER", "MANIFEST" };
#define SEGMENTS 0
#define SYMBOLS 1
#define N_KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

static int add_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	const char *name = path + strlen(whole) + 1;
	if (type != FTW_F || !st->st_size || !strcmp(name, "reserve")) /* nothing is in it */
		return 0;
	int k = 0;
	while (k < N_KINDS && !strstr(name, kinds[k]))
		k++;
	if (k == N_KINDS || n_files == FILES_MAX)
		fail_msg("%s: which kind of file is that?", name);
	snprintf(files[n_files].path, sizeof(files[0].path), "%s", name);
	files[n_files].len = (size_t)st->st_size;
	files[n_files].data = malloc(files[n_files].len);
	int fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, files[n_files].data, files[n_files].len), files[n_files].len);
	close(fd);
	files[n_files++].kind = k;
	n_bytes += (size_t)st->st_size;
	return 0;
}

/* What verify looks at by itself: a frame of a segment, or a whole file. */
static struct unit {
	size_t file, at, len, index; /* the index-th of its file */
} units[UNITS_MAX];
static size_t n_units;

static void add_unit(size_t file, size_t at, size_t len, size_t index)
{
	assert_true(n_units < UNITS_MAX);
	units[n_units++] = (struct unit){ file, at, len, index };
}

/* Frames begin with four letters and, eight bytes on, their own offset: docs/format.md. */
static void add_units(size_t file)
{
	const unsigned char *data = files[file].data;
	size_t begin = 0, index = 0;
	for (size_t i = 0; i + 16 <= files[file].len && files[file].kind == SEGMENTS; i++) {
		uint64_t offset;
		memcpy(&offset, data + i + 8, 8);
		if (memcmp(data + i, "ASFR", 4) || offset != i)
			continue;
		add_unit(file, begin, i - begin, index++);
		begin = i;
	}
	add_unit(file, begin, files[file].len - begin, index);
}

/* Windows of so many rows, some minutes and hours apart. */
static void make_store(size_t n_windows, size_t n_rows)
{
	static struct scenario s;
	struct store_writer *w = NULL;
	struct store_options o = scenario_options;
	struct err err = { 0 };
	n_files = n_bytes = n_units = 0;
	snprintf(whole, sizeof(whole), "%s/store", temp_dir(base));
	scenario_make(&s, n_windows, n_rows);
	o.keep_ns[0] = 0;
	o.symbols_bytes = 8000;
	for (size_t i = 0; i < s.m.n; i++) {
		if (i % 8 == 0) {
			store_writer_close(w);
			assert_int_equal(store_writer_open_with(&w, whole, &model_meta, &o, &err),
					 0);
		}
		assert_int_equal(scenario_commit(&s, w, i, &err), 0);
	}
	store_writer_close(w);
	scenario_fini(&s);
	nftw(whole, add_file, 8, FTW_PHYS);
	for (size_t i = 0; i < n_files; i++)
		add_units(i);
}

static int remove_store(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_files; i++)
		free(files[i].data);
	remove_tree(base);
	return 0;
}

static int make_large(void **state)
{
	(void)state;
	make_store(80, run_size(40, 130));
	return 0;
}

static int make_small(void **state)
{
	(void)state;
	make_store(16, 6);
	return 0;
}

/* ---- flipping ---- */

static void flip(const char *dir, size_t file, size_t bit)
{
	char path[200];
	unsigned char c;
	snprintf(path, sizeof(path), "%s/%s", dir, files[file].path);
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0 && pread(fd, &c, 1, (off_t)(bit / 8)) == 1);
	c ^= (unsigned char)(1u << bit % 8);
	assert_int_equal(pwrite(fd, &c, 1, (off_t)(bit / 8)), 1);
	close(fd);
}

struct found {
	const char *dir;
	bool file[FILES_MAX];
	bool unit[UNITS_MAX];
	size_t damaged;
	bool refused;
};

static void mark(void *ctx, const struct store_finding *f)
{
	struct found *n = ctx;
	size_t i = 0;
	if (f->kind != STORE_DAMAGED)
		return;
	n->damaged++;
	/* A dictionary may be named by the block that needs it. */
	for (; i < n_files; i++)
		n->file[i] |= !strcmp(f->path + strlen(n->dir) + 1, files[i].path) ||
			      strstr(f->text, files[i].path);
	for (size_t u = 0; u < n_units; u++)
		n->unit[u] |= f->offset >= units[u].at && f->offset < units[u].at + units[u].len &&
			      !strcmp(f->path + strlen(n->dir) + 1, files[units[u].file].path);
}

static void verify(const char *dir, struct found *ret)
{
	struct err err = { 0 };
	*ret = (struct found){ .dir = dir };
	/* With both headers gone, or a newer version, it says so instead. */
	if (store_verify(dir, mark, ret, &err)) {
		ret->refused = true;
		ret->damaged++;
	}
}

struct sum {
	size_t bits, looks, bad, answers, coarse, repaired;
	char first[700];
};

__attribute__((format(printf, 2, 3))) static void bad(struct sum *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (!s->bad++)
		vsnprintf(s->first, sizeof(s->first), fmt, ap);
	va_end(ap);
}

static void copy_store(const char *to)
{
	char command[300];
	snprintf(command, sizeof(command), "cp -a %s %s", whole, to);
	assert_int_equal(system(command), 0);
}

/* ---- every bit ---- */

/*
 * Bit `bit` of each unit of the kind that has so many. index: of those that are the index-th of
 * their file alone, because behind a frame's header that is damaged the next intact one is looked
 * for.
 */
static void round_of(struct sum *s, const char *dir, int kind, size_t bit, size_t index)
{
	static struct found f;
	static size_t flipped[UNITS_MAX];
	size_t n = 0;
	for (size_t u = 0; u < n_units; u++)
		if (files[units[u].file].kind == kind && bit < 8 * units[u].len &&
		    (index == SIZE_MAX || units[u].index == index)) {
			flip(dir, units[u].file, 8 * units[u].at + bit);
			flipped[n++] = u;
		}
	if (!n)
		return;
	verify(dir, &f);
	for (size_t i = 0; i < n; i++) {
		const struct unit *u = &units[flipped[i]];
		/*
		 * An error instead of findings (the version, the size) is about the one file of its
		 * kind.
		 */
		if (!(kind == SEGMENTS ? f.unit[flipped[i]] : f.file[u->file]) &&
		    !(n == 1 && f.refused))
			bad(s, "%s: bit %zu of the bytes from %zu is not found",
			    files[u->file].path, bit, u->at);
		flip(dir, u->file, 8 * u->at + bit);
	}
	s->bits += n;
	s->looks++;
}

/* seg/1h-00000006.seg and seg/1h-00000006.sym, its dictionaries, belong together. */
static bool same_segment(size_t a, size_t b)
{
	return !strncmp(files[a].path, files[b].path, strcspn(files[a].path, "."));
}

/* Remove the segments of a copy that rounds of this kind from this bit on are not about. */
static void remove_others(const char *dir, int kind, size_t bit)
{
	bool needed[FILES_MAX] = { false };
	for (size_t u = 0; u < n_units; u++)
		needed[units[u].file] |=
			files[units[u].file].kind == kind && bit < 8 * units[u].len;
	for (size_t i = 0; i < n_files; i++) {
		char path[220];
		bool stays = files[i].kind > SYMBOLS;
		for (size_t j = 0; j < n_files && !stays; j++)
			stays = needed[j] && same_segment(i, j);
		snprintf(path, sizeof(path), "%.99s/%.99s", dir, files[i].path);
		if (!stays)
			unlink(path);
	}
}

static size_t step, offset;

static void every_bit_some(void *ctx, size_t k, size_t n)
{
	struct sum *s = (struct sum *)ctx + k;
	char dir[100];
	snprintf(dir, sizeof(dir), "%s/copy%zu", base, k);
	for (int kind = 0; kind < N_KINDS; kind++) {
		size_t most = 0, most_index = 0, looks = 0;
		copy_store(dir);
		for (size_t u = 0; u < n_units; u++) {
			if (files[units[u].file].kind != kind)
				continue;
			most = 8 * units[u].len > most ? 8 * units[u].len : most;
			most_index = units[u].index > most_index ? units[u].index : most_index;
		}
		for (size_t bit = offset + k * step; bit < most; bit += n * step) {
			if (looks++ % 64 == 0)
				remove_others(dir, kind, bit);
			for (size_t index = 0; index <= most_index; index++) {
				bool together = bit >= FRAME_HEADER_BITS;
				round_of(s, dir, kind, bit, together ? SIZE_MAX : index);
				if (together)
					break;
			}
		}
		remove_tree(dir);
	}
}

static struct sum add_up(struct sum *s)
{
	struct sum all = { 0 };
	for (size_t k = 0; k < 8; k++) {
		all.bits += s[k].bits;
		all.looks += s[k].looks;
		all.bad += s[k].bad;
		all.answers += s[k].answers;
		all.coarse += s[k].coarse;
		all.repaired += s[k].repaired;
		if (s[k].bad)
			print_message("  %zu bad, the first: %s\n", s[k].bad, s[k].first);
	}
	munmap(s, 8 * sizeof(*s));
	return all;
}

static void every_bit(void **state)
{
	struct sum all = { 0 };
	size_t stores = 0, bytes = 0, frames = 0;
	const double begin = run_seconds();
	step = run_size(1499, 1);
	offset = run_offset(step);
	do {
		struct sum *s = run_shared(8 * sizeof(*s));
		make_store(80, run_size(40, 8 + stores));
		assert_int_equal(run_parallel(every_bit_some, s), 0);
		const struct sum some = add_up(s);
		all.bits += some.bits;
		all.looks += some.looks;
		all.bad += some.bad;
		bytes += n_bytes;
		frames += n_units;
		stores++;
		remove_store(state);
	} while (run_full() && bytes < 1 << 20);
	print_message(
		"%zu of %zu bits in %zu stores (%zu bytes, %zu frames), each found; %.0f a second in %zu looks\n",
		all.bits, 8 * bytes, stores, bytes, frames,
		(double)all.bits / (run_seconds() - begin), all.looks);
	assert_int_equal(all.bad, 0);
	assert_true(step > 1 ? all.bits > 1000 : all.bits == 8 * bytes);
}

/* ---- single bits ---- */

/* said: windows are missing, as the store says. */
struct answer {
	uint64_t samples, value, fired, windows, coarse, said;
};

static const char *const questions[] = { NULL, "tenant=\"t3\"", "comm=\"sh\",query_id!=\"2\"" };
#define N_QUESTIONS 3

/* Everything that there is to ask; rc of what failed first. */
static int ask(const char *dir, size_t question, struct answer *ret)
{
	struct query_spec spec = { .where = questions[question],
				   .from_ns = INT64_MIN,
				   .to_ns = INT64_MAX,
				   .idle = true,
				   .labels = question ? QUERY_ALL_LABELS : QUERY_NO_LABELS };
	struct store *s;
	struct query *q;
	struct err err = { 0 };
	int rc = store_open(&s, dir, &err);
	if (rc)
		return rc;
	rc = query_open(&q, s, &spec, &err);
	if (!rc) {
		const struct query_info *i = query_info(q);
		*ret = (struct answer){ i->samples, i->value,  i->fired,
					i->windows, i->coarse, store_damage(s) != NULL };
		query_close(q);
	}
	store_close(s);
	return rc;
}

static struct answer want[N_QUESTIONS];

static void one_bit(struct sum *s, const char *dir, size_t file, size_t bit, bool repair)
{
	static struct found f;
	flip(dir, file, bit);
	verify(dir, &f);
	if (!f.damaged)
		bad(s, "%s: bit %zu is not found", files[file].path, bit);
	for (size_t q = 0; q < N_QUESTIONS; q++) {
		struct answer got;
		if (ask(dir, q, &got))
			continue;
		/* What can only be answered by a parent says so. */
		if (got.coarse)
			s->coarse++;
		else if (memcmp(&got, &want[q], sizeof(got)))
			bad(s, "%s: bit %zu: a wrong answer", files[file].path, bit);
		s->answers += !got.coarse;
	}
	s->bits++;
	if (repair) {
		struct err err = { 0 };
		struct answer got = { 0 };
		struct found after = { .dir = dir };
		if (store_repair(dir, mark, &after, &err))
			bad(s, "%s: bit %zu: repair: %.300s", files[file].path, bit, err.text);
		verify(dir, &f);
		if (f.damaged)
			bad(s, "%s: bit %zu: damaged after repair", files[file].path, bit);
		if (ask(dir, 0, &got) || got.samples > want[0].samples)
			bad(s, "%s: bit %zu: a wrong answer after repair", files[file].path, bit);
		s->repaired++;
		remove_tree(dir);
		copy_store(dir);
		return;
	}
	flip(dir, file, bit);
}

static void single_some(void *ctx, size_t k, size_t n)
{
	struct sum *s = (struct sum *)ctx + k;
	char dir[100];
	size_t at = 0, next = offset + k * step, count = 0;
	snprintf(dir, sizeof(dir), "%s/single%zu", base, k);
	copy_store(dir);
	for (size_t i = 0; i < n_files; i++) {
		for (; next < at + 8 * files[i].len; next += n * step)
			one_bit(s, dir, i, next - at, count++ % 25 == 0);
		at += 8 * files[i].len;
	}
}

static void single_bits(void **state)
{
	(void)state;
	struct sum *s = run_shared(8 * sizeof(*s));
	double begin = run_seconds();
	for (size_t q = 0; q < N_QUESTIONS; q++)
		assert_int_equal(ask(whole, q, &want[q]), 0);
	assert_true(want[0].samples > 1000 && want[1].samples && want[2].samples);
	step = 8 * n_bytes / run_size(200, 1000);
	offset = run_offset(step);
	assert_int_equal(run_parallel(single_some, s), 0);
	struct sum all = add_up(s);
	print_message(
		"%zu single bits, each found; %zu questions answered right, %zu from parents, which was said, the others refused; "
		"%zu repaired; %.0f a second\n",
		all.bits, all.answers, all.coarse, all.repaired,
		(double)all.bits / (run_seconds() - begin));
	assert_int_equal(all.bad, 0);
}

/* ---- several faults ---- */

#define GONE SIZE_MAX

/* Do to the bytes of a file what disks do. Return the length that is left. */
static size_t harm(unsigned char *data, size_t len, struct model *random)
{
	const size_t at = model_random(random, len), n = 1 + model_random(random, len - at),
		     other = model_random(random, n_files);
	switch (model_random(random, 6)) {
	case 0:
		data[at] ^= (unsigned char)(1u << model_random(random, 8));
		return len;
	case 1: /* never written */
		memset(data + at, 0, n);
		return len;
	case 2: /* written to another place */
		memmove(data + model_random(random, len - n + 1), data + at, n);
		return len;
	case 3: /* bytes of another file */
		memcpy(data + at, files[other].data, n < files[other].len ? n : files[other].len);
		return len;
	case 4:
		return at;
	default:
		return GONE;
	}
}

static void put_file(const char *dir, size_t file, const unsigned char *data, size_t len)
{
	char path[200];
	snprintf(path, sizeof(path), "%s/%s", dir, files[file].path);
	if (len == GONE) {
		unlink(path);
		return;
	}
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

/* Damage some files of the copy. Return the number of files that differ now; *ret_how: a text. */
static size_t harm_some(const char *dir, struct model *random, bool harmed[FILES_MAX],
			char how[600])
{
	static unsigned char data[1 << 20];
	size_t n = 0, len = 0;
	for (size_t faults = 2 + model_random(random, 7); faults; faults--) {
		const size_t file = model_random(random, n_files);
		if (harmed[file])
			continue;
		memcpy(data, files[file].data, files[file].len);
		const size_t left = harm(data, files[file].len, random);
		if (left == files[file].len && !memcmp(data, files[file].data, left))
			continue;
		put_file(dir, file, data, left);
		harmed[file] = true;
		n++;
		len += (size_t)snprintf(how + len, 600 - len, " %.40s: %zd of %zu;",
					files[file].path, (ssize_t)left, files[file].len);
	}
	return n;
}

static void several_some(void *ctx, size_t k, size_t n)
{
	struct sum *s = (struct sum *)ctx + k;
	struct model random = { .random = 7 + k + 1000 * run_offset(1000000) };
	static struct found f;
	const double begin = run_seconds();
	char dir[100], how[600];
	snprintf(dir, sizeof(dir), "%s/several%zu", base, k);
	copy_store(dir);
	while (!run_enough(s->bits, 300 / n, begin) && !s->bad) {
		bool harmed[FILES_MAX] = { false };
		if (!harm_some(dir, &random, harmed, how))
			continue;
		verify(dir, &f);
		if (!f.damaged)
			bad(s, "not found:%s", how);
		for (size_t q = 0; q < N_QUESTIONS; q++) {
			struct answer got;
			if (ask(dir, q, &got))
				continue;
			const bool less = got.coarse || got.said;
			if (less ? got.samples > want[q].samples
				 : memcmp(&got, &want[q], sizeof(got)))
				bad(s, "question %zu: %zu samples of %zu:%s", q,
				    (size_t)got.samples, (size_t)want[q].samples, how);
			s->coarse += less;
			s->answers += !less;
		}
		s->bits++;
		for (size_t i = 0; i < n_files; i++)
			if (harmed[i])
				put_file(dir, i, files[i].data, files[i].len);
	}
	remove_tree(dir);
}

static void several_faults(void **state)
{
	(void)state;
	struct sum *s = run_shared(8 * sizeof(*s));
	const double begin = run_seconds();
	for (size_t q = 0; q < N_QUESTIONS; q++)
		assert_int_equal(ask(whole, q, &want[q]), 0);
	assert_int_equal(run_parallel(several_some, s), 0);
	const struct sum all = add_up(s);
	print_message(
		"%zu stores with several faults, each found; %zu questions answered right, %zu less exactly, which was said, the others refused; "
		"%.0f a second\n",
		all.bits, all.answers, all.coarse, (double)all.bits / (run_seconds() - begin));
	assert_int_equal(all.bad, 0);
	assert_true(all.answers);
}

/* test_bits several: these alone. */
int main(int argc, char **argv)
{
	(void)argv;
	const struct CMUnitTest several[] = {
		cmocka_unit_test_setup_teardown(several_faults, make_small, remove_store),
	};
	const struct CMUnitTest bits[] = {
		cmocka_unit_test(every_bit),
		cmocka_unit_test_setup_teardown(single_bits, make_large, remove_store),
	};
	int failed = cmocka_run_group_tests(several, NULL, NULL);
	if (argc == 1)
		failed += cmocka_run_group_tests(bits, NULL, NULL);
	return failed;
}
