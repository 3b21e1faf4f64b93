/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trampolines SECONDS: two threads that label their work by trampolines, a fresh label every 3 ms,
 * each with a number of its own. A third of the time is below an inner label. Prints the CPU
 * seconds of each thread and kind, by the thread's own clock, and how many labels there were.
 *
 * trampolines SECONDS liar: a table that lies.
 * trampolines SECONDS N: N processes with tables, each of which runs for 4 ms.
 */
#include <ascribe/trampoline.hpp>

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

static double cpu_s()
{
	timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

__attribute__((noinline)) static double burn(double seconds)
{
	double begin = cpu_s(), now = begin;
	while ((now = cpu_s()) < begin + seconds)
		for (int i = 0; i < 500; i++)
			asm volatile("");
	return now - begin;
}

static double outer_s[2], inner_s[2];
static std::atomic<long> labels;

static void work(int id, double seconds)
{
	prctl(PR_SET_NAME, id ? "second" : "first");
	/*
	 * Who records finds the process meanwhile: the samples whose labels it cannot know yet are
	 * of this.
	 */
	ascribe::trampoline_label warm{ "task", "warm" };
	warm.apply([] { return burn(0.5); });
	ascribe::trampoline_label inner{ "step", "inner" };
	for (double spent = 0; spent < seconds;) {
		ascribe::trampoline_label l{ { "task", id ? "second" : "first" },
					     { "number", labels++ },
					     { "step", "outer" } };
		double o = l.apply([] { return burn(0.002); });
		double i = l.apply([&] { return inner.apply([] { return burn(0.001); }); });
		outer_s[id] += o;
		inner_s[id] += i;
		spent += o + i;
	}
}

/*
 * A table that lies: all of the program is trampolines, as many and with as long histories as are
 * believed at all, and what stands there changes all the time.
 */
static void lie(double seconds)
{
	std::atomic<bool> stop{ false };
	ascribe_trampoline_table &t = ascribe::trampolines::state.table;
	t.count = ASCRIBE_TRAMPOLINES_MAX;
	t.step = 4;
	t.code = reinterpret_cast<ascribe_u64>(&burn) - 4096;
	t.depth = ASCRIBE_BINDINGS_MAX;
	std::thread liar([&] {
		std::uint64_t x = 1;
		unsigned char *p =
			reinterpret_cast<unsigned char *>(ascribe::trampolines::state.binding);
		while (!stop) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			std::size_t at =
				(x >> 33) % (sizeof(ascribe::trampolines::state.binding) - 256);
			for (int i = 0; i < 256; i++)
				p[at + static_cast<std::size_t>(i)] =
					static_cast<unsigned char>(x >> i % 56);
			if (x >> 60 == 0) {
				ascribe_binding *b =
					&ascribe::trampolines::state.binding[at / 2048][0];
				b->begin = b->end = x;
				b->from_ns = b->to_ns = 0;
				b->len = 216;
			}
		}
	});
	burn(seconds);
	stop = true;
	liar.join();
}

static void crowd(double seconds, int n)
{
	for (int i = 0; i < n; i++)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			burn(0.004);
			for (;;)
				pause();
		}
	usleep(static_cast<useconds_t>(seconds * 1e6));
}

int main(int argc, char **argv)
{
	if (argc > 2 && atoi(argv[2])) {
		crowd(atof(argv[1]), atoi(argv[2]));
		return 0;
	}
	if (argc > 2) {
		prctl(PR_SET_NAME, "liar");
		lie(atof(argv[1]));
		return 0;
	}
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	std::thread first(work, 0, seconds), second(work, 1, seconds / 3);
	first.join();
	second.join();
	std::printf(
		"{\"first outer\": %.6f, \"first inner\": %.6f, \"second outer\": %.6f, \"second inner\": %.6f, \"labels\": %ld}\n",
		outer_s[0], inner_s[0], outer_s[1], inner_s[1], labels.load());
}
