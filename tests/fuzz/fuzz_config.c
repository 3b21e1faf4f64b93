/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: the daemon's YAML file. It has an option of every type, and the sections: receivers
 * of profiles and metrics from profiles.
 *
 * Covers: opt/config.c opt/section.c opt/push_options.c opt/rule_options.c opt/label_rules.c
 */
#include "fuzz/input.h"
#include "opt/config.h"
#include "opt/label_rules.h"
#include "opt/push_options.h"
#include "opt/rule_options.h"

#include <errno.h>

struct settings {
	bool flag;
	const char *text;
	uint64_t number, size;
	int64_t duration, time;
	struct opt_list texts, push, metrics;
	struct label_rules labels;
};

#define OPTION(name, type, member, ...) \
	{ name, 0, type, "X", "x", offsetof(struct settings, member), __VA_ARGS__ }

static const struct opt options[] = {
	OPTION("flag", OPT_FLAG, flag, 0, 0),
	OPTION("text", OPT_STRING, text, 0, 0),
	OPTION("number", OPT_UINT, number, 1, 1000),
	OPTION("size", OPT_SIZE, size, 1 << 16, 64 << 20),
	OPTION("duration", OPT_DURATION, duration, 0, 0),
	OPTION("time", OPT_TIME, time, 0, 0),
	OPTION("texts", OPT_TEXTS, texts, 0, 0),
	OPTION("push", OPT_SECTIONS, push, 0, 0),
	OPTION("metrics", OPT_SECTIONS, metrics, 0, 0),
	OPTION("label-keep", OPT_LIST, labels.keep, 0, 0),
	OPTION("label-drop", OPT_LIST, labels.drop, 0, 0),
	OPTION("label-redact", OPT_LIST, labels.redact, 0, 0),
	OPTION("config", OPT_STRING, text, 0, 0),
	OPTION("check-config", OPT_FLAG, flag, 0, 0),
	OPTION("print-token", OPT_FLAG, flag, 0, 0),
};

static const struct opt_command command = { .name = "fuzz",
					    .usage = "",
					    .about = "x",
					    .opts = options,
					    .n_opts = sizeof(options) / sizeof(options[0]) };

static void read_sections(const struct settings *s)
{
	static const struct label_rules none;
	struct label_filter *f = NULL;
	struct err err;
	require(label_rules_same(&s->labels, &s->labels));
	require(label_rules_same(&s->labels, &none) ==
		!(s->labels.keep.n + s->labels.drop.n + s->labels.redact.n));
	for (size_t i = 0; i < s->push.n; i++) {
		static struct push_section one;
		push_section_parse(&one, s->push.v[i], &err);
		push_section_fini(&one);
	}
	for (size_t i = 0; i < s->metrics.n; i++) {
		struct rule_section one;
		if (!rule_section_parse(&one, s->metrics.v[i], &err))
			require(one.r.name && one.r.n_keys <= RULE_KEYS_MAX);
		rule_section_fini(&one);
	}
	if (!label_rules_filter(&s->labels, &f, &err))
		filter_free(f);
}

/* Blame each option, which may be in the file, and one that there is not. */
static void blame(const struct config_file *cfg)
{
	for (size_t i = 0; i <= command.n_opts; i++) {
		const char *key = i < command.n_opts ? options[i].name : "none";
		struct err err;
		err_set(&err, -EINVAL, i % 3 ? "%s%s: is bad" : "bad", i % 3 > 1 ? "--" : "", key);
		config_blame(cfg, &command, key, &err);
		require(err.code == -EINVAL && strstr(err.text, key) && strstr(err.text, "bad"));
	}
}

/* What was given on the command line is not taken from the file. */
static void read_given(const char *path)
{
	static const struct settings nothing;
	struct config_file cfg = { 0 };
	struct settings s;
	struct err err = { 0 };
	memset(&s, 0, sizeof(s)); /* its padding, too */
	int rc = config_read(&cfg, path, &command, UINT64_MAX, &s, &err);
	require(!rc == !err.text[0] && !memcmp(&s, &nothing, sizeof(s)));
	blame(&cfg);
	config_fini(&cfg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config_file cfg = { 0 };
	struct settings s = { 0 };
	struct err err = { 0 };
	char path[40];
	int fd = file_of(data, size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int rc = config_read(&cfg, path, &command, 0, &s, &err);
	require(!rc == !err.text[0]);
	if (!rc) {
		require(!s.number || (s.number >= 1 && s.number <= 1000));
		require(!s.size || (s.size >= 1 << 16 && s.size <= 64 << 20));
		read_sections(&s);
		read_given(path);
	}
	blame(&cfg);
	opt_release(&command, &s);
	config_fini(&cfg);
	close(fd);
	return 0;
}
