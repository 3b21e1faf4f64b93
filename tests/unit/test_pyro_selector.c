/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors of Pyroscope's clients: names of labels, the profile type, what is no selector. */
#include "http/pyro_selector.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *keys[] = { (char *)"comm", (char *)"http.route", (char *)"a.b", (char *)"a_b",
			(char *)"odd\"key" };
static char *labels[] = { (char *)"comm", (char *)"http_route", (char *)"a.b", (char *)"a_b",
			  (char *)"odd_key" };
static const struct pyro_names names = { keys, labels, 5, 5 };
static const struct store_event own = { "cpu-clock", "nanoseconds", 1, 0 },
				sent = { "ingest:cpu", "nanoseconds", 1, 0 };

static void check(const struct store_event *e, const char *text, const char *expected)
{
	char *v[] = { (char *)(uintptr_t)text }, *out = NULL;
	assert_int_equal(pyro_selector(&names, e, v, 1, &out, NULL), 0);
	assert_string_equal(out, expected);
	free(out);
}

static void of_clients(void **state)
{
	(void)state;
	check(&own, "{}", "{}");
	check(&own, "", "{}");
	check(&own, "{comm=\"sh\"}", "{\"comm\"=\"sh\"}");
	check(&own, "{http_route=~\"/a,{}.*\", a_b!='x'}",
	      "{\"http.route\"=~\"/a,{}.*\",\"a_b\"!='x'}");
	check(&own, "{service_name=\"sh\"}", "{\"comm\"=\"sh\"}");
	check(&sent, "{service_name=\"sh\"}", "{\"service_name\"=\"sh\"}");
	check(&own, "{__profile_type__=\"a:b\", comm=`x\\`}", "{\"comm\"=`x\\`}");
	check(&own, "{\"http.route\"=\"x\\\"y\"}", "{\"http.route\"=\"x\\\"y\"}");
	check(&own, "{odd_key = \"x\"}", "{\"odd\\\"key\" = \"x\"}");
	check(&own, "{unknown=\"x\"}", "{\"unknown\"=\"x\"}");
	/* What is no selector stays, for the parser to complain of. */
	check(&own, "{comm=}", "{comm=}");
	check(&own, "{comm=\"a\",oops}", "{\"comm\"=\"a\",oops}");
	check(&own, "{comm=\"a", "{{comm=\"a}");
}

static void several(void **state)
{
	char *v[] = { (char *)"{comm=\"a\"}", (char *)"{}", (char *)"{a_b=\"c\"}" }, *out;
	char type[8];
	(void)state;
	assert_int_equal(pyro_selector(&names, &own, v, 3, &out, NULL), 0);
	assert_string_equal(out, "{\"comm\"=\"a\",\"a_b\"=\"c\"}");
	free(out);
	pyro_selector_type(v, 3, type, sizeof(type));
	assert_string_equal(type, "");
	v[1] = (char *)"{comm=\"x\", __profile_type__ = \"p:q:r:s:t\"}";
	pyro_selector_type(v, 3, type, sizeof(type));
	assert_string_equal(type, "p:q:r:s"); /* cut to what fits */
}

/* Whatever comes: no read beyond the text (the build with sanitizers), and an end. */
static void nonsense(void **state)
{
	static const char of[] = "{}=!~\"'`\\, ab_.1\n";
	(void)state;
	srand(1);
	for (int i = 0; i < 200000; i++) {
		char type[16], *out = NULL, *v[1];
		size_t n = (size_t)rand() % 24;
		v[0] = malloc(n + 1);
		for (size_t k = 0; k < n; k++)
			v[0][k] = of[(size_t)rand() % (sizeof(of) - 1)];
		v[0][n] = 0;
		assert_int_equal(pyro_selector(&names, &own, v, 1, &out, NULL), 0);
		assert_true(strlen(out) >= 2);
		pyro_selector_type(v, 1, type, sizeof(type));
		free(out);
		free(v[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(of_clients), cmocka_unit_test(several),
					    cmocka_unit_test(nonsense) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
