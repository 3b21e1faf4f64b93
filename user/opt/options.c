/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/options.h"

#include "opt/term.h"
#include "opt/text.h"

#include "util/times.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NSEC 1000000000ll

int opt_duration(const char *text, int64_t *ret_ns)
{
	return times_duration(text, ret_ns);
}

int opt_time(const char *text, int64_t now_ns, int64_t *ret_ns)
{
	return times_parse(text, now_ns, ret_ns);
}

/* ---- misspelt words ---- */

/* Edit distance with transpositions; words beyond 31 bytes are far from everything. */
static size_t distance(const char *a, const char *b)
{
	size_t d[32][32], n = strlen(a), m = strlen(b);
	if (n > 31 || m > 31)
		return SIZE_MAX;
	for (size_t i = 0; i <= n; i++) {
		for (size_t j = 0; j <= m; j++) {
			if (!i || !j) {
				d[i][j] = i + j;
				continue;
			}
			size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[n][m];
}

const char *opt_suggest(const char *word, const char *const *candidates)
{
	const char *best = NULL;
	size_t len = strlen(word), least = len / 3 + 1;
	for (size_t i = 0; candidates[i]; i++) {
		size_t d = distance(word, candidates[i]);
		/* The start of a word counts as near: "rep" means report. */
		if (len >= 2 && !strncmp(word, candidates[i], len))
			d = 0;
		if (d <= least && (!best || d < least)) {
			best = candidates[i];
			least = d;
		}
	}
	return best;
}

/* ---- parsing ---- */

static void *member(const struct opt *o, void *out)
{
	return (char *)out + o->at;
}

static int list_add(struct opt_list *l, const char *text)
{
	for (const char *p = text;; p++) {
		size_t len = strcspn(p, ",");
		if (!len)
			return -EINVAL;
		char **v = reallocarray(l->v, l->n + 1, sizeof(*v));
		if (!v)
			return -ENOMEM;
		l->v = v;
		v[l->n] = strndup(p, len);
		if (!v[l->n])
			return -ENOMEM;
		l->n++;
		p += len;
		if (!*p)
			return 0;
	}
}

static int list_add_text(struct opt_list *l, const char *text)
{
	char **v = *text ? reallocarray(l->v, l->n + 1, sizeof(*v)) : NULL;
	if (!*text)
		return -EINVAL;
	if (!v)
		return -ENOMEM;
	l->v = v;
	v[l->n] = strdup(text);
	return v[l->n] ? (l->n++, 0) : -ENOMEM;
}

static bool is_in_range(const struct opt *o, uint64_t v)
{
	return v >= o->min && (!o->max || v <= o->max);
}

static int parse_uint(const struct opt *o, const char *text, uint64_t *ret)
{
	char *end;
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno || !is_in_range(o, v))
		return -ERANGE;
	*ret = v;
	return 0;
}

static int parse_size(const struct opt *o, const char *text, uint64_t *ret)
{
	static const char units[] = "KMGT";
	char *end;
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	if (errno || (v << shift) >> shift != v)
		return -ERANGE;
	if (*end && (!unit || (end[1] && strcmp(end + 1, "iB"))))
		return -EINVAL;
	v <<= shift;
	if (!is_in_range(o, v))
		return -ERANGE;
	*ret = v;
	return 0;
}

static int bad_value(const struct opt *o, const char *text, int rc, struct err *err)
{
	unsigned long long min = o->min, max = o->max;
	const char *unit = o->type == OPT_SIZE ? " bytes" : "";
	bool number = o->type == OPT_UINT || o->type == OPT_SIZE;
	if (number && rc == -ERANGE && max)
		return err_set(err, -EINVAL, "--%s %s: must be from %llu to %llu%s", o->name, text,
			       min, max, unit);
	if (number && rc == -ERANGE && min)
		return err_set(err, -EINVAL, "--%s %s: must be at least %llu%s", o->name, text, min,
			       unit);
	switch (o->type) {
	case OPT_UINT:
		return err_set(err, -EINVAL, "--%s %s: not a whole number%s", o->name, text,
			       rc == -ERANGE ? " that fits" : "");
	case OPT_DURATION:
		if (rc == -ERANGE)
			return err_set(
				err, -EINVAL,
				"--%s %s: a duration must be more than 0 and less than 292 years",
				o->name, text);
		return err_set(err, -EINVAL, "--%s %s: not a duration; try 10s, 500ms, 2m or 1h30m",
			       o->name, text);
	case OPT_TIME:
		return err_set(
			err, -EINVAL,
			"--%s %s: not a time; try -1h, \"10 minutes ago\", 14:05, \"2026-11-23 "
			"14:05\", 2026-11-23T14:05:00Z or epoch seconds",
			o->name, text);
	case OPT_SIZE:
		return err_set(err, -EINVAL, "--%s %s: not a size; try 512MiB or 10G", o->name,
			       text);
	default:
		return err_set(err, -EINVAL, "--%s %s: an element of the list is empty", o->name,
			       text);
	}
}

static int set_value(const struct opt *o, const char *text, void *out, struct err *err)
{
	struct timespec now;
	int rc = 0;
	switch (o->type) {
	case OPT_FLAG:
		*(bool *)member(o, out) = true;
		break;
	case OPT_STRING:
		*(const char **)member(o, out) = text;
		break;
	case OPT_UINT:
		rc = parse_uint(o, text, member(o, out));
		break;
	case OPT_DURATION:
		rc = opt_duration(text, member(o, out));
		break;
	case OPT_TIME:
		clock_gettime(CLOCK_REALTIME, &now);
		rc = opt_time(text, now.tv_sec * NSEC + now.tv_nsec, member(o, out));
		break;
	case OPT_SIZE:
		rc = parse_size(o, text, member(o, out));
		break;
	case OPT_LIST:
		rc = list_add(member(o, out), text);
		break;
	case OPT_TEXTS:
	case OPT_SECTIONS:
		rc = list_add_text(member(o, out), text);
		break;
	}
	if (rc == -ENOMEM)
		return err_sys(err, rc, "--%s", o->name);
	return rc ? bad_value(o, text, rc, err) : 0;
}

/* ---- options of every command ---- */

static struct opt_common common;

const struct opt opt_common_table[] = {
	{ "color", 0, OPT_STRING, "WHEN",
	  "auto, always, never (default auto: on a terminal, unless NO_COLOR is set)",
	  offsetof(struct opt_common, color), 0, 0 },
	{ "no-pager", 0, OPT_FLAG, NULL, "print even what is longer than the screen at once",
	  offsetof(struct opt_common, no_pager), 0, 0 },
	{ "help", 'h', OPT_FLAG, NULL, "print this", 0, 0, 0 },
};
const size_t opt_common_n = sizeof(opt_common_table) / sizeof(opt_common_table[0]);

const struct opt_common *opt_common_given(void)
{
	return &common;
}

/* What other profilers and tools call an option. */
static const char *other_name(const struct opt_command *cmd, const char *word)
{
	static const char *const others[][2] = {
		{ "tgid", "pid" },	 { "tgids", "pid" },	  { "process", "pid" },
		{ "thread", "tid" },	 { "freq", "frequency" }, { "hz", "frequency" },
		{ "rate", "frequency" }, { "group-by", "by" },	  { "group", "by" },
		{ "filter", "where" },	 { "selector", "where" }, { "since", "from" },
		{ "start", "from" },	 { "until", "to" },	  { "end", "to" },
		{ "top", "limit" },	 { "count", "limit" },	  { "time", "duration" },
		{ "file", "output" },
	};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		for (size_t k = 0; k < cmd->n_opts && !strcmp(word, others[i][0]); k++)
			if (!strcmp(cmd->opts[k].name, others[i][1]))
				return others[i][1];
	return NULL;
}

/* Pods have names in the daemon alone, which asks for them all the time. */
static bool is_of_daemon(const char *word)
{
	static const char *const options[] = { "select",     "exclude",		"annotated",
					       "rate",	     "container-names", "node",
					       "pod-labels", "pod-annotations" };
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (!strcmp(word, options[i]))
			return true;
	return false;
}

static int unknown_option(const struct opt_command *cmd, const char *name, int len, struct err *err)
{
	const char *names[64];
	char word[32];
	size_t n = 0;
	snprintf(word, sizeof(word), "%.*s", len, name);
	/* Of commands that choose what is recorded. */
	for (size_t i = 0; i < cmd->n_opts && is_of_daemon(word); i++)
		if (!strcmp(cmd->opts[i].name, "exclude-cgroup"))
			return err_set(
				err, -EINVAL,
				"--%s is an option of ascribe daemon alone; here -F sets the "
				"rate, -G and --exclude-cgroup what is recorded",
				word);
	for (size_t i = 0; i < cmd->n_opts && n < 60; i++)
		names[n++] = cmd->opts[i].name;
	for (size_t i = 0; i < opt_common_n; i++)
		names[n++] = opt_common_table[i].name;
	names[n] = NULL;
	const char *near = other_name(cmd, word);
	near = near ? near : opt_suggest(word, names);
	return err_set(err, -EINVAL, "unknown option --%.*s%s%s%s", len, name,
		       near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
}

struct parser {
	const struct opt_command *cmd;
	char **argv;
	int argc, next;
	void *out;
	opt_mask given;
	struct err *err;
};

static int set_common(const struct opt *o, const char *value, struct err *err)
{
	if (!strcmp(o->name, "color") && strcmp(value, "auto") && strcmp(value, "always") &&
	    strcmp(value, "never"))
		return err_set(err, -EINVAL, "--color %s: auto, always or never", value);
	return set_value(o, value, &common, err);
}

static int take_value(struct parser *p, const struct opt *o, const char *attached)
{
	const char *value = attached;
	bool own = o >= p->cmd->opts && o < p->cmd->opts + p->cmd->n_opts;
	size_t index = own ? (size_t)(o - p->cmd->opts) : 64;
	p->given |= index < OPT_MASK_BITS ? (opt_mask)1 << index : 0;
	if (o->type == OPT_FLAG) {
		if (attached)
			return err_set(p->err, -EINVAL, "--%s takes no value", o->name);
		return own ? set_value(o, NULL, p->out, p->err) : set_common(o, NULL, p->err);
	}
	if (!value && p->next < p->argc)
		value = p->argv[p->next++];
	if (!value)
		return err_set(p->err, -EINVAL, "--%s needs a value: %s", o->name, o->arg);
	return own ? set_value(o, value, p->out, p->err) : set_common(o, value, p->err);
}

static int long_option(struct parser *p, const char *text)
{
	size_t len = strcspn(text, "=");
	for (size_t i = 0; i < p->cmd->n_opts; i++) {
		const struct opt *o = &p->cmd->opts[i];
		if (strlen(o->name) == len && !memcmp(o->name, text, len))
			return take_value(p, o, text[len] ? text + len + 1 : NULL);
	}
	if (!strcmp(text, "help"))
		return OPT_HELP;
	for (size_t i = 0; i < opt_common_n; i++) {
		const struct opt *o = &opt_common_table[i];
		if (strlen(o->name) == len && !memcmp(o->name, text, len))
			return take_value(p, o, text[len] ? text + len + 1 : NULL);
	}
	return unknown_option(p->cmd, text, (int)len, p->err);
}

static int short_options(struct parser *p, const char *text)
{
	for (; *text; text++) {
		const struct opt *o = NULL;
		for (size_t i = 0; i < p->cmd->n_opts && !o; i++) {
			if (p->cmd->opts[i].letter == *text)
				o = &p->cmd->opts[i];
		}
		if (!o && *text == 'h')
			return OPT_HELP;
		if (!o)
			return err_set(p->err, -EINVAL, "unknown option -%c", *text);
		if (o->type != OPT_FLAG)
			return take_value(p, o, text[1] ? text + 1 : NULL);
		int rc = take_value(p, o, NULL);
		if (rc)
			return rc;
	}
	return 0;
}

int opt_parse(const struct opt_command *cmd, int argc, char **argv, void *out,
	      struct opt_args *ret_args, struct err *err)
{
	struct parser p = { cmd, argv, argc, 1, out, 0, err };
	struct opt_args args = { argv + 1, 0, 0 };
	bool only_args = false;
	common = (struct opt_common){ 0 };
	while (p.next < argc) {
		char *a = argv[p.next++];
		int rc = 0;
		if (only_args || a[0] != '-' || !a[1]) {
			args.v[args.n++] = a;
			only_args |= cmd->runs_command;
		} else if (!strcmp(a, "--")) {
			only_args = true;
		} else {
			rc = a[1] == '-' ? long_option(&p, a + 2) : short_options(&p, a + 1);
		}
		if (rc)
			return rc;
	}
	if (args.n > cmd->max_args && !cmd->runs_command)
		return err_set(err, -EINVAL, "unexpected argument '%s'", args.v[cmd->max_args]);
	if (argc > 0)
		args.v[args.n] = NULL; /* execvp needs the end; what stands there has been read */
	args.given = p.given;
	if (ret_args)
		*ret_args = args;
	return 0;
}

int opt_set(const struct opt_command *cmd, const char *name, const char *text, void *out,
	    struct err *err)
{
	struct err e = { 0 };
	for (size_t i = 0; i < cmd->n_opts; i++) {
		const struct opt *o = &cmd->opts[i];
		if (strcmp(o->name, name))
			continue;
		if (o->type == OPT_FLAG && (!strcmp(text, "true") || !strcmp(text, "false"))) {
			*(bool *)member(o, out) = text[0] == 't';
			return 0;
		}
		if (o->type == OPT_FLAG)
			return err_set(err, -EINVAL, "%s: true or false", name);
		int rc = set_value(o, text, out, &e);
		/* Its text begins with "--". */
		return rc ? err_set(err, rc, "%s", strncmp(e.text, "--", 2) ? e.text : e.text + 2)
			  : 0;
	}
	const char *names[64];
	size_t n = 0;
	for (size_t i = 0; i < cmd->n_opts && n < 63; i++)
		names[n++] = cmd->opts[i].name;
	names[n] = NULL;
	const char *near = opt_suggest(name, names);
	return err_set(err, -ENOENT, "no such key%s%s%s", near ? "; did you mean " : "",
		       near ? near : "", near ? "?" : "");
}

bool opt_list_same(const struct opt_list *a, const struct opt_list *b)
{
	bool same = a->n == b->n;
	for (size_t i = 0; same && i < a->n; i++)
		same = !strcmp(a->v[i], b->v[i]);
	return same;
}

void opt_release(const struct opt_command *cmd, void *out)
{
	for (size_t i = 0; i < cmd->n_opts; i++) {
		if (!opt_is_list(cmd->opts[i].type))
			continue;
		struct opt_list *l = member(&cmd->opts[i], out);
		for (size_t j = 0; j < l->n; j++)
			free(l->v[j]);
		free(l->v);
		*l = (struct opt_list){ NULL, 0 };
	}
}

/* ---- help ---- */

#define HELP_COLUMN 26
#define HELP_WIDTH 100 /* at most, and where there is no terminal */

static unsigned help_width(void)
{
	unsigned width = term_width();
	return width && width < HELP_WIDTH ? width : HELP_WIDTH;
}

static void print_option(const struct opt *o, FILE *f)
{
	char left[80];
	if (!o->help)
		return;
	int n = snprintf(left, sizeof(left), "  %c%c%s --%s %s", o->letter ? '-' : ' ',
			 o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name,
			 o->arg ? o->arg : "");
	fprintf(f, "%-*s", HELP_COLUMN, left);
	if (n >= HELP_COLUMN)
		fprintf(f, "\n%*s", HELP_COLUMN, "");
	text_fold(f, o->help, HELP_COLUMN, HELP_COLUMN, help_width());
}

void opt_print_help(const struct opt_command *cmd, FILE *f)
{
	fprintf(f, "Usage: ascribe %s %s\n\n", cmd->name, cmd->usage);
	text_fold(f, cmd->about, 0, 0, help_width());
	for (const struct opt_note *n = cmd->notes; n && n->term; n++) {
		if (n == cmd->notes)
			fprintf(f, "\n%s:\n", cmd->notes_title);
		fprintf(f, "  %-*s", HELP_COLUMN - 2, n->term);
		text_fold(f, n->text, HELP_COLUMN, HELP_COLUMN, help_width());
	}
	fputs("\nOptions:\n", f);
	for (size_t i = 0; i < cmd->n_opts; i++)
		print_option(&cmd->opts[i], f);
	for (size_t i = 0; i < opt_common_n; i++)
		print_option(&opt_common_table[i], f);
	if (cmd->examples)
		fprintf(f, "\nExamples:\n%s", cmd->examples);
}
