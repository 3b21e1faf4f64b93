/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/complete.h"

#include "opt/filter.h"
#include "opt/message.h"
#include "query/found.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECENT_NS 600000000000ll /* values are those of the last ten minutes of a store */
#define VALUES_MAX 200
#define EVENTS \
	"cpu-clock task-clock cycles instructions cache-misses branch-misses page-faults " \
	"context-switches cpu-migrations"

/* What the value of an option is, by what the help calls it. The rest is free. */
static const struct value_kind {
	const char *arg;
	enum { WORDS, FILES, DIRS, KEYS, WHERE } kind;
	const char *words;
} kinds[] = {
	{ "FILE", FILES, NULL },
	{ "PATH", FILES, NULL },
	{ "DIR", DIRS, NULL },
	{ "STORE", DIRS, NULL },
	{ "STORE,..", DIRS, NULL },
	{ "CGROUP", DIRS, NULL },
	{ "KEY", KEYS, NULL },
	{ "KEY,..", KEYS, NULL },
	{ "SELECTOR", WHERE, NULL },
	{ "EVENT", WORDS, EVENTS },
	{ "EVENT,..", WORDS, EVENTS },
	{ "STYLE", WORDS, "full folded simple" },
	{ "FORMAT", WORDS, "pprof folded" },
	{ "OUTPUT", WORDS, "text json junit markdown" },
	{ "METRIC", WORDS, "cpu off runq wall waker latency" },
	{ "WHEN", WORDS, "auto always never" },
	{ "T", WORDS, "-5m -1h -1d now" },
	{ "TIME", WORDS, "10s 30s 1m 5m 1h" },
};

struct line {
	char **word; /* behind "ascribe" */
	size_t n;
	const struct opt_command *cmd;
	const char *last, *before; /* of last that stays as it is: "--by=", "a,b," */
	size_t before_len;
	const char *store;
	complete_table table;
};

/* ---- candidates ---- */

static bool plain(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			return false;
	return len > 0;
}

static void offer(const struct line *l, const char *text, size_t len, const char *what)
{
	const char *rest = l->last + l->before_len;
	size_t n = strlen(rest);
	if (n > len || memcmp(text, rest, n) || !plain(text, len))
		return;
	printf("%.*s%.*s", (int)l->before_len, l->last, (int)len, text);
	if (what && *what)
		printf("\t%.*s", (int)strcspn(what, "\n"), what);
	putchar('\n');
}

static void offer_words(const struct line *l, const char *words)
{
	for (size_t len; *words; words += len + (words[len] == ' ')) {
		len = strcspn(words, " ");
		offer(l, words, len, NULL);
	}
}

static void offer_commands(const struct line *l)
{
	const char *name, *summary;
	for (size_t i = 0; l->table(i, &name, &summary); i++)
		offer(l, name, strlen(name), summary);
	offer(l, "help", 4, "what a command does");
}

static void offer_options(const struct line *l)
{
	char name[80];
	for (size_t t = 0; t < 2; t++) {
		const struct opt *v = t ? opt_common_table : l->cmd->opts;
		for (size_t i = 0; i < (t ? opt_common_n : l->cmd->n_opts); i++) {
			if (!v[i].help)
				continue;
			int n = snprintf(name, sizeof(name), "--%s", v[i].name);
			offer(l, name, (size_t)n, v[i].help);
		}
	}
}

/* ---- labels of a store ---- */

struct keys {
	const struct line *l;
	bool where; /* as the beginning of a matcher */
};

static void offer_key(const struct keys *k, const char *key)
{
	char text[300];
	if (!k->where) {
		offer(k->l, key, strlen(key), "label");
	} else if (strspn(key,
			  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") ==
		   strlen(key)) {
		int n = snprintf(text, sizeof(text), "%s=", key);
		if (n > 0 && n < (int)sizeof(text))
			offer(k->l, text, (size_t)n, "label");
	}
}

static int on_key(void *ctx, const char *key, uint32_t sets)
{
	(void)sets;
	offer_key(ctx, key);
	return 0;
}

/* From what the store knows of its keys, without reading a window. */
static void offer_keys(const struct line *l, bool where)
{
	struct store *s;
	struct store_wide_key wide;
	struct keys k = { l, where };
	if (store_open(&s, l->store, NULL))
		return;
	store_narrow_keys(s, on_key, &k, NULL);
	for (size_t i = 0; store_wide_key(s, i, &wide); i++)
		if (wide.to_ns == INT64_MAX)
			offer_key(&k, wide.key);
	offer_key(&k, "event");
	offer_key(&k, "wait");
	offer_key(&k, "wait_in");
	store_close(s);
}

static void offer_values_of(const struct line *l, struct store *s, const char *key)
{
	struct store_cover all = { 0 };
	struct found_list found = { 0 };
	struct query *q = NULL;
	const char *const keys[] = { key };
	if (store_cover(s, INT64_MIN, INT64_MAX, STORE_FOLDED, NULL, 0, &all, NULL))
		return;
	struct query_spec spec = { .from_ns = all.to_ns - RECENT_NS,
				   .to_ns = all.to_ns,
				   .labels = QUERY_KEYS,
				   .keys = keys,
				   .n_keys = 1 };
	if (!query_open(&q, s, &spec, NULL) && !found_collect(&found, s, q, &spec, key, NULL))
		for (size_t i = 0; i < found.n && i < VALUES_MAX; i++) {
			char text[512];
			size_t len;
			char *value = found_text(&found.v[i].label, &len);
			if (value && len < 200 && !memchr(value, '"', len) &&
			    !memchr(value, '\\', len) && !memchr(value, '\'', len)) {
				int n = snprintf(text, sizeof(text), "\"%.*s\"", (int)len, value);
				offer(l, text, (size_t)n, "value");
			}
			free(value);
		}
	found_fini(&found);
	query_close(q);
	store_cover_free(&all);
}

/* {key="value",key="...: the matcher that is being typed; those before it stay. */
static void offer_matcher(struct line *l)
{
	const char *text = l->last + l->before_len, *at = text, *op;
	char key[200];
	struct store *s;
	if (!*text)
		return; /* the shell's quote comes first, and a brace */
	bool quoted = false;
	for (const char *p = text; *p; p++) {
		quoted ^= *p == '"';
		if (!quoted && (*p == '{' || *p == ','))
			at = p + 1;
	}
	op = strpbrk(at, "=!");
	if (op)
		op += strspn(op, "=!~");
	l->before_len = (size_t)((op ? op : at) - l->last);
	if (!op) {
		offer_keys(l, true);
		return;
	}
	snprintf(key, sizeof(key), "%.*s", (int)strcspn(at, "=!"), at);
	if (store_open(&s, l->store, NULL))
		return;
	offer_values_of(l, s, key);
	store_close(s);
}

/* ---- where the word stands ---- */

static void offer_value(struct line *l, const struct opt *o)
{
	const struct value_kind *k = NULL;
	for (size_t i = 0; o->arg && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].arg, o->arg))
			k = &kinds[i];
	if (!k)
		return;
	const char *comma = o->type == OPT_LIST ? strrchr(l->last + l->before_len, ',') : NULL;
	if (comma)
		l->before_len = (size_t)(comma + 1 - l->last);
	switch (k->kind) {
	case WORDS:
		offer_words(l, k->words);
		break;
	case FILES:
		puts("@files");
		break;
	case DIRS:
		puts("@dirs");
		break;
	case KEYS:
		offer_keys(l, false);
		break;
	case WHERE:
		offer_matcher(l);
		break;
	}
}

