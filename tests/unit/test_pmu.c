/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of PMUs by their names, in a made tree of files as sysfs has them: fields that are spread
 * over the words, names of events, what does not fit or is damaged. And lists of events.
 */
#include "sampler/events.h"
#include "sampler/pmu.h"
#include "sampler/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/ascribe-pmu-XXXXXX";

static void make_file(const char *path, const char *text)
{
	char full[300];
	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(full, 0700);
		*p = '/';
	}
	FILE *f = fopen(full, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int make_tree(void **state)
{
	static const char *const files[][2] = {
		{ "cpu/type", "4\n" },
		{ "cpu/format/event", "config:0-7\n" },
		{ "cpu/format/umask", "config:8-15,40-47\n" },
		{ "cpu/format/any", "config:21\n" },
		{ "cpu/format/ldlat", "config1:0-15\n" },
		{ "cpu/format/all", "config2:0-63\n" },
		{ "cpu/format/odd", "config3:0-7\n" },
		{ "cpu/format/past", "config:60-64\n" },
		{ "cpu/format/back", "config:7-0\n" },
		{ "cpu/format/none", "" },
		{ "cpu/format/text", "bits\n" },
		{ "cpu/events/cpu-cycles", "event=0x3c\n" },
		{ "cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n" },
		{ "cpu/events/loop", "loop\n" },
		{ "cpu_atom/type", "10\n" },
		{ "cpu_atom/cpus", "4-7\n" },
		{ "cpu_atom/format/event", "config:0-7\n" },
		{ "uncore/type", "11\n" },
		{ "uncore/cpumask", "0\n" },
		{ "damaged/type", "x\n" },
	};
	(void)state;
	assert_non_null(mkdtemp(root));
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		make_file(files[i][0], files[i][1]);
	return 0;
}

static int remove_tree(void **state)
{
	char cmd[100];
	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -r %s", root);
	return system(cmd);
}

static void test_events(void **state)
{
	static const struct {
		const char *text;
		uint32_t type;
		uint64_t config, config1, config2;
	} good[] = {
		{ "cpu/event=0x3c,umask=0/", 4, 0x3c, 0, 0 },
		{ "cpu/event=0x3c,umask=0xabcd/", 4, 0xab000000cd3c, 0, 0 },
		{ "cpu/cpu-cycles/", 4, 0x3c, 0, 0 },
		{ "cpu/cpu-cycles,any/", 4, 0x20003c, 0, 0 },
		{ "cpu/mem-loads/", 4, 0x1cd, 3, 0 },
		{ "cpu/all=0xffffffffffffffff/", 4, 0, 0, UINT64_MAX },
		{ "cpu/config=0x1a8,config1=7/", 4, 0x1a8, 7, 0 },
		{ "cpu_atom/event=7/", 10, 7, 0, 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct perf_event_attr a = { 0 };
		struct err err = { 0 };
		if (pmu_parse(&a, root, good[i].text, &err))
			fail_msg("%s: %s", good[i].text, err.text);
		assert_int_equal(a.type, good[i].type);
		assert_int_equal(a.config, good[i].config);
		assert_int_equal(a.config1, good[i].config1);
		assert_int_equal(a.config2, good[i].config2);
	}
	static const char *const bad[] = { "cpu/event=0x100/",
					   "cpu/umask=0x10000/",
					   "cpu/nothing/",
					   "cpu/nothing=1/",
					   "cpu/event=-1/",
					   "cpu/event=/",
					   "cpu/event=0x/",
					   "cpu/event=1x/",
					   "cpu/odd=1/",
					   "cpu/past=1/",
					   "cpu/back=1/",
					   "cpu/none=1/",
					   "cpu/text=1/",
					   "cpu/loop/",
					   "cpu/../cpu/",
					   "cpu/..=1/",
					   "cpu//",
					   "cpu/",
					   "cpu",
					   "/event=1/",
					   "../event=1/",
					   "cpu/event=1/x",
					   "uncore/config=1/",
					   "damaged/config=1/",
					   "nothing/config=1/",
					   "cpu/=1/",
					   "cpu/event=99999999999999999999/" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct perf_event_attr a = { 0 };
		struct err err = { 0 };
		if (pmu_parse(&a, root, bad[i], &err) != -EINVAL || !*err.text || a.config)
			fail_msg("%s is accepted", bad[i]);
	}
}

/* The keeper opens no others: they count all threads, or take addresses of the caller. */
static void test_core(void **state)
{
	(void)state;
	assert_true(pmu_is_core(root, 4) && pmu_is_core(root, 10));
	assert_false(pmu_is_core(root, 11) || pmu_is_core(root, 12) || pmu_is_core("/nowhere", 4));
}

static void test_modifiers(void **state)
{
	struct event e;
	(void)state;
	assert_int_equal(event_parse(&e, "page-faults:u", 99, NULL), 0);
	assert_true(e.attr.exclude_kernel && !e.attr.exclude_user && !e.leaves_out);
	assert_string_equal(e.name, "page-faults:u");
	assert_int_equal(event_parse(&e, "cpu-clock:k", 100, NULL), 0);
	assert_true(!e.attr.exclude_user && e.leaves_out == LEAVE_OUT_USER);
	assert_int_equal(e.ns_per_sample, 10000000);
	assert_int_equal(event_parse(&e, "cycles:ukpp", 99, NULL), 0);
	assert_true(!e.attr.exclude_kernel && !e.attr.exclude_user && e.attr.precise_ip == 2);
	assert_true(e.ns_per_sample);
	assert_int_equal(event_parse(&e, "cycles:u", 99, NULL), 0);
	assert_true(e.attr.exclude_kernel && !e.ns_per_sample);
	assert_int_equal(event_parse(&e, "r1a8:up", 99, NULL), 0);
	assert_true(e.attr.type == PERF_TYPE_RAW && e.attr.config == 0x1a8 && e.attr.freq &&
		    e.attr.exclude_kernel && e.attr.precise_ip == 1);
	static const char *const bad[] = { "cycles:",		"cycles:uu", "cycles:ku",
					   "cycles:pppp",	"cycles:x",  "cycles:u:k",
					   "cpu-clock:p",	"r",	     "r1g",
					   "r11112222333344445" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (event_parse(&e, bad[i], 99, NULL) != -EINVAL)
			fail_msg("%s is accepted", bad[i]);
}

#define W(text) ((char[]){ text }) /* a writable copy */

static void test_list(void **state)
{
	char *texts[] = { W("page-faults"), W("nothing/a=1"), W("b=2"), W("c/"), W("cpu-clock") };
	struct event e[8];
	struct err err = { 0 };
	unsigned n;
	(void)state;
	/* The whole event is looked for, not its beginning. */
	assert_int_equal(events_parse(e, &n, texts, 5, 99, &err), -EINVAL);
	assert_non_null(strstr(err.text, "'nothing/a=1,b=2,c/'"));
	assert_int_equal(events_parse(e, &n, texts, 1, 99, &err), 0);
	assert_int_equal(n, 1);
	assert_int_equal(events_set_period(e, n, 10, &err), 0);
	assert_int_equal(e[0].attr.sample_period, 10);
	assert_int_equal(events_parse(e, &n, texts + 4, 1, 99, &err), 0);
	assert_int_equal(events_set_period(e, n, 10, &err), -EINVAL);
	char *many[] = { W("r1"), W("r2"), W("r3"), W("r4"), W("r5"),
			 W("r6"), W("r7"), W("r8"), W("r9") };
	assert_int_equal(events_parse(e, &n, many, 8, 99, &err), 0);
	assert_int_equal(events_parse(e, &n, many, 9, 99, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_core),
		cmocka_unit_test(test_modifiers),
		cmocka_unit_test(test_list),
	};
	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
