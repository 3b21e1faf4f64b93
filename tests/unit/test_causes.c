/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting time by its cause: sums stay exact, what was not sampled is divided, the largest pairs
 * keep their names.
 */
#include "collect/causes.h"
#include "stacks/resolve.h"
#include "store/store.h"
#include "store/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64];
static struct store_writer *w;
static struct causes_store to = { .weight = 1 };
static struct causes c;
static uint32_t stack;
static enum cause_event added;
static uint32_t lock, lock_end; /* of rows that are added */

static uint32_t add_event(const char *name)
{
	const struct store_event e = { .name = name, .unit = "nanoseconds" };
	uint32_t id;
	assert_int_equal(store_add_event(w, &e, &id), 0);
	return id;
}

static int set_up(void **state)
{
	struct err err = { 0 };
	struct store_options o;
	const struct store_meta meta = { .host = "h", .os = "o", .what = "w", .created_ns = 1 };
	struct store_frame f = { .kind = FRAME_KERNEL };
	uint32_t frame;
	(void)state;
	strcpy(dir, "/tmp/test_causes.XXXXXX");
	assert_non_null(mkdtemp(dir));
	strcat(dir, "/s");
	store_options_default(&o);
	assert_int_equal(store_writer_open_with(&w, dir, &meta, &o, &err), 0);
	to.store = w;
	to.blame = add_event("blame");
	to.waker = add_event("waker");
	to.waker_idle = add_event("waker.idle");
	assert_int_equal(store_add_string(w, "f", 1, &f.function), 0);
	assert_int_equal(store_add_frame(w, &f, &frame), 0);
	assert_int_equal(store_add_stack(w, 0, frame, &stack), 0);
	assert_int_equal(causes_init(&c), 0);
	added = CAUSE_WAKER;
	return 0;
}

static int tear_down(void **state)
{
	char command[100];
	(void)state;
	causes_fini(&c);
	store_writer_close(w);
	*strrchr(dir, '/') = 0;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

/* Add time of `waited`, caused by `by` unless that is NULL. */
static bool add(const char *waited, const char *by, enum cause_part part, unsigned thinning,
		uint64_t n, uint64_t ns)
{
	struct label l[2] = {
		{ .key = "by.comm",
		  .key_len = 7,
		  .str = by ? by : "(other)",
		  .str_len = (uint32_t)strlen(by ? by : "(other)"),
		  .type = LABEL_STRING },
		{ .key = "comm",
		  .key_len = 4,
		  .str = waited,
		  .str_len = (uint32_t)strlen(waited),
		  .type = LABEL_STRING },
	};
	const struct cause row = { .event = added,
				   .part = part,
				   .thinning = thinning,
				   .stack = stack,
				   .lock = lock,
				   .lock_end = lock_end,
				   .n = n,
				   .ns = ns,
				   .waited = { l + 1, 1 },
				   .pair = { l, 2 },
				   .program = 7,
				   .process = { labels_key(l + 1, 1, 0), labels_key(l, 1, 0) },
				   .named = by };
	bool cut = false;
	assert_int_equal(causes_add(&c, &row, &cut), 0);
	return cut;
}

/* What the window has, by (waited, by, event). */
struct sum {
	const char *waited, *by, *event;
	uint64_t n, ns;
};

struct window {
	struct store *s;
	struct sum *of; /* to add up, or NULL */
	uint64_t n, ns;
	size_t pairs; /* rows whose cause is not (other) */
};

static const char *value_of(const struct label *v, size_t n, const char *key, char *out)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].key_len == strlen(key) && !memcmp(v[i].key, key, v[i].key_len)) {
			memcpy(out, v[i].str, v[i].str_len);
			out[v[i].str_len] = 0;
		}
	return out;
}

static int wanted(void *ctx, const struct store_row *group)
{
	(void)ctx;
	(void)group;
	return 1;
}

static int name_set(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	static char by[100], waited[100];
	struct window *v = ctx;
	value_of(labels, n, "by.comm", by);
	value_of(labels, n, "comm", waited);
	*ret = v->of && !strcmp(v->of->by, by) && !strcmp(v->of->waited, waited) ? 1
	       : strcmp(by, "(other)")						 ? 2
										 : 3;
	return 0;
}

static int on_row(void *ctx, const struct store_row *rows, size_t n)
{
	struct window *v = ctx;
	for (size_t i = 0; i < n; i++) {
		const char *event = store_event(v->s, rows[i].event)->name;
		v->n += rows[i].samples;
		v->ns += rows[i].value;
		v->pairs += rows[i].set != 3;
		if (v->of && rows[i].set == 1 && !strcmp(v->of->event, event)) {
			v->of->n += rows[i].samples;
			v->of->ns += rows[i].value;
		}
	}
	return 0;
}

