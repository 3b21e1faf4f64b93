/* SPDX-License-Identifier: Apache-2.0 */
/* Simplified names, by a table; and whatever comes: no name grows, none takes long. */
#include "symbols/names.h"
#include "symbols/symbols.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *folded, *simple; /* NULL: as the one before */
} table[] = {
	{ "", NULL, NULL },
	{ "main", NULL, NULL },
	{ "foo.isra.0", "foo", NULL },
	{ "foo.part.12.cold", "foo", NULL },
	{ "foo.constprop.0.isra.0", "foo", NULL },
	{ "foo.lto_priv.3", "foo", NULL },
	{ "foo.llvm.1234567", "foo", NULL },
	{ "foo.cold", "foo", NULL },
	{ ".cold", NULL, NULL },
	{ "cold.1", NULL, NULL },
	{ "v1.2", NULL, NULL },
	{ "foo(int) [clone .isra.0]", "foo(int)", "foo" },
	{ "foo(int) [clone .part.0] [clone .cold]", "foo(int)", "foo" },
	{ "std::vector<int, std::allocator<int> >::push_back(int const&)", NULL,
	  "std::vector::push_back" },
	{ "void foo<int>(int)", NULL, "foo" },
	{ "Foo<int>::bar() const", NULL, "Foo::bar" },
	{ "inner.<locals>.<genexpr>", NULL, NULL },
	{ "<module>", NULL, NULL },
	{ "Class.method.<locals>.<lambda>", NULL, NULL },
	{ "Foo::bar(int) const &", NULL, "Foo::bar" },
	{ "Foo::Foo()", NULL, "Foo::Foo" },
	{ "Foo::Foo(int)", NULL, "Foo::Foo" },
	{ "Foo::Foo(Foo const&)", NULL, "Foo::copy_construct" },
	{ "Foo::Foo(Foo&)", NULL, "Foo::copy_construct" },
	{ "Foo::Foo(Foo&&)", NULL, "Foo::move_construct" },
	{ "Foo::Foo(Foo&&, int)", NULL, "Foo::Foo" },
	{ "Foo::Foo(Foobar const&)", NULL, "Foo::Foo" },
	{ "Foo::Foo(Foox)", NULL, "Foo::Foo" },
	{ "Foo::Foo(Foo**)", NULL, "Foo::Foo" },
	{ "Foo::Foo(Foo const*)", NULL, "Foo::Foo" },
	{ "Foo::Foo(Foo const&, int)", NULL, "Foo::Foo" },
	{ "Foo::Foo(Bar const&)", NULL, "Foo::Foo" },
	{ "Foo::Foo(F)", NULL, "Foo::Foo" },
	{ "a::Foo::Foo(a::Foo&&)", NULL, "a::Foo::move_construct" },
	{ "a::Foo::Foo(Foo&&)", NULL, "a::Foo::Foo" },
	{ "o::Foo::oo(o::Foo&&)", NULL, "o::Foo::oo" },
	{ "Foo(Foo const&)", NULL, "Foo" },
	{ "Foo::Bar::Foo(Foo::Bar const&)", NULL, "Foo::Bar::Foo" },
	{ "F::Foo(F const&)", NULL, "F::Foo" },
	{ "Foo<int>::Foo(Foo<int> const&) [clone .cold]", "Foo<int>::Foo(Foo<int> const&)",
	  "Foo::copy_construct" },
	{ "Foo::~Foo()", NULL, "Foo::~Foo" },
	{ "Foo::operator=(Foo const&)", NULL, "Foo::operator=" },
	{ "Foo::assign(Foo const&)", NULL, "Foo::assign" },
	{ "ns::Foo<int, char>::Foo(ns::Foo<int, char> const&)", NULL, "ns::Foo::copy_construct" },
	{ "ns::Foo<int, char>::Foo(ns::Foo<int, char>&&)", NULL, "ns::Foo::move_construct" },
	{ "ns::Foo<int>::Foo(ns::Foo<char> const&)", NULL, "ns::Foo::Foo" },
	{ "xFoo::Foo(xFoo const&)", NULL, "xFoo::Foo" },
	{ "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string("
	  "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)",
	  NULL, "std::__cxx11::basic_string::copy_construct" },
	{ "operator<(A const&, A const&)", NULL, "operator<" },
	{ "bool operator< <int>(A<int> const&, A<int> const&)", NULL, "operator<" },
	{ "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
	  NULL, "std::operator<<" },
	{ "std::istream& operator>>(std::istream&, A&)", NULL, "operator>>" },
	{ "Foo::operator->() const", NULL, "Foo::operator->" },
	{ "Foo<int>::operator->*(int Foo::*)", NULL, "Foo::operator->*" },
	{ "Foo::operator()(int) const", NULL, "Foo::operator()" },
	{ "Foo::operator[](unsigned long)", NULL, "Foo::operator[]" },
	{ "Foo::operator<=>(Foo const&) const", NULL, "Foo::operator<=>" },
	{ "Foo::operator bool() const", NULL, "Foo::operator bool" },
	{ "Foo::operator unsigned long() const", NULL, "Foo::operator unsigned long" },
	{ "operator new(unsigned long)", NULL, "operator new" },
	{ "operator delete[](void*)", NULL, "operator delete[]" },
	{ "my_operator<int>(int)", NULL, "my_operator" },
	{ "main::{lambda(int)#1}::operator()(int) const", NULL, "main::{lambda#1}::operator()" },
	{ "foo(int)::{lambda()#2}::operator()() const", NULL, "foo::{lambda#2}::operator()" },
	{ "Foo::bar(int) const::{lambda(auto:1)#1}::_FUN(int)", NULL,
	  "Foo::bar::{lambda#1}::_FUN" },
	{ "(anonymous namespace)::foo(int)", NULL, "(anonymous namespace)::foo" },
	{ "void (anonymous namespace)::foo<int>(int)", NULL, "(anonymous namespace)::foo" },
	{ "a::(anonymous namespace)::Foo<int>::bar()", NULL, "a::(anonymous namespace)::Foo::bar" },
	{ "std::enable_if<sizeof(Foo) > 4, void>::type bar<Foo>(Foo)", NULL, "bar" },
	{ "std::enable_if<((sizeof (Foo))>(4)), void>::type bar<Foo>(Foo)", NULL, "bar" },
	{ "std::enable_if<(sizeof (Foo))>(4), void>::type bar<Foo>(Foo)", NULL, "bar" },
	{ "std::enable_if<sizeof(Foo) < 4, void>::type bar<Foo>(Foo)", NULL, "bar" },
	{ "Foo<(3 > 2)>::bar(int)", NULL, "Foo::bar" },
	{ "Foo<((1)<<(3))>::bar(int)", NULL, "Foo::bar" },
	{ "decltype (((x).f)(0)) call<X>(X)", NULL, "call" },
	{ "std::function<void (int)>::operator()(int) const", NULL, "std::function::operator()" },
	{ "void call<std::function<int (char const*)> >(std::function<int (char const*)>)", NULL,
	  "call" },
	{ "decltype (({parm#1}->begin)()) first<X>(X*)", NULL, "first" },
	{ "decltype ((declval<X>)()>(0)) more<X>(X)", NULL, "more" },
	{ "sum(int (&) [3])", NULL, "sum" },
	{ "Of<Point{1, 2}>::get()", NULL, "Of::get" },
	{ "Of<(Kind)1>::get(int [2])", NULL, "Of::get" },
	{ "f(int (*)(int), int)", NULL, "f" },
	{ "f(int]", NULL, NULL },
	{ "f<int]>", NULL, NULL },
	{ "f[abi:cxx11](int)", NULL, "f" },
	{ "non-virtual thunk to Foo<int>::bar(int)", NULL, "non-virtual thunk to Foo::bar" },
	{ "<alloc::vec::Vec<T> as core::ops::index::Index<I>>::index", NULL, NULL },
	{ "std::mem::align_of::<usize>", NULL, "std::mem::align_of" },
	{ "core::ptr::drop_in_place<alloc::string::String>", NULL, "core::ptr::drop_in_place" },
	{ "main.(*Cart).Total", NULL, NULL },
	{ "net/http.(*conn).serve.func1", NULL, NULL },
	{ "main.Map[go.shape.int]", NULL, NULL },
	{ "<module>", NULL, NULL },
	{ "get size", NULL, NULL },
	{ "(anonymous shop.js:7)", NULL, NULL },
	{ "int Hot.fibonacci(int)", NULL, "Hot.fibonacci" },
	{ "I2C/C2I adapters", NULL, NULL },
	{ "foo(int", NULL, NULL },
	{ "foo<int", NULL, NULL },
	{ "foo)", NULL, NULL },
};

