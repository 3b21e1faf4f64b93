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

/* May it be a function of Perl's between a loop and the one that it catches errors for? */
static bool may_catch(struct frames *f, const struct user_frame *u)
{
	struct symbol sym;
	return frame_symbol(f, u, &sym) || !*sym.name || !strncmp(sym.name, "S_docatch", 9) ||
	       !strncmp(sym.name, "Perl_pp_enter", 13) || !strcmp(sym.name, "Perl_pp_require");
}

/*
 * Where C called a sub, Perl runs what follows an `eval` in a loop of its own, from docatch().
 * docatch() has no symbol in a stripped file; Perl_pp_entertry() before it may have none, or be
 * gone by a tail call. Such a loop has no script frames of its own: mark it and these functions.
 * Returns how many loops there are.
 */
static uint32_t join_loops(struct frames *f, const struct user_frame *user, uint32_t n, uint8_t *is)
{
	uint32_t found = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t end = i + 1;
		while (is[i] == EVAL_IS && end < n && end <= i + 2 && is[end] == EVAL_NOT &&
		       user[end].module == user[i].module && may_catch(f, &user[end]))
			end++;
		if (is[i] != EVAL_IS || end == i + 1 || end == n || is[end] != EVAL_IS)
			continue;
		memset(is + i, EVAL_PART, end - i);
		found++;
	}
	return found;
}

uint32_t evals_find(struct frames *f, unsigned language, const struct user_frame *user, uint32_t n,
		    uint8_t *is, bool *ret_described)
{
	uint32_t found = 0;
	*ret_described = false;
	for (uint32_t i = 0; i < n; i++) {
		is[i] = is_eval(f, language, &user[i]) ? EVAL_IS : EVAL_NOT;
		found += is[i];
		/* A trampoline, made by the process at run time, calls it. */
		if (i && is[i - 1] && language == SCRIPT_PYTHON && is_made(&user[i]))
			*ret_described = true;
	}
	return language == SCRIPT_PERL ? found - join_loops(f, user, n, is) : found;
}
