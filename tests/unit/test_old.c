/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores of format 2 that tests/tools/old_store.py writes by docs/format.md: every row and every
 * counter after the conversion against what the script put in; damage; interrupted rewrites.
 */
#include "unit/store_model.h"

#include "store/file/tree.h"
#include "store/old/old.h"
#include "store/read/store_int.h"

#include <ftw.h>
#include <glob.h>

/* how: "", or a second argument of the script. */
static int make_store(const char *dir, const char *lines, const char *how)
{
	char command[700];
	snprintf(command, sizeof(command), "python3 tests/tools/old_store.py %s %s >%s", dir, how,
		 lines);
	return system(command);
}

static int make_old(const char *dir, const char *lines)
{
	return make_store(dir, lines, "");
}

static int read_only_store(const char *dir, struct store **ret)
{
	struct err err = { 0 };
	int rc = store_open(ret, dir, &err);
	if (rc)
		print_message("%s\n", err.text);
	return rc;
}

/* ---- what is in a store of today, in the lines of the script ---- */

struct dump {
	struct store *s;
	FILE *out;
	const struct store_block *b;
};

static void print_stack(struct dump *d, uint32_t stack)
{
	uint32_t parent, frame;
	if (!stack)
		return;
	store_stack(d->s, stack, &parent, &frame);
	print_stack(d, parent);
	const struct store_frame *f = store_frame(d->s, frame);
	fputs(parent ? ";" : "", d->out);
	if (f->function) {
		const char *name = store_string(d->s, f->function, NULL);
		assert_int_equal(f->kind, strcmp(name, "[idle]") ? FRAME_USER : FRAME_IDLE);
		assert_int_equal(f->line, strlen(name));
		assert_string_equal(store_string(d->s, f->file, NULL), "main.c");
		fputs(name, d->out);
	} else {
		assert_string_equal(store_string(d->s, f->build_id, NULL), "ab12");
		fprintf(d->out, "%s@%llu", store_string(d->s, f->module, NULL),
			(unsigned long long)f->offset);
	}
}

static int print_row(void *ctx, const struct store_row *row)
{
	struct dump *d = ctx;
	const struct label *labels;
	size_t n = store_set(d->s, row->set, &labels);
	fprintf(d->out, "%lld %lld %lld %u|%s|", (long long)d->b->t0_ns, (long long)d->b->t1_ns,
		(long long)d->b->boot_ns, d->b->anchor, store_event(d->s, row->event)->name);
	print_stack(d, row->stack);
	fputs("|", d->out);
	for (size_t i = 0; i < n; i++) {
		fprintf(d->out, "%s%.*s=", i ? "," : "", (int)labels[i].key_len, labels[i].key);
		if (labels[i].type == LABEL_INT)
			fprintf(d->out, "%lld", (long long)labels[i].num);
		else
			fprintf(d->out, "%.*s", (int)labels[i].str_len, labels[i].str);
	}
	fprintf(d->out, "|%llu %llu\n", (unsigned long long)row->samples,
		(unsigned long long)row->value);
	return 0;
}

static void print_totals(struct dump *d)
{
	struct store_totals *t;
	struct err err = { 0 };
	assert_int_equal(store_block_totals(d->s, d->b, &t, &err), 0);
	fprintf(d->out, "T %lld %llu %llu %llu", (long long)d->b->t0_ns,
		(unsigned long long)t->outside, (unsigned long long)t->own_cpu_ns,
		(unsigned long long)t->own_rss);
	for (size_t i = 0; i < t->n_cpus; i++)
		fprintf(d->out, " %u:%llu,%llu,%llu,%llu,%llu", t->cpu[i].cpu,
			(unsigned long long)t->cpu[i].fired, (unsigned long long)t->cpu[i].stored,
			(unsigned long long)t->cpu[i].lost[0],
			(unsigned long long)t->cpu[i].lost[1],
			(unsigned long long)t->cpu[i].flagged[0]);
	fputs("\n", d->out);
	store_totals_free(t);
}

