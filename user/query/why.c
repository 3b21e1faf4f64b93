/* SPDX-License-Identifier: Apache-2.0 */
#include "query/why.h"

#include <errno.h>
#include <string.h>

static const enum query_metric metrics[] = { [WHY_CPU] = QUERY_CPU, [WHY_RUNQ] = QUERY_RUNQ, [WHY_OFF] = QUERY_OFF };

static bool has_waits(const struct store *s)
{
	for (uint32_t i = 0; i < store_n_events(s); i++)
		if (!strcmp(store_event(s, i)->name, "runq"))
			return true;
	return false;
}

int why_side_open(struct why_side *ret, struct store *s, const struct query_spec *spec, bool lengths, struct err *err)
{
	*ret = (struct why_side){ .waits = has_waits(s) };
	int rc = 0;
	for (int i = 0; !rc && i < WHY_PARTS && (i == WHY_CPU || ret->waits); i++) {
		struct query_spec of = *spec;
		of.metric = metrics[i];
		of.labels = i == WHY_OFF
				    ? QUERY_NO_LABELS
				    : QUERY_TOTALS; /* where it was blocked is asked for, too */
		of.parts = spec->parts ? spec->parts : 1;
		of.parts *= WHY_PARTS + 1; /* and lengths */
		rc = query_open(&ret->part[i], s, &of, err);
		if (rc)
			break;
		const struct query_info *info = query_info(ret->part[i]);
		ret->there = info->blocks > 0;
		ret->bounded |= info->bounded;
		ret->seconds[i] = info->seconds;
		if (i == WHY_OFF)
			ret->idle_s = (double)info->idle_waits / 1e9;
		ret->from_ns = info->from_ns;
		ret->to_ns = info->to_ns;
		ret->covered_s = (double)info->covered_ns / 1e9;
		if (i == WHY_CPU)
			ret->cpu_samples = info->grain_ns ? info->samples / info->grain_ns : 0;
		of.keys = NULL;
		of.n_keys = 0;
		if (lengths && i != WHY_CPU && ret->there)
			rc = query_lengths(&ret->lengths[i], s, &of, err);
	}
	return rc;
}

void why_side_close(struct why_side *s)
{
	for (int i = 0; i < WHY_PARTS; i++) {
		query_close(s->part[i]);
		query_lengths_free(s->lengths[i]);
		s->part[i] = NULL;
		s->lengths[i] = NULL;
	}
}

double why_wall(const struct why_side *s)
{
	double sum = 0;
	for (int i = 0; i < WHY_PARTS; i++)
		sum += s->seconds[i];
	return sum;
}

double why_share(const struct why_side *s, enum why_part part)
{
	double all = why_wall(s);
	return all > 0 ? s->seconds[part] / all : 0;
}

const struct hist_snapshot *why_lengths(const struct why_side *s, enum why_part part)
{
	return s->lengths[part] ? query_lengths_of(s->lengths[part], NULL, NULL) : NULL;
}