static struct window read_window(struct sum *of)
{
	struct window v = { .of = of };
	struct store_cover cover = { 0 };
	struct err err = { 0 };
	const struct store_reading how = {
		.set = name_set, .group = wanted, .rows = on_row, .ctx = &v
	};
	assert_int_equal(store_open(&v.s, dir, &err), 0);
	assert_int_equal(
		store_cover(v.s, INT64_MIN, INT64_MAX, STORE_ALL_LABELS, NULL, 0, &cover, &err), 0);
	assert_int_equal(cover.n, 1);
	assert_int_equal(store_block_read(v.s, cover.blocks[0], &how, &err), 0);
	store_cover_free(&cover);
	store_close(v.s);
	return v;
}

static struct causes_result flush(void)
{
	struct store_totals totals = { 0 };
	struct causes_result r;
	struct err err = { 0 };
	causes_flush(&c, &to, &r);
	assert_int_equal(r.failed, 0);
	assert_int_equal(c.n, 0); /* the next window is empty */
	assert_int_equal(store_commit_window(w, 1000, 2000, 2000, &totals, &err), 0);
	return r;
}

static struct sum sum_of(const char *waited, const char *by, const char *event)
{
	struct sum s = { waited, by, event, 0, 0 };
	read_window(&s);
	return s;
}

static void test_divided(void **state)
{
	(void)state;
	/* Of "a", by "x": 8 idle and 8 busy samples, which stand for 3 times as much idle time. */
	add("a", "x", CAUSE_IDLE, 2, 8, 8 * 300);
	add("a", "x", CAUSE_BUSY, 2, 8, 8 * 100);
	add("a", "x", CAUSE_UNKNOWN, 0, 1000, 400000);
	/* Of "b" no sample stands for another wait: its rest is busy. */
	add("b", "x", CAUSE_IDLE, 0, 100, 77777);
	flush();
	assert_int_equal(sum_of("a", "x", "waker.idle").ns, 8 * 300 + 300000);
	assert_int_equal(sum_of("a", "x", "waker.idle").n, 8 + 500);
	assert_int_equal(sum_of("a", "x", "waker").ns, 8 * 100 + 100000);
	assert_int_equal(sum_of("b", "x", "waker.idle").ns, 77777);
	struct window v = read_window(NULL);
	assert_int_equal(v.ns, 8 * 400 + 400000 + 77777);
	assert_int_equal(v.n, 1116);
}

/* Samples of unlike probabilities stand for unlike times. */
static void test_thinned(void **state)
{
	(void)state;
	add("a", "x", CAUSE_IDLE, 2, 8, 8 * 100);   /* 15 more for each: 12,000 ns, 120 waits */
	add("a", "x", CAUSE_BUSY, 1, 16, 16 * 250); /* 3 more for each: 12,000 ns, 48 waits */
	add("a", "x", CAUSE_UNKNOWN, 0, 1680, 300000);
	flush();
	assert_int_equal(sum_of("a", "x", "waker.idle").ns, 800 + 150000);
	assert_int_equal(sum_of("a", "x", "waker.idle").n, 8 + 1200);
	assert_int_equal(sum_of("a", "x", "waker").ns, 4000 + 150000);
	assert_int_equal(sum_of("a", "x", "waker").n, 16 + 480);
}

/* Each pair is divided by its own samples, also beside others of the same thread. */
static void test_pairs_apart(void **state)
{
	static const char *const by[] = { "p", "q", "r", "s", "t" };
	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		add("a", by[i], i % 2 ? CAUSE_IDLE : CAUSE_BUSY, 1, 20, 2000);
		add("a", by[i], CAUSE_UNKNOWN, 0, 20, 1000 + i);
	}
	flush();
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(sum_of("a", by[i], "waker").ns, i % 2 ? 0 : 3000 + i);
		assert_int_equal(sum_of("a", by[i], "waker.idle").ns, i % 2 ? 3000 + i : 0);
	}
}

