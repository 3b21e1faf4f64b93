/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes stores of others, or replaces one: snapshot, merge, delete, the rewriting of format 2.
 * At sampled calls it is killed, or the call fails. A store that was there is then as it was or as
 * it should become, whole. A new name stands for the whole new store or is not there. Another try
 * brings the result.
 */
#include "fault/faults.h"
#include "fault/run.h"
#include "store/writer.h"
#include "unit/digest.h"

#include "store/file/tree.h"
#include "store/old/old.h"
#include "store/ops/copy.h"

#include <signal.h>

#define N_WINDOWS 12

/* ---- the stores ---- */

struct place {
	char base[64]; /* of the run: what fails is below it */
	char a[96], b[96], new[96];
	bool old; /* a is one of format 2 */
};

static struct place templates; /* b is one of format 2 */
static bool has_old;

static void name_place(struct place *p)
{
	temp_dir(p->base);
	snprintf(p->a, sizeof(p->a), "%s/a", p->base);
	snprintf(p->b, sizeof(p->b), "%s/b", p->base);
	snprintf(p->new, sizeof(p->new), "%s/new", p->base);
}

static void make_templates(void)
{
	struct model m = { .random = 5 };
	struct store_writer *w;
	struct err err = { 0 };
	char command[300];
	name_place(&templates);
	if (store_writer_open_with(&w, templates.a, &model_meta, &model_options, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < N_WINDOWS; i++)
		assert_int_equal(model_commit(&m, w, 20, &err), 0);
	store_writer_close(w);
	model_fini(&m);
	snprintf(command, sizeof(command), "python3 tests/tools/old_store.py %s >/dev/null 2>&1",
		 templates.b);
	has_old = !system(command);
}

static void copy_store(const char *from, const char *to)
{
	char command[300];
	snprintf(command, sizeof(command), "cp -a %s %s", from, to);
	assert_int_equal(system(command), 0);
}

/* ---- the operations ---- */

static int is_t1(void *ctx, const struct label *labels, size_t n, bool *ret)
{
	(void)ctx;
	*ret = false;
	for (size_t i = 0; i < n; i++)
		*ret |= labels[i].key_len == 6 && !memcmp(labels[i].key, "tenant", 6) &&
			labels[i].str_len == 2 && !memcmp(labels[i].str, "t1", 2);
	return 0;
}

static int run_snapshot(const struct place *p, struct err *err)
{
	struct snapshot_result r;
	return store_snapshot(p->a, p->new, NULL, &r, err);
}

static int run_merge(const struct place *p, struct err *err)
{
	const char *const from[] = { p->a, p->b };
	struct copy_result r;
	return store_merge(from, 2, p->new, NULL, &r, err);
}

static int run_delete(const struct place *p, struct err *err)
{
	const struct store_deletion d = { .from_ns = INT64_MIN,
					  .to_ns = INT64_MAX,
					  .matches = is_t1 };
	struct copy_result r;
	return store_delete(p->a, &d, NULL, &r, err);
}

static int run_rewrite(const struct place *p, struct err *err)
{
	struct store_conversion r;
	if (p->old)
		return store_rewrite(p->a, &r, err);
	store_rewrite_clean(p->a);
	return 0;
}

static const struct operation {
	const char *name;
	int (*run)(const struct place *p, struct err *err);
	bool old;      /* a is a store of format 2 */
	bool in_place; /* the result is a, not new */
	bool resumes;  /* what is left of a try is no concern of the caller */
} operations[] = {
	{ "snapshot", run_snapshot, false, false, false },
	{ "merge", run_merge, false, false, false },
	{ "delete", run_delete, false, true, false },
	{ "rewrite", run_rewrite, true, true, true },
};
#define N_OPERATIONS (sizeof(operations) / sizeof(operations[0]))

static void begin(const struct operation *o, struct place *p)
{
	name_place(p);
	copy_store(o->old ? templates.b : templates.a, p->a);
	copy_store(templates.a, p->b);
	p->old = store_is_old(p->a);
}

/* The digest of a store that may be one of format 2, which is converted for that. */
static const char *digest_any(const char *dir, struct digest *ret)
{
	static char wrong[700];
	char base[64], to[96];
	struct store_conversion c;
	struct err err = { 0 };
	if (!store_is_old(dir))
		return digest(dir, ret);
	snprintf(to, sizeof(to), "%s/converted", temp_dir(base));
	const char *bad = NULL;
	if (store_convert(dir, to, true, &c, &err))
		snprintf(wrong, sizeof(wrong), "%s", err.text), bad = wrong;
	bad = bad ? bad : digest(to, ret);
	remove_tree(base);
	return bad;
}

/* ---- one run ---- */

struct expected {
	struct digest before, after; /* of a; of the result */
	long calls, names;	     /* all; those that make, change or remove names */
};

/* What stands under the names that count. *ret_done: the result. */
static const char *judge(const struct operation *o, const struct place *p, const struct expected *e,
			 bool *ret_done)
{
	struct digest d;
	const char *bad = digest_any(p->a, &d);
	*ret_done = o->in_place && same_digest(&d, &e->after) && !store_is_old(p->a);
	if (bad)
		return bad;
	if (!same_digest(&d, &e->before) && !*ret_done)
		return "the store is neither as it was nor as it should become";
	bad = digest(p->b, &d);
	if (bad || o->in_place || access(p->new, F_OK))
		return bad;
	bad = digest(p->new, &d);
	*ret_done = !bad && same_digest(&d, &e->after);
	return bad ? bad : *ret_done ? NULL : "something half-made has the final name";
}

static bool is_marked(const char *tmp)
{
	char path[120];
	struct stat st;
	snprintf(path, sizeof(path), "%s/lock", tmp);
	return !stat(path, &st) && st.st_size;
}

static const char *try_again(const struct operation *o, struct place *p, const struct expected *e)
{
	char tmp[110];
	struct err err = { 0 };
	struct digest d;
	bool done;
	const char *bad = judge(o, p, e, &done);
	snprintf(tmp, sizeof(tmp), "%s.tmp", o->in_place ? p->a : p->new);
	if (o->resumes && !access(tmp, F_OK))
		return "something is left beside the store";
	/* What a killed process left is removed by the next, unless the mark was not there yet. */
	if (!bad && !access(tmp, F_OK) && (done || !is_marked(tmp)) && tree_remove(tmp))
		bad = "what was left cannot be removed";
	if (bad || (done && !o->resumes))
		return bad;
	p->old = store_is_old(p->a);
	if (o->run(p, &err))
		return "the next try fails";
	bad = digest(o->in_place ? p->a : p->new, &d);
	return bad ? bad : same_digest(&d, &e->after) ? NULL : "the next try has another result";
}

static bool is_left(const struct operation *o, const struct place *p)
{
	char path[120];
	snprintf(path, sizeof(path), "%s%s", o->in_place ? p->a : p->new,
		 o->resumes ? "/rewriting" : ".tmp");
	return !access(path, F_OK);
}

/* Call `at` of these kinds fails with this error, 0: kills. */
static const char *one(const struct operation *o, const struct expected *e, unsigned int calls,
		       long at, int error)
{
	static char text[900];
	struct place p;
	struct err err = { 0 };
	bool done = false;
	int status = 0, rc = 0;
	begin(o, &p);
	pid_t child = fork();
	if (!child) {
		faults_below(p.base);
		faults = (struct faults){
			.calls = calls, .at = at, .times = 1, .error = error, .kill = !error
		};
		rc = o->run(&p, &err);
		_exit(!rc ? 0 : err.text[0] ? 1 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	const char *bad = judge(o, &p, e, &done);
	if (!bad && error && (!WIFEXITED(status) || WEXITSTATUS(status) > 1))
		bad = "it fails without a word";
	if (!bad && error && WIFEXITED(status) && !WEXITSTATUS(status) && !done)
		bad = "it says that it is done, and is not";
	if (!bad && error && !done && is_left(o, &p))
		bad = "a failure leaves something behind";
	bad = bad ? bad : try_again(o, &p, e);
	if (bad)
		snprintf(text, sizeof(text), "%s, call %ld of %ld, %s: %.700s", o->name, at,
			 calls == FAULT_NAME ? e->names : e->calls,
			 error ? strerror(error) : "killed", bad);
	remove_tree(p.base);
	return bad ? text : NULL;
}

/* Once without failures: what is expected, and how many of these calls there are. */
static long measure(const struct operation *o, unsigned int calls, struct expected *ret)
{
	struct place p;
	struct err err = { 0 };
	begin(o, &p);
	assert_null(digest_any(p.a, &ret->before));
	faults_below(p.base);
	faults = (struct faults){ .calls = calls };
	if (o->run(&p, &err))
		fail_msg("%s: %s", o->name, err.text);
	long n = faults.n;
	faults.calls = 0;
	assert_null(digest(o->in_place ? p.a : p.new, &ret->after));
	remove_tree(p.base);
	return n;
}

static size_t n_bad;

static void try_one(const struct operation *o, const struct expected *e, unsigned int calls,
		    long at, int error)
{
	const char *bad = one(o, e, calls, at, error);
	if (bad && !n_bad++)
		print_message("%s\n", bad);
}

static void interrupted(void **state)
{
	static const int errors[] = { 0, EIO, ENOSPC };
	(void)state;
	make_templates();
	for (size_t i = 0; i < N_OPERATIONS; i++) {
		const struct operation *o = &operations[i];
		struct expected e;
		size_t places = 0, runs = 0;
		if (o->old && !has_old) {
			print_message("%s: no python3 to make a store of format 2\n", o->name);
			continue;
		}
		e.calls = measure(o, FAULT_ALL, &e);
		e.names = measure(o, FAULT_NAME, &e);
		long step = (long)run_step((size_t)e.calls / 12 + 1, 1), few = (long)run_step(2, 1);
		for (long at = 1 + (long)run_offset((size_t)step); at <= e.calls;
		     at += step, places++)
			for (size_t k = 0; k < 3; k++, runs++)
				try_one(o, &e, FAULT_ALL, at, errors[k]);
		/* Between two of these a store has two states: more of them than of all. */
		for (long at = 1 + (long)run_offset((size_t)few); at <= e.names; at += few, runs++)
			try_one(o, &e, FAULT_NAME, at, 0);
		print_message("%s: %zu runs, at %zu of %ld calls\n", o->name, runs, places,
			      e.calls);
		assert_true(e.calls > 20 && runs >= 3 * ((size_t)(e.calls / step)));
	}
	remove_tree(templates.base);
	assert_int_equal(n_bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interrupted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
