/* SPDX-License-Identifier: Apache-2.0 */
/* Which locks threads waited for, against sums of the rows that were put in. */
#include "unit/store_model.h"

#include "query/locks.h"

#define ROWS 250
#define T0 1700000000000000000ll

enum { WAKER, IDLE, OTHER, N_EVENTS };
static const struct store_event events[N_EVENTS] = {
	{ "waker", "nanoseconds", 0, 0 },
	{ "waker.idle", "nanoseconds", 0, 0 },
	{ "off-cpu", "nanoseconds", 0, 0 },
};

/* As it was put in; "" where there is no label. */
struct row {
	uint32_t event;
	char tenant[8], by[8], comm[16], is[12], kind[12], name[12];
	char stack[120]; /* its functions from the leaf to the root, "" for a mark */
	uint64_t ns;
};

struct given {
	struct row v[ROWS];
	char dir[64];
	struct store *s;
};

static void add_label(char *text, const char *key, const char *value)
{
	if (*value)
		sprintf(text + strlen(text), "%s=%s\n", key, value);
}

static void choose(struct model *m, char *to, const char *const *from, uint32_t n)
{
	strcpy(to, from[model_random(m, n)]);
}

/* A stack by its number: as text for the store, and what each function is called. */
static void draw_stack(struct model *m, char *text, char *functions)
{
	uint32_t what = model_random(m, 8), program = model_random(m, 3), line = model_random(m, 3);
	*functions = 0;
	if (!what) {
		strcpy(text, model_random(m, 2) ? "[no stack] () 1 0\n" : "[interrupt] () 1 0\n");
		return;
	}
	sprintf(text, "main (/bin/demo) 0 %u\nserve%u (/bin/demo) 0 %u\n", line, program,
		model_random(m, 3));
	if (what < 4)
		sprintf(text + strlen(text), "pthread_mutex_unlock (/lib/libc.so.6) 0 0\n");
	if (what < 3)
		sprintf(text + strlen(text), "futex_wake (vmlinux) 1 0\n");
	sprintf(functions, "%sserve%u main ", what < 4 ? "pthread_mutex_unlock " : "", program);
	if (what < 3)
		strcat(functions, "+"); /* of the kernel: not shown, but another stack */
}

static void draw_row(struct model *m, struct row *r, char *labels, char *stack)
{
	static const char *const tenants[] = { "", "t0", "t1", "t2" },
				 *const comms[] = { "sh", "postgres", "(idle)", "(interrupt)" },
				 *const is[] = { "holder", "waker" },
				 *const kinds[] = { "", "mutex", "rwlock" },
				 *const names[] = { "", "pool", "queue" };
	*r = (struct row){ .event = model_random(m, N_EVENTS),
			   .ns = 1 + model_random(m, 1u << 30) };
	choose(m, r->tenant, tenants, 4);
	choose(m, r->by, tenants, 4);
	choose(m, r->comm, comms, 4);
	choose(m, r->is, is, 2);
	choose(m, r->kind, kinds, 3);
	choose(m, r->name, names, 3);
	*labels = 0;
	add_label(labels, "by.comm", r->comm);
	add_label(labels, "by.tenant", r->by);
	add_label(labels, "lock.by", r->is);
	add_label(labels, "lock.kind", r->kind);
	add_label(labels, "lock.name", r->name);
	add_label(labels, "tenant", r->tenant);
	draw_stack(m, stack, r->stack);
}

static int setup(void **state)
{
	struct given *g = calloc(1, sizeof(*g));
	struct model m = { .random = 5 };
	struct store_writer *w;
	struct err err = { 0 };
	uint32_t id[N_EVENTS], set, stack;
	char labels[200], text[300];
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(g->dir), &model_meta, &model_options, &err), 0);
	for (unsigned e = 0; e < N_EVENTS; e++)
		assert_int_equal(store_add_event(w, &events[e], &id[e]), 0);
	for (size_t i = 0; i < ROWS; i++) {
		struct row *r = &g->v[i];
		draw_row(&m, r, labels, text);
		assert_int_equal(model_put_set(w, labels, &set), 0);
		assert_int_equal(model_put_stack(w, text, &stack), 0);
		assert_int_equal(store_add_row(w, set, stack, id[r->event], 1, r->ns), 0);
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	g->s = open_store(g->dir);
	*state = g;
	return 0;
}

static int teardown(void **state)
{
	struct given *g = *state;
	store_close(g->s);
	remove_tree(g->dir);
	free(g);
	return 0;
}

/* ---- the oracle ---- */

static const char *victim_of(const struct row *r)
{
	return *r->tenant ? r->tenant : "(none)";
}

