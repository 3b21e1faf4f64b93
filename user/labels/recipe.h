/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes: how to read labels from programs that publish none, as declarative text
 * (docs/recipes.md). Parsed with bounds; an error names the file, the line and the key.
 */
#ifndef ASCRIBE_LABELS_RECIPE_H
#define ASCRIBE_LABELS_RECIPE_H

#include "labels/foreign.h"
#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECIPE_TEXT_MAX (256u * 1024) /* bytes of one file */
#define RECIPES_MAX 64
#define RECIPE_PATTERNS_MAX 8 /* of each kind, in one recipe */
#define RECIPE_LINES_MAX 24   /* lets and labels of one recipe */
#define RECIPE_WORDS_MAX 16   /* of one path */
#define RECIPE_NAME_MAX 96    /* symbols, fields, patterns; with the NUL */
#define RECIPE_NAMES_MAX 64   /* numbers with a name, of one label */

enum recipe_op {
	RECIPE_SYMBOL = 1, /* name, imm: the address of a variable */
	RECIPE_FILE,	   /* imm: an offset in the file */
	/* name: what this function makes of its argument, or of nothing at the start of a path */
	RECIPE_VIA,
	RECIPE_LET,	   /* arg: what that let gave */
	RECIPE_DEREF,	   /* imm */
	RECIPE_ADD,	   /* imm */
	RECIPE_FIELD,	   /* name "struct.member": add its offset */
	RECIPE_NUMBER,	   /* len bytes at imm, is_signed; ends a label */
	RECIPE_VALUE,	   /* the number that the function before returns; ends a label */
	RECIPE_CSTRING,	   /* len at most, at imm; ends a label */
	RECIPE_BYTES,	   /* len, at imm; ends a label */
	RECIPE_TEXT,	   /* pointer at imm, length at imm2, len at most; ends a label */
	RECIPE_REQUIRE,	   /* len, is_signed, imm; its bits in arg (0: all) must be imm2 */
	RECIPE_REQUIRE_TP, /* imm: must be the thread pointer */
	RECIPE_MAIN,	   /* only in the process's first thread */
	RECIPE_AND,	   /* imm; of a number */
	RECIPE_SHIFT,	   /* imm */
	RECIPE_NONZERO,	   /* 0 is no label */
};

struct recipe_word {
	uint8_t op; /* enum recipe_op */
	uint8_t is_signed;
	uint16_t len;
	uint32_t arg;
	int64_t imm, imm2;
	char name[RECIPE_NAME_MAX];
};

/* One `let` or `label` line. */
struct recipe_line {
	char key[FOREIGN_KEY_MAX];
	bool is_label;
	unsigned line;
	enum foreign_form form;
	struct recipe_word word[RECIPE_WORDS_MAX];
	size_t n_words;
	struct foreign_name *names;
	size_t n_names;
};

struct recipe_env {
	char variable[RECIPE_NAME_MAX];
	char key[FOREIGN_KEY_MAX];
};

struct recipe {
	char name[FOREIGN_KEY_MAX];
	char source[128]; /* file, for messages */
	/*
	 * What it is for: one of the files, one of the texts, one of the build ids; none of a kind:
	 * any.
	 */
	/* With a '/': the whole path; '*' and '?' */
	char file[RECIPE_PATTERNS_MAX][RECIPE_NAME_MAX];
	char text[RECIPE_PATTERNS_MAX][RECIPE_NAME_MAX];     /* stands in the file's data */
	char build_id[RECIPE_PATTERNS_MAX][RECIPE_NAME_MAX]; /* hexadecimal */
	size_t n_files, n_texts, n_build_ids;
	struct recipe_line line[RECIPE_LINES_MAX];
	size_t n_lines;
	/* Labels that need no memory of the process. */
	struct recipe_env env[RECIPE_PATTERNS_MAX];
	char title[RECIPE_PATTERNS_MAX][256]; /* regular expressions with named groups */
	char cgroup[RECIPE_PATTERNS_MAX][256];
	size_t n_env, n_titles, n_cgroups;
};

struct recipes {
	struct recipe *v[RECIPES_MAX];
	size_t n;
};

/*
 * Add the recipes of a text. One of a name that is there already replaces it. `source` is for
 * messages. -EINVAL, -E2BIG, -ENOMEM.
 */
int recipes_parse(struct recipes *r, const char *text, size_t len, const char *source,
		  struct err *err);

/* The same from a file, or from every *.recipe in a directory, in the order of their names. */
int recipes_load(struct recipes *r, const char *path, struct err *err);

/* Those that ascribe brings along; their `source`. */
#define RECIPES_BUILT_IN "built-in recipes"
int recipes_load_built_in(struct recipes *r, struct err *err);
void recipes_fini(struct recipes *r);

/* '*' and '?' alone; bounded. */
bool recipe_glob(const char *pattern, const char *text);

/* Is the recipe for this file? Texts and build ids are for the caller to look at. */
bool recipe_is_for(const struct recipe *r, const char *path);

#endif
