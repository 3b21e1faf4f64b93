/* SPDX-License-Identifier: Apache-2.0 */
/* From recipes to the steps that the BPF program follows: symbols, file offsets and members are looked up in the file. */
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
	/* The thread-local variable of a library that STEP_START stands for; access ELF_ACCESS_NONE: there is none. */
	struct elf_variable start;
};

/*
 * Is the recipe, whose paths fit (recipe_is_for), for this file, by text and build id? A text is looked for in its data that is not
 * code, 32 MiB at most.
 */
bool path_is_for(const struct recipe *r, const struct elf_image *img);

/*
 * Compile the recipe for this file. On failure err names the recipe, the line, the key and the file. Where a library's
 * thread-local variables are is told by each process: the source begins at `start`.
 */
int path_compile(struct path *ret, const struct recipe *r, const struct elf_image *img, const char *path, struct err *err);

#endif
