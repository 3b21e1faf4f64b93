/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the table that are long: lists of system calls. */
#ifndef ASCRIBE_SANDBOX_ROLES_INT_H
#define ASCRIBE_SANDBOX_ROLES_INT_H

#include "sandbox/roles.h"

extern const struct role_calls role_calls_parser, role_calls_network, role_calls_recorder,
	role_calls_web, role_calls_jvm;

#endif
