/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/evals.h"

#include "stacks/jit.h"

#include <string.h>

static bool is_made(const struct user_frame *u)
{
	return u->map && jits_is_code(u->map);
}

static bool is_eval(struct frames *f, unsigned language, const struct user_frame *u)
{
	struct binary_script script;
	struct symbol sym;
	/* The code of YJIT runs all frames up to the next one that was called from C. */
	if (language == SCRIPT_RUBY && is_made(u))
		return true;
	/*
	 * PHP's compiled code runs in the frame of the function that jumped to it. It is in shared
	 * memory. That of PCRE, which is called, is not.
	 */
	if (language == SCRIPT_PHP && is_made(u) && strcmp(u->map->file->path, "[anon]"))
		return true;
	if (!u->has_vaddr || binary_script(u->module->binary, &script) ||
	    script.language != language)
		return false;
	if (u->vaddr >= script.eval && u->vaddr - script.eval < script.eval_size)
		return true;
	/* Or its cold part */
	const char *eval = binary_script_eval(language);
	return !frame_symbol(f, u, &sym) && !strncmp(sym.name, eval, strlen(eval));
}

uint32_t evals_find(struct frames *f, unsigned language, const struct user_frame *user, uint32_t n,
		    bool *is, bool *ret_described)
{
	uint32_t found = 0;
	*ret_described = false;
	for (uint32_t i = 0; i < n; i++) {
		is[i] = is_eval(f, language, &user[i]);
		found += is[i];
		/* A trampoline, made by the process at run time, calls it. */
		if (i && is[i - 1] && language == SCRIPT_PYTHON && is_made(&user[i]))
			*ret_described = true;
	}
	return found;
}
