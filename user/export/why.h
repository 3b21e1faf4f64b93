/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of a selection went, as JSON (docs/json.md), the same from the command and over
 * HTTP.
 */
#ifndef ASCRIBE_EXPORT_WHY_H
#define ASCRIBE_EXPORT_WHY_H

#include "export/json.h"
#include "query/why.h"

/* *ret is a new reference. -ENOMEM, or as query_open. */
int answer_why(const struct why *w, json_t **ret, struct err *err);

#endif
