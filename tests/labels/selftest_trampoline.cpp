/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trampoline.hpp: results and exceptions pass, the history says what our own log says. A profiler
 * in the same process finds the label of each thread. It is made of a timer signal, a stack walk by
 * unwind tables and the look-up.
 */
#include <ascribe/trampoline.hpp>

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define EXPECT_OK(e) \
	do { \
		if (!(e)) { \
			std::printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #e); \
			std::exit(1); \
		} \
	} while (0)

using labels = std::map<std::string, std::string>;

static bool look_up(int index, std::uint64_t t, labels &out)
{
	out.clear();
	return ascribe::trampoline_at(index, t,
				      [&](auto key, auto value) { out.emplace(key, value); });
}

__attribute__((noinline)) static const void *caller()
{
	const void *a = __builtin_return_address(0);
	asm volatile("" : : : "memory");
	return a;
}

/* The trampolines on this thread's stack, the innermost first. */
__attribute__((noinline)) static std::vector<int> on_stack()
{
	void *frame[128];
	std::vector<int> out;
	for (int i = 0, n = backtrace(frame, 128); i < n; i++)
		if (ascribe::trampoline_of(frame[i]) >= 0)
			out.push_back(ascribe::trampoline_of(frame[i]));
	return out;
}

static void calls()
{
	ascribe::trampoline_label l{
		{ "tenant", "acme" }, { "query_id", -42 }, { "big", ~0ull }, { "flag", true }
	};
	std::string s = "text";
	labels got;
	EXPECT_OK(l.bound() && l.dropped() == 0);
	EXPECT_OK(look_up(l.index(), ascribe::trampoline_clock_ns(), got));
	EXPECT_OK((got == labels{ { "tenant", "acme" },
				  { "query_id", "-42" },
				  { "big", "18446744073709551615" },
				  { "flag", "1" } }));
	EXPECT_OK(l.apply([] { return 42; }) == 42);
	EXPECT_OK(*l.apply([] { return std::make_unique<int>(7); }) == 7);
	EXPECT_OK(&l.apply([&]() -> std::string & { return s; }) == &s);
	EXPECT_OK(l.apply(caller) && l.apply(&caller));
	bool caught = false;
	try {
		l.apply([] { throw std::runtime_error("through"); });
	} catch (const std::runtime_error &e) {
		caught = std::string(e.what()) == "through";
	}
	EXPECT_OK(caught);
	EXPECT_OK(ascribe::trampoline_of(caller()) == -1);
	EXPECT_OK(ascribe::trampoline_of(nullptr) == -1);
	std::vector<int> in = l.apply([] { return on_stack(); });
	EXPECT_OK(in == std::vector<int>{ l.index() });
	ascribe::trampoline_label inner{ "tenant", "inner" };
	in = l.apply([&] { return inner.apply([] { return on_stack(); }); });
	EXPECT_OK((in == std::vector<int>{ inner.index(), l.index() }));
	/* Text: what fits, and no more. */
	ascribe::trampoline_label large{ { "a", std::string(150, 'x') },
					 { "b", std::string(150, 'y') },
					 { "c", "z" },
					 { "", "no" } };
	EXPECT_OK(large.dropped() == 2);
	EXPECT_OK(look_up(large.index(), ascribe::trampoline_clock_ns(), got) && got.size() == 2 &&
		  got["c"] == "z");
}

static void folding()
{
	for (int i = 0; i < ASCRIBE_TRAMPOLINES; i++) {
		const char *at = ascribe::trampolines::code + i * ASCRIBE_TRAMPOLINE_STEP + 10;
		EXPECT_OK(ascribe::trampoline_of(at) == i);
		EXPECT_OK(ascribe::trampoline_fold(at) == ascribe::trampolines::code + 10);
	}
	/* a return address is behind a call */
	EXPECT_OK(ascribe::trampoline_of(ascribe::trampolines::code) == -1);
	const char *end =
		ascribe::trampolines::code + ASCRIBE_TRAMPOLINES * ASCRIBE_TRAMPOLINE_STEP;
	EXPECT_OK(ascribe::trampoline_of(end) == -1 && ascribe::trampoline_fold(end) == end);
}

static void all_taken()
{
	std::vector<std::unique_ptr<ascribe::trampoline_label>> v;
	std::map<int, int> seen;
	std::uint64_t before = ascribe::trampolines_exhausted();
	for (int i = 0; i < ASCRIBE_TRAMPOLINES; i++) {
		v.push_back(std::make_unique<ascribe::trampoline_label>("i", i));
		EXPECT_OK(v.back()->bound() && !seen[v.back()->index()]++);
	}
	ascribe::trampoline_label none{ "i", 1 };
	EXPECT_OK(!none.bound() && none.apply([] { return 5; }) == 5 &&
		  ascribe::trampolines_exhausted() == before + 1);
	v.clear();
	/* Reused as late as possible. */
	seen.clear();
	for (int i = 0; i < ASCRIBE_TRAMPOLINES; i++)
		EXPECT_OK(!seen[ascribe::trampoline_label("i", i).index()]++);
}

/*
 * The history against a log of our own: threads bind and unbind, then each remembered binding is
 * asked for in its time.
 */