/* The recorder's own words are who it was only where there is no label. */
static const char *waker_of(const struct row *r)
{
	return *r->by ? r->by : r->comm[0] == '(' ? r->comm : "(none)";
}

static bool counts(const struct row *r, bool idle, const char *tenant)
{
	return *r->kind && (r->event == WAKER || (idle && r->event == IDLE)) &&
	       (!tenant || !strcmp(r->tenant, tenant));
}

/* Rows with a label and the recorder's word for the comm have the label. So do rows of one comm. */
static bool is_of(const struct row *r, const struct query_lock *l)
{
	return !strcmp(victim_of(r), l->victim.name) && !strcmp(waker_of(r), l->by.name) &&
	       !strcmp(r->is, l->is) && !strcmp(r->kind, l->kind) &&
	       !strcmp(r->name, l->name ? l->name : "");
}

struct names {
	char text[200];
	int left; /* calls until it fails */
};

static int add_name(void *ctx, const char *function)
{
	struct names *n = ctx;
	sprintf(n->text + strlen(n->text), "%s ", function);
	return n->left-- ? 0 : -EIO;
}

static void check_stack(const struct store *s, const struct query_locks *q,
			const struct query_lock *l)
{
	struct names names = { .left = -1 };
	char name[60];
	if (!l->stack) {
		assert_int_equal(l->stack_ns, 0);
		return;
	}
	assert_int_equal(query_locks_frames(q, l->stack, add_name, &names), 0);
	assert_true(l->stack_ns > 0 && l->stack_ns <= l->ns);
	query_frame_name(s, l->frame, name, sizeof(name));
	assert_non_null(strstr(names.text, name));
	assert_memory_equal(name, "serve", 5);
	names = (struct names){ .left = 0 };
	assert_int_equal(query_locks_frames(q, l->stack, add_name, &names), -EIO);
	assert_true(strchr(names.text, ' ') == names.text + strlen(names.text) - 1);
}

/* Of rows of one waker's comm: that of the rows that the recorder's own words tell apart, not. */
static bool same_comm(const struct row *a, const struct row *b)
{
	return !strcmp(a->comm, b->comm);
}

/* The most time that rows of one comm have with one stack. */
static uint64_t most_of_stack(const struct given *g, const struct query_lock *l, bool idle,
			      const char *tenant, const struct row *first)
{
	uint64_t most = 0;
	for (size_t i = 0; i < ROWS; i++) {
		uint64_t ns = 0;
		for (size_t k = 0; k < ROWS; k++)
			if (counts(&g->v[k], idle, tenant) && is_of(&g->v[k], l) &&
			    same_comm(&g->v[k], first) && !strcmp(g->v[k].stack, g->v[i].stack))
				ns += g->v[k].ns;
		most = *g->v[i].stack && ns > most ? ns : most;
	}
	return most;
}

/* Rows of one name may be several, of wakers that differ in by.comm: one of them it is. */
static void check_row(const struct given *g, const struct query_lock *l, bool idle,
		      const char *tenant)
{
	bool found = false;
	for (size_t i = 0; i < ROWS && !found; i++) {
		uint64_t ns = 0;
		if (!counts(&g->v[i], idle, tenant) || !is_of(&g->v[i], l))
			continue;
		for (size_t k = 0; k < ROWS; k++)
			if (counts(&g->v[k], idle, tenant) && is_of(&g->v[k], l) &&
			    same_comm(&g->v[k], &g->v[i]))
				ns += g->v[k].ns;
		found = ns == l->ns && l->stack_ns == most_of_stack(g, l, idle, tenant, &g->v[i]);
	}
	assert_true(found);
	assert_int_equal(l->victim.ns, l->ns);
	assert_int_equal(l->by.ns, l->ns);
}

static void check(struct given *g, const char *where, const char *tenant, bool idle, size_t max)
{
	const struct query_spec spec = {
		.from_ns = INT64_MIN, .to_ns = INT64_MAX, .where = where, .idle = idle
	};
	struct query_locks *q;
	struct err err = { 0 };
	uint64_t all = 0, sum = 0;
	if (query_locks(&q, g->s, &spec, "tenant", max, &err))
		fail_msg("%s", err.text);
	for (size_t i = 0; i < ROWS; i++)
		all += counts(&g->v[i], idle, tenant) ? g->v[i].ns : 0;
	assert_int_equal(q->ns, all);
	assert_true(q->n_all > 3);
	assert_int_equal(q->n, q->n_all < max ? q->n_all : max);
	for (size_t i = 0; i < q->n_all; i++) {
		sum += q->v[i].ns;
		assert_true(!i || q->v[i - 1].ns >= q->v[i].ns);
		check_row(g, &q->v[i], idle, tenant);
		check_stack(g->s, q, &q->v[i]);
	}
	assert_int_equal(sum, all);
	query_locks_free(q);
}

