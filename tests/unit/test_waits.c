/* SPDX-License-Identifier: Apache-2.0 */
/* Why a thread waited, by stacks as recordings have them; and what a query leaves out for it. */
#include "unit/store_model.h"

#include "query/query.h"
#include "query/waits.h"
#include "store/writer.h"

#define SECOND 1000000000ull
#define DEPTH 12

/*
 * Frames from the leaf to the root: "function" of the kernel, or "function|module", or
 * "function|module|file".
 */
struct sample {
	const char *frames[DEPTH];
	enum wait_class class;
	const char *in; /* the program's function */
};

#define KERNEL_FUTEX \
	"futex_do_wait", "__futex_wait", "futex_wait", "do_futex", "__x64_sys_futex", \
		"do_syscall_64"
#define LIBC "|/usr/lib/x86_64-linux-gnu/libc.so.6"
#define PG "|/usr/lib/postgresql/15/bin/postgres"
#define PYTHON "|/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0"

static const struct sample samples[] = {
	/* The same system call, for a lock and for work. */
	{ { KERNEL_FUTEX, "__lll_lock_wait" LIBC, "___pthread_mutex_lock" LIBC,
	    "charge|/srv/app/shop", "main|/srv/app/shop" },
	  WAIT_CLASS_LOCK,
	  "charge" },
	{ { KERNEL_FUTEX, "__futex_abstimed_wait_common" LIBC, "___pthread_cond_wait" LIBC,
	    "pool::next|/srv/app/libpool.so.2" },
	  WAIT_CLASS_IDLE,
	  "pool::next" },
	{ { KERNEL_FUTEX, "___pthread_mutex_lock" LIBC, "__pthread_mutex_cond_lock" LIBC,
	    "___pthread_cond_wait" LIBC, "next|/srv/app/shop" },
	  WAIT_CLASS_LOCK,
	  "next" },
	{ { KERNEL_FUTEX, "__futex_abstimed_wait_common" LIBC, "__pthread_clockjoin_ex" LIBC,
	    "main|/srv/app/shop" },
	  WAIT_CLASS_OTHER,
	  "main" },
	/* MariaDB, stripped of all but what it exports: a lock of a row, a read in it, SLEEP() */
	{ { KERNEL_FUTEX, "pthread_cond_timedwait" LIBC, "|/usr/sbin/mariadbd",
	    "handler::ha_index_read_map|/usr/sbin/mariadbd", "mysql_update|/usr/sbin/mariadbd" },
	  WAIT_CLASS_LOCK,
	  "handler::ha_index_read_map" },
	{ { "io_schedule", "__x64_sys_pread64", "pread64" LIBC, "|/usr/sbin/mariadbd",
	    "handler::ha_index_read_map|/usr/sbin/mariadbd", "mysql_update|/usr/sbin/mariadbd" },
	  WAIT_CLASS_IO,
	  "handler::ha_index_read_map" },
	{ { KERNEL_FUTEX, "pthread_cond_timedwait" LIBC,
	    "Item_func_sleep::val_int|/usr/sbin/mariadbd", "mysql_do|/usr/sbin/mariadbd" },
	  WAIT_CLASS_SLEEP,
	  "Item_func_sleep::val_int" },
	{ { "[no stack]" }, WAIT_CLASS_UNKNOWN, "[no stack]" },
	/* Without user frames a futex tells nothing, unless it was there before the recording. */
	{ { KERNEL_FUTEX }, WAIT_CLASS_OTHER, "futex_do_wait" },
	{ { KERNEL_FUTEX, WAIT_EARLIER }, WAIT_CLASS_IDLE, "futex_do_wait" },
	{ { "io_schedule", "__x64_sys_pread64", WAIT_EARLIER }, WAIT_CLASS_IO, "io_schedule" },
	/* A server's loop, its lock, its client's next command. */
	{ { "ep_poll", "do_epoll_wait", "__x64_sys_epoll_wait", "epoll_wait" LIBC,
	    "WaitEventSetWait" PG, "secure_read" PG },
	  WAIT_CLASS_IDLE,
	  "secure_read" },
	{ { "ep_poll", "__x64_sys_epoll_wait", "epoll_wait" LIBC, "WaitEventSetWait" PG,
	    "ProcSleep" PG, "heap_update" PG },
	  WAIT_CLASS_LOCK,
	  "heap_update" },
	/* A frame without a name gives way to one with a name, and stands where there is none. */
	{ { "ep_poll", "__x64_sys_epoll_wait", "epoll_wait" LIBC, "WaitEventSetWait" PG,
	    "WaitLatch" PG, "ProcSleep" PG, "" PG, "LockAcquireExtended" PG, "XactLockTableWait" PG,
	    "" PG, "standard_ExecutorRun" PG },
	  WAIT_CLASS_LOCK,
	  "XactLockTableWait" },
	{ { KERNEL_FUTEX, "___pthread_mutex_lock" LIBC, "|/srv/app/shop",
	    "__libc_start_main" LIBC },
	  WAIT_CLASS_LOCK,
	  "shop+0x0" },
	{ { "do_sys_poll", "__arm64_sys_ppoll", "__poll" LIBC,
	    "pqSocketPoll|/usr/lib/x86_64-linux-gnu/libpq.so.5", "ask|/srv/app/shop" },
	  WAIT_CLASS_NETWORK,
	  "ask" },
	{ { "inet_csk_accept", "do_accept", "__x64_sys_accept4", "accept4" LIBC,
	    "serve|/srv/app/shop" },
	  WAIT_CLASS_IDLE,
	  "serve" },
	{ { "do_nanosleep", "hrtimer_nanosleep", "__x64_sys_clock_nanosleep",
	    "clock_nanosleep" LIBC, "retry|/srv/app/shop" },
	  WAIT_CLASS_SLEEP,
	  "retry" },
	{ { "sk_wait_data", "tcp_recvmsg", "sock_recvmsg", "__x64_sys_recvfrom", "recv" LIBC,
	    "reply|/srv/app/shop" },
	  WAIT_CLASS_NETWORK,
	  "reply" },
	{ { "anon_pipe_read", "vfs_read", "__x64_sys_read", "read" LIBC, "main|/srv/app/shop" },
	  WAIT_CLASS_PIPE,
	  "main" },
	{ { "do_wait", "kernel_wait4", "do_syscall_64", "wait4" LIBC, "main|/srv/app/shop" },
	  WAIT_CLASS_CHILD,
	  "main" },
	/* Disks, page faults and the kernel's locks, wherever they come from. */
	{ { "io_schedule", "folio_wait_bit_common", "filemap_fault", "exc_page_fault",
	    "sum|/srv/app/shop" },
	  WAIT_CLASS_IO,
	  "sum" },
	{ { "rwsem_down_read_slowpath", "do_user_addr_fault", "exc_page_fault",
	    "sum|/srv/app/shop" },
	  WAIT_CLASS_LOCK,
	  "sum" },
	{ { "rwsem_down_write_slowpath", "__x64_sys_mmap", "mmap" LIBC, "grow|/srv/app/shop" },
	  WAIT_CLASS_LOCK,
	  "grow" },
	/* Kernel threads: for work, and at work. */
	{ { "worker_thread", "kthread", "ret_from_fork" }, WAIT_CLASS_IDLE, "worker_thread" },
	{ { "msleep", "some_work", "process_one_work", "worker_thread", "kthread" },
	  WAIT_CLASS_OTHER,
	  "msleep" },
	{ { "io_schedule", "kjournald2", "kthread" }, WAIT_CLASS_IO, "io_schedule" },
	/* Runtimes. */
	{ { KERNEL_FUTEX, "runtime.futex|/srv/app/api", "runtime.notesleep|/srv/app/api",
	    "runtime.findRunnable|/srv/app/api" },
	  WAIT_CLASS_IDLE,
	  "runtime.futex" },
	{ { KERNEL_FUTEX, "runtime.futexsleep|/srv/app/api", "runtime.lock2|/srv/app/api",
	    "main.work|/srv/app/api" },
	  WAIT_CLASS_LOCK,
	  "main.work" },
	{ { KERNEL_FUTEX, "__new_sem_wait_slow64.constprop.0" LIBC,
	    "PyThread_acquire_lock_timed" PYTHON,
	    "Condition.wait|[python]|/usr/lib/python3.11/threading.py",
	    "Queue.get|[python]|/usr/lib/python3.11/queue.py", "worker|[python]|/srv/app/jobs.py" },
	  WAIT_CLASS_IDLE,
	  "worker" },
	{ { KERNEL_FUTEX, "__new_sem_wait_slow64.constprop.0" LIBC,
	    "PyThread_acquire_lock_timed" PYTHON, "update|[python]|/srv/app/jobs.py" },
	  WAIT_CLASS_LOCK,
	  "update" },
	{ { KERNEL_FUTEX, "take_gil" PYTHON, "PyEval_RestoreThread" PYTHON,
	    "update|[python]|/srv/app/jobs.py" },
	  WAIT_CLASS_LOCK,
	  "update" },
	{ { KERNEL_FUTEX, "std::sys::sync::mutex::futex::Mutex::lock_contended|/srv/app/api",
	    "api::charge|/srv/app/api" },
	  WAIT_CLASS_LOCK,
	  "api::charge" },
};

