/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a tool's arguments to a command line. Each argument becomes one word "--option=value", so
 * no value can become an option or a store of its own. Stores come from the command line of
 * `ascribe mcp` alone, chosen by their place in it.
 */
#include "cli/mcp_tools.h"

#include "cli/cmd.h"
#include "util/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_MAX 500
#define DEFAULT_LIMIT 20
#define WORDS_MAX (STORE_UNION_MAX + 32)

/* clang-format off: a table */
#define FROM \
	{ "from", \
	  MCP_TEXT, \
	  "start of the time range: -15m, 14:05, 2026-11-23T14:05:00Z, epoch seconds", \
	  0, \
	  0, \
	  NULL }
#define TO { "to", MCP_TEXT, "end of the time range, likewise", 0, 0, NULL }
#define STORE \
	{ "store", \
	  MCP_COUNT, \
	  "only this store, by its number on the server's command line; default: all as one, with the " \
	  "label host", \
	  0, \
	  STORE_UNION_MAX, \
	  NULL }
#define WHERE \
	{ "where", \
	  MCP_TEXT, \
	  "only samples with these labels, in Prometheus' syntax: {tenant=\"a\",comm=~\"pg.*\"}", \
	  0, \
	  0, \
	  NULL }
#define IDLE { "idle", MCP_FLAG, "include idle CPUs and idle waits", 0, 0, NULL }
#define LIMIT { "limit", MCP_COUNT, "rows at most (default 20)", 0, LIMIT_MAX, NULL }
#define END { NULL, MCP_FLAG, NULL, 0, 0, NULL }

static const char *const metrics[] = { "cpu",	      "off",	       "runq",
				       "wall",	      "waker",	       "latency",
				       "value",	      "alloc_space",   "alloc_objects",
				       "inuse_space", "inuse_objects", NULL };
static const char *const memory[] = { "heap", NULL };

static const struct mcp_argument report[] = {
	{ "by", MCP_TEXTS, "group by these label keys (see the tool labels), or by \"function\"", 0,
	  0, NULL },
	WHERE,
	FROM,
	TO,
	{ "before", MCP_TEXT, "add the change since an earlier range that begins here", 0, 0,
	  NULL },
	{ "metric", MCP_CHOICE, "time instead of samples: off is blocked, runq waits for a CPU", 0,
	  0, metrics },
	{ "event", MCP_TEXT, "the event to show (default: the store's first)", 0, 0, NULL },
	{ "tree", MCP_FLAG, "the calls from the roots on", 0, 0, NULL },
	{ "peek", MCP_TEXT, "a function (a part of its name): who calls it, what it calls", 0, 0,
	  NULL },
	{ "step", MCP_TEXT, "over time, in steps of so long: 1m", 0, 0, NULL },
	IDLE,
	LIMIT,
	STORE,
	END
};

static const struct mcp_argument why[] = {
	{ "where", MCP_TEXT,
	  "which samples it is about: {tenant=\"a\"}; needed but for metric heap", 0, 0, NULL },
	FROM,
	TO,
	{ "before", MCP_TEXT, "where the earlier range begins (default: just before)", 0, 0, NULL },
	{ "metric", MCP_CHOICE, "heap: who holds more memory than before", 0, 0, memory },
	IDLE,
	STORE,
	END
};

static const struct mcp_argument blame[] = {
	{ "by", MCP_TEXTS, "one label key (default comm)", 0, 0, NULL },
	{ "where", MCP_TEXT,
	  "only who waited with these labels; labels of the running thread have "
	  "by. before them",
	  0, 0, NULL },
	FROM,
	TO,
	{ "wakers", MCP_FLAG, "who woke others, instead of who was running", 0, 0, NULL },
	IDLE,
	LIMIT,
	STORE,
	END
};

static const struct mcp_argument locks[] = { { "by", MCP_TEXTS, "one label key (default comm)", 0,
					       0, NULL },
					     WHERE,
					     FROM,
					     TO,
					     IDLE,
					     LIMIT,
					     STORE,
					     END };

