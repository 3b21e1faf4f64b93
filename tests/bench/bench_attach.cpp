/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_attach [ROUNDS]: what labels cost the application, in ns of CPU time per operation. The
 * cases take turns within each round and the median over the rounds is printed, so that a slow
 * moment of the machine meets all of them.
 */
#include <ascribe/label.hpp>
#include <ascribe/trampoline.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "bench_attach.h"
#include "figure.h"

#define KEEP(x) asm volatile("" : : "r"(x) : "memory")

static __attribute__((noinline)) void empty_call()
{
	asm volatile("");
}

static void bare_call(long n)
{
	for (long i = 0; i < n; i++)
		empty_call();
}

static const ascribe::label &query()
{
	static const ascribe::label q{ "query_id", 42 };
	return q;
}

static void attach_detach(long n)
{
	const ascribe_label_set *set = query().set();
	for (long i = 0; i < n; i++) {
		ascribe_scope scope;
		ascribe_attach(&scope, set);
		ascribe_detach(&scope);
	}
}

static void apply_call(long n)
{
	const ascribe::label &q = query();
	for (long i = 0; i < n; i++)
		q.apply(empty_call);
}

static void apply_inline(long n)
{
	const ascribe::label &q = query();
	for (long i = 0; i < n; i++)
		q.apply([] { asm volatile(""); });
}

static void trampoline_call(long n)
{
	ascribe::trampoline_label l{ "query_id", 42 };
	for (long i = 0; i < n; i++)
		l.apply(empty_call);
}

/* A label bound and released, one trampoline after the other. */
static void trampoline_bind(long n)
{
	for (long i = 0; i < n; i++) {
		ascribe::trampoline_label l{ "query_id", i };
		KEEP(&l);
	}
}

static void swap(long n)
{
	ascribe::task_labels t{ query() };
	for (long i = 0; i < n; i++)
		t.swap();
	if (n % 2)
		t.swap();
}

static void nested_same(long n)
{
	ascribe::scope outer{ query() };
	attach_detach(n);
}

static void nested(long n, const ascribe::label &outer, const ascribe::label &inner)
{
	ascribe::scope o{ outer };
	for (long i = 0; i < n; i++)
		inner.apply([] { asm volatile(""); });
}

static void nested_one(long n)
{
	nested(n, query(), ascribe::label{ "tenant", "acme" });
}

static void nested_override(long n)
{
	nested(n, query(), ascribe::label{ "query_id", 43 });
}

static void nested_four(long n)
{
	nested(n,
	       ascribe::label{ { "tenant", "acme" },
			       { "query_id", 1 },
			       { "database", "orders" },
			       { "user", "someone" } },
	       ascribe::label{ { "operator", "hash join" },
			       { "fragment", 3 },
			       { "user", "nobody" },
			       { "step", "probe" } });
}

static void scope_label(long n)
{
	for (long i = 0; i < n; i++) {
		ASCRIBE_LABEL_SCOPE("query_id", i);
	}
}

static void define_two(long n)
{
	for (long i = 0; i < n; i++) {
		ascribe::label q{ { "tenant", "acme" }, { "query_id", i + 1000000000000 } };
		KEEP(q.set());
	}
}

static void define_eight(long n)
{
	for (long i = 0; i < n; i++) {
		ascribe::label q{ { "tenant", "a tenant of 20 bytes" },
				  { "query_id", i },
				  { "database", "orders" },
				  { "user", "someone" },
				  { "operator", "hash join" },
				  { "fragment", 3 },
				  { "step", "probe" },
				  { "endpoint", "/api/v1/query" } };
		KEEP(q.set());
	}
}

/*
 * What a writer pays that allocates its sets, as custom-labels does: set node, key and value, then
 * free.
 */
static void malloc_set(long n)
{
	struct pair {
		char *key, *value;
	};
	static __thread pair *volatile current;
	for (long i = 0; i < n; i++) {
		pair *set = static_cast<pair *>(malloc(sizeof(pair)));
		set->key = strdup("query_id");
		set->value = strdup("1000000000042");
		current = set;
		asm volatile("" ::: "memory");
		KEEP(current);
		current = nullptr;
		free(set->key);
		free(set->value);
		free(set);
	}
}

static double cpu_ns()
{
	timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

static double measure(const bench_case &c, long n)
{
	double begin = cpu_ns();
	c.run(n);
	return (cpu_ns() - begin) / static_cast<double>(n);
}

static double median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return v[v.size() / 2];
}

/* Go's labels, where Go was there to build the program that stands beside this one. */
static void tell_go(const char *self)
{
	std::string path = self;
	double go_do = 0, set = 0;
	path = path.substr(0, path.find_last_of('/') + 1) + "pprof_do";
	FILE *f = access(path.c_str(), X_OK) ? nullptr : popen(path.c_str(), "r");
	if (f && fscanf(f, "%lf %lf", &go_do, &set) == 2) {
		figure("label/apply", "Go's pprof.Do", &go_do, 1, 1);
		figure("label/attach", "Go's pprof.SetGoroutineLabels, twice", &set, 1, 1);
	}
	if (f)
		pclose(f);
}

int main(int argc, char **argv)
{
	std::vector<bench_case> cases = {
		{ "empty call", bare_call, nullptr },
		{ "attach + detach", attach_detach, "label/attach" },
		{ "label.apply, work inlined", apply_inline, "label/apply" },
		{ "label.apply(empty call)", apply_call, "label/apply-call" },
		{ "trampoline_label.apply(empty call)", trampoline_call, "label/trampoline" },
		{ "trampoline_label bound and released", trampoline_bind, "label/trampoline-bind" },
		{ "swap (coroutine switch)", swap, "label/swap" },
		{ "nested: the same labels again", nested_same, nullptr },
		{ "nested: 1 label on 1", nested_one, nullptr },
		{ "nested: 1 label overrides 1", nested_override, nullptr },
		{ "nested: 4 labels on 4, 1 overridden", nested_four, nullptr },
		{ "ASCRIBE_LABEL_SCOPE, integer", scope_label, nullptr },
		{ "first definition: 2 labels", define_two, "label/define2" },
		{ "first definition: 8 labels", define_eight, "label/define8" },
		{ "beside: malloc per set, 1 label", malloc_set, nullptr },
	};
	for (const bench_case *c = bench_library_cases(); c->name; c++)
		cases.push_back(*c);

	const int rounds = argc > 1 ? std::max(1, atoi(argv[1])) : 11;
	std::vector<long> n;
	std::vector<std::vector<double>> ns(cases.size());
	for (const bench_case &c : cases) /* about 5 ms each; this also warms up */
		n.push_back(
			std::max(1000L, static_cast<long>(5e6 / std::max(0.2, measure(c, 20000)))));
	for (int r = 0; r < rounds; r++)
		for (size_t i = 0; i < cases.size(); i++)
			ns[i].push_back(measure(cases[i], n[i]));

	printf("Labels in the application: ns per operation, %d rounds\n", rounds);
	for (size_t i = 0; i < cases.size(); i++) {
		if (cases[i].id)
			figure(cases[i].id, "ascribe", ns[i].data(), ns[i].size(), 1);
		else
			printf("  %-38s %8.2f\n", cases[i].name, median(ns[i]));
	}
	figure("label/attach", "(an empty call)", ns[0].data(), ns[0].size(), 1);
	for (size_t i = 0; i < cases.size(); i++)
		if (cases[i].run == malloc_set)
			figure("label/define2", "a writer that allocates its set, 1 label",
			       ns[i].data(), ns[i].size(), 1);
	tell_go(argv[0]);
	return 0;
}
