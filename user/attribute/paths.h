/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compile recipes to the steps of the BPF program: look up symbols, file offsets and members in the
 * file.
 */
#ifndef ASCRIBE_ATTRIBUTE_PATHS_H
#define ASCRIBE_ATTRIBUTE_PATHS_H

#include "elf/tls.h"
#include "labels/recipe.h"

#include <linux/types.h>
#include "label_wire.h"

struct path {
	const struct recipe *recipe;
	struct label_step step[LABEL_PATH_STEPS];
	size_t n_steps;
	struct foreign_field field[FOREIGN_FIELDS_MAX];
	size_t n_fields;
	/* The thread-local variable of a library, for STEP_START; access ELF_ACCESS_NONE: none. */
	struct elf_variable start;
};

/*
 * True if the recipe, whose paths fit (recipe_is_for), is for this file by text and build id.
 * Searches for the text in data that is not code, at most 32 MiB.
 */
bool path_is_for(const struct recipe *r, const struct elf_image *img);

/*
 * Compile the recipe for this file. On failure err names the recipe, the line, the key and the
 * file. Each process has its own address of a library's thread-local variables: the source begins
 * at `start`.
 */
int path_compile(struct path *ret, const struct recipe *r, const struct elf_image *img,
		 const char *path, struct err *err);

#endif
