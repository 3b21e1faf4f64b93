/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two stores hold the same, by a sum over all of their rows as text. */
#ifndef TESTS_UNIT_DIGEST_H
#define TESTS_UNIT_DIGEST_H

#include "store/damage.h"
#include "unit/store_model.h"

/* Two stores of one digest have the same windows and rows. */
struct digest {
	uint64_t windows, samples, text;
};

struct digesting {
	struct store *s;
	struct digest *d;
};

static inline uint64_t digest_text(uint64_t h, const char *p)
{
	for (; *p; p++)
		h = (h ^ (uint8_t)*p) * 0x100000001b3;
	return h;
}

static inline int digest_row(void *ctx, const struct store_row *r)
{
	const struct digesting *g = ctx;
	char *labels = store_labels_text(g->s, r->set), *stack = store_stack_text(g->s, r->stack);
	uint64_t h = digest_text(digest_text(0xcbf29ce484222325, labels), stack);
	h = digest_text(h, store_event(g->s, r->event)->name);
	g->d->samples += r->samples;
	g->d->text += h * r->samples + (h ^ r->value);
	free(labels);
	free(stack);
	return 0;
}

static inline void digest_finding(void *ctx, const struct store_finding *f)
{
	*(bool *)ctx |= f->kind == STORE_DAMAGED;
}

/* NULL, or what is wrong with the store. */
static inline const char *digest(const char *dir, struct digest *ret)
{
	static char wrong[700];
	struct err err = { 0 };
	struct digesting g = { NULL, ret };
	bool damaged = false;
	*ret = (struct digest){ 0 };
	int rc = store_verify(dir, digest_finding, &damaged, &err);
	rc = rc ? rc : store_open(&g.s, dir, &err);
	for (size_t i = 0; !rc && i < store_n_windows(g.s); i++) {
		const struct store_window *w = store_window(g.s, i, &err);
		rc = w ? store_rows(g.s, i, digest_row, &g, &err) : -EIO;
		ret->windows++;
		ret->text += w ? (uint64_t)w->t0_ns * 31 + w->totals.cpu[0].stored : 0;
	}
	if (g.s)
		store_close(g.s);
	if (!rc && !damaged)
		return NULL;
	snprintf(wrong, sizeof(wrong), "%s: %.600s", dir, rc ? err.text : "it is damaged");
	return wrong;
}

static inline bool same_digest(const struct digest *a, const struct digest *b)
{
	return a->windows == b->windows && a->samples == b->samples && a->text == b->text;
}

#endif
