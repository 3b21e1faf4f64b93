/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread pool that runs work with the labels of whoever submitted it: context::current() by value
 * at submit, apply() around the call. Work that submits more work hands its labels on.
 *
 * Prints the CPU seconds of each label, measured by the work itself.   thread_pool [SECONDS]
 */
#include <ascribe/label.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "burn.h"

class pool {
public:
	explicit pool(int n)
	{
		for (int i = 0; i < n; i++)
			threads_.emplace_back([this] { work(); });
	}

	~pool()
	{
		{
			std::unique_lock lock(mutex_);
			idle_.wait(lock, [this] { return !busy_ && queue_.empty(); });
			stop_ = true;
		}
		news_.notify_all();
		for (std::thread &t : threads_)
			t.join();
	}

	template <typename F> void submit(F f)
	{
		{
			std::lock_guard lock(mutex_);
			queue_.push([c = ascribe::context::current(), f = std::move(f)]() mutable {
				c.apply(f);
			});
		}
		news_.notify_one();
	}

private:
	void work()
	{
		std::unique_lock lock(mutex_);
		for (;;) {
			news_.wait(lock, [this] { return stop_ || !queue_.empty(); });
			if (queue_.empty())
				return;
			std::function<void()> f = std::move(queue_.front());
			queue_.pop();
			busy_++;
			lock.unlock();
			f();
			f = nullptr;
			lock.lock();
			if (!--busy_ && queue_.empty())
				idle_.notify_all();
		}
	}

	std::mutex mutex_;
	std::condition_variable news_, idle_;
	std::queue<std::function<void()>> queue_;
	std::vector<std::thread> threads_;
	int busy_ = 0;
	bool stop_ = false;
};

struct tenant {
	const char *name;
	int weight;
	std::atomic<long> scan_us{ 0 }, sort_us{ 0 };
};

/*
 * The work of the second step is submitted by that of the first: it inherits the tenant and adds
 * its step.
 */
static void scan(pool &p, tenant &t)
{
	{
		ascribe::scope s{ "step", "scan" };
		t.scan_us += static_cast<long>(burn(0.001) * 1e6);
	}
	ascribe::label{ "step", "sort" }.apply(
		[&] { p.submit([&t] { t.sort_us += static_cast<long>(burn(0.0005) * 1e6); }); });
}

int main(int argc, char **argv)
{
	const int turns = static_cast<int>((argc > 1 ? atof(argv[1]) : 1) * 500);
	tenant tenants[] = { { "acme", 3 }, { "globex", 1 } };
	{
		pool p(3);
		for (int i = 0; i < turns; i++) {
			tenant &t = tenants[i % 4 < 3 ? 0 : 1];
			ascribe::label{ "tenant", t.name }.apply(
				[&] { p.submit([&] { scan(p, t); }); });
		}
	}
	const char *between = "{";
	for (const tenant &t : tenants) {
		std::printf("%s\"%s scan\": %.6f, \"%s sort\": %.6f", between, t.name,
			    static_cast<double>(t.scan_us) / 1e6, t.name,
			    static_cast<double>(t.sort_us) / 1e6);
		between = ", ";
	}
	std::puts("}");
}
