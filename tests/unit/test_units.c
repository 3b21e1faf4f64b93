/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process the keeper of a unit takes for its recorder, and which for one that serves, by
 * texts of /proc/PID/cgroup.
 */
#include "daemon/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <unistd.h>

#define SLICE "/system.slice/system-ascribe.slice/"
#define OWN "0::" SLICE "ascribe-keeper.service\n"

static void test_units(void **state)
{
	static const struct {
		const char *own, *peer;
		bool is;
	} v[] = {
		{ OWN, "0::" SLICE "ascribe.service\n", true },
		{ "1:name=systemd:" SLICE "ascribe-keeper.service\n0::/x\n",
		  "1:name=systemd:" SLICE "ascribe.service\n0::/x\n", true },
		{ "9:name=systemd:/\n" OWN, "9:name=systemd:/\n0::" SLICE "ascribe.service", true },
		/* Its own children, another unit, names that begin or end so, another place */
		{ OWN, OWN, false },
		{ OWN, "0::/system.slice/cron.service\n", false },
		{ OWN, "0::" SLICE "ascribe.service2\n", false },
		{ OWN, "0::" SLICE "my-ascribe.service\n", false },
		{ OWN, "0::" SLICE "ascribe.service/x\n", false },
		{ OWN, "0::/user.slice/ascribe.service\n", false },
		{ OWN, "0::/user.slice" SLICE "ascribe.service\n", false },
		{ OWN, "1:name=systemd:" SLICE "ascribe.service\n", false },
		/* Nobody is there any more, or this is no unit of systemd */
		{ OWN, "", false },
		{ "", "0::" SLICE "ascribe.service\n", false },
		{ "0::/\n", "0::/\n", false },
		{ "0::/init.scope\n", "0::/ascribe.service\n", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		if (unit_is_beside(v[i].own, v[i].peer, UNIT_RECORDER) != v[i].is)
			fail_msg("%zu: %s%s", i, v[i].own, v[i].peer);
}

static void test_instances(void **state)
{
	static const struct {
		const char *peer;
		bool is;
	} v[] = {
		{ "0::" SLICE "ascribe-web@0-1234-0.service\n", true },
		{ "9:name=systemd:/\n0::" SLICE "ascribe-web@7.service", true },
		/* The template, another one, names that begin or end so, another place */
		{ "0::" SLICE "ascribe-web@.service\n", false },
		{ "0::" SLICE "ascribe-web.service\n", false },
		{ "0::" SLICE "ascribe-web@0-1-0.servic\n", false },
		{ "0::" SLICE "ascribe-web@0-1-0.service2\n", false },
		{ "0::" SLICE "my-ascribe-web@0-1-0.service\n", false },
		{ "0::" SLICE "ascribe-web@0-1-0.service/x\n", false },
		{ "0::" SLICE "ascribe-web@x/0-1-0.service\n", false },
		{ "0::/system.slice/ascribe-web@0-1-0.service\n", false },
		{ "0::/user.slice" SLICE "ascribe-web@0-1-0.service\n", false },
		{ "1:name=systemd:" SLICE "ascribe-web@0-1-0.service\n", false },
		{ OWN, false },
		{ "", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		if (unit_is_beside(OWN, v[i].peer, UNIT_WEB) != v[i].is)
			fail_msg("%zu: %s", i, v[i].peer);
	/* Whoever runs this is in no unit of these. */
	assert_false(unit_has(UNIT_WEB, getpid()));
	assert_false(unit_has(UNIT_RECORDER, getpid()));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_units),
					    cmocka_unit_test(test_instances) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