/* A pair beyond those that fit has no name, whatever its labels; the next window has room again. */
static void test_too_many_pairs(void **state)
{
	static struct label many[STORE_SET_MAX + 9];
	static char key[STORE_SET_MAX + 9][8];
	struct cause row = { .event = CAUSE_BLAME,
			     .part = CAUSE_BUSY,
			     .stack = stack,
			     .n = 1,
			     .ns = 10,
			     .waited = { many, STORE_SET_MAX + 9 },
			     .pair = { many, STORE_SET_MAX + 9 },
			     .named = true };
	char name[20];
	bool cut = false;
	(void)state;
	for (unsigned i = 0; i < STORE_SET_MAX + 9; i++) {
		snprintf(key[i], sizeof(key[i]), "k%05u", i);
		many[i] = (struct label){
			.key = key[i], .key_len = 6, .str = "v", .str_len = 1, .type = LABEL_STRING
		};
	}
	added = CAUSE_BLAME;
	for (unsigned i = 0; !cut && i <= PAIRS_MAX; i++) {
		snprintf(name, sizeof(name), "w%u", i);
		cut = add(name, name, CAUSE_BUSY, 0, 1, 10);
	}
	assert_true(cut);
	assert_false(c.v[c.n - 1].named);
	/* Of the same processes, which have no more room */
	memcpy(row.process, c.v[c.n - 1].process, sizeof(row.process));
	cut = false;
	assert_int_equal(causes_add(&c, &row, &cut), 0);
	assert_true(cut);
	causes_clear(&c);
	assert_int_equal(c.pairs[CAUSE_BLAME].n, 0);
	assert_false(add("a", "x", CAUSE_BUSY, 0, 1, 100));
	flush();
	assert_int_equal(sum_of("a", "x", "blame").ns, 100);
}

/* What was cleared is in no window. */
static void test_clear(void **state)
{
	(void)state;
	add("a", "x", CAUSE_BUSY, 0, 1, 100);
	add("b", "x", CAUSE_UNKNOWN, 0, 1, 100);
	causes_clear(&c);
	add("b", "y", CAUSE_BUSY, 0, 2, 30);
	flush();
	assert_int_equal(sum_of("b", "y", "waker").ns, 30);
	assert_int_equal(read_window(NULL).ns, 30);
}

/* A pair with few samples takes what those of the same thread, else of its program, stand for. */
static void test_levels(void **state)
{
	(void)state;
	add("a", "x", CAUSE_IDLE, 1, 20, 2000);
	add("a", "y", CAUSE_BUSY, 1, 7, 700);
	add("a", "y", CAUSE_UNKNOWN, 0, 270, 27000);
	add("b", "y", CAUSE_UNKNOWN, 0, 1, 99);
	flush();
	assert_int_equal(sum_of("a", "y", "waker.idle").ns, 27000 * 20 / 27);
	assert_int_equal(sum_of("a", "y", "waker").ns, 700 + 27000 * 7 / 27);
	assert_int_equal(sum_of("b", "y", "waker.idle").ns, 99); /* one wait is not divided */
	assert_int_equal(sum_of("b", "y", "waker").ns, 0);
}

/* A wait that was sampled for others counts for them, who was running does not. */
static void test_weight(void **state)
{
	(void)state;
	to.weight = 3;
	add("a", "x", CAUSE_BUSY, 0, 2, 20);
	add("a", "x", CAUSE_IDLE, 0, 5, 50);
	added = CAUSE_BLAME;
	add("a", "x", CAUSE_BUSY, 0, 2, 20);
	flush();
	to.weight = 1;
	assert_int_equal(sum_of("a", "x", "waker").n, 6);
	assert_int_equal(sum_of("a", "x", "waker.idle").n, 15);
	assert_int_equal(sum_of("a", "x", "blame").n, 2);
	assert_int_equal(read_window(NULL).ns, 90);
}

/* Waits that cannot be stored are counted, those of each event. */
static void test_failed(void **state)
{
	const struct causes_store sound = to;
	struct causes_result r;
	(void)state;
	for (int idle = 0; idle < 2; idle++) {
		to = sound;
		*(idle ? &to.waker_idle : &to.waker) = 12345; /* no event */
		add("a", "x", CAUSE_BUSY, 0, 3, 30);
		add("a", "x", CAUSE_IDLE, 0, 5, 50);
		add("b", "x", CAUSE_IDLE, 0, 7, 70);
		causes_flush(&c, &to, &r);
		assert_int_equal(r.failed, idle ? 12 : 3);
		causes_clear(&c);
	}
	to = sound;
}

/* Of samples that took no time, no part of the time is idle. */
static void test_no_time(void **state)
{
	(void)state;
	add("z", "x", CAUSE_IDLE, 1, 8, 0);
	add("z", "x", CAUSE_BUSY, 1, 8, 0);
	add("z", "x", CAUSE_UNKNOWN, 0, 100, 1000);
	flush();
	assert_int_equal(sum_of("z", "x", "waker.idle").ns, 0);
	assert_int_equal(sum_of("z", "x", "waker").ns, 1000);
	assert_int_equal(read_window(NULL).n, 116);
}

