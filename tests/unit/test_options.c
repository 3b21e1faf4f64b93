/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option parser, durations and times. The oracle for times is timegm and `date`'s arithmetic,
 * written out.
 */
#include "opt/options.c"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct values {
	bool all, quiet;
	const char *out;
	uint64_t rate, room;
	int64_t duration, from;
	struct opt_list keys;
};

static const struct opt table[] = {
	{ "all", 'a', OPT_FLAG, NULL, "every process", offsetof(struct values, all), 0, 0 },
	{ "quiet", 'q', OPT_FLAG, NULL, "no words", offsetof(struct values, quiet), 0, 0 },
	{ "output", 'o', OPT_STRING, "FILE", "where to", offsetof(struct values, out), 0, 0 },
	{ "rate", 'F', OPT_UINT, "HZ", "samples\nper second", offsetof(struct values, rate), 1,
	  10000 },
	{ "duration", 'd', OPT_DURATION, "TIME", "how long", offsetof(struct values, duration), 0,
	  0 },
	{ "from", 0, OPT_TIME, "T", "since", offsetof(struct values, from), 0, 0 },
	{ "by", 'b', OPT_LIST, "KEY,..", "keys", offsetof(struct values, keys), 0, 0 },
	{ "room", 0, OPT_SIZE, "SIZE", "memory", offsetof(struct values, room), 1 << 16, 1 << 20 },
};

static struct opt_command cmd = {
	.name = "try",
	.usage = "[X] [OPTIONS]",
	.about = "Try.\n",
	.opts = table,
	.n_opts = 8,
	.max_args = 1,
};

static int parse(struct values *v, struct opt_args *args, struct err *err, const char *line)
{
	static char copy[400];
	static char *argv[20]; /* ret_args points into it */
	int argc = 0;
	snprintf(copy, sizeof(copy), "try %s", line);
	for (char *t = strtok(copy, " "); t; t = strtok(NULL, " "))
		argv[argc++] = t;
	memset(v, 0, sizeof(*v));
	return opt_parse(&cmd, argc, argv, v, args, err);
}

static void good_lines(void **state)
{
	struct values v;
	struct opt_args args;
	struct err err = { 0 };
	(void)state;
	assert_int_equal(parse(&v, &args, &err, "dir -aq -F99 --output=x -d 1m30s --by a,b -b c"),
			 0);
	assert_true(v.all && v.quiet);
	assert_int_equal(v.rate, 99);
	assert_string_equal(v.out, "x");
	assert_int_equal(v.duration, 90 * NSEC);
	assert_int_equal(v.keys.n, 3);
	assert_string_equal(v.keys.v[2], "c");
	assert_int_equal(args.n, 1);
	assert_string_equal(args.v[0], "dir");
	opt_release(&cmd, &v);
	assert_null(v.keys.v);

	/*
	 * An argument may stand anywhere; -- ends the options; a lone dash is an argument; the last
	 * value counts.
	 */
	assert_int_equal(parse(&v, &args, &err, "-F 5 -F 6 dir -a"), 0);
	assert_int_equal(v.rate, 6);
	assert_string_equal(args.v[0], "dir");
	assert_int_equal(parse(&v, &args, &err, "-a -- -F"), 0);
	assert_string_equal(args.v[0], "-F");
	assert_int_equal(parse(&v, &args, &err, "-"), 0);
	assert_string_equal(args.v[0], "-");
	assert_int_equal(parse(&v, &args, &err, "--help"), OPT_HELP);
	assert_int_equal(parse(&v, &args, &err, "-ah"), OPT_HELP);
}

static void runs_a_command(void **state)
{
	struct values v;
	struct opt_args args;
	struct err err = { 0 };
	(void)state;
	cmd.runs_command = true;
	assert_int_equal(parse(&v, &args, &err, "-F 9 sleep -F --nonsense 1"), 0);
	assert_int_equal(args.n, 4);
	assert_string_equal(args.v[1], "-F");
	assert_int_equal(v.rate, 9);
	assert_int_equal(parse(&v, &args, &err, "-F 9 -- -x"), 0);
	assert_string_equal(args.v[0], "-x");
	cmd.runs_command = false;
}

