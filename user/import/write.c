/* SPDX-License-Identifier: Apache-2.0 */
#include "import/write.h"
#include "store/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE "service_name"

static int add_frame(struct store_writer *w, const struct profile_frame *f, uint32_t *ret)
{
	struct store_frame s = { .kind = f->kernel ? FRAME_KERNEL : FRAME_USER,
				 .flags = f->inlined ? FRAME_INLINED : 0,
				 .line = f->line };
	int rc = store_add_string(w, f->function, strlen(f->function), &s.function);
	rc = rc ? rc : store_add_string(w, f->module, strlen(f->module), &s.module);
	rc = rc ? rc : store_add_string(w, f->file, strlen(f->file), &s.file);
	return rc ? rc : store_add_frame(w, &s, ret);
}

static bool is_service(const struct label *l)
{
	return l->key_len == strlen(SERVICE) && !memcmp(l->key, SERVICE, l->key_len);
}

/* Write the labels of a sample that may be kept to out; hashes of redacted values are in room. */
static size_t kept_labels(const struct profile *p, const struct profile_sample *s,
			  const struct profile_rules *rules, struct label *out, char *room)
{
	struct label more[PROFILE_LABELS_MAX];
	size_t n = 0, n_more = 0;
	for (uint32_t i = 0; i < s->n_labels; i++) {
		const struct label *l = &p->labels[s->label + i];
		if (is_service(l))
			out[n++] = *l;
		else
			more[n_more++] = *l;
	}
	if (rules)
		n_more = filter_apply(rules->filter, rules->redactor, more, n_more, room,
				      rules->credentials);
	for (size_t i = 0; i < n_more; i++)
		out[n++] = more[i];
	return n;
}

/* Each value has at least one sample. */
static uint64_t samples_of(const struct profile_sample *s, const struct profile_type *t,
			   uint64_t value)
{
	uint64_t n =
		t->period ? value / t->period + (value % t->period >= t->period - value % t->period)
		: s->count ? s->count
			   : value;
	return n ? n : 1;
}

/* What the store calls the parts of a profile. */
struct added {
	uint32_t events[PROFILE_TYPES_MAX];
	uint32_t *frames; /* [n_frames] */
	uint32_t *stacks; /* [n_stacks], at the first entry of a stack; 0: not added yet */
};

static int add_stack(struct store_writer *w, const struct profile *p, struct added *a,
		     const struct profile_sample *s, uint32_t *ret)
{
	uint32_t stack = s->depth ? a->stacks[s->stack] : 0;
	int rc = 0;
	for (uint32_t i = stack ? 0 : s->depth; !rc && i--;) {
		uint32_t parent = stack;
		rc = store_add_stack(w, parent, a->frames[p->stacks[s->stack + i]], &stack);
	}
	if (!rc && s->depth)
		a->stacks[s->stack] = stack;
	*ret = stack;
	return rc;
}

static int add_sample(struct store_writer *w, const struct profile *p,
		      const struct profile_rules *rules, struct added *a,
		      const struct profile_sample *s)
{
	struct label labels[PROFILE_LABELS_MAX];
	char room[PROFILE_LABELS_MAX * REDACTED_LEN];
	uint32_t set, stack;
	int rc = store_add_set(w, labels, kept_labels(p, s, rules, labels, room), &set);
	rc = rc ? rc : add_stack(w, p, a, s, &stack);
	for (size_t t = 0; !rc && t < p->n_types; t++)
		if (s->value[t])
			rc = store_add_row(w, set, stack, a->events[t],
					   samples_of(s, &p->type[t], s->value[t]), s->value[t]);
	return rc;
}

int profile_write(struct store_writer *w, const struct profile *p,
		  const struct profile_rules *rules)
{
	struct added a = { .frames = calloc(p->n_frames + 1, sizeof(*a.frames)),
			   .stacks = calloc(p->n_stacks + 1, sizeof(*a.stacks)) };
	int rc = a.frames && a.stacks ? 0 : -ENOMEM;
	for (size_t t = 0; !rc && t < p->n_types; t++) {
		const struct profile_type *type = &p->type[t];
		struct store_event e = { type->event, type->unit, type->period,
					 type->period ? 0 : 1 };
		rc = store_add_event(w, &e, &a.events[t]);
	}
	for (size_t i = 0; !rc && i < p->n_frames; i++)
		rc = add_frame(w, &p->frames[i], &a.frames[i]);
	for (size_t i = 0; !rc && i < p->n_samples; i++)
		rc = add_sample(w, p, rules, &a, &p->samples[i]);
	free(a.frames);
	free(a.stacks);
	return rc;
}
