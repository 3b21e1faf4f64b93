/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo: a server without a network. Requests of three tenants, 60 / 30 / 10 of a hundred, come
 * through a bounded queue to worker threads, which do real work under the request's labels. At the
 * end it says what CPU time each tenant and endpoint used by the threads' own clocks, so that a
 * profile can be compared with it.
 */
#include <ascribe/label.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <regex>
#include <string>
#include <thread>
#include <vector>
#include <zlib.h>

namespace {

struct random_numbers { /* splitmix64 */
	uint64_t state;
	uint64_t next()
	{
		uint64_t z = state += 0x9e3779b97f4a7c15;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		return z ^ z >> 31;
	}
};

/* ---- the work; each request takes a millisecond or a few ---- */

__attribute__((noinline)) std::string make_document(uint64_t seed, size_t size)
{
	static const char *const words[] = { "select", "orders",      "from",	 "2024-03-15",
					     "GET",    "/index.html", "error",	 "user@example.com",
					     "where",  "10.0.0.17",   "timeout", "status=200" };
	random_numbers r{ seed };
	std::string s;
	s.reserve(size + 20);
	while (s.size() < size) {
		s += words[r.next() % (sizeof(words) / sizeof(words[0]))];
		s += r.next() % 8 ? ' ' : '\n';
	}
	return s;
}

__attribute__((noinline)) uint64_t serve_compress(uint64_t seed)
{
	const std::string in = make_document(seed, 96 * 1024);
	std::vector<Bytef> out(compressBound(in.size()));
	uLongf size = out.size();
	compress2(out.data(), &size, reinterpret_cast<const Bytef *>(in.data()), in.size(), 6);
	return size;
}

/* FNV-1a: a checksum that keeps a CPU busy, no cryptography. */
__attribute__((noinline)) uint64_t hash_block(const std::string &s, uint64_t h)
{
	for (unsigned char c : s)
		h = (h ^ c) * 0x100000001b3;
	return h ^ h >> 32;
}

__attribute__((noinline)) uint64_t serve_hash(uint64_t seed)
{
	const std::string in = make_document(seed, 32 * 1024);
	uint64_t h = seed;
	for (int i = 0; i < 64; i++)
		h = hash_block(in, h);
	return h;
}

__attribute__((noinline)) uint64_t serve_sort(uint64_t seed)
{
	random_numbers r{ seed };
	std::vector<uint64_t> v(40000);
	for (uint64_t &x : v)
		x = r.next();
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

__attribute__((noinline)) uint64_t serve_regex(uint64_t seed)
{
	static const std::regex pattern("([a-z]+)@([a-z]+)\\.com|status=([0-9]+)");
	const std::string in = make_document(seed, 48 * 1024);
	return static_cast<uint64_t>(std::distance(
		std::sregex_iterator(in.begin(), in.end(), pattern), std::sregex_iterator()));
}

/* ---- requests ---- */

const struct {
	const char *name;
	unsigned int share;
} tenants[] = { { "acme", 60 }, { "globex", 30 }, { "initech", 10 } };
constexpr size_t n_tenants = sizeof(tenants) / sizeof(tenants[0]);

const struct {
	const char *name;
	uint64_t (*serve)(uint64_t seed);
} endpoints[] = {
	{ "/compress", serve_compress },
	{ "/hash", serve_hash },
	{ "/sort", serve_sort },
	{ "/regex", serve_regex },
};
constexpr size_t n_endpoints = sizeof(endpoints) / sizeof(endpoints[0]);

struct request {
	uint64_t query_id;
	size_t tenant, endpoint;
};

class request_queue {
public:
	/* Waits while the queue is full. False: the server stops. */
	bool push(const request &r)
	{
		std::unique_lock<std::mutex> lock(mutex_);
		room_.wait(lock, [this] { return closed_ || queue_.size() < 64; });
		if (closed_)
			return false;
		queue_.push_back(r);
		work_.notify_one();
		return true;
	}

	bool pop(request *ret)
	{
		std::unique_lock<std::mutex> lock(mutex_);
		work_.wait(lock, [this] { return closed_ || !queue_.empty(); });
		if (closed_)
			return false;
		*ret = queue_.front();
		queue_.pop_front();
		room_.notify_one();
		return true;
	}

	void close()
	{
		std::lock_guard<std::mutex> lock(mutex_);
		closed_ = true;
		work_.notify_all();
		room_.notify_all();
	}

private:
	std::mutex mutex_;
	std::condition_variable work_, room_;
	std::deque<request> queue_;
	bool closed_ = false;
};

struct usage {
	double seconds[n_tenants][n_endpoints];
	uint64_t requests;
};

double thread_seconds()
{
	timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

std::atomic<uint64_t> answers; /* so that no work is without a use */

void worker(request_queue &queue, usage &used)
{
	request r;
	while (queue.pop(&r)) {
		const ascribe::label labels{ { "tenant", tenants[r.tenant].name },
					     { "endpoint", endpoints[r.endpoint].name },
					     { "query_id", r.query_id } };
		const double begin = thread_seconds();
		answers += labels.apply([&] { return endpoints[r.endpoint].serve(r.query_id); });
		used.seconds[r.tenant][r.endpoint] += thread_seconds() - begin;
		used.requests++;
	}
}

void clients(request_queue &queue)
{
	random_numbers r{ 1 };
	for (uint64_t id = 1;; id++) {
		unsigned int at = static_cast<unsigned int>(r.next() % 100);
		size_t tenant = 0;
		for (; at >= tenants[tenant].share; tenant++)
			at -= tenants[tenant].share;
		if (!queue.push({ id, tenant, static_cast<size_t>(r.next() % n_endpoints) }))
			return;
	}
}

/* ---- the program ---- */

void print_row(const char *key, const char *value, double seconds, double total)
{
	printf("  %-8s %-10s %9.3f s %6.2f%%\n", key, value, seconds,
	       total > 0 ? 100 * seconds / total : 0);
}

void report(const std::vector<usage> &used, double wall)
{
	double by_tenant[n_tenants] = {}, by_endpoint[n_endpoints] = {}, total = 0;
	unsigned long long requests = 0;
	for (const usage &u : used) {
		requests += u.requests;
		for (size_t t = 0; t < n_tenants; t++) {
			for (size_t e = 0; e < n_endpoints; e++) {
				by_tenant[t] += u.seconds[t][e];
				by_endpoint[e] += u.seconds[t][e];
				total += u.seconds[t][e];
			}
		}
	}
	printf("demo: %llu requests in %.1f s; CPU time in requests by the threads' own clocks: %.3f s\n",
	       requests, wall, total);
	for (size_t t = 0; t < n_tenants; t++)
		print_row("tenant", tenants[t].name, by_tenant[t], total);
	for (size_t e = 0; e < n_endpoints; e++)
		print_row("endpoint", endpoints[e].name, by_endpoint[e], total);
}

[[noreturn]] void usage_error(const char *what, const char *name)
{
	fprintf(stderr, "demo: %s %s\nusage: demo [--seconds N] [--threads N]\n", name, what);
	exit(2);
}

/* A whole number 1 .. max. */
long number(const char *name, const char *text, long max)
{
	char *end = nullptr;
	const long v = text ? strtol(text, &end, 10) : 0;
	if (!text || end == text || *end || v < 1 || v > max)
		usage_error("takes a whole number, 1 or more", name);
	return v;
}

} /* namespace */

int main(int argc, char **argv)
{
	long seconds = 0,
	     threads = std::max(1l, static_cast<long>(std::thread::hardware_concurrency()));
	for (int i = 1; i < argc; i += 2) {
		const char *value = i + 1 < argc ? argv[i + 1] : nullptr;
		if (!strcmp(argv[i], "--seconds"))
			seconds = number(argv[i], value, 1000000);
		else if (!strcmp(argv[i], "--threads"))
			threads = number(argv[i], value, 1024);
		else
			usage_error("is no option", argv[i]);
	}

	/*
	 * Signals wait for this thread, which waits for nothing else: until one comes or the time
	 * is over.
	 */
	sigset_t stop;
	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &stop, nullptr);

	request_queue queue;
	std::vector<usage> used(static_cast<size_t>(threads));
	std::vector<std::thread> all;
	timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (usage &u : used)
		all.emplace_back([&queue, &u] {
			pthread_setname_np(pthread_self(), "demo-worker");
			worker(queue, u);
		});
	all.emplace_back([&queue] {
		pthread_setname_np(pthread_self(), "demo-clients");
		clients(queue);
	});
	if (seconds) {
		const timespec limit = { seconds, 0 };
		sigtimedwait(&stop, nullptr, &limit);
	} else {
		sigwaitinfo(&stop, nullptr);
	}
	queue.close();
	for (std::thread &t : all)
		t.join();
	clock_gettime(CLOCK_MONOTONIC, &end);
	report(used, static_cast<double>(end.tv_sec - begin.tv_sec) +
			     static_cast<double>(end.tv_nsec - begin.tv_nsec) / 1e9);
	return 0;
}
