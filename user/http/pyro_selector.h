/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors of Pyroscope's clients as ours: other names of labels, the profile type a label. */
#ifndef ASCRIBE_HTTP_PYRO_SELECTOR_H
#define ASCRIBE_HTTP_PYRO_SELECTOR_H

#include "http/pyro_names.h"
#include "util/err.h"

/*
 * All selectors at once, without their profile type, for a question about an event; to be freed.
 * What is no selector stays as it is, for the parser to complain of. -ENOMEM.
 */
int pyro_selector(const struct pyro_names *names, const struct store_event *e, char *const *v,
		  size_t n, char **ret, struct err *err);

/* The profile type that a selector asks for; "": none. cap: bytes of ret. */
void pyro_selector_type(char *const *v, size_t n, char *ret, size_t cap);

#endif
