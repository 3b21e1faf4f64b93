/* SPDX-License-Identifier: Apache-2.0 */
/* Findings as JSON (docs/json.md), the same from the command and over HTTP. */
#ifndef ASCRIBE_EXPORT_FINDINGS_H
#define ASCRIBE_EXPORT_FINDINGS_H

#include "export/json.h"
#include "query/findings.h"

/* A new reference, or NULL when out of memory. */
json_t *answer_findings(const struct findings *f, const char *where);

#endif