static void test_table(void **state)
{
	char out[8192];
	int failed = 0;
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const char *folded = table[i].folded ? table[i].folded : table[i].name;
		const char *simple = table[i].simple ? table[i].simple : folded;
		name_fold_clones(table[i].name, out, sizeof(out));
		if (strcmp(out, folded))
			failed++, print_message("%s: folded %s, want %s\n", table[i].name, out,
						folded);
		name_simplify(table[i].name, out, sizeof(out));
		if (strcmp(out, simple))
			failed++, print_message("%s: simple %s, want %s\n", table[i].name, out,
						simple);
	}
	assert_int_equal(failed, 0);
}

/* A constructor says which one it is, from the mangled name on. */
static void test_mangled(void **state)
{
	static const char *const names[][2] = {
		{ "_ZN3FooC1ERKS_", "Foo::copy_construct" },
		{ "_ZN3FooC2EOS_", "Foo::move_construct" },
		{ "_ZN3FooC1Ei", "Foo::Foo" },
		{ "_ZN2ns3FooIiEC2ERKS1_", "ns::Foo::copy_construct" },
		{ "_ZN2ns3FooIiEC2EOS1_", "ns::Foo::move_construct" },
		{ "_ZNSt6vectorIiSaIiEEC1ERKS1_", "std::vector::copy_construct" },
		{ "_Z3barI3FooENSt9enable_ifIXgtstT_Li4EEvE4typeES2_", "bar" },
		{ "_ZL9local_onei.constprop.0", "local_one" },
	};
	char full[8192], out[8192];
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		symbol_demangle(names[i][0], full, sizeof(full));
		name_simplify(full, out, sizeof(out));
		if (strcmp(out, names[i][1]))
			fail_msg("%s, %s: %s", names[i][0], full, out);
	}
}

