/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matched samples of a query by program name (comm) and stack: for formats that have no other
 * labels. Stacks whose frames have the same names are one.
 */
#ifndef ASCRIBE_EXPORT_LINES_H
#define ASCRIBE_EXPORT_LINES_H

#include "export/export.h"
#include "export/intern.h"

struct export_line {
	uint32_t comm;	/* in export_lines.comms */
	uint32_t stack; /* of the store */
	bool other;	/* samples below the stack that were cut: its leaf is "(other)" */
	uint64_t n;	/* samples, or their value */
};

struct export_lines {
	struct export_line *v; /* by comm and stack, each once */
	size_t n;
	struct intern comms;
	bool values; /* n is a value (export_value) */
};

/* Free with export_lines_fini, also after a failure. -ENOMEM. */
int export_lines_init(struct export_lines *l, const struct export_source *src,
		      enum export_unit unit);
void export_lines_fini(struct export_lines *l);

/*
 * Write a name in which the bytes of `parts` become ':', and control characters '_'. For formats in
 * which these would end a name.
 */
void export_put_name(const char *s, size_t len, const char *parts, FILE *f);

#endif
