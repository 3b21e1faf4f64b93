/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/probes.h"

#include "util/array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* The places of one probe of an event. */
static int add_places(struct probes *p, struct sandbox *s, const struct probe_spec *spec,
		      unsigned index, bool frees, struct err *err)
{
	struct probe_place place[PROBE_PLACES_MAX];
	size_t n = 0;
	int rc = probe_find(s, spec, p->file[index], place, &n, err);
	if (!rc && ARRAY_RESERVE(p->v, p->cap, p->n + n))
		rc = err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; !rc && i < n; i++)
		p->v[p->n++] = (struct sampler_probe){ index, frees, p->file[index], place[i] };
	return rc;
}

static int find(struct probes *p, struct sandbox *s, const struct event *e, unsigned index,
		struct err *err)
{
	struct probe_spec spec;
	int rc = probe_parse(&spec, e->name, err);
	if (rc)
		return rc;
	p->file[index] = open(spec.file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (p->file[index] < 0)
		return err_sys(err, -errno, "cannot open %s", spec.file);
	if (spec.kind != PROBE_HEAP)
		return add_places(p, s, &spec, index, false, err);
	for (int frees = 0; !rc && frees < 2; frees++) {
		const struct probe_spec of = probe_of_heap(&spec, frees);
		rc = add_places(p, s, &of, index, frees, err);
	}
	return rc;
}

int probes_find(struct probes *p, struct sandbox *s, struct sampler_config *cfg, struct err *err)
{
	int rc = 0;
	for (unsigned i = 0; !rc && i < cfg->n_events; i++)
		rc = cfg->event[i].probe ? find(p, s, &cfg->event[i], i, err) : 0;
	cfg->probes = p->v;
	cfg->n_probes = p->n;
	return rc;
}

void probes_fini(struct probes *p, struct sampler_config *cfg)
{
	for (unsigned i = 0; i < MAX_EVENTS; i++)
		if (p->file[i] >= 0)
			close(p->file[i]);
	free(p->v);
	*p = (struct probes){ 0 };
	cfg->probes = NULL;
}