static void dump_store(const char *dir, const char *lines)
{
	struct dump d = { 0 };
	struct err err = { 0 };
	char command[600];
	assert_int_equal(read_only_store(dir, &d.s), 0);
	assert_null(store_damage(d.s));
	const struct store_meta *m = store_meta(d.s);
	assert_string_equal(m->host, "host");
	assert_string_equal(m->what, "all processes");
	assert_int_equal(m->n_lost, 2);
	assert_string_equal(m->flagged_names[0], "idle");
	assert_int_equal(m->created_ns % 1000000000, 0);
	assert_string_equal(store_event(d.s, 0)->name,
			    "cpu-clock"); /* though rows of the other one come first */
	assert_int_equal(store_event(d.s, 0)->ns_per_sample, 10000000);
	snprintf(command, sizeof(command), "LC_ALL=C sort >%s", lines);
	d.out = popen(command, "w");
	assert_non_null(d.out);
	for (size_t i = 0; i < store_n_windows(d.s); i++) {
		d.b = &d.s->windows[i]->b;
		print_totals(&d);
		assert_int_equal(store_block_rows(d.s, d.b, NULL, NULL, print_row, &d, &err), 0);
	}
	assert_int_equal(pclose(d.out), 0);
	assert_int_equal(d.s->manifest.n_anchors, 2);
	assert_int_equal(store_anchor(d.s, 1)->boot_id[15], 15);
	assert_int_equal(store_anchor(d.s, 1)->real_minus_boot_ns -
				 store_anchor(d.s, 0)->real_minus_boot_ns,
			 1000000000);
	store_close(d.s);
}

static bool same_lines(const char *a, const char *b)
{
	char command[600];
	snprintf(command, sizeof(command), "bash -c 'diff <(LC_ALL=C sort %s) %s'", a, b);
	return !system(command);
}

/* ---- tests ---- */

struct paths {
	char base[64], old[100], new[100], want[100], got[100];
};

static struct paths begin(void)
{
	struct paths p = { .base = "/tmp/ascribe-old-XXXXXX" };
	assert_non_null(mkdtemp(p.base));
	snprintf(p.old, sizeof(p.old), "%s/store", p.base);
	snprintf(p.new, sizeof(p.new), "%s/converted", p.base);
	snprintf(p.want, sizeof(p.want), "%s/want", p.base);
	snprintf(p.got, sizeof(p.got), "%s/got", p.base);
	assert_int_equal(make_old(p.old, p.want), 0);
	return p;
}

static void end(struct paths *p)
{
	assert_int_equal(tree_remove(p->base), 0);
}

static void every_row(void **state)
{
	struct paths p = begin();
	struct store_conversion c;
	struct err err = { 0 };
	struct store *s;
	(void)state;
	assert_true(store_is_old(p.old));
	assert_int_equal(store_open(&s, p.old, &err), -EPROTONOSUPPORT);
	assert_non_null(strstr(err.text, "ascribe store compact"));
	assert_int_equal(store_convert(p.old, p.new, true, &c, &err), 0);
	assert_false(store_is_old(p.new));
	assert_int_equal(c.windows, 11);
	assert_int_equal(c.parents, 4);
	assert_int_equal(c.replaced, 1);
	assert_int_equal(c.unlabelled, 57);
	assert_int_equal(c.without_wide, 1);
	assert_string_equal(c.torn, "");
	dump_store(p.new, p.got);
	assert_true(same_lines(p.want, p.got));
	end(&p);
}