static void bad_lines(void **state)
{
	static const struct {
		const char *line, *text;
	} bad[] = {
		{ "-F 0", "--rate 0: must be from 1 to 10000" },
		{ "-F 10001", "--rate 10001: must be from 1 to 10000" },
		{ "-F -1", "--rate -1: not a whole number" },
		{ "-F 99999999999999999999",
		  "--rate 99999999999999999999: must be from 1 to 10000" },
		{ "-F 1x", "--rate 1x: not a whole number" },
		{ "--room 65535", "--room 65535: must be from 65536 to 1048576 bytes" },
		{ "--room 1G", "--room 1G: must be from 65536 to 1048576 bytes" },
		{ "--room x", "--room x: not a size; try 512MiB or 10G" },
		{ "-F", "--rate needs a value: HZ" },
		{ "--all=1", "--all takes no value" },
		{ "--duratoin 1s", "unknown option --duratoin; did you mean --duration?" },
		{ "--dur 1s", "unknown option --dur; did you mean --duration?" },
		{ "--since 1", "unknown option --since; did you mean --from?" },
		{ "--zzzzzz", "unknown option --zzzzzz" },
		{ "-z", "unknown option -z" },
		{ "--by a,,b", "--by a,,b: an element of the list is empty" },
		{ "--by ,", "--by ,: an element of the list is empty" },
		{ "-d 0s",
		  "--duration 0s: a duration must be more than 0 and less than 292 years" },
		{ "-d soon", "--duration soon: not a duration; try 10s, 500ms, 2m or 1h30m" },
		{ "--from noon",
		  "--from noon: not a time; try -1h, \"10 minutes ago\", 14:05, \"2026-11-23 14:05\", 2026-11-23T14:05:00Z or epoch seconds" },
		{ "a b", "unexpected argument 'b'" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct values v;
		struct err err = { 0 };
		assert_int_equal(parse(&v, NULL, &err, bad[i].line), -EINVAL);
		assert_string_equal(err.text, bad[i].text);
		opt_release(&cmd, &v);
	}
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		int rc;
		int64_t ns;
	} t[] = {
		{ "10s", 0, 10 * NSEC },
		{ "500ms", 0, NSEC / 2 },
		{ "2m", 0, 120 * NSEC },
		{ "10", 0, 10 * NSEC },
		{ "1h30m", 0, 5400 * NSEC },
		{ "1.5h", 0, 5400 * NSEC },
		{ "0.1s", 0, NSEC / 10 },
		{ "1d", 0, 86400 * NSEC },
		{ "2w", 0, 14 * 86400 * NSEC },
		{ "7us", 0, 7000 },
		{ "1ns", 0, 1 },
		{ "9223372036s", 0, 9223372036 * NSEC },
		{ "9223372037s", -ERANGE, 0 },
		{ "99999999999999999999s", -ERANGE, 0 },
		{ "0", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "-1s", -EINVAL, 0 },
		{ "1x", -EINVAL, 0 },
		{ "1m30", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ "1.s", -EINVAL, 0 },
		{ "1 s", 0, NSEC },
		{ "10 minutes", 0, 600 * NSEC },
		{ "1hour30min", 0, 5400 * NSEC },
		{ "2 days", 0, 2 * 86400 * NSEC },
		{ "3weeks", 0, 3 * 7 * 86400 * NSEC },
		{ "1  s", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "5 minu", -EINVAL, 0 },
		{ "1S", -EINVAL, 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		int64_t ns = 0;
		assert_int_equal(opt_duration(t[i].text, &ns), t[i].rc);
		assert_int_equal(ns, t[i].ns);
	}
}

static void times(void **state)
{
	/* date -ud 2026-05-01T10:00:00Z +%s = 1777629600 */
	const int64_t base = 1777629600 * NSEC, now = base + 5;
	static const struct {
		const char *text;
		int rc;
		int64_t plus;
	} t[] = {
		{ "2026-05-01T10:00:00Z", 0, 0 },
		{ "2026-05-01t10:00:00z", 0, 0 },
		{ "2026-05-01 12:00:00+02:00", 0, 0 },
		{ "2026-05-01T04:30:00-05:30", 0, 0 },
		{ "2026-05-01T10:00:00.25Z", 0, NSEC / 4 },
		{ "2026-05-01T10:00:00.000000001Z", 0, 1 },
		{ "2026-05-01T10:00:00", 0, 0 }, /* TZ=UTC below */
		{ "1777629600", 0, 0 },
		{ "1777629600.5", 0, NSEC / 2 },
		{ "now", 0, 5 },
		{ "now-1h", 0, 5 - 3600 * NSEC },
		{ "now+10s", 0, 5 + 10 * NSEC },
		{ "now-", -EINVAL, 0 },
		{ "now1h", -EINVAL, 0 },
		{ "nowhere", -EINVAL, 0 },
		{ "2026-13-01T10:00:00Z", -EINVAL, 0 },
		{ "2026-02-29T10:00:00Z", -EINVAL, 0 },
		{ "2026-05-01", 0, -36000 * NSEC },
		{ "2026-05-01 10:05", 0, 300 * NSEC },
		{ "2026-05-01T10:05", 0, 300 * NSEC },
		{ "2026-05-01 10:5", -EINVAL, 0 },
		{ "2026-05-01 ", -EINVAL, 0 },
		{ "09:55", 0, -300 * NSEC },
		{ "09:55:30", 0, -270 * NSEC },
		{ "09:55:30.5", 0, -270 * NSEC + NSEC / 2 },
		{ "10:00", 0, 0 },
		{ "10:01", 0, 60 * NSEC - 86400 * NSEC }, /* yesterday */
		{ "24:00", -EINVAL, 0 },
		{ "9:55", -EINVAL, 0 },
		{ "09:55Z", -EINVAL, 0 },
		{ "-1h", 0, 5 - 3600 * NSEC },
		{ "5m", 0, 5 - 300 * NSEC },
		{ "now-5min", 0, 5 - 300 * NSEC },
		{ "10 minutes ago", 0, 5 - 600 * NSEC },
		{ "1h30m ago", 0, 5 - 5400 * NSEC },
		{ "10 ago", -EINVAL, 0 },
		{ "minutes ago", -EINVAL, 0 },
		{ "-1h-1h", -EINVAL, 0 },
		{ "-now", -EINVAL, 0 },
		{ "2026-05-01T10:00Z", -EINVAL, 0 },
		{ "2026-05-01T10:00:00+2", -EINVAL, 0 },
		{ "2026-05-01T10:00:00Zx", -EINVAL, 0 },
		{ "9999999999999", -ERANGE, 0 },
		{ "-5", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};
	(void)state;
	setenv("TZ", "UTC", 1);
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		int64_t ns = base;
		assert_int_equal(opt_time(t[i].text, now, &ns), t[i].rc);
		assert_int_equal(ns - base, t[i].plus);
	}
	int64_t leap = 0;
	assert_int_equal(opt_time("2028-02-29T00:00:00Z", now, &leap), 0);
	assert_int_equal(leap, 1835395200 * NSEC);
}

static void suggestions(void **state)
{
	static const char *const names[] = { "record", "report", "flame", "stat", NULL };
	(void)state;
	assert_string_equal(opt_suggest("reprot", names), "report");
	assert_string_equal(opt_suggest("rec", names), "record");
	assert_string_equal(opt_suggest("flam", names), "flame");
	assert_string_equal(opt_suggest("stats", names), "stat");
	assert_null(opt_suggest("kubernetes", names));
	assert_null(opt_suggest("x", names));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_lines), cmocka_unit_test(runs_a_command),
		cmocka_unit_test(bad_lines),  cmocka_unit_test(durations),
		cmocka_unit_test(times),      cmocka_unit_test(suggestions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