static const struct mcp_argument diff[] = {
	{ "where", MCP_TEXT, "selector of side A (default: all)", 0, 0, NULL },
	{ "against", MCP_TEXT, "selector of side B (default: as A)", 0, 0, NULL },
	FROM,
	TO,
	{ "against_from", MCP_TEXT, "start of B's time range", 0, 0, NULL },
	{ "against_to", MCP_TEXT, "end of B's time range", 0, 0, NULL },
	{ "by", MCP_TEXTS, "rows by these label keys (default: by function)", 0, 0, NULL },
	{ "inclusive", MCP_FLAG, "functions with what they call", 0, 0, NULL },
	{ "absolute", MCP_FLAG, "compare CPU time per time recorded, not shares", 0, 0, NULL },
	{ "changes", MCP_FLAG, "leave out what is noise", 0, 0, NULL },
	{ "event", MCP_TEXT, "the event to compare", 0, 0, NULL },
	{ "against_store", MCP_COUNT, "the store of side B, by its number", 0, STORE_UNION_MAX,
	  NULL },
	LIMIT,
	STORE,
	END
};

static const struct mcp_argument findings[] = {
	{ "by", MCP_TEXTS, "look at these label keys (default: those that matter most)", 0, 0,
	  NULL },
	WHERE,
	FROM,
	TO,
	LIMIT,
	STORE,
	END
};

static const struct mcp_argument labels[] = { WHERE, FROM, TO, LIMIT, STORE, END };
static const struct mcp_argument stat[] = { FROM, TO, STORE, END };

const struct mcp_tool mcp_tools[] = {
	{ "findings",
	  "What is worth a look in a time range: who needs more CPU, who waits longer, "
	  "what is saturated, which build is new. A good first question.",
	  findings },
	{ "report",
	  "Who used the CPU, and which code: a table by label or function, with 95% "
	  "intervals of the shares.",
	  report },
	{ "why",
	  "One page about one selection: its time on CPU, waiting and blocked, against the "
	  "rest and against the time before.",
	  why },
	{ "blame", "Who was running while others waited for a CPU (of a recording with --wall).",
	  blame },
	{ "locks",
	  "Which locks threads waited for, and who held them (of a recording with --wall "
	  "--waker).",
	  locks },
	{ "diff", "What changed between two selections, time ranges or stores, and what is noise.",
	  diff },
	{ "labels", "The label keys that the samples have. Values of a key: report, by that key.",
	  labels },
	{ "stat", "How complete the recording is: samples fired, stored, and each loss.", stat },
};
/* clang-format on */
const size_t mcp_n_tools = sizeof(mcp_tools) / sizeof(mcp_tools[0]);

/* What a tool runs; `always` stands first. */
static const struct {
	const char *tool, *command, *always;
	int (*run)(int argc, char **argv);
} runs[] = {
	{ "findings", "findings", NULL, cmd_findings },
	{ "report", "report", NULL, cmd_report },
	{ "why", "why", NULL, cmd_why },
	{ "blame", "blame", NULL, cmd_blame },
	{ "locks", "blame", "--locks", cmd_blame },
	{ "diff", "diff", NULL, cmd_diff },
	{ "labels", "labels", NULL, cmd_labels },
	{ "stat", "stat", NULL, cmd_stat },
};

struct words {
	char *v[WORDS_MAX];
	size_t n;
	bool failed;
};

