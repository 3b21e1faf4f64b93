/* SPDX-License-Identifier: Apache-2.0 */
/* Which process the keeper of a unit takes for its recorder, by texts of /proc/PID/cgroup. */
#include "daemon/keeper_unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

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
		if (daemon_is_recorder_unit(v[i].own, v[i].peer) != v[i].is)
			fail_msg("%zu: %s%s", i, v[i].own, v[i].peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_units) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
