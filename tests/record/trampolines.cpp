/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trampolines SECONDS: two threads that label their work by trampolines, a fresh label every 3 ms, each with a number of its own; a third of
 * the time below an inner label. Prints the CPU seconds of each thread and kind, by the thread's own clock, and how many
 * labels there were.
 */
#include <ascribe/trampoline.hpp>

#include <sys/prctl.h>

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
	ascribe::trampoline_label inner{"step", "inner"};
	for (double spent = 0; spent < seconds;) {
		ascribe::trampoline_label l{{"task", id ? "second" : "first"}, {"number", labels++}, {"step", "outer"}};
		double o = l.apply([] { return burn(0.002); });
		double i = l.apply([&] { return inner.apply([] { return burn(0.001); }); });
		outer_s[id] += o;
		inner_s[id] += i;
		spent += o + i;
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	std::thread first(work, 0, seconds), second(work, 1, seconds / 3);
	first.join();
	second.join();
	std::printf("{\"first outer\": %.6f, \"first inner\": %.6f, \"second outer\": %.6f, \"second inner\": %.6f, \"labels\": %ld}\n",
		    outer_s[0], inner_s[0], outer_s[1], inner_s[1], labels.load());
}
