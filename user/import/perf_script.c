/* SPDX-License-Identifier: Apache-2.0 */
#include "import/perf_script.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_ADDRESS (1ull << 63)

struct head {
	const char *comm;
	uint32_t tgid, tid;
	int64_t ns;
	uint64_t period; /* 0: the line does not say */
	const char *event;
	char *rest; /* of the line: the leaf, where there is no call chain */
};

void perf_script_fini(struct perf_script *s)
{
	free(s->line);
	*s = (struct perf_script){ 0 };
}

/* "12.345678:" to nanoseconds; -1: it is something else. */
static int64_t time_of(const char *word)
{
	char *dot, *end;
	if (!isdigit((unsigned char)*word))
		return -1;
	unsigned long long s = strtoull(word, &dot, 10), part;
	if (*dot != '.' || !isdigit((unsigned char)dot[1]) || s > INT_MAX)
		return -1;
	part = strtoull(dot + 1, &end, 10);
	size_t digits = (size_t)(end - dot - 1);
	if (*end != ':' || end[1] || digits > 9)
		return -1;
	for (; digits < 9; digits++)
		part *= 10;
	return (int64_t)(s * 1000000000 + part);
}

/* "tgid/tid" or "tid". */
static bool ids_of(const char *word, struct head *h)
{
	char *end;
	if (!isdigit((unsigned char)*word))
		return false;
	h->tgid = h->tid = (uint32_t)strtoul(word, &end, 10);
	if (*end == '/' && isdigit((unsigned char)end[1]))
		h->tid = (uint32_t)strtoul(end + 1, &end, 10);
	return !*end;
}

/* Cut the modifiers of "cpu-clock:pppH"; "sched:sched_switch" has none. */
static void cut_modifiers(char *event)
{
	char *colon = strrchr(event, ':');
	if (colon && colon != event && colon[1] &&
	    strspn(colon + 1, "ukhpPGHSDWIe") == strlen(colon + 1))
		*colon = 0;
}

/* Cut the next word out of *io; NULL: there is none. */
static char *next_word(char **io)
{
	char *w = *io + strspn(*io, " \t");
	if (!*w)
		return NULL;
	*io = w + strcspn(w, " \t");
	if (**io)
		*(*io)++ = 0;
	return w;
}

/* A comm may have spaces: the ids are in the word before the time, or before "[cpu]" and the time.
 */
static bool parse_head(char *line, struct head *h)
{
	char *rest = line, *word, *ids = NULL, *last = NULL;
	*h = (struct head){ .comm = line + strspn(line, " ") };
	while ((word = next_word(&rest)) && (h->ns = time_of(word)) < 0) {
		if (*word != '[')
			last = word;
	}
	ids = last;
	if (!word || !ids || ids == h->comm || !ids_of(ids, h))
		return false;
	for (char *c = line; c < ids; c++) /* the words of the comm, joined again */
		*c = *c ? *c : ' ';
	for (char *c = ids - 1; c > h->comm && *c == ' '; c--)
		*c = 0;
	char *event = next_word(&rest), *end;
	if (event && isdigit((unsigned char)*event)) {
		h->period = strtoull(event, &end, 10);
		event = *end ? NULL : next_word(&rest);
	}
	size_t n = event ? strlen(event) : 0;
	if (n < 2 || event[n - 1] != ':')
		return false;
	event[n - 1] = 0;
	cut_modifiers(event);
	h->event = event;
	h->rest = rest + strspn(rest, " \t");
	return true;
}

static int keep_text(struct profile *p, const char *text, size_t len, const char **ret)
{
	*ret = profile_text(p, text, len);
	return *ret ? 0 : -ENOMEM;
}

/* "address symbol+0x12 (file)". 1: the line has another form. */
static int add_frame(struct profile *p, struct profile_sample *s, const char *line)
{
	struct profile_frame f = { .file = "" };
	char *end;
	uint64_t addr = strtoull(line, &end, 16);
	const char *open = strrchr(line, '('), *close = strrchr(line, ')');
	if (end == line || *end != ' ' || !open || !close || close < open || open <= end)
		return 1;
	const char *symbol = end + 1, *symbol_end = open;
	while (symbol_end > symbol && symbol_end[-1] == ' ')
		symbol_end--;
	for (const char *c = symbol_end - 3; c > symbol; c--) {
		if (strncmp(c, "+0x", 3))
			continue;
		symbol_end = c;
		break;
	}
	const char *file = open + 1;
	size_t len = (size_t)(close - file);
	f.kernel = addr >= KERNEL_ADDRESS;
	f.inlined = len == 7 && !memcmp(file, "inlined", 7);
	if (f.kernel && len >= 7 && (!memcmp(file, "[kernel", 7) || !memcmp(file, "[guest.", 7))) {
		file = "[kernel]";
		len = strlen(file);
	}
	for (size_t i = len; i-- && file[0] == '/';)
		if (file[i] == '/') {
			file += i + 1;
			len -= i + 1;
			break;
		}
	uint32_t id;
	int rc = keep_text(p, symbol, (size_t)(symbol_end - symbol), &f.function);
	rc = rc ? rc : keep_text(p, file, len, &f.module);
	rc = rc ? rc : profile_new_frame(p, &f, &id);
	return rc ? rc : profile_push_frame(p, s, id);
}