static void append_bytes(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

/*
 * What an interrupted writer left behind the last block of an open segment, and behind
 * dictionaries.
 */
static void torn_end(void **state)
{
	struct paths p = begin();
	struct store_conversion c;
	struct err err = { 0 };
	char path[200];
	(void)state;
	snprintf(path, sizeof(path), "%s/seg/10s-00000003.seg", p.old);
	append_bytes(path, "ASFR\7\0\0\0cut", 11);
	snprintf(path, sizeof(path), "%s/sym/00000002/strings.log", p.old);
	append_bytes(path, "ASFR\1\0\0\0cut", 11);
	assert_int_equal(store_convert(p.old, p.new, false, &c, &err), 0);
	assert_non_null(strstr(c.torn, "10s-00000003.seg: the last block is incomplete"));
	dump_store(p.new, p.got);
	assert_true(same_lines(p.want, p.got));
	end(&p);
}

/* ---- damage ---- */

/* 0 with every row, or an error that names a file of the store and an offset. */
static void check_damaged(struct paths *p, const char *what, size_t at)
{
	struct store_conversion c;
	struct err err = { 0 };
	int rc = store_convert(p->old, p->new, false, &c, &err);
	if (!rc) {
		dump_store(p->new, p->got);
		if (!same_lines(p->want, p->got))
			fail_msg("%s at %zu: other rows", what, at);
	} else if (!strstr(err.text, "offset") && !strstr(err.text, "format") &&
		   !strstr(err.text, "is missing")) {
		fail_msg("%s at %zu: %s", what, at, err.text);
	} else if (!strstr(err.text, what)) { /* the file */
		fail_msg("%s at %zu: %s", what, at, err.text);
	}
	assert_int_equal(access(p->new, F_OK) ? 0 : tree_remove(p->new), 0);
}

static void damage_file(struct paths *p, const char *path)
{
	struct stat st;
	uint8_t byte;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	size_t len = (size_t)st.st_size, step = len / 40 + 1;
	uint8_t *copy = malloc(len + 1);
	assert_int_equal(pread(fd, copy, len, 0), len);
	for (size_t at = 0; at < len; at += step) {
		byte = copy[at] ^ (uint8_t)(1 << at % 8);
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
		check_damaged(p, path, at);
		assert_int_equal(pwrite(fd, &copy[at], 1, (off_t)at), 1);
	}
	const size_t cuts[] = { 0, 20, 32, 50, len / 2, len - 1 };
	for (size_t i = 0; i < 6; i++) {
		if (cuts[i] >= len)
			continue;
		assert_int_equal(ftruncate(fd, (off_t)cuts[i]), 0);
		check_damaged(p, path, cuts[i]);
		assert_int_equal(pwrite(fd, copy, len, 0), len);
	}
	close(fd);
	free(copy);
}

static void damage(void **state)
{
	static const char *const files[] = { "HEADER", "MANIFEST", "seg/*", "sym/*/*", "lab/*" };
	struct paths p = begin();
	size_t n = 0;
	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char pattern[200];
		glob_t g;
		snprintf(pattern, sizeof(pattern), "%s/%s", p.old, files[i]);
		assert_int_equal(glob(pattern, 0, NULL, &g), 0);
		for (size_t k = 0; k < g.gl_pathc; k++, n++)
			damage_file(&p, g.gl_pathv[k]);
		globfree(&g);
	}
	assert_int_equal(n, 2 + 5 + 10 + 2);
	end(&p);
}

/*
 * Nothing is believed for its checksum: an answer or an error, and no more memory than files have
 * bytes for.
 */
static void crafted(void **state)
{
	const char *more = getenv("ASCRIBE_OLD_SEEDS");
	unsigned n = more ? (unsigned)atoi(more) : 25, n_refused = 0;
	struct paths p = begin();
	(void)state;
	for (unsigned seed = 1; seed <= n; seed++) {
		struct store_conversion c;
		struct err err = { 0 };
		char number[12];
		assert_int_equal(tree_remove(p.old), 0);
		snprintf(number, sizeof(number), "%u", seed);
		assert_int_equal(make_store(p.old, p.got, number), 0);
		int rc = store_convert(p.old, p.new, true, &c, &err);
		if (rc && !strstr(err.text, p.old) && !strstr(err.text, p.new))
			fail_msg("seed %u: %d %s", seed, rc, err.text);
		n_refused += rc == -EBADMSG;
		if (!rc) { /* what was written is whole */
			struct store *s;
			assert_int_equal(read_only_store(p.new, &s), 0);
			assert_int_equal(store_n_windows(s), c.windows);
			store_close(s);
		}
		assert_int_equal(access(p.new, F_OK) ? 0 : tree_remove(p.new), 0);
	}
	assert_true(n_refused > n / 4);
	end(&p);
}

static void key_with_nul(void **state)
{
	struct paths p = begin();
	struct store_conversion c;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(tree_remove(p.old), 0);
	assert_int_equal(make_store(p.old, p.got, "nul"), 0);
	assert_int_equal(store_convert(p.old, p.new, true, &c, &err), -EBADMSG);
	assert_non_null(
		strstr(err.text, "seg/1m-00000004.seg is damaged or cut short at offset 32"));
	end(&p);
}

/* ---- in its place ---- */

static void put_file(const char *dir, const char *name)
{
	char path[200];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "unfinished", 10), 10);
	close(fd);
}