static const struct opt *find_option(const struct opt_command *cmd, const char *word, size_t len)
{
	for (size_t t = 0; t < 2; t++) {
		const struct opt *v = t ? opt_common_table : cmd->opts;
		for (size_t i = 0; i < (t ? opt_common_n : cmd->n_opts); i++) {
			if (len > 2 && word[1] == '-' && strlen(v[i].name) == len - 2 &&
			    !memcmp(v[i].name, word + 2, len - 2))
				return &v[i];
			if (len == 2 && word[1] == v[i].letter)
				return &v[i];
		}
	}
	return NULL;
}

/* The option whose value word i is, NULL: it is none. */
static const struct opt *value_of(const struct line *l, size_t i)
{
	const char *w = i ? l->word[i - 1] : "";
	const struct opt *o = i > 1 && w[0] == '-' ? find_option(l->cmd, w, strlen(w)) : NULL;
	return o && o->type != OPT_FLAG ? o : NULL;
}

/* Words that are no options and no values of theirs, before the last. */
static size_t arguments(struct line *l)
{
	size_t n = 0;
	l->store = DEFAULT_STORE;
	for (size_t i = 1; i + 1 < l->n; i++) {
		struct stat st;
		const struct opt *o = value_of(l, i);
		if (o && !strncmp(o->arg, "STORE", strlen("STORE")))
			l->store = l->word[i];
		if (o || l->word[i][0] == '-')
			continue;
		n++;
		if (strstr(l->cmd->usage, "STORE") && !stat(l->word[i], &st) && S_ISDIR(st.st_mode))
			l->store = l->word[i];
	}
	return n;
}

static void offer_argument(const struct line *l, size_t n)
{
	const char *usage = l->cmd->usage;
	if (!n && strchr(usage, '|')) { /* "info|verify STORE" */
		for (size_t len; *usage && *usage != ' '; usage += len + (usage[len] == '|')) {
			len = strcspn(usage, "| ");
			offer(l, usage, len, NULL);
		}
	} else if (l->cmd->runs_command) {
		puts("@files");
	} else if (n < l->cmd->max_args && strstr(usage, "STORE")) {
		if (strstr(usage, "KEY]") && !strchr(l->last, '/'))
			offer_keys(l, false);
		puts("@dirs");
	}
}

static void complete(struct line *l)
{
	const char *name, *equals;
	l->last = l->word[l->n - 1];
	if (l->n == 1 || (l->n == 2 && !strcmp(l->word[0], "help"))) {
		offer_commands(l);
		return;
	}
	for (size_t i = 0; !l->cmd; i++) {
		const struct opt_command *c = l->table(i, &name, NULL);
		if (!c)
			return;
		if (!strcmp(name, l->word[0]))
			l->cmd = c;
	}
	size_t n = arguments(l);
	const struct opt *o = value_of(l, l->n - 1);
	if (o) {
		offer_value(l, o);
	} else if (l->last[0] == '-' && l->last[1] == '-' && (equals = strchr(l->last, '='))) {
		l->before_len = (size_t)(equals + 1 - l->last);
		o = find_option(l->cmd, l->last, l->before_len - 1);
		if (o && o->type != OPT_FLAG)
			offer_value(l, o);
	} else if (l->last[0] == '-') {
		offer_options(l);
	} else {
		offer_argument(l, n);
	}
}

int complete_words(int argc, char **argv, complete_table table)
{
	int first = argc > 1 && !strcmp(argv[1], "--") ? 2 : 1;
	struct line l = { .word = argv + first, .n = (size_t)(argc - first), .table = table };
	if (l.n)
		complete(&l);
	return EXIT_OK;
}