static void add_word(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_word(struct words *w, const char *fmt, ...)
{
	va_list ap;
	char *word = NULL;
	va_start(ap, fmt);
	if (w->n == WORDS_MAX - 1 || vasprintf(&word, fmt, ap) < 0)
		w->failed = true;
	else
		w->v[w->n++] = word;
	va_end(ap);
}

static void release_words(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
}

static void add_list(struct words *w, const char *option, const json_t *list)
{
	struct buf b = BUF_INIT;
	int rc = 0;
	for (size_t i = 0; !rc && i < json_array_size(list); i++)
		rc = buf_printf(&b, "%s%s", i ? "," : "",
				json_string_value(json_array_get(list, i)));
	if (rc || buf_add_u8(&b, 0))
		w->failed = true;
	else
		add_word(w, "--%s=%s", option, (char *)b.data);
	buf_fini(&b);
}

/* "against_from" is the option --against-from. */
static void add_option(struct words *w, const char *name, const json_t *value)
{
	char option[32];
	snprintf(option, sizeof(option), "%s", name);
	for (char *p = option; (p = strchr(p, '_'));)
		*p = '-';
	if (json_is_array(value))
		add_list(w, option, value);
	else if (json_is_integer(value))
		add_word(w, "--%s=%lld", option, (long long)json_integer_value(value));
	else if (json_is_string(value))
		add_word(w, "--%s=%s", option, json_string_value(value));
	else if (json_is_true(value))
		add_word(w, "--%s", option);
}

/* A store by its number, from 1; 0: there is none of that number, or none is asked for. */
static size_t store_number(const struct mcp_stores *s, const json_t *value)
{
	json_int_t i = json_integer_value(value);
	return i >= 1 && (size_t)i <= s->n ? (size_t)i : 0;
}

static bool takes_limit(const struct mcp_tool *tool)
{
	for (const struct mcp_argument *a = tool->arguments; a->name; a++)
		if (!strcmp(a->name, "limit"))
			return true;
	return false;
}

static void make_words(struct words *w, const struct mcp_stores *s, size_t run,
		       const struct mcp_tool *tool, const json_t *arguments)
{
	const char *name;
	json_t *value;
	add_word(w, "%s", runs[run].command);
	if (runs[run].always)
		add_word(w, "%s", runs[run].always);
	if (takes_limit(tool) && !json_object_get(arguments, "limit"))
		add_word(w, "--limit=%d", DEFAULT_LIMIT);
	json_object_foreach((json_t *)arguments, name, value)
	{
		if (!strcmp(name, "against_store"))
			add_word(w, "--against-store=%s", s->dirs[store_number(s, value) - 1]);
		else if (strcmp(name, "store"))
			add_option(w, name, value);
	}
	size_t one = store_number(s, json_object_get(arguments, "store"));
	add_word(w, "--");
	for (size_t i = 0; i < s->n; i++)
		if (!one || i == one - 1)
			add_word(w, "%s", s->dirs[i]);
}

/* The number that names no store; NULL: there is none. */
static const char *bad_store(const struct mcp_stores *s, const json_t *arguments)
{
	static const char *const names[] = { "store", "against_store" };
	for (int i = 0; i < 2; i++) {
		const json_t *v = json_object_get(arguments, names[i]);
		if (v && !store_number(s, v))
			return names[i];
	}
	return NULL;
}

static int say_stores(const struct mcp_stores *s, const char *argument, char **ret)
{
	struct buf b = BUF_INIT;
	int rc = buf_printf(&b, "%s: there are the stores", argument);
	for (size_t i = 0; !rc && i < s->n; i++)
		rc = buf_printf(&b, " %zu (%s)", i + 1, s->dirs[i]);
	rc = rc ? rc : buf_add_u8(&b, 0);
	if (rc)
		buf_fini(&b);
	else
		*ret = (char *)b.data;
	return rc;
}

int mcp_tools_call(void *ctx, const struct mcp_tool *tool, const json_t *arguments, char **ret_text,
		   bool *ret_error)
{
	const struct mcp_stores *s = ctx;
	struct words w = { .n = 0 };
	size_t run = (size_t)(tool - mcp_tools);
	const char *bad = bad_store(s, arguments);
	*ret_error = true;
	if (bad)
		return say_stores(s, bad, ret_text);
	make_words(&w, s, run, tool, arguments);
	int rc = w.failed ? -ENOMEM
			  : mcp_run(runs[run].run, (int)w.n, w.v, &s->limits, ret_text, ret_error);
	release_words(&w);
	return rc;
}