static void test_without_samples(void **state)
{
	(void)state;
	add("a", "x", CAUSE_UNKNOWN, 0, 10, 1000);
	add("a", NULL, CAUSE_UNKNOWN, 0, 10, 500);
	flush();
	assert_int_equal(sum_of("a", "x", "waker").ns, 1000);
	assert_int_equal(sum_of("a", "(other)", "waker").ns, 500);
}

/* Many small pairs come first: the large ones keep their names, and no time is lost. */
static void test_largest_pairs(void **state)
{
	uint64_t small = 0;
	char name[20];
	(void)state;
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		assert_false(add(name, "x", CAUSE_BUSY, 0, 1, 10 + i % 7));
		small += 10 + i % 7;
	}
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "l%u", i);
		assert_false(add(name, "y", CAUSE_BUSY, 0, 3, 1000000));
	}
	struct causes_result r = flush();
	assert_int_equal(sum_of("l0", "y", "waker").ns, 1000000);
	assert_int_equal(sum_of("l99", "y", "waker").ns, 1000000);
	struct window v = read_window(NULL);
	assert_int_equal(v.ns, small + 100 * 1000000);
	assert_int_equal(v.n, 2000 + 300);
	assert_true(v.pairs > 100 && v.pairs <= CAUSES_PAIRS);
	assert_int_equal(r.cut[CAUSE_WAKER], 2100 - v.pairs);
	assert_int_equal(r.cut[CAUSE_BLAME], 0);
}

/* More rows than there is room for: no time is lost, and of those that came first all is known. */
static void test_full(void **state)
{
	uint64_t ns = 0;
	char name[20];
	(void)state;
	add("early", "x", CAUSE_BUSY, 0, 1, 1000000);
	for (unsigned i = 0; i < CAUSES_MAX + 1000; i++, ns += 3) {
		snprintf(name, sizeof(name), "w%u", i);
		add(name, NULL, CAUSE_BUSY, 0, 1, 3);
	}
	assert_true(add("late", "x", CAUSE_BUSY, 0, 1, 5));
	lock = LOCK_ID_OTHER; /* no lock is told apart any more */
	for (lock_end = 1; lock_end <= 4; lock_end++)
		assert_true(add("late", "x", CAUSE_BUSY, 0, 1, 7));
	lock = lock_end = 0;
	flush();
	assert_int_equal(sum_of("early", "x", "waker").ns, 1000000);
	assert_int_equal(sum_of("(other)", "(other)", "waker").ns, 3 * 1001 + 5 + 4 * 7);
	assert_int_equal(read_window(NULL).ns, 1000000 + ns + 5 + 4 * 7);
}

/* ---- locks ---- */

static struct procs *procs;
static struct resolver *resolver;

static int set_up_locks(void **state)
{
	struct err warning = { 0 };
	int rc = set_up(state);
	assert_int_equal(procs_new(&procs, NULL), 0);
	assert_int_equal(resolver_new(&resolver, w, NULL, procs, &warning), 0);
	assert_int_equal(locks_new(&to.locks, procs, resolver), 0);
	return rc;
}

static int tear_down_locks(void **state)
{
	locks_free(to.locks);
	resolver_free(resolver);
	procs_free(procs);
	to.locks = NULL;
	lock = lock_end = 0;
	return tear_down(state);
}

/* Of a process that has gone: a lock is called by its address. */
static uint32_t lock_at(uint64_t futex, enum lock_kind kind)
{
	const struct proc_id id = { .start_ns = 5, .tgid = 4000000, .exec_id = 1 };
	bool known = false;
	uint32_t ret = locks_id(to.locks, &id, futex, 1000, &known);
	assert_true(ret >= LOCK_ID_FIRST && known);
	locks_note_kind(to.locks, ret, kind);
	return ret;
}