/* However the selector is written: with braces or without, with blanks, a comma at its end. */
static void rows(void **state)
{
	static const char *const every[] = { NULL, "", " \t", "{}", " { } ", "{\n}" };
	static const char *const one[] = { "tenant=\"t1\"",	  " tenant=\"t1\"\n",
					   "{tenant=\"t1\"}",	  "{tenant=\"t1\",}",
					   "{ tenant=\"t1\" , }", " {tenant=\"t1\" } " };
	for (size_t i = 0; i < sizeof(every) / sizeof(every[0]); i++)
		check(*state, every[i], NULL, i % 2, i % 3 ? 3 : 10000);
	for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++)
		check(*state, one[i], "t1", i % 2, 10000);
	check(*state, NULL, NULL, false, 0);
}

/* Without memory all is in one row, and its time is that of all. */
static void bounded(void **state)
{
	struct given *g = *state;
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	struct query_locks *q;
	struct err err = { 0 };
	uint64_t all = 0, others = 0;
	for (size_t i = 0; i < ROWS; i++)
		all += counts(&g->v[i], false, NULL) ? g->v[i].ns : 0;
	store_limit(g->s, &(struct store_limits){ .bytes = 1 });
	assert_int_equal(query_locks(&q, g->s, &spec, "tenant", 10, &err), 0);
	store_limit(g->s, &(struct store_limits){ 0 });
	assert_int_equal(q->ns, all);
	for (size_t i = 0; i < q->n_all; i++) {
		struct query_lock *l = &q->v[i];
		if (l->victim.kind != BLAME_OTHER)
			continue;
		others += l->ns;
		assert_int_equal(l->by.kind, BLAME_OTHER);
		assert_int_equal(l->victim.ns, l->ns);
		assert_int_equal(l->by.ns, l->ns);
		assert_string_equal(l->is, "");
		assert_string_equal(l->kind, "");
		assert_null(l->name);
		assert_int_equal(l->stack, 0);
	}
	assert_true(others > 0);
	query_locks_free(q);
}

static void refused(void **state)
{
	struct given *g = *state;
	struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	struct query_locks *q = NULL;
	struct err err = { 0 };
	char key[300];
	memset(key, 'k', sizeof(key));
	key[297] = 0;
	assert_int_equal(query_locks(&q, g->s, &spec, key, 10, &err), -EINVAL);
	assert_non_null(strstr(err.text, "too long"));
	key[296] = 0;
	assert_int_equal(query_locks(&q, g->s, &spec, key, 10, &err), 0);
	query_locks_free(q);
	q = NULL;
	spec.where = "tenant=t1";
	assert_int_equal(query_locks(&q, g->s, &spec, "tenant", 10, &err), -EINVAL);
	assert_non_null(strstr(err.text, "column 8"));
	assert_null(q);
	query_locks_free(NULL);
}

/* A row of a stack of the kernel alone shows that. */
static void kernel_alone(void **state)
{
	struct names names = { .left = -1 };
	struct store_writer *w;
	struct query_locks *q;
	struct err err = { 0 };
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	uint32_t event, set, stack;
	char dir[64];
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	assert_int_equal(store_add_event(w, &events[WAKER], &event), 0);
	assert_int_equal(model_put_set(w, "by.comm=sh\nlock.by=waker\nlock.kind=mutex\n", &set), 0);
	assert_int_equal(
		model_put_stack(w, "kthread (vmlinux) 1 0\nmutex_unlock (vmlinux) 1 0\n", &stack),
		0);
	assert_int_equal(store_add_row(w, set, stack, event, 1, 7), 0);
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_int_equal(query_locks(&q, s, &spec, "tenant", 10, &err), 0);
	assert_int_equal(q->n, 1);
	assert_int_equal(q->v[0].stack_ns, 7);
	assert_int_equal(q->v[0].by.kind, BLAME_NONE);
	assert_int_equal(query_locks_frames(q, q->v[0].stack, add_name, &names), 0);
	assert_string_equal(names.text, "mutex_unlock kthread ");
	assert_int_equal(query_locks_frames(q, QUERY_OTHER_STACK, add_name, &names), 0);
	assert_string_equal(names.text, "mutex_unlock kthread ");
	query_locks_free(q);
	store_close(s);
	remove_tree(dir);
}

