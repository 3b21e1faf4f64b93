/* SPDX-License-Identifier: Apache-2.0 */
/* `ascribe why --metric heap`: who holds more memory than at the beginning of the range. */
#ifndef ASCRIBE_CLI_WHY_MEMORY_H
#define ASCRIBE_CLI_WHY_MEMORY_H

#include "cli/cmd.h"

/* r is open. An exit status. */
int why_memory(struct reading *r, const struct filter *f);

#endif
