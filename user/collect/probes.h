/* SPDX-License-Identifier: Apache-2.0 */
/* Which places of which files the events of a recording probe, for the time that it is opened. */
#ifndef ASCRIBE_COLLECT_PROBES_H
#define ASCRIBE_COLLECT_PROBES_H

#include "sampler/sampler.h"

struct probes {
	int file[MAX_EVENTS]; /* -1: the event is no probe */
	struct sampler_probe *v;
	size_t n, cap;
};

#define PROBES_NONE { .file = { [0 ... MAX_EVENTS - 1] = -1 } }

/*
 * Fill cfg->probes. 0, or as probe_find, or -errno of opening a file. To be followed by probes_fini
 * either way.
 */
int probes_find(struct probes *p, struct sandbox *s, struct sampler_config *cfg, struct err *err);
void probes_fini(struct probes *p, struct sampler_config *cfg);

#endif