static int add_labels(struct profile *p, struct profile_sample *s, const struct head *h)
{
	struct label l[] = {
		{ .key = "comm", .key_len = 4, .type = LABEL_STRING },
		{ .key = "tgid", .key_len = 4, .type = LABEL_INT, .num = h->tgid },
		{ .key = "tid", .key_len = 3, .type = LABEL_INT, .num = h->tid },
	};
	int rc = keep_text(p, h->comm, strlen(h->comm), &l[0].str);
	l[0].str_len = rc ? 0 : (uint32_t)strlen(l[0].str);
	for (size_t i = 0; !rc && i < sizeof(l) / sizeof(l[0]); i++)
		rc = profile_push_label(p, s, &l[i]);
	return rc;
}

/* Clocks count nanoseconds; other events count what they are called after. */
static int add_value(struct profile *p, struct profile_sample *s, const struct head *h)
{
	bool clock = !strcmp(h->event, "cpu-clock") || !strcmp(h->event, "task-clock");
	size_t type;
	int rc = profile_add_type(p, h->event, clock ? "nanoseconds" : "count",
				  clock ? h->period : 0, &type);
	s->value[rc ? 0 : type] = h->period ? h->period : 1;
	s->count = 1;
	return rc;
}

/* The frames up to an empty line. */
static int read_frames(struct perf_script *s, FILE *f, struct profile *p,
		       struct profile_sample *sample)
{
	while (getline(&s->line, &s->cap, f) > 0) {
		const char *c = s->line + strspn(s->line, " \t");
		if (*c == '\n' || !*c)
			return 0;
		if (c ==
		    s->line) { /* the head of the next sample, without an empty line before it */
			s->pending = true;
			return 0;
		}
		int rc = add_frame(p, sample, c);
		if (rc < 0)
			return rc;
		s->skipped += (uint64_t)rc;
	}
	return 0;
}

static int add_sample(struct perf_script *s, FILE *f, struct profile *p, const struct head *h,
		      const struct profile_labels *l)
{
	struct profile_sample *sample;
	int rc = profile_new_sample(p, l, &sample);
	rc = rc ? rc : add_labels(p, sample, h);
	rc = rc ? rc : add_value(p, sample, h);
	if (rc || !*h->rest)
		return rc ? rc : read_frames(s, f, p, sample);
	rc = add_frame(p, sample, h->rest);
	return rc == 1 ? read_frames(s, f, p, sample)
		       : rc; /* 1: the rest is the text of a tracepoint */
}

/*
 * Parse a copy of the line: the line itself may have to wait for the next window. 1: a sample; 0:
 * another line.
 */
static int copy_head(struct perf_script *s, struct profile *p, struct head *h)
{
	char *copy = profile_text(p, s->line, strcspn(s->line, "\n"));
	return copy ? parse_head(copy, h) : -ENOMEM;
}

int perf_script_read(struct perf_script *s, FILE *f, int64_t window_ns, size_t max,
		     const struct profile_labels *l, struct profile *p, struct err *err)
{
	struct head h;
	int rc = 0;
	while (!rc && (s->pending || getline(&s->line, &s->cap, f) > 0)) {
		s->pending = false;
		if (s->line[0] == '\n' || s->line[0] == '#')
			continue;
		rc = copy_head(s, p, &h);
		if (rc <= 0) {
			s->skipped += !rc;
			continue;
		}
		if (p->n_samples && (h.ns - p->from_ns >= window_ns || p->n_samples >= max)) {
			s->pending = true;
			return 1;
		}
		s->first_ns = s->samples ? s->first_ns : h.ns;
		if (!p->n_samples || h.ns < p->from_ns)
			p->from_ns = h.ns;
		p->to_ns = !p->n_samples || h.ns >= p->to_ns ? h.ns + 1 : p->to_ns;
		rc = add_sample(s, f, p, &h, l);
		s->samples += !rc;
	}
	if (rc)
		return err_set(err, rc,
			       rc == -E2BIG ? "sample %llu has too many frames"
					    : "out of memory after sample %llu",
			       (unsigned long long)s->samples);
	return ferror(f) ? err_set(err, -EIO, "it cannot be read") : 0;
}