/* Stacks that differ in lines are one, also with another one between them. */
static void lines(void **state)
{
	static const struct {
		const char *stack;
		uint64_t ns;
	} v[] = { { "main (/bin/a) 0 1\n", 4 },
		  { "work (/bin/a) 0 1\n", 6 },
		  { "main (/bin/a) 0 2\n", 4 },
		  { "rest (/bin/a) 0 2\n", 5 } };
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	struct names names = { .left = -1 };
	struct store_writer *w;
	struct query_locks *q;
	struct err err = { 0 };
	uint32_t event, set, stack;
	char dir[64];
	(void)state;
	assert_int_equal(
		store_writer_open_with(&w, temp_dir(dir), &model_meta, &model_options, &err), 0);
	assert_int_equal(store_add_event(w, &events[WAKER], &event), 0);
	assert_int_equal(model_put_set(w, "by.comm=sh\nlock.by=waker\nlock.kind=mutex\n", &set), 0);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		assert_int_equal(model_put_stack(w, v[i].stack, &stack), 0);
		assert_int_equal(store_add_row(w, set, stack, event, 1, v[i].ns), 0);
	}
	assert_int_equal(model_commit_at(w, 0, &err), 0);
	store_writer_close(w);
	struct store *s = open_store(dir);
	assert_int_equal(query_locks(&q, s, &spec, "tenant", 10, &err), 0);
	assert_int_equal(q->n, 1);
	assert_int_equal(q->v[0].ns, 19);
	assert_int_equal(q->v[0].stack_ns, 8);
	assert_int_equal(query_locks_frames(q, q->v[0].stack, add_name, &names), 0);
	assert_string_equal(names.text, "main ");
	query_locks_free(q);
	store_close(s);
	remove_tree(dir);
}

/* Rows of as much time: by who waited, by who woke it, by the lock; none comes first. */
static void ties(void **state)
{
#define MUTEX "lock.by=waker\nlock.kind=mutex\n"
	static const struct {
		const char *labels, *victim, *by, *name;
	} v[] = {
		{ "by.comm=sh\nby.tenant=x\n" MUTEX "lock.name=m\n", "(none)", "x", "m" },
		{ "by.comm=sh\n" MUTEX "tenant=a\n", "a", "(none)", "" },
		{ "by.comm=sh\nby.tenant=x\n" MUTEX "tenant=a\n", "a", "x", "" },
		{ "by.comm=sh\nby.tenant=x\n" MUTEX "lock.name=m\ntenant=a\n", "a", "x", "m" },
		{ "by.comm=sh\nby.tenant=x\n" MUTEX "lock.name=n\ntenant=a\n", "a", "x", "n" },
		{ "by.comm=sh\nby.tenant=x\n" MUTEX "tenant=b\n", "b", "x", "" },
	};
	enum { N = sizeof(v) / sizeof(v[0]) };
	const struct query_spec spec = { .from_ns = INT64_MIN, .to_ns = INT64_MAX };
	(void)state;
	for (size_t shift = 0; shift < N; shift++) {
		struct store_writer *w;
		struct query_locks *q;
		struct err err = { 0 };
		uint32_t event, set, stack;
		char dir[64];
		assert_int_equal(store_writer_open_with(&w, temp_dir(dir), &model_meta,
							&model_options, &err),
				 0);
		assert_int_equal(store_add_event(w, &events[WAKER], &event), 0);
		assert_int_equal(model_put_stack(w, "main (/bin/a) 0 0\n", &stack), 0);
		for (size_t i = 0; i < N; i++) { /* in another order each time */
			const size_t at = shift % 2 ? (N - 1 - i + shift) % N : (i + shift) % N;
			assert_int_equal(model_put_set(w, v[at].labels, &set), 0);
			assert_int_equal(store_add_row(w, set, stack, event, 1, 7), 0);
		}
		assert_int_equal(model_commit_at(w, 0, &err), 0);
		store_writer_close(w);
		struct store *s = open_store(dir);
		assert_int_equal(query_locks(&q, s, &spec, "tenant", 100, &err), 0);
		assert_int_equal(q->n, N);
		for (size_t i = 0; i < N; i++) {
			assert_string_equal(q->v[i].victim.name, v[i].victim);
			assert_string_equal(q->v[i].by.name, v[i].by);
			assert_string_equal(q->v[i].name ? q->v[i].name : "", v[i].name);
		}
		query_locks_free(q);
		store_close(s);
		remove_tree(dir);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows),	   cmocka_unit_test(bounded),
		cmocka_unit_test(refused), cmocka_unit_test(kernel_alone),
		cmocka_unit_test(ties),	   cmocka_unit_test(lines),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
