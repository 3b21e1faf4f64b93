/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/evals.h"

#include "stacks/jit.h"

#include <string.h>

static bool is_eval(struct frames *f, const struct user_frame *u)
{
	static const char eval[] = "_PyEval_EvalFrameDefault";
	struct binary_python py;
	struct symbol sym;
	if (!u->has_vaddr || binary_python(u->module->binary, &py))
		return false;
	if (u->vaddr >= py.eval && u->vaddr - py.eval < py.eval_size)
		return true;
	/* Or its cold part */
	return !frame_symbol(f, u, &sym) && !strncmp(sym.name, eval, sizeof(eval) - 1);
}

uint32_t evals_find(struct frames *f, const struct user_frame *user, uint32_t n, bool *is,
		    bool *ret_described)
{
	uint32_t found = 0;
	*ret_described = false;
	for (uint32_t i = 0; i < n; i++) {
		is[i] = is_eval(f, &user[i]);
		found += is[i];
		/* A trampoline, made by the process at run time, calls it. */
		if (i && is[i - 1] && user[i].map && jits_is_code(user[i].map))
			*ret_described = true;
	}
	return found;
}
