/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/aside.h"

#include <stdlib.h>
#include <string.h>

void aside_init(struct aside *a)
{
	*a = (struct aside){ .last = &a->first, .bytes.max = ASIDE_BYTES_MAX };
}

void aside_clear(struct aside *a)
{
	for (struct aside_row *r = a->first, *next; r; r = next) {
		next = r->next;
		free(r);
	}
	aside_init(a);
}

bool aside_add(struct aside *a, const struct sample *s, uint64_t now_ns)
{
	const struct resolver_stack *from = &s->stack;
	size_t n_words = (size_t)from->n_kernel + from->n_user;
	size_t bytes = sizeof(struct aside_row) + n_words * sizeof(uint64_t) +
		       from->n_script * (sizeof(uint32_t) + sizeof(bool));
	struct aside_row *r = malloc(bytes);
	if (!r || !quota_take(&a->bytes, s->user, bytes)) {
		free(r);
		return false;
	}
	uint64_t *words = (uint64_t *)(r + 1);
	uint32_t *script = (uint32_t *)(words + n_words);
	bool *entry = (bool *)(script + from->n_script);
	*r = (struct aside_row){ .sample = *s, .until_ns = now_ns + ASIDE_NS, .bytes = bytes };
	memcpy(words, from->frames, n_words * sizeof(*words));
	if (from->n_script) {
		memcpy(script, from->script, from->n_script * sizeof(*script));
		memcpy(entry, from->entry, from->n_script * sizeof(*entry));
	}
	r->sample.stack.frames = words;
	r->sample.stack.script = script;
	r->sample.stack.entry = entry;
	*a->last = r;
	a->last = &r->next;
	a->n++;
	return true;
}

void aside_try(struct aside *a, uint64_t now_ns, bool now,
	       bool (*try)(void *ctx, const struct sample *s, bool last), void *ctx)
{
	for (struct aside_row **at = &a->first; *at;) {
		struct aside_row *r = *at;
		if (!try(ctx, &r->sample, now || now_ns >= r->until_ns)) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		if (!*at)
			a->last = at;
		a->n--;
		quota_give(&a->bytes, r->sample.user, r->bytes);
		free(r);
	}
}