static void history()
{
	struct bound {
		int index;
		std::uint64_t from, to; /* surely bound in between */
		std::string text;
	};
	std::vector<std::vector<bound>> log(4);
	std::vector<std::thread> threads;
	for (std::size_t t = 0; t < log.size(); t++)
		threads.emplace_back([&, t] {
			for (int i = 0; i < 3000; i++) {
				std::string text = std::to_string(t) + "." + std::to_string(i);
				ascribe::trampoline_label l{ "task", std::string_view(text) };
				std::uint64_t from = ascribe::trampoline_clock_ns();
				for (int k = 0; k < 200; k++)
					asm volatile("");
				log[t].push_back(
					{ l.index(), from, ascribe::trampoline_clock_ns(), text });
			}
		});
	for (std::thread &t : threads)
		t.join();
	std::size_t found = 0, total = 0;
	for (const auto &v : log)
		for (const bound &b : v) {
			labels got;
			total++;
			if (!look_up(b.index, b.from + (b.to - b.from) / 2, got))
				continue; /* forgotten since, never wrong */
			EXPECT_OK(got["task"] == b.text);
			found++;
		}
	EXPECT_OK(total == 12000 && found == ASCRIBE_TRAMPOLINES * ASCRIBE_BINDINGS);
	labels got;
	EXPECT_OK(!look_up(0, 1, got) && !look_up(-1, 1, got) &&
		  !look_up(ASCRIBE_TRAMPOLINES, 1, got));
}

/* ---- a profiler ---- */

static constexpr int samples_max = 4000;
static struct sample {
	pthread_t thread;
	std::uint64_t time;
	int n;
	void *frame[64];
} samples[samples_max];
static std::atomic<int> n_samples;
static thread_local volatile int n_own;

static void on_tick(int)
{
	n_own = n_own + 1;
	int i = n_samples.fetch_add(1);
	if (i >= samples_max)
		return;
	samples[i].thread = pthread_self();
	samples[i].time = ascribe::trampoline_clock_ns();
	samples[i].n = backtrace(samples[i].frame, 64);
}

static double cpu_s()
{
	timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

__attribute__((noinline)) static void burn(double seconds)
{
	for (double end = cpu_s() + seconds; cpu_s() < end;)
		for (int i = 0; i < 1000; i++)
			asm volatile("");
}

/*
 * SIGPROF for every 2 ms of this thread's CPU time: a timer of the process may leave out a thread
 * on a busy host.
 */
static timer_t tick_by_own_clock()
{
	sigevent to = {};
	to.sigev_notify = SIGEV_THREAD_ID;
	to.sigev_signo = SIGPROF;
#ifdef sigev_notify_thread_id
	to.sigev_notify_thread_id = static_cast<int>(syscall(SYS_gettid));
#else
	to._sigev_un._tid = static_cast<int>(syscall(SYS_gettid));
#endif
	timer_t timer;
	itimerspec every = { { 0, 2000000 }, { 0, 2000000 } };
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &to, &timer) ||
	    timer_settime(timer, 0, &every, nullptr)) {
		std::perror("timer_create");
		std::exit(1);
	}
	return timer;
}

static void profiler()
{
	void *warm[4];
	backtrace(warm, 4); /* loads what it needs, outside of a signal */
	struct sigaction a = {};
	a.sa_handler = on_tick;
	a.sa_flags = SA_RESTART;
	sigaction(SIGPROF, &a, nullptr);
	pthread_t ids[2];
	std::vector<std::thread> threads;
	std::atomic<int> ready{ 0 };
	for (int t = 0; t < 2; t++)
		threads.emplace_back([&, t] {
			ids[t] = pthread_self();
			ready++;
			while (ready < 2)
				;
			timer_t timer = tick_by_own_clock();
			/* On a busy host a thread may have few ticks in its CPU time. */
			for (int i = 0; i < 10 || (n_own < 20 && i < 200); i++) {
				ascribe::trampoline_label outer{ { "thread", t },
								 { "step", "outer" } };
				ascribe::trampoline_label inner{ "step", "inner" };
				outer.apply([&] {
					burn(0.005);
					inner.apply([] { burn(0.015); });
				});
			}
			timer_delete(timer);
		});
	for (std::thread &t : threads)
		t.join();
	int count[2][2] = {}, other = 0, in_work = 0;
	for (int i = 0; i < std::min(n_samples.load(), samples_max); i++) {
		labels all, got;
		/* from the innermost on: the first of a key counts */
		for (int k = 0; k < samples[i].n; k++)
			if (look_up(ascribe::trampoline_of(samples[i].frame[k]), samples[i].time,
				    got))
				all.insert(got.begin(), got.end());
		if (all.empty()) {
			other++;
			continue;
		}
		in_work++;
		int t = pthread_equal(samples[i].thread, ids[1]) ? 1 : 0;
		EXPECT_OK(all["thread"] == std::to_string(t));
		count[t][all["step"] == "inner"]++;
	}
	/*
	 * 1 in 4 outside of the inner label, by the threads' own clocks. A tick may be 4 ms: some
	 * 40 samples, so with much room.
	 */
	std::printf("samples: %d:%d %d:%d, %d without\n", count[0][0], count[0][1], count[1][0],
		    count[1][1], other);
	for (auto &c : count)
		EXPECT_OK(c[0] + c[1] > 5 && c[1] > 0.3 * (c[0] + c[1]));
	EXPECT_OK(in_work > 10 * other);
}

int main()
{
	calls();
	folding();
	all_taken();
	history();
	profiler();
	std::puts("PASS");
	return 0;
}
