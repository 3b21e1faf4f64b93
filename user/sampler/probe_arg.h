/* SPDX-License-Identifier: Apache-2.0 */
/* Where the argument of a probe is, as the program on it reads it (bpf/probe_value.bpf.h). */
#ifndef ASCRIBE_SAMPLER_PROBE_ARG_H
#define ASCRIBE_SAMPLER_PROBE_ARG_H

#include <linux/types.h>
#include <stdbool.h>
#include "wire.h"

/* Say where argument n, from 1, of a function is at its entry. -ERANGE. */
int probe_arg_of_function(unsigned n, struct probe_argument *ret);

/*
 * The same of a static probe, by the text of its note: "8@%rdi -4@-20(%rbp) 4@$5". -ERANGE: there
 * are not so many; -ENOTSUP: it is of a form that cannot be read (floating point, a symbol), or
 * damaged.
 */
int probe_arg_of_note(const char *arguments, unsigned n, struct probe_argument *ret);

/* Does what a worker has made name a user's registers alone? */
bool probe_arg_is_sound(const struct probe_argument *c);

#endif
