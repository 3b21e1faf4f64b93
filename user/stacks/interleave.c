/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/interleave.h"

static uint32_t n_groups(const struct interleave *s)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->n_script; i++)
		n += s->entry[i] || i + 1 == s->n_script;
	return n;
}

uint32_t interleave_part(const struct interleave *s, uint32_t k, uint32_t *ret_first)
{
	uint32_t groups = n_groups(s), first = 0, end;
	uint32_t begun = s->n_evals > groups && !s->cut ? s->n_evals - groups : 0;
	*ret_first = 0;
	if (k < begun || k - begun >= groups)
		return 0;
	for (uint32_t g = k - begun; g > 0; first++)
		g -= s->entry[first];
	for (end = first; end < s->n_script && !s->entry[end];)
		end++;
	*ret_first = first;
	if (k + 1 == s->n_evals || end == s->n_script)
		return s->n_script - first;
	return end + 1 - first;
}
