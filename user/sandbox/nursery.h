/* SPDX-License-Identifier: Apache-2.0 */
/* The process that forks workers, and the worker's loop. Both never return. */
#ifndef ASCRIBE_SANDBOX_NURSERY_H
#define ASCRIBE_SANDBOX_NURSERY_H

#include "sandbox/sandbox.h"

enum nursery_order {
	NURSERY_SPAWN = 1, /* with the worker's end of a socket; answered by its pid in value, or -errno in what */
	NURSERY_KILL = 2,  /* value: the pid; not answered */
};

_Noreturn void nursery_run(int fd, const struct sandbox_config *cfg);

#endif