static void put_dir(const char *dir, const char *name)
{
	char path[200];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static bool is_there(const char *dir, const char *name)
{
	char path[200];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !access(path, F_OK);
}

static void check_rewritten(const struct paths *p)
{
	static const char *const parts[] = { "rewriting", "MANIFEST.2", "sym", "lab",
					     "seg/10s-00000099.seg" };
	assert_false(store_is_old(p->old));
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		assert_false(is_there(p->old, parts[i]));
	assert_true(is_there(p->old, "HEADER.copy"));
	char reserve[200];
	struct stat st;
	snprintf(reserve, sizeof(reserve), "%s/reserve", p->old);
	assert_int_equal(stat(reserve, &st), 0);
	assert_int_equal(st.st_size, 256 << 10);
	dump_store(p->old, p->got);
	assert_true(same_lines(p->want, p->got));
}

static void rewrite(void **state)
{
	struct paths p = begin();
	struct store_conversion c;
	struct err err = { 0 };
	struct stat st;
	char copy[200], manifest[200], kept[200];
	(void)state;
	/* Damage leaves everything as it was. */
	snprintf(copy, sizeof(copy), "%s/sym/00000002/leaves.log", p.old);
	assert_int_equal(rename(copy, p.got), 0);
	assert_int_equal(store_rewrite(p.old, &c, &err), -EBADMSG);
	assert_false(is_there(p.old, "rewriting"));
	assert_true(store_is_old(p.old));
	assert_int_equal(rename(p.got, copy), 0);
	/* Interrupted before the new header is in its place: segments and MANIFEST are already. */
	snprintf(manifest, sizeof(manifest), "%s/MANIFEST", p.old);
	snprintf(kept, sizeof(kept), "%s/MANIFEST.2", p.old);
	put_dir(p.old, "rewriting");
	put_file(p.old, "rewriting/HEADER");
	put_file(p.old, "seg/10s-00000099.seg");
	assert_int_equal(rename(manifest, kept), 0);
	put_file(p.old, "MANIFEST");
	assert_int_equal(store_convert(p.old, p.new, true, &c, &err), 0);
	assert_int_equal(c.windows, 11);
	assert_int_equal(chmod(p.old, 0750), 0);
	assert_int_equal(store_rewrite(p.old, &c, &err), 0);
	assert_int_equal(c.windows, 11);
	assert_true(c.bytes > 1000);
	assert_int_equal(stat(p.old, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	check_rewritten(&p);
	/* Interrupted behind it: what only the old store needs is still there. */
	put_dir(p.old, "rewriting");
	put_dir(p.old, "sym");
	put_file(p.old, "sym/strings.log");
	put_dir(p.old, "lab");
	put_file(p.old, "seg/10s-00000099.seg");
	put_file(p.old, "MANIFEST.2");
	store_rewrite_clean(p.old);
	check_rewritten(&p);
	end(&p);
}

/* A store that somebody writes stays as it is, and so does one whose path has no room for more. */
static void not_rewritten(void **state)
{
	static char longest[PATH_MAX];
	struct paths p = begin();
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct store_conversion c;
	struct err err = { 0 };
	char path[200];
	(void)state;
	snprintf(path, sizeof(path), "%s/lock", p.old);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &l), 0);
	assert_int_equal(store_rewrite(p.old, &c, &err), -EBUSY);
	assert_non_null(strstr(err.text, "is being written by another process"));
	assert_true(store_is_old(p.old));
	assert_false(is_there(p.old, "rewriting"));
	close(fd);
	assert_int_equal(store_rewrite(p.new, &c, &err), -ENOENT);
	memset(longest, 'x', sizeof(longest) - 1);
	for (size_t i = 0; i < 2; i++) {
		longest[PATH_MAX - 10 - i] = 0; /* with "/rewriting" and its end */
		assert_int_equal(store_rewrite(longest, &c, &err), -ENAMETOOLONG);
		assert_non_null(strstr(err.text,
				       i ? "cannot open the store x" : "the path of the store x"));
	}
	end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row),	 cmocka_unit_test(torn_end),
		cmocka_unit_test(damage),	 cmocka_unit_test(crafted),
		cmocka_unit_test(key_with_nul),	 cmocka_unit_test(rewrite),
		cmocka_unit_test(not_rewritten),
	};
	if (system("command -v python3 >/dev/null")) {
		print_message("skipped: python3 is needed\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
