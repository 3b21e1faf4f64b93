/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbol_demangle against c++filt, over the mangled names of this machine's libraries, and by hand
 * where c++filt prints what we strip.
 */
#include "symbols/symbols.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void expect(const char *mangled, const char *want)
{
	char got[8192];
	symbol_demangle(mangled, got, sizeof(got));
	assert_string_equal(got, want);
}

static void test_plain_names(void **state)
{
	(void)state;
	expect("", "");
	expect("main", "main");
	expect("memcpy@@GLIBC_2.14", "memcpy");
	expect("memcpy@GLIBC_2.2.5", "memcpy");
	expect("@", "@");
	expect("runtime.(*mheap).alloc", "runtime.(*mheap).alloc");
	expect("_ZTS", "_ZTS");
	expect("_Z", "_Z");
	expect("_R", "_R");
	expect("_start", "_start");
	expect("_Zebra_crossing", "_Zebra_crossing");
	expect("_Restart_now", "_Restart_now");
}

static void test_cxx(void **state)
{
	(void)state;
	expect("_Z3foov", "foo()");
	expect("_ZNSt6vectorIiSaIiEE9push_backERKi",
	       "std::vector<int, std::allocator<int> >::push_back(int const&)");
	expect("_ZNSs6appendERKSs@@GLIBCXX_3.4", "std::string::append(std::string const&)");
	expect("_ZL9local_onei.constprop.0", "local_one(int) [clone .constprop.0]");
	expect("_Z3barv.cold", "bar() [clone .cold]");
}

static void test_rust(void **state)
{
	(void)state;
	expect("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
	expect("_ZN77_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..index..Index$LT$I$GT$$GT$5index17h9a8b7c6d5e4f3021E",
	       "<alloc::vec::Vec<T> as core::ops::index::Index<I>>::index");
	expect("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.1234567890",
	       "core::fmt::Formatter::pad");
	expect("_RNvCsbmNqQUJIY6D_4core3bar", "core::bar");
	expect("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar");
	expect("_RINvNtC3std3mem8align_ofjE", "std::mem::align_of::<usize>");
	/* Not Rust, though it ends in a hash. */
	expect("plain::h0123456789abcdef", "plain::h0123456789abcdef");
}

static double cpu_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Every further argument says all before it again: 2^n of text for 3n bytes. */
static void test_explosive_names(void **state)
{
	(void)state;
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char name[8192], out[4096];
	double before = cpu_ms();
	for (int n = 1; n < 300; n++) {
		size_t len = (size_t)sprintf(name, "_Z1fI1aE");
		for (int i = 0; i < n && len < 4000; i++)
			len += (size_t)(i < 2	 ? sprintf(name + len, "1AIS_S_E")
					: i < 38 ? sprintf(name + len, "1AIS%c_S%c_E",
							   digits[i - 2], digits[i - 2])
						 : sprintf(name + len, "1AIS%c%c_S%c%c_E",
							   digits[(i - 2) / 36 % 36],
							   digits[(i - 2) % 36],
							   digits[(i - 2) / 36 % 36],
							   digits[(i - 2) % 36]));
		symbol_demangle(name, out, sizeof(out));
		assert_true(strlen(out) < sizeof(out));
	}
	memset(name, 'P', sizeof(name));
	for (size_t len = 100; len < 8000; len += 100) {
		memcpy(name, "_Z1f", 4);
		name[len] = '\0';
		symbol_demangle(name, out, sizeof(out));
		memcpy(name, "_RNv", 4);
		symbol_demangle(name, out, sizeof(out));
		name[len] = 'P';
	}
	/*
	 * Costs that print nothing: counting to 62^11, and template arguments read twice at every
	 * level.
	 */
	expect("_RMINvC1a1bFGzzzzzzzzzzz_EuEj", "_RMINvC1a1bFGzzzzzzzzzzz_EuEj");
	expect("_RMINvC1a1bFG1_EuEj", "<usize>");
	strcpy(name, "_Zcv");
	for (int i = 0; i < 100; i++)
		strcat(name, "T_I");
	strcat(name, "Ev");
	expect(name, name);
	expect("_ZN1AcvT_IiEIiEEv", "A::operator int<int><int>()");
	assert_true(cpu_ms() - before < 2000);
}

/* Any room, any bytes: a NUL inside the room and nothing behind it. */
static void test_room(void **state)
{
	(void)state;
	static const char *const names[] = { "_ZNSt6vectorIiSaIiEE9push_backERKi",
					     "main",
					     "memcpy@@GLIBC_2.14",
					     "",
					     "_RNvNtCs1234_7mycrate3foo3bar",
					     "_RNvC4u8test3u30____7hkackfecea1cbdathfdh9hlq6y" };
	char out[128], full[128];
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		symbol_demangle(names[i], full, sizeof(full));
		for (size_t cap = 0; cap < 100; cap++) {
			memset(out, 0x55, sizeof(out));
			symbol_demangle(names[i], out, cap);
			for (size_t k = cap; k < sizeof(out); k++)
				assert_int_equal(out[k], 0x55);
			if (cap)
				assert_non_null(memchr(out, '\0', cap));
			if (cap > strlen(full))
				assert_string_equal(out, full);
		}
	}
	uint64_t seed = 3;
	for (int i = 0; i < 100000; i++) {
		static const char alphabet[] = "ZNSt_IKR0123456789EvicLTDpCsuh.B";
		char name[64] = "_Z";
		size_t len = 2 + seed % 60;
		for (size_t k = 2; k < len; k++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			name[k] = alphabet[(seed >> 40) % (sizeof(alphabet) - 1)];
		}
		if (i % 2)
			name[1] = 'R';
		symbol_demangle(name, out, sizeof(out));
		assert_non_null(memchr(out, '\0', sizeof(out)));
	}
}