#define N_SAMPLES (sizeof(samples) / sizeof(samples[0]))

static uint32_t text_id(struct store_writer *w, const char *text, size_t len)
{
	uint32_t id;
	assert_int_equal(store_add_string(w, text, len, &id), 0);
	return id;
}

static uint32_t add_frame(struct store_writer *w, uint32_t parent, const char *text)
{
	const char *module = strchr(text, '|'), *file = module ? strchr(module + 1, '|') : NULL;
	struct store_frame f = { .kind = module ? FRAME_USER : FRAME_KERNEL };
	uint32_t frame, stack;
	f.function = text_id(w, text, module ? (size_t)(module - text) : strlen(text));
	f.module = module ? text_id(w, module + 1,
				    file ? (size_t)(file - module - 1) : strlen(module + 1))
			  : text_id(w, "[kernel]", 8);
	f.file = file ? text_id(w, file + 1, strlen(file + 1)) : 0;
	assert_int_equal(store_add_frame(w, &f, &frame), 0);
	assert_int_equal(store_add_stack(w, parent, frame, &stack), 0);
	return stack;
}

static uint32_t add_stack(struct store_writer *w, const struct sample *s)
{
	uint32_t stack = 0;
	for (size_t n = DEPTH; n-- > 0;)
		if (s->frames[n])
			stack = add_frame(w, stack, s->frames[n]);
	return stack;
}

