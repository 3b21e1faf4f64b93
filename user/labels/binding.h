/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoder of trampoline bindings (include/ascribe/trampoline_abi.h), as copied out of a process:
 * any bytes whatever.
 */
#ifndef ASCRIBE_LABELS_BINDING_H
#define ASCRIBE_LABELS_BINDING_H

#include "ascribe/trampoline_abi.h"
#include "labels/labels.h"

/* A label takes four bytes at the least. */
#define BINDING_LABELS_MAX (ASCRIBE_BINDING_TEXT / 4)

/*
 * What a table says, checked: 0, -EBADMSG, -EPROTONOSUPPORT; -EAGAIN when its constructor has not
 * run yet.
 */
int binding_check_table(const struct ascribe_trampoline_table *t);

/*
 * The newest of n bindings that held all the time from first_ns to last_ns, NULL: none. Those being
 * written do not count.
 */
const struct ascribe_binding *binding_during(const struct ascribe_binding *v, size_t n,
					     uint64_t first_ns, uint64_t last_ns);

/*
 * Its labels, as many as are whole, sorted, no key twice (the first counts); returns how many. They
 * point into b. out must have room for BINDING_LABELS_MAX.
 */
size_t binding_labels(const struct ascribe_binding *b, struct label *out);

#endif