/* Samples of a lock say which part of its waits was idle, whoever waits. A wait for work is. */
static void test_locks(void **state)
{
	(void)state;
	const uint32_t mutex = lock_at(0x1000, LOCK_MUTEX), work = lock_at(0x2000, LOCK_CONDVAR);
	lock = mutex;
	lock_end = LOCK_END_RELEASED;
	add("a", "x", CAUSE_IDLE, 1, 1, 300);
	add("a", "x", CAUSE_BUSY, 1, 1, 100);
	add("b", "y", CAUSE_UNKNOWN, 0, 100, 4000);
	/* Its own pair has enough samples, but those of the lock come first */
	lock = 0;
	add("b", "y", CAUSE_BUSY, 1, 20, 2000);
	add("b", "y", CAUSE_UNKNOWN, 0, 10, 500);
	lock = work;
	add("c", "y", CAUSE_UNKNOWN, 0, 7, 70);
	lock = lock_at(0x3000, LOCK_NONE);
	add("d", "y", CAUSE_UNKNOWN, 0, 7, 71);
	added = CAUSE_BLAME; /* who ran has no lock */
	add("e", "y", CAUSE_UNKNOWN, 0, 7, 72);
	struct causes_result r = flush();
	assert_int_equal(r.locks_cut, 0);
	assert_int_equal(sum_of("b", "y", "waker.idle").ns, 3000);
	assert_int_equal(sum_of("b", "y", "waker").ns, 1000 + 2000 + 500);
	assert_int_equal(sum_of("c", "y", "waker.idle").ns, 70);
	assert_int_equal(sum_of("c", "y", "waker.idle").n, 7);
	assert_int_equal(sum_of("d", "y", "waker").ns, 71);
	assert_int_equal(sum_of("e", "y", "blame").ns, 72);
}

struct labels {
	char text[8][200];
	size_t n;
};

static int note_labels(void *ctx, const struct label *labels, size_t n, uint32_t *ret)
{
	struct labels *v = ctx;
	char *out = v->text[v->n++];
	for (size_t i = 0; i < n; i++)
		out += sprintf(out, "%.*s=%.*s ", (int)labels[i].key_len, labels[i].key,
			       (int)labels[i].str_len, labels[i].str);
	*ret = 0;
	return 0;
}

static int skip_rows(void *ctx, const struct store_row *rows, size_t n)
{
	(void)ctx, (void)rows, (void)n;
	return 0;
}

/* Labels of locks win over those of a program. Of more locks than are named the rest is (other). */
static void test_lock_labels(void **state)
{
	struct store_cover cover;
	struct labels v = { .n = 0 };
	struct err err = { 0 };
	struct store *s;
	const struct store_reading how = {
		.set = note_labels, .group = wanted, .rows = skip_rows, .ctx = &v
	};
	(void)state;
	for (unsigned i = 0; i < LOCKS_NAMED + 3; i++) {
		/* Some with as much time: the first ones keep their names */
		lock = lock_at(0x1000 + 8ull * i, LOCK_MUTEX);
		lock_end = LOCK_END_RELEASED;
		add("a", "x", CAUSE_BUSY, 0, 2, i < 3 ? 10 : 5);
	}
	struct causes_result r = flush();
	assert_int_equal(r.locks_cut, 3 * 2);
	causes_clear(&c);
	locks_window(to.locks);
	lock = lock_at(0x1008, LOCK_MUTEX);
	add("a", "lone", CAUSE_BUSY, 0, 1, 5);
	lock = LOCK_ID_OTHER;
	add("b", "lone", CAUSE_UNKNOWN, 0, 1, 5);
	lock = 0;
	lock_end = 0;
	add("c", "lone", CAUSE_BUSY, 0, 1, 5);
	r = (struct causes_result){ 0 };
	struct store_totals totals = { 0 };
	causes_flush(&c, &to, &r);
	assert_int_equal(r.locks_cut, 1);
	assert_int_equal(store_commit_window(w, 2000, 3000, 3000, &totals, &err), 0);
	assert_int_equal(store_open(&s, dir, &err), 0);
	assert_int_equal(store_cover(s, 2000, 3000, STORE_ALL_LABELS, NULL, 0, &cover, &err), 0);
	assert_int_equal(store_block_read(s, cover.blocks[0], &how, &err), 0);
	assert_int_equal(v.n, 3);
	static const char *const want[] = {
		"by.comm=lone comm=a lock.by=holder lock.kind=mutex lock.name=0x1008 of 4000000 ",
		"by.comm=lone comm=b lock.by=waker lock.kind=futex lock.name=(other) ",
		"by.comm=lone comm=c ",
	};
	for (size_t i = 0; i < 3; i++) {
		bool found = false;
		for (size_t k = 0; k < 3; k++)
			found |= !strcmp(v.text[k], want[i]);
		if (!found)
			fail_msg("%s; %s; %s", v.text[0], v.text[1], v.text[2]);
	}
	store_cover_free(&cover);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_divided, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_thinned, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pairs_apart, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_many_pairs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_clear, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_levels, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_weight, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_failed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_without_samples, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_largest_pairs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_locks, set_up_locks, tear_down_locks),
		cmocka_unit_test_setup_teardown(test_lock_labels, set_up_locks, tear_down_locks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
