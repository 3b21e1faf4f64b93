/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle of symbols: all that nm says of a file, in no order, searched linearly. */
#ifndef TESTS_NM_ORACLE_H
#define TESTS_NM_ORACLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "symbols/symbols.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct truth_symbol {
	uint64_t addr;
	uint64_t size;
	char class; /* T t W w i */
	char is_func;
	char dynamic;
	char *name;
};

struct truth {
	struct truth_symbol *v;
	size_t n;
};

/*
 * "name   |0000000000001139|   T  |   FUNC|0000000000000016|     |.text", from the right: names may
 * hold anything.
 */
static int parse_sysv(char *line, struct truth_symbol *ret)
{
	char *field[7];
	line[strcspn(line, "\n")] = '\0';
	for (int i = 6; i > 0; i--) {
		char *bar = strrchr(line, '|');
		if (!bar)
			return -1;
		*bar = '\0';
		field[i] = bar + 1;
	}
	char *type = field[3] + strspn(field[3], " ");
	int is_func = !strcmp(type, "FUNC") || !strcmp(type, "<OS specific>: 10"); /* 10: IFUNC */
	if (!is_func && strcmp(type, "NOTYPE"))
		return -1;
	for (char *end = line + strlen(line); end > line && isspace((unsigned char)end[-1]);)
		*--end = '\0';
	if (line[0])
		line[strcspn(line + 1, "@") + 1] = '\0';
	*ret = (struct truth_symbol){
		.addr = strtoull(field[1], NULL, 16),
		.size = strtoull(field[4], NULL, 16),
		.class = field[2][strspn(field[2], " ")],
		.is_func = (char)is_func,
	};
	if (!strchr("TtWwi", ret->class) || !line[0])
		return -1;
	ret->name = strdup(line);
	return 0;
}

static void read_nm(struct truth *t, const char *path, int dynamic)
{
	char cmd[4600];
	char *line = NULL;
	size_t cap = 0;
	snprintf(cmd, sizeof(cmd),
		 "LC_ALL=C nm -f sysv --defined-only --no-demangle %s '%s' 2>/dev/null",
		 dynamic ? "-D" : "", path);
	FILE *f = popen(cmd, "r");
	assert_non_null(f);
	while (getline(&line, &cap, f) > 0) {
		struct truth_symbol s;
		if (parse_sysv(line, &s))
			continue;
		s.dynamic = (char)dynamic;
		if (!(t->n & (t->n - 1)))
			t->v = realloc(t->v, (t->n ? 2 * t->n : 1) * sizeof(*t->v));
		t->v[t->n++] = s;
	}
	free(line);
	pclose(f);
}

static struct truth truth_of(const char *path)
{
	struct truth t = { 0 };
	read_nm(&t, path, 0);
	read_nm(&t, path, 1);
	return t;
}

static void truth_free(struct truth *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].name);
	free(t->v);
}

static int covers(const struct truth_symbol *s, uint64_t addr)
{
	return addr >= s->addr && addr - s->addr < s->size;
}

/* The order of the header, as far as nm tells bindings apart ('i' does not). */
static int class_rank(const struct truth_symbol *s)
{
	return (s->is_func ? 0 : 20) + (s->dynamic ? 10 : 0) +
	       (s->class == 'T'			     ? 1
		: s->class == 'W' || s->class == 'w' ? 2
						     : 3);
}

static int is_named(const struct truth_symbol *s, const char *name)
{
	char text[8192];
	symbol_demangle(s->name, text, sizeof(text));
	return !strcmp(text, name);
}

/* What nm says about one address and one answer. */
struct verdict {
	const struct truth_symbol *best; /* the innermost function of known size around addr */
	int label_here;			 /* a function without a size starts right here */
	int named;			 /* the answer's name stands at the answer's start */
	int rank;			 /* its best rank there */
	int best_rank;			 /* the best that any name has there */
	int any_ifunc;
};

static struct verdict judge(const struct truth *t, uint64_t addr, const struct symbol *got)
{
	struct verdict v = { .rank = 1000, .best_rank = 1000 };
	for (size_t i = 0; i < t->n; i++) {
		const struct truth_symbol *s = &t->v[i];
		if (s->is_func && covers(s, addr) && (!v.best || s->addr > v.best->addr))
			v.best = s;
		v.label_here |= s->is_func && !s->size && s->addr == addr;
		if (!got || s->addr != got->start)
			continue;
		int rank = class_rank(s);
		v.any_ifunc |= s->class == 'i';
		if ((covers(s, addr) || !s->size) && rank < v.best_rank)
			v.best_rank = rank;
		if (is_named(s, got->name)) {
			v.named = 1;
			v.rank = rank < v.rank ? rank : v.rank;
		}
	}
	return v;
}

/* Is it made of functions' names, as "a|b" (symbols/tails.h)? */
static int is_tail_of(const struct truth *t, const char *name)
{
	char text[8192];
	int all = 1;
	snprintf(text, sizeof(text), "%s", name);
	for (char *rest = text, *one = strsep(&rest, "|"); one; one = strsep(&rest, "|")) {
		int is = 0;
		for (size_t i = 0; i < t->n && !is; i++)
			is = t->v[i].is_func && is_named(&t->v[i], one);
		all &= is;
	}
	return all;
}

/* One address: 1 when it was found, and every property that nm can vouch for holds. */
static int check_addr(struct binary *b, const struct truth *t, const char *path, uint64_t addr)
{
	struct symbol got = { 0 };
	int rc = binary_find(b, addr, &got);
	struct verdict v = judge(t, addr, rc ? NULL : &got);
	if (rc || !*got.name) { /* "": only the start of the function is there */
		if ((rc && rc != -ENOENT) || v.best || v.label_here)
			fail_msg("%s: %#lx not found (%d), nm has %s", path, addr, rc,
				 v.best ? v.best->name : "a label");
		return 0;
	}
	if (!v.best && !v.label_here && !v.named && is_tail_of(t, got.name))
		return 0;
	if (!v.named || got.start > addr || (got.size && addr - got.start >= got.size))
		fail_msg("%s: %#lx is not %s (%#lx, %lu)", path, addr, got.name, got.start,
			 got.size);
	if (v.best && v.best->addr > got.start)
		fail_msg("%s: %#lx is %s, nearer is %s", path, addr, got.name, v.best->name);
	if (!v.any_ifunc && v.rank > v.best_rank)
		fail_msg("%s: %#lx is %s of rank %d, there is one of %d", path, addr, got.name,
			 v.rank, v.best_rank);
	return 1;
}

#endif
