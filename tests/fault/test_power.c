/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss of power. A program that writes a store is recorded call by call. At every call the disk is
 * rebuilt as a loss of power may leave it, read, and gone on with by a writer. The same program
 * built without its syncs must not pass.
 */
#include "fault/disk.h"
#include "fault/run.h"
#include "fault/scenario.h"

#include <xxhash.h>

static char base[64];
static struct scenario scenario;

/* Recorded runs are of one window less than the scenario has: that one is for who goes on. */
static void record_run(const char *program, const char *log)
{
	char dir[80], first[] = "0", count[16], all[16], rows[] = "8";
	snprintf(dir, sizeof(dir), "%s/store", base);
	snprintf(count, sizeof(count), "%zu", scenario.m.n - 1);
	snprintf(all, sizeof(all), "%zu", scenario.m.n);
	fflush(NULL);
	pid_t child = fork();
	if (!child) {
		char *const argv[] = { (char *)program, dir, first, count, all, rows, NULL };
		setenv("FAULT_ROOT", base, 1);
		setenv("FAULT_LOG", log, 1);
		setenv("LD_PRELOAD", FAULT_RECORDER, 1);
		int null = open("/dev/null", O_WRONLY);
		dup2(null, STDOUT_FILENO);
		execv(program, argv);
		_exit(127);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

#define LEAST 12	     /* rounds at each operation */
#define JUDGED_MAX (1 << 23) /* more than are judged of one log */

struct replay {
	struct log log;
	size_t rounds; /* of LOSS_ANY at each operation, as time allows */
	double begin;
	size_t cuts;	  /* of a write, at most */
	uint64_t *judged; /* [JUDGED_MAX], shared: states, 0: none */
	struct {
		size_t states, bad, prefix, certain, cut, any;
		char first[1000];
	} *sum; /* [processes] */
};

struct place {
	size_t at; /* operations done */
	bool must[SCENARIO_MAX], may[SCENARIO_MAX];
	size_t n_acknowledged;
};

/* "+I" of the program: window I is durable. The next one may be on its way. */
static void hear(struct place *p, const struct op *o)
{
	if (o->kind != OP_ACK)
		return;
	assert_int_equal(o->data[0], '+');
	size_t i = strtoul((const char *)o->data + 1, NULL, 10);
	assert_int_equal(i, p->n_acknowledged);
	p->must[i] = p->may[i] = true;
	p->may[i + 1] = true;
	p->n_acknowledged++;
}

/*
 * Is it new? Many losses leave the same files: beside the same acknowledged windows they are judged
 * the same, so once is enough. A process marks what it is about to judge.
 */
static bool is_new(struct replay *r, uint64_t state)
{
	state |= 1;
	for (size_t i = state >> 1;; i++) {
		uint64_t *at = &r->judged[i % JUDGED_MAX], there = 0;
		if (__atomic_compare_exchange_n(at, &there, state, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return true;
		if (there == state)
			return false;
	}
}

/* next: the window that a writer goes on with. */
static void judge_left(struct replay *r, const struct place *p, const struct disk *d, size_t k,
		       size_t next, const char *how)
{
	bool here[SCENARIO_MAX];
	char dir[80], store[90];
	const uint64_t state[] = { disk_left(d), p->n_acknowledged, next };
	if (!is_new(r, XXH3_64bits(state, sizeof(state))))
		return;
	snprintf(dir, sizeof(dir), "%s.%zu", base, k);
	snprintf(store, sizeof(store), "%s/store", dir);
	disk_put(d, dir);
	const char *bad = scenario_judge(&scenario, store, p->must, p->may, here), *where = "read";
	if (!bad) {
		where = "gone on with";
		bad = scenario_go_on(&scenario, store, here, here, next);
	}
	r->sum[k].states++;
	if (bad && !r->sum[k].bad++)
		snprintf(r->sum[k].first, sizeof(r->sum[k].first),
			 "behind call %zu of %zu, %s, %zu acknowledged, %s: %.600s", p->at,
			 r->log.n, how, p->n_acknowledged, where, bad);
	remove_tree(dir);
}

/*
 * Where to cut a write: in the middle, before its last byte, behind its first, and at the borders
 * of sectors. 0: no more places.
 */
static size_t cut_at(const struct op *o, size_t i, size_t cuts)
{
	if (i < 3)
		return i == 0 ? o->len / 2 : i == 1 ? o->len - 1 : 1;
	size_t step = o->len / 512 > cuts ? o->len / 512 / cuts : 1;
	size_t at = 512 - o->offset % 512 + 512 * step * (i - 3);
	return i - 3 < cuts && at < o->len ? at : 0;
}

/*
 * Is there time for more? Of ASCRIBE_FAULT_SECONDS each place has the same part, and what places
 * before left. Without there is no limit.
 */
static bool in_time(const struct replay *r, const struct place *p)
{
	const char *seconds = getenv("ASCRIBE_FAULT_SECONDS");
	return !seconds || (run_seconds() - r->begin) * (double)(r->log.n + 1) <
				   strtod(seconds, NULL) * (double)(p->at + 1);
}

static void judge_place(struct replay *r, struct place *p, struct disk *d, size_t k)
{
	uint64_t random = 31 * p->at + 7 + 1000003 * run_offset(1000000);
	/*
	 * The last window of all completes parents of all that is there, which takes most of the
	 * time: behind reorderings comes the next window but one. The next one may be there.
	 */
	const size_t all = scenario.m.n - 1,
		     near = p->n_acknowledged + 1 < all ? p->n_acknowledged + 1 : all;
	/*
	 * Nothing that a sync changes is new when nothing is lost, and nothing else when all is
	 * lost that can be.
	 */
	const enum op_kind last = p->at ? r->log.ops[p->at - 1].kind : OP_ACK;
	const bool synced = last == OP_SYNC || last == OP_SYNC_DIR;
	/*
	 * Without reliability-full cuts and reorderings are of some of the places, others each day.
	 */
	const bool sampled = !run_full() && p->at / 32 % 8 != run_offset(8);
	if (!synced) {
		disk_lose(d, LOSS_NONE, 0, NULL);
		judge_left(r, p, d, k, all, "nothing lost");
		r->sum[k].prefix++;
	}
	if (synced || last == OP_ACK) {
		disk_lose(d, LOSS_ALL, 0, NULL);
		judge_left(r, p, d, k, all, "all lost that was not certain");
		r->sum[k].certain++;
	}
	for (size_t i = 0; !sampled && p->at && i < r->cuts + 3; i++) {
		size_t cut = cut_at(&r->log.ops[p->at - 1], i, r->cuts);
		if (!cut || !disk_lose(d, LOSS_CUT, cut, NULL))
			break;
		judge_left(r, p, d, k, all, "the last write cut");
		r->sum[k].cut++;
	}
	for (size_t i = 0; !sampled && i < r->rounds && (i < LEAST || in_time(r, p)); i++) {
		disk_lose(d, LOSS_ANY, 0, &random);
		judge_left(r, p, d, k, near, "any part lost");
		r->sum[k].any++;
	}
}

/* One call in so many is a place where power is lost; another one each day. */
static size_t part;

static void replay_some(void *ctx, size_t k, size_t n)
{
	size_t chosen = run_offset(part);
	struct replay *r = ctx;
	struct disk *d = disk_new(&r->log);
	static struct place p;
	p.may[0] = true;
	for (p.at = 0; p.at <= r->log.n; p.at++) {
		if (p.at % n == k && p.at / n % part == chosen)
			judge_place(r, &p, d, k);
		if (p.at == r->log.n)
			break;
		hear(&p, &r->log.ops[p.at]);
		disk_step(d);
	}
	disk_free(d);
}

/* How many states are bad; the first of each process is printed. */
static size_t replay(struct replay *r, const char *name)
{
	size_t n = 8 * sizeof(*r->sum), states = 0, bad = 0, v[4] = { 0 };
	r->begin = run_seconds();
	r->sum = run_shared(n);
	r->judged = run_shared(JUDGED_MAX * sizeof(*r->judged));
	assert_true(r->sum && r->judged);
	int crashed = run_parallel(replay_some, r);
	for (size_t k = 0; k < 8; k++) {
		states += r->sum[k].states;
		bad += r->sum[k].bad;
		v[0] += r->sum[k].prefix, v[1] += r->sum[k].certain, v[2] += r->sum[k].cut,
			v[3] += r->sum[k].any;
		if (r->sum[k].bad)
			print_message("  %s\n", r->sum[k].first);
	}
	double took = run_seconds() - r->begin;
	print_message("%s: %zu calls; %zu prefixes, %zu of what is certain, %zu cut writes, "
		      "%zu reorderings; %zu states that differ, each judged, %zu bad; %.0f/s\n",
		      name, r->log.n, v[0], v[1], v[2], v[3], states, bad, (double)states / took);
	munmap(r->judged, JUDGED_MAX * sizeof(*r->judged));
	munmap(r->sum, n);
	assert_int_equal(crashed, 0);
	return bad;
}

static size_t lose_power(const char *program, size_t rounds, size_t cuts)
{
	char log[80], store[80];
	struct replay r = { .rounds = rounds, .cuts = cuts };
	snprintf(log, sizeof(log), "%s.log", temp_dir(base));
	record_run(program, log);
	log_read(&r.log, log, base);
	/* What the replay says is there must be there: no call went past the recorder. */
	struct disk *d = disk_new(&r.log);
	size_t acknowledged = 0;
	for (size_t i = 0; i < r.log.n; i++) {
		disk_step(d);
		acknowledged += r.log.ops[i].kind == OP_ACK;
	}
	const char *differs = disk_differs(d, base);
	if (differs)
		fail_msg("%s", differs);
	assert_int_equal(acknowledged, scenario.m.n - 1);
	disk_free(d);
	snprintf(store, sizeof(store), "%s", strrchr(program, '/') + 1);
	remove_tree(base);
	size_t bad = replay(&r, store);
	unlink(log);
	log_free(&r.log);
	return bad;
}

static void power_loss(void **state)
{
	(void)state;
	scenario_make(&scenario, 36, 8);
	assert_int_equal(lose_power(FAULT_WRITER, run_size(2, 1300), run_size(1, 16)), 0);
	scenario_fini(&scenario);
}

/* Each of the syncs is needed: of the contents of logs, of whole files, of directories. */
static void power_loss_without_sync(void **state)
{
	(void)state;
	static const char *const programs[] = { FAULT_WRITER "-no-fdatasync",
						FAULT_WRITER "-no-fsync",
						FAULT_WRITER "-no-dirsync" };
	scenario_make(&scenario, 12, 8);
	for (size_t i = 0; i < 3; i++)
		assert_true(lose_power(programs[i], run_size(2, 4), 0) > 0);
	scenario_fini(&scenario);
}

int main(void)
{
	part = part_of("places", 4);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(power_loss),
		cmocka_unit_test(power_loss_without_sync),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
