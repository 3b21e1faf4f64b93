/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 at random instants, of a writer that is started again and again on the same store.
 * Whatever it acknowledged is there, rows and all, and at most one window more.
 */
#include "fault/run.h"
#include "fault/scenario.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define N_WINDOWS 120

static struct scenario scenario;

struct sum {
	size_t kills, stores, acknowledged, unheard, bad;
	char first[900];
};

static pid_t start(const char *dir, size_t first, int to)
{
	char from[16], count[16], all[16], rows[] = "6";
	snprintf(from, sizeof(from), "%zu", first);
	snprintf(count, sizeof(count), "%zu", (size_t)N_WINDOWS);
	snprintf(all, sizeof(all), "%d", N_WINDOWS);
	pid_t child = fork();
	if (child)
		return child;
	char *const argv[] = { (char *)FAULT_WRITER, (char *)dir, from, count, all, rows, NULL };
	dup2(to, STDOUT_FILENO);
	execv(FAULT_WRITER, argv);
	_exit(127);
}

/* Until it has run for so long, or has ended, or some seconds: a busy host changes little. */
static void let_run(pid_t child, size_t us)
{
	const struct timespec look = { .tv_nsec = 100000 };
	struct timespec ran = { 0 };
	siginfo_t end = { 0 };
	clockid_t clock;
	if (clock_getcpuclockid(child, &clock))
		return;
	for (int looks = 0;
	     looks < 20000 && !clock_gettime(clock, &ran) &&
	     (size_t)ran.tv_sec * 1000000 + (size_t)ran.tv_nsec / 1000 < us &&
	     !waitid(P_PID, (id_t)child, &end, WEXITED | WNOHANG | WNOWAIT) && !end.si_pid;
	     looks++)
		nanosleep(&look, NULL);
}

/* What a killed writer has said: whole lines. */
static size_t listen_to(int from, bool *kept)
{
	char text[4096];
	size_t len = 0, n = 0;
	ssize_t got;
	while ((got = read(from, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)got;
	text[len] = 0;
	for (char *p = text, *end; (end = strchr(p, '\n')); p = end + 1)
		if (*p == '+') {
			kept[strtoul(p + 1, NULL, 10)] = true;
			n++;
		}
	return n;
}

/* One store from its beginning to its last window. */
static void live(const char *dir, struct sum *s, uint64_t *random, size_t usual, double begin)
{
	bool kept[SCENARIO_MAX] = { false }, may[SCENARIO_MAX], here[SCENARIO_MAX];
	size_t next = 0;
	struct model luck = { .random = *random };
	s->stores++;
	while (next < N_WINDOWS && !run_enough(s->kills, usual, begin) && !s->bad) {
		int pipes[2], status;
		assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
		pid_t child = start(dir, next, pipes[1]);
		close(pipes[1]);
		let_run(child, 1000 + model_random(&luck, model_random(&luck, 4) ? 6000 : 20000));
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
		s->acknowledged += listen_to(pipes[0], kept);
		close(pipes[0]);
		while (next < N_WINDOWS && kept[next])
			next++;
		memcpy(may, kept, sizeof(may));
		may[next] = true;
		const char *bad = scenario_judge(&scenario, dir, kept, may, here);
		s->kills++;
		if (bad && !s->bad++)
			snprintf(s->first, sizeof(s->first), "kill %zu, before window %zu: %.700s",
				 s->kills, next, bad);
		if (next < N_WINDOWS && here[next]) {
			kept[next++] = true;
			s->unheard++;
		}
	}
	*random = luck.random;
	remove_tree(dir);
}

static void kill_some(void *ctx, size_t k, size_t n)
{
	struct sum *s = (struct sum *)ctx + k;
	char base[64], dir[80];
	uint64_t random = 91 + k + 1000 * run_offset(1000000);
	const double begin = run_seconds();
	snprintf(dir, sizeof(dir), "%s/store", temp_dir(base));
	while (!run_enough(s->kills, 140 / n, begin) && !s->bad)
		live(dir, s, &random, 140 / n, begin);
	remove_tree(base);
}

static void killed_writer(void **state)
{
	(void)state;
	struct sum *s = run_shared(8 * sizeof(*s)), all = { 0 };
	double begin = run_seconds();
	scenario_make(&scenario, N_WINDOWS, 6);
	assert_int_equal(run_parallel(kill_some, s), 0);
	for (size_t k = 0; k < 8; k++) {
		all.kills += s[k].kills;
		all.stores += s[k].stores;
		all.acknowledged += s[k].acknowledged;
		all.unheard += s[k].unheard;
		all.bad += s[k].bad;
		if (s[k].bad)
			print_message("  %s\n", s[k].first);
	}
	print_message(
		"%zu kills over %zu stores: %zu windows acknowledged, %zu more were there, %zu bad; %.1f ms each\n",
		all.kills, all.stores, all.acknowledged, all.unheard, all.bad,
		1000 * (run_seconds() - begin) / (double)all.kills);
	assert_int_equal(all.bad, 0);
	assert_true(all.acknowledged > all.kills / 4);
	munmap(s, 8 * sizeof(*s));
	scenario_fini(&scenario);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_writer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
