/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of a CPU's PMU by the names that sysfs has for them, as perf writes them:
 *
 *   cpu/event=0x3c,umask=0/     fields of the PMU's format
 *   cpu/cache-misses/           a name under events, also beside fields
 *   cpu/config=0x1a8,config1=3/ the words themselves
 */
#ifndef ASCRIBE_SAMPLER_PMU_H
#define ASCRIBE_SAMPLER_PMU_H

#include "util/err.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

#define PMU_DEVICES "/sys/bus/event_source/devices"

/*
 * Set type and config of an event from its text and the directory of PMUs. -EINVAL: no such PMU or
 * field, or a value that does not fit.
 */
int pmu_parse(struct perf_event_attr *ret, const char *devices, const char *text, struct err *err);

/* Is it the type of a CPU's own PMU? Others count what is not of one thread, or take addresses. */
bool pmu_is_core(const char *devices, uint32_t type);

#endif