/*
 * Sample i was blocked for i + 1 s as comm "a" or "b" in turns, then waited 1 s for a CPU and ran 2
 * samples there.
 */
static void fill(struct store_writer *w)
{
	const struct store_event events[] = { { "cpu-clock", "nanoseconds", SECOND / 100,
						SECOND / 100 },
					      { "off-cpu", "nanoseconds", 0, 0 },
					      { "runq", "nanoseconds", 0, 0 } };
	uint32_t event[3], set[2];
	for (int i = 0; i < 3; i++)
		assert_int_equal(store_add_event(w, &events[i], &event[i]), 0);
	for (int i = 0; i < 2; i++) {
		const struct label l = { .key = "comm",
					 .key_len = 4,
					 .str = i ? "b" : "a",
					 .str_len = 1,
					 .type = LABEL_STRING };
		assert_int_equal(store_add_set(w, &l, 1, &set[i]), 0);
	}
	for (size_t i = 0; i < N_SAMPLES; i++) {
		uint32_t stack = add_stack(w, &samples[i]);
		assert_int_equal(store_add_row(w, set[i % 2], stack, event[0], 2, 2 * SECOND / 100),
				 0);
		assert_int_equal(store_add_row(w, set[i % 2], stack, event[1], 1, (i + 1) * SECOND),
				 0);
		assert_int_equal(store_add_row(w, set[i % 2], stack, event[2], 1, SECOND), 0);
	}
}

static char dir[] = "/tmp/test_waits.XXXXXX";

static int setup(void **state)
{
	struct store_writer *w;
	struct store *s;
	struct err err = { 0 };
	struct store_cpu_totals cpu = {
		.fired = 1, .stored = 1, .lost = (uint64_t[2]){ 0 }, .flagged = (uint64_t[1]){ 0 }
	};
	const struct store_totals t = { .cpu = &cpu, .n_cpus = 1 };
	if (!mkdtemp(dir) || store_writer_open(&w, dir, &model_meta, &err))
		return -1;
	fill(w);
	int rc = store_commit_window(w, (int64_t)SECOND, (int64_t)SECOND * 2, 1, &t, &err);
	store_writer_close(w);
	rc = rc ? rc : store_open(&s, dir, &err);
	*state = s;
	return rc;
}

