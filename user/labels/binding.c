/* SPDX-License-Identifier: Apache-2.0 */
#include "labels/binding.h"

#include <errno.h>
#include <string.h>

int binding_check_table(const struct ascribe_trampoline_table *t)
{
	if (!t->magic)
		return -EAGAIN;
	if (t->magic != ASCRIBE_TRAMPOLINES_MAGIC)
		return -EBADMSG;
	if (t->abi != ASCRIBE_TRAMPOLINES_ABI || t->clock != ASCRIBE_BINDING_CLOCK ||
	    t->binding_size != sizeof(struct ascribe_binding))
		return -EPROTONOSUPPORT;
	if (t->size != sizeof(*t) || !t->count || t->count > ASCRIBE_TRAMPOLINES_MAX || !t->depth ||
	    t->depth > ASCRIBE_BINDINGS_MAX || t->step < 4 || t->step > 4096 ||
	    t->code > UINT64_MAX - (uint64_t)t->count * t->step)
		return -EBADMSG;
	return 0;
}

const struct ascribe_binding *binding_during(const struct ascribe_binding *v, size_t n,
					     uint64_t first_ns, uint64_t last_ns)
{
	const struct ascribe_binding *best = NULL;
	for (size_t i = 0; i < n; i++) {
		const struct ascribe_binding *b = &v[i];
		if (!b->begin || b->begin != b->end || b->len > sizeof(b->text))
			continue;
		if (b->from_ns > first_ns || (b->to_ns && b->to_ns <= last_ns))
			continue;
		if (!best || b->begin > best->begin)
			best = b;
	}
	return best;
}

size_t binding_labels(const struct ascribe_binding *b, struct label *out)
{
	size_t n = 0, len = b->len < sizeof(b->text) ? b->len : sizeof(b->text);
	for (size_t at = 0; len - at >= 4 && n < BINDING_LABELS_MAX;) {
		const uint8_t *t = b->text + at;
		size_t size = 3u + t[1] + t[2];
		if (!t[1] || size > len - at)
			break;
		struct label l = { .key = (const char *)t + 3,
				   .key_len = t[1],
				   .str = (const char *)t + 3 + t[1],
				   .str_len = t[2],
				   .type = LABEL_STRING };
		if (t[0] == ASCRIBE_KEY_INT && label_int(l.str, l.str_len, &l.num)) {
			l.type = LABEL_INT;
			l.str = NULL;
			l.str_len = 0;
		}
		out[n++] = l;
		at += size;
	}
	return labels_normalize(out, n);
}
