/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of every profile that a reader of user/import accepts. */
#ifndef TESTS_FUZZ_IMPORT_H
#define TESTS_FUZZ_IMPORT_H

#include "fuzz/input.h"
#include "import/profile.h"

/* So little that most inputs reach a limit. */
static const struct profile_limits small_limits = {
	.bytes = 200, .message = 1500, .samples = 2, .frames = 3, .stacks = 4, .labels = 2
};

static inline void check_profile(const struct profile *p)
{
	const struct profile_limits *l = profile_limits_of(p);
	require(p->n_samples <= l->samples && p->n_frames <= l->frames && p->n_stacks <= l->stacks);
	for (size_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample *s = &p->samples[i];
		require((uint64_t)s->stack + s->depth <= p->n_stacks);
		require((uint64_t)s->label + s->n_labels <= p->n_labels);
		for (uint32_t k = 0; k < s->depth; k++)
			require(p->stacks[s->stack + k] < p->n_frames);
	}
	for (size_t i = 0; i < p->n_frames; i++)
		require(strlen(p->frames[i].function) <= PROFILE_TEXT_MAX &&
			strlen(p->frames[i].module) <= PROFILE_TEXT_MAX);
	profile_size(p);
}

#endif