static int teardown(void **state)
{
	store_close(*state);
	char command[80];
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

/* Nanoseconds that a query has to have, by class and comm; wanted[c]: class c is admitted. */
static uint64_t expected(const bool wanted[WAIT_CLASSES], int comm)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < N_SAMPLES; i++)
		if (wanted[samples[i].class] && (comm < 0 || (int)(i % 2) == comm))
			sum += (i + 1) * SECOND;
	return sum;
}

static struct query *ask(struct store *s, const struct query_spec *of)
{
	struct query_spec spec = *of;
	struct query *q;
	struct err err = { 0 };
	spec.from_ns = INT64_MIN;
	spec.to_ns = INT64_MAX;
	if (query_open(&q, s, &spec, &err))
		fail_msg("%s", err.text);
	return q;
}

static void classes(void **state)
{
	struct store *s = *state;
	static const char *const keys[] = { "wait_in", "wait" };
	const struct query_spec spec = { .metric = QUERY_OFF,
					 .idle = true,
					 .labels = QUERY_NO_LABELS };
	struct query *q = ask(s, &spec);
	struct wait_reasons reasons = { 0 };
	const struct store_row *rows;
	struct query_table *t;
	struct err err = { 0 };
	size_t n;
	rows = query_rows(q, &n);
	assert_int_equal(n, N_SAMPLES);
	for (size_t i = 0; i < n; i++) {
		const struct sample *of = &samples[rows[i].value / SECOND - 1];
		const struct wait_reason *r;
		char name[300];
		assert_int_equal(wait_reason_of(&reasons, s, rows[i].stack, &r), 0);
		query_frame_name(s, r->frame, name, sizeof(name));
		if (r->class != of->class || strcmp(name, of->in))
			fail_msg("stack %llu: %s in %s, not %s in %s",
				 (unsigned long long)(rows[i].value / SECOND - 1),
				 wait_class_names[r->class], name, wait_class_names[of->class],
				 of->in);
	}
	wait_reasons_fini(&reasons);
	/* And as a table. */
	assert_int_equal(query_table(q, keys, 2, &t, &err), 0);
	for (size_t k = 0; k < t->n_rows; k++) {
		uint64_t sum = 0;
		for (size_t i = 0; i < N_SAMPLES; i++)
			if (!strcmp(samples[i].in, t->rows[k].values[0]) &&
			    !strcmp(wait_class_names[samples[i].class], t->rows[k].values[1]))
				sum += (i + 1) * SECOND;
		assert_int_equal(t->rows[k].samples, sum);
	}
	query_table_free(t);
	query_close(q);
}

/*
 * Idle waits are left out and counted, in every way that rows are read; run queues and CPU time
 * stay.
 */
static void idle_left_out(void **state)
{
	static const char *const comm[] = { "comm" }, *const where[] = { NULL, "{comm=\"a\"}",
									 "{comm=\"b\"}" };
	static const enum query_labels ways[] = { QUERY_NO_LABELS, QUERY_KEYS, QUERY_KEYS_STACKS,
						  QUERY_ALL_LABELS };
	bool idle[WAIT_CLASSES] = { [WAIT_CLASS_IDLE] = true }, rest[WAIT_CLASSES];
	for (int i = 0; i < WAIT_CLASSES; i++)
		rest[i] = i != WAIT_CLASS_IDLE;
	for (int way = 0; way < 4; way++) {
		for (int w = 0; w < 3; w++) {
			struct query_spec spec = { .metric = QUERY_OFF,
						   .where = where[w],
						   .labels = ways[way],
						   .keys = comm,
						   .n_keys = 1 };
			struct query *q = ask(*state, &spec);
			assert_int_equal(query_info(q)->samples, expected(rest, w - 1));
			assert_int_equal(query_info(q)->idle_waits, expected(idle, w - 1));
			query_close(q);
			spec.metric = QUERY_WALL;
			q = ask(*state, &spec);
			uint64_t n = w == 1 ? (N_SAMPLES + 1) / 2 : w ? N_SAMPLES / 2 : N_SAMPLES;
			assert_int_equal(query_info(q)->samples,
					 expected(rest, w - 1) + n * (SECOND + SECOND / 50));
			assert_int_equal(query_info(q)->idle_waits, expected(idle, w - 1));
			query_close(q);
			spec.metric = QUERY_OFF;
			spec.idle = true;
			q = ask(*state, &spec);
			assert_int_equal(query_info(q)->samples,
					 expected(rest, w - 1) + expected(idle, w - 1));
			assert_int_equal(query_info(q)->idle_waits, 0);
			query_close(q);
		}
	}
	const struct query_spec runq = { .metric = QUERY_RUNQ, .labels = QUERY_NO_LABELS };
	struct query *q = ask(*state, &runq);
	assert_int_equal(query_info(q)->samples, N_SAMPLES * SECOND);
	query_close(q);
}

