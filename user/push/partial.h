/* SPDX-License-Identifier: Apache-2.0 */
/* Partial success, in the answers of OpenTelemetry receivers. */
#ifndef ASCRIBE_PUSH_PARTIAL_H
#define ASCRIBE_PUSH_PARTIAL_H

#include <stddef.h>
#include <stdint.h>

/* How many profiles a receiver did not keep, and why; 0 also for what is no such answer. */
uint64_t push_partial_success(const uint8_t *answer, size_t len, char *why, size_t cap);

#endif
