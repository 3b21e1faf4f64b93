/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What label.hpp promises, through the independent reader. C++17; with C++20 also a coroutine that
 * moves.
 */
#include <ascribe/label.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#if __cplusplus >= 202002L && __has_include(<coroutine>)
#include <coroutine>
#define HAVE_COROUTINES 1
#endif

#include "reader.h"

static int failures;
#define EXPECT(want) expect(__LINE__, want)
#define EXPECT_OK(cond) \
	do { \
		if (!(cond)) { \
			printf("%d: %s\n", __LINE__, #cond); \
			__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED); \
		} \
	} while (0)

static unsigned long long expect(int line, const std::string &want)
{
	reading r;
	const char *wrong = reader_read("/selftest", &r);
	std::string have = wrong ? wrong : r.attached ? r.text : "-";
	if (have != want || r.modules != 1) {
		printf("%d: have \"%s\", modules %d, want \"%s\"\n", line, have.c_str(), r.modules,
		       want.c_str());
		__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
	}
	return r.set_id;
}

enum class color : unsigned char { red = 3 };

static void values()
{
	std::string owned = "acme";
	ascribe::label one{ "tenant", "acme" }, two{ "tenant", owned },
		three{ "tenant", std::string_view(owned) };
	EXPECT_OK(one.id() == two.id() && two.id() == three.id() && one.id() != 0);
	ascribe::label number{ "n", -5 }, many{
		{ "tenant", "a" }, { "query_id", 7u }, { "flag", true }, { "c", color::red }
	};
	ascribe::label pair{ { "x", "y" }, { "z", "w" } }, single{ { "x", "y" } };
	number.apply([] { EXPECT("n=#-5"); });
	many.apply([] { EXPECT("c=#3,flag=#1,query_id=#7,tenant=a"); });
	pair.apply([] { EXPECT("x=y,z=w"); });
	single.apply([] { EXPECT("x=y"); });
	ascribe::label{ "big", UINT64_MAX }.apply([] { EXPECT("big=18446744073709551615"); });
	ascribe::label{ "null", static_cast<const char *>(nullptr) }.apply([] { EXPECT("null="); });
	EXPECT_OK((ascribe::label{ { "tenant", "a" }, { "n", 1 } }.id() ==
		   ascribe::label{ { "n", 1 }, { "tenant", "a" } }.id()));
	EXPECT_OK((ascribe::label{ "", "x" }.dropped() == 1));
	unsigned char trace[24] = { 1 };
	EXPECT_OK(one.with_trace(trace, trace + 16).id() != one.id());
	EXPECT("-");
}

static void results_and_exceptions()
{
	ascribe::label q{ "query_id", 1 }, inner{ "tenant", "t" };
	int x = 5;
	EXPECT_OK(q.apply([&] { return x + 1; }) == 6);
	int &ref = q.apply([&]() -> int & { return x; });
	EXPECT_OK(&ref == &x);
	auto ptr = q.apply([] { return std::make_unique<int>(3); });
	EXPECT_OK(*ptr == 3);
	try {
		q.apply([&] {
			inner.apply([] {
				EXPECT("query_id=#1,tenant=t");
				throw std::runtime_error("x");
			});
		});
		EXPECT_OK(!"not reached");
	} catch (const std::runtime_error &) {
		EXPECT("-");
	}
	ascribe::scope s{ q };
	{
		ascribe::scope t{ "query_id", 2 };
		EXPECT("query_id=#2");
		ascribe::scope u{ { "a", "b" }, { "query_id", "text" } };
		EXPECT("a=b,query_id=text");
	}
	EXPECT("query_id=#1");
}

static void across_threads()
{
	ascribe::label q{ "query_id", 11 }, more{ "endpoint", "/x" };
	q.apply([&] {
		more.apply([&] {
			ascribe::context c = ascribe::context::current();
			std::thread([c] {
				ascribe::scope mine{ "own", 1 };
				c.apply([] { EXPECT("endpoint=/x,query_id=#11"); });
				EXPECT("own=#1");
				ascribe::context().apply([] { EXPECT("-"); });
			}).join();
		});
	});
	std::vector<std::thread> threads;
	for (int i = 0; i < 8; i++)
		threads.emplace_back([&q] {
			for (int k = 0; k < 100000; k++)
				q.apply([] { asm volatile("" ::: "memory"); });
			q.apply([] { EXPECT("query_id=#11"); });
			EXPECT("-");
		});
	for (auto &t : threads)
		t.join();
}

#ifdef HAVE_COROUTINES
struct task {
	struct promise_type {
		ascribe::task_labels labels{ ascribe::label{ "task", "co" } };
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
	void turn()
	{
		handle.promise().labels.swap();
		handle.resume();
		handle.promise().labels.swap();
	}
};

static task body()
{
	EXPECT("task=co");
	ascribe::scope s{ "step", 1 };
	EXPECT("step=#1,task=co");
	co_await std::suspend_always{};
	EXPECT("step=#1,task=co");
	{
		ascribe::label inner{ "step", 2 };
		ascribe::scope t{ inner };
		co_await std::suspend_always{};
		EXPECT("step=#2,task=co");
	}
	co_await std::suspend_always{};
	EXPECT("step=#1,task=co");
}

static void coroutines()
{
	task t = body();
	while (!t.handle.done())
		std::thread([&] { /* another thread each turn, with labels of its own */
				  ascribe::scope own{ "thread", "own" };
				  t.turn();
				  EXPECT("thread=own");
		})
			.join();
	t.handle.destroy();
	EXPECT("-");
}
#else
static void coroutines()
{
}
#endif

int main()
{
	values();
	results_and_exceptions();
	across_threads();
	coroutines();
	puts(failures ? "FAIL" : "PASS");
	return failures != 0;
}
