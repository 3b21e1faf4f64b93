/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++20 coroutines that keep their labels while they move between threads.
 *
 * The labels are in the promise (ascribe::task_labels). The scheduler swaps them in before a turn
 * and out behind it: one load and one store each. A scope that the coroutine has open when it
 * suspends stays open, whichever thread goes on with it.
 *
 * Prints the CPU seconds of each label, measured by the work itself.   coroutines [SECONDS]
 */
#include <ascribe/label.hpp>

#include <condition_variable>
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "burn.h"

/* ---- what a coroutine library has to add: labels in the promise ---- */

struct task {
	struct promise_type {
		/* Starts with what is attached where the coroutine is made */
		ascribe::task_labels labels;

		task get_return_object()
		{
			return { std::coroutine_handle<promise_type>::from_promise(*this) };
		}
		std::suspend_always initial_suspend() noexcept { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		void return_void() {}
		void unhandled_exception() { std::terminate(); }
	};
	std::coroutine_handle<promise_type> handle;
};

/* ... and two swaps in the scheduler. */
static void run_turn(std::coroutine_handle<task::promise_type> h)
{
	h.promise().labels.swap();
	h.resume();
	h.promise().labels.swap();
}

/* ---- a scheduler of two threads ---- */

class scheduler {
public:
	void add(task t)
	{
		std::lock_guard lock(mutex_);
		queue_.push_back(t.handle);
		alive_++;
	}

	/* co_await: let others have a turn. */
	static auto yield() { return std::suspend_always{}; }

	void run()
	{
		std::vector<std::thread> threads;
		for (int i = 0; i < 2; i++)
			threads.emplace_back([this] { work(); });
		for (std::thread &t : threads)
			t.join();
	}

private:
	void work()
	{
		std::unique_lock lock(mutex_);
		for (;;) {
			news_.wait(lock, [this] { return !alive_ || !queue_.empty(); });
			if (!alive_)
				return;
			std::coroutine_handle<task::promise_type> h = queue_.front();
			queue_.pop_front();
			lock.unlock();
			run_turn(h);
			lock.lock();
			if (h.done()) {
				h.destroy();
				alive_--;
			} else {
				queue_.push_back(h);
			}
			news_.notify_all();
		}
	}

	std::condition_variable news_;
	std::mutex mutex_;
	std::deque<std::coroutine_handle<task::promise_type>> queue_;
	int alive_ = 0;
};

/* ---- the application ---- */

struct request {
	const char *tenant;
	double weight;
	double parse_s = 0, query_s = 0;
};

static task serve(request &r, double seconds)
{
	while (r.parse_s + r.query_s < seconds * r.weight) {
		{
			ascribe::scope s{ "step", "parse" };
			r.parse_s += burn(0.0005);
			/* Wakes up on any thread, "parse" still attached */
			co_await scheduler::yield();
			r.parse_s += burn(0.0005);
		}
		ascribe::scope s{ "step", "query" };
		r.query_s += burn(0.001);
		co_await scheduler::yield();
		r.query_s += burn(0.001);
	}
}

int main(int argc, char **argv)
{
	const double seconds = argc > 1 ? atof(argv[1]) : 1;
	request requests[] = { { "acme", 1 }, { "globex", 0.5 }, { "initech", 0.25 } };
	scheduler s;
	for (request &r : requests)
		ascribe::label{ "tenant", r.tenant }.apply([&] { s.add(serve(r, seconds)); });
	s.run();
	const char *between = "{";
	for (const request &r : requests) {
		std::printf("%s\"%s parse\": %.6f, \"%s query\": %.6f", between, r.tenant,
			    r.parse_s, r.tenant, r.query_s);
		between = ", ";
	}
	std::puts("}");
}