/*
 * The mangled names of real libraries, by nm, each through c++filt -i. Rust names have their own
 * rules: see above.
 */
static size_t compare_with_cxxfilt(const char *path)
{
	char cmd[4600], *mangled = NULL, *want = NULL, got[8192];
	size_t cap_m = 0, cap_w = 0, n = 0;
	snprintf(
		cmd, sizeof(cmd),
		"LC_ALL=C nm -D --without-symbol-versions --defined-only '%s' 2>/dev/null | "
		"sed -n 's/.* \\(_Z.*\\)/\\1/p' | grep -v 17h | awk 'NR %% 7 == 0 && length < 1000' | head -3000 >/tmp/names.%d",
		path, getpid());
	if (system(cmd))
		return 0;
	snprintf(cmd, sizeof(cmd), "/tmp/names.%d", getpid());
	FILE *names = fopen(cmd, "r");
	snprintf(cmd, sizeof(cmd), "c++filt -i </tmp/names.%d", getpid());
	FILE *filt = popen(cmd, "r");
	assert_true(names && filt);
	while (getline(&mangled, &cap_m, names) > 0 && getline(&want, &cap_w, filt) > 0) {
		mangled[strcspn(mangled, "\n")] = '\0';
		want[strcspn(want, "\n")] = '\0';
		symbol_demangle(mangled, got, sizeof(got));
		if (strcmp(got, want) && strlen(want) < sizeof(got))
			fail_msg("%s: %s is %s, c++filt says %s", path, mangled, got, want);
		n++;
	}
	fclose(names);
	pclose(filt);
	free(mangled);
	free(want);
	snprintf(cmd, sizeof(cmd), "/tmp/names.%d", getpid());
	unlink(cmd);
	return n;
}

static void test_cxxfilt(void **state)
{
	(void)state;
	size_t n = 0;
	glob_t g = { 0 };
	glob("/usr/lib/*-linux-gnu/libstdc++.so.6", 0, NULL, &g);
	glob("/usr/lib/*-linux-gnu/libLLVM*.so.1*", GLOB_APPEND, NULL, &g);
	glob("/usr/bin/node", GLOB_APPEND, NULL, &g);
	for (size_t i = 0; i < g.gl_pathc; i++)
		n += compare_with_cxxfilt(g.gl_pathv[i]);
	globfree(&g);
	print_message("%zu names compared\n", n);
	assert_true(n > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_names), cmocka_unit_test(test_cxx),
		cmocka_unit_test(test_rust),	    cmocka_unit_test(test_explosive_names),
		cmocka_unit_test(test_room),	    cmocka_unit_test(test_cxxfilt),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