static void selected(void **state)
{
	bool lock[WAIT_CLASSES] = { [WAIT_CLASS_LOCK] = true },
	     idle[WAIT_CLASSES] = { [WAIT_CLASS_IDLE] = true };
	struct query_spec spec = { .metric = QUERY_OFF,
				   .where = "{wait=\"lock\"}",
				   .labels = QUERY_NO_LABELS };
	struct err err = { 0 };
	struct query *q = ask(*state, &spec);
	assert_int_equal(query_info(q)->samples, expected(lock, -1));
	query_close(q);
	spec.where = "{wait=\"lock\",comm=\"b\"}";
	q = ask(*state, &spec);
	assert_int_equal(query_info(q)->samples, expected(lock, 1));
	query_close(q);
	spec.where = "{wait=\"idle\"}"; /* asked for, so it is there */
	q = ask(*state, &spec);
	assert_int_equal(query_info(q)->samples, expected(idle, -1));
	query_close(q);
	spec.metric = QUERY_CPU; /* what is no wait has no such label */
	q = ask(*state, &spec);
	assert_int_equal(query_info(q)->samples, 0);
	query_close(q);
	spec.where = "{wait=\"\"}";
	q = ask(*state, &spec);
	assert_int_equal(query_info(q)->samples, N_SAMPLES * SECOND / 50);
	query_close(q);
	spec.metric = QUERY_OFF;
	spec.where = "{wait=\"lock\"}";
	spec.rest = true;
	assert_int_equal(query_open(&q, *state, &spec, &err), -EINVAL);
}

/* Waits for a CPU have a function, too. A key that an answer cannot have is refused. */
static void keys_of_metrics(void **state)
{
	static const char *const in[] = { "wait_in" }, *const wait[] = { "comm", "wait" },
				 *const by[] = { "by.function" };
	struct query_spec spec = {
		.metric = QUERY_RUNQ, .labels = QUERY_KEYS, .keys = in, .n_keys = 1
	};
	struct query *q = ask(*state, &spec);
	struct query_table *t;
	struct err err = { 0 };
	assert_int_equal(query_table(q, in, 1, &t, &err), 0);
	for (size_t k = 0; k < t->n_rows; k++) {
		uint64_t sum = 0;
		for (size_t i = 0; i < N_SAMPLES; i++)
			sum += !strcmp(samples[i].in, t->rows[k].values[0]) ? SECOND : 0;
		assert_true(t->rows[k].present[0]);
		assert_int_equal(t->rows[k].samples, sum);
	}
	query_table_free(t);
	query_close(q);
	const struct {
		enum query_metric metric;
		const char *const *keys;
		size_t n;
		const char *says;
	} refused[] = {
		{ QUERY_RUNQ, wait, 2, "runq has no `wait`: ask by it with metric off" },
		{ QUERY_CPU, in, 1, "cpu has no `wait_in`: ask by it with metric off or runq" },
		{ QUERY_WALL, in, 1, "wall has no `wait_in`: ask by it with metric off or runq" },
		{ QUERY_SAMPLES, wait, 2, "cpu-clock has no `wait`: ask by it with metric off" },
		{ QUERY_OFF, by, 1, "off-cpu has no `by.function`: ask by it with metric waker" },
	};
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		spec.metric = refused[i].metric;
		spec.keys = refused[i].keys;
		spec.n_keys = refused[i].n;
		spec.from_ns = INT64_MIN;
		spec.to_ns = INT64_MAX;
		assert_int_equal(query_open(&q, *state, &spec, &err), -EINVAL);
		assert_string_equal(err.text, refused[i].says);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(classes),
					    cmocka_unit_test(keys_of_metrics),
					    cmocka_unit_test(idle_left_out),
					    cmocka_unit_test(selected) };
	return cmocka_run_group_tests(tests, setup, teardown);
}
