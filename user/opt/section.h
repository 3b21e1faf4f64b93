/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of sections (OPT_SECTIONS): a mapping in the daemon's file, or one value alone. */
#ifndef ASCRIBE_OPT_SECTION_H
#define ASCRIBE_OPT_SECTION_H

#include "opt/options.h"

/*
 * Parse a line "name value" for each option of cmd; a line without a value is that of the option
 * `alone`. text is changed and must outlive out. -EINVAL: the text begins with the option's name.
 */
int opt_section_parse(const struct opt_command *cmd, const char *alone, char *text, void *out,
		      struct err *err);

#endif