static void test_noise(void **state)
{
	static const char alphabet[] = "ab<>(){}[]:: ,.-&*#operator0";
	char name[400], out[400], small[16];
	uint64_t seed = 3;
	(void)state;
	for (int i = 0; i < 200000; i++) {
		size_t n = (size_t)(seed >> 33) % 60;
		for (size_t k = 0; k < n; k++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			name[k] = alphabet[(seed >> 33) % (sizeof(alphabet) - 1)];
		}
		name[n] = 0;
		seed += 12345;
		name_simplify(name, out, sizeof(out));
		assert_true(strlen(out) <= n + strlen("copy_construct"));
		name_simplify(name, small, sizeof(small));
		assert_true(strlen(small) < sizeof(small));
		assert_memory_equal(small, out, strlen(small));
	}
	static char deep[20000], big[20000];
	memset(deep, '<', sizeof(deep) - 1);
	deep[0] = 'a';
	name_simplify(deep, big, sizeof(big));
	assert_string_equal(big, deep);
	for (size_t i = 1; i < 7000; i++)
		deep[i] = i & 1 ? '(' : '<';
	deep[7000] = 0;
	name_simplify(deep, big, sizeof(big));
	assert_string_equal(big, deep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_mangled),
		cmocka_unit_test(test_noise),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
