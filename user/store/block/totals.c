/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/totals.h"

#include "store/file/format.h"
#include "util/array.h"

static int encode_cpu(struct buf *b, const struct store_cpu_totals *t, size_t n_lost,
		      size_t n_flagged, size_t pad_lost, size_t pad_flagged)
{
	int rc = buf_add_varint(b, t->cpu);
	rc |= buf_add_varint(b, t->fired);
	rc |= buf_add_varint(b, t->stored);
	for (size_t i = 0; i < pad_lost; i++)
		rc |= buf_add_varint(b, i < n_lost ? t->lost[i] : 0);
	for (size_t i = 0; i < pad_flagged; i++)
		rc |= buf_add_varint(b, i < n_flagged ? t->flagged[i] : 0);
	return rc;
}

int totals_encode(struct buf *b, const struct store_totals *t, size_t n_lost, size_t n_flagged,
		  size_t pad_lost, size_t pad_flagged)
{
	const uint64_t v[] = { t->outside, t->own_cpu_ns, t->own_rss,
			       t->n_cpus,  pad_lost,	  pad_flagged };
	int rc = 0;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		rc |= buf_add_varint(b, v[i]);
	for (size_t i = 0; !rc && i < t->n_cpus; i++)
		rc = encode_cpu(b, &t->cpu[i], n_lost, n_flagged, pad_lost, pad_flagged);
	return rc;
}

static int add_cpu(struct totals *t, uint32_t number, struct store_cpu_totals **ret)
{
	for (size_t i = 0; i < t->t.n_cpus; i++) {
		if (t->t.cpu[i].cpu != number)
			continue;
		*ret = &t->t.cpu[i];
		return 0;
	}
	int rc = ARRAY_RESERVE(t->t.cpu, t->cap, t->t.n_cpus + 1);
	uint64_t *counters = rc ? NULL : calloc(t->n_lost + t->n_flagged, sizeof(*counters));
	if (!counters)
		return -ENOMEM;
	struct store_cpu_totals *cpu = &t->t.cpu[t->t.n_cpus++];
	*cpu = (struct store_cpu_totals){ .cpu = number,
					  .lost = counters,
					  .flagged = counters + t->n_lost };
	*ret = cpu;
	return 0;
}

static int decode_cpu(struct totals *t, struct cursor *c, size_t lost, size_t flagged)
{
	struct store_cpu_totals *cpu;
	uint64_t number = cursor_varint(c);
	if (c->bad || number > UINT32_MAX)
		return -EBADMSG;
	int rc = add_cpu(t, (uint32_t)number, &cpu);
	if (rc)
		return rc;
	cpu->fired += cursor_varint(c);
	cpu->stored += cursor_varint(c);
	for (size_t k = 0; k < lost; k++)
		cpu->lost[k] += cursor_varint(c);
	for (size_t k = 0; k < flagged; k++)
		cpu->flagged[k] += cursor_varint(c);
	return c->bad ? -EBADMSG : 0;
}

int totals_decode(struct totals *ret, struct cursor *c, size_t n_lost, size_t n_flagged)
{
	struct totals t = { .n_lost = n_lost, .n_flagged = n_flagged };
	t.t.outside = cursor_varint(c);
	t.t.own_cpu_ns = cursor_varint(c);
	t.t.own_rss = cursor_varint(c);
	size_t n_cpus = cursor_varint(c), lost = cursor_varint(c), flagged = cursor_varint(c);
	if (c->bad || n_cpus > CPUS_MAX || lost > n_lost || flagged > n_flagged)
		return -EBADMSG;
	int rc = 0;
	for (size_t i = 0; !rc && i < n_cpus; i++)
		rc = decode_cpu(&t, c, lost, flagged);
	if (!rc && cursor_left(c))
		rc = -EBADMSG;
	if (rc)
		totals_fini(&t);
	else
		*ret = t;
	return rc;
}

int totals_add(struct totals *sum, const struct store_totals *t)
{
	for (size_t i = 0; i < t->n_cpus; i++) {
		struct store_cpu_totals *to;
		const struct store_cpu_totals *from = &t->cpu[i];
		int rc = add_cpu(sum, from->cpu, &to);
		if (rc)
			return rc;
		to->fired += from->fired;
		to->stored += from->stored;
		for (size_t k = 0; k < sum->n_lost; k++)
			to->lost[k] += from->lost[k];
		for (size_t k = 0; k < sum->n_flagged; k++)
			to->flagged[k] += from->flagged[k];
	}
	sum->t.outside += t->outside;
	sum->t.own_cpu_ns += t->own_cpu_ns;
	if (t->own_rss > sum->t.own_rss)
		sum->t.own_rss = t->own_rss;
	return 0;
}

int totals_map(struct totals *t, size_t n_lost, size_t n_flagged, const struct meta_map *at)
{
	for (size_t i = 0; i < t->t.n_cpus; i++) {
		struct store_cpu_totals *cpu = &t->t.cpu[i];
		uint64_t *v = calloc(n_lost + n_flagged, sizeof(*v));
		if (!v)
			return -ENOMEM;
		for (size_t k = 0; k < t->n_lost; k++)
			v[at->lost_at[k]] += cpu->lost[k];
		for (size_t k = 0; k < t->n_flagged; k++)
			v[n_lost + at->flagged_at[k]] += cpu->flagged[k];
		free(cpu->lost);
		cpu->lost = v;
		cpu->flagged = v + n_lost;
	}
	t->n_lost = n_lost;
	t->n_flagged = n_flagged;
	return 0;
}

void totals_fini(struct totals *t)
{
	for (size_t i = 0; i < t->t.n_cpus; i++)
		free(t->t.cpu[i].lost);
	free(t->t.cpu);
	memset(t, 0, sizeof(*t));
}
