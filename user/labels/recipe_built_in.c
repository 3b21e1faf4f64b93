/* SPDX-License-Identifier: Apache-2.0 */
/* The recipes of recipes/, as one text: the build makes build/gen/recipes.txt of them. */
#include "labels/recipe.h"

__asm__(".section .rodata\n"
	".global ascribe_recipes\n"
	"ascribe_recipes:\n"
	".incbin \"" RECIPES "\"\n"
	".global ascribe_recipes_end\n"
	"ascribe_recipes_end:\n"
	".byte 0\n"
	".previous\n");

extern const char ascribe_recipes[], ascribe_recipes_end[];

int recipes_load_built_in(struct recipes *r, struct err *err)
{
	return recipes_parse(r, ascribe_recipes, (size_t)(ascribe_recipes_end - ascribe_recipes),
			     RECIPES_BUILT_IN, err);
}
