/* SPDX-License-Identifier: Apache-2.0 */
#include "import/profile.h"

#include "util/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE_BYTES \
	16 /* of a frame, a label, a node of a stack, a row: about what one costs in the store */

const struct profile_limits profile_sent = { .bytes = 8u << 20,
					     .message = 40u << 20,
					     .samples = 100000,
					     .frames = 200000,
					     .stacks = 1000000,
					     .labels = 1000000 };
const struct profile_limits profile_file = { .bytes = 128u << 20,
					     .message = 640u << 20,
					     .samples = 1000000,
					     .frames = 2000000,
					     .stacks = 32000000,
					     .labels = 16000000 };

const struct profile_limits *profile_limits_of(const struct profile *p)
{
	return p->limits ? p->limits : &profile_sent;
}

size_t profile_size(const struct profile *p)
{
	size_t n = NODE_BYTES * (p->n_frames + p->n_labels + p->n_stacks + p->n_samples);
	for (size_t i = 0; i < p->n_frames; i++)
		n += strlen(p->frames[i].function) + strlen(p->frames[i].module) +
		     strlen(p->frames[i].file);
	for (size_t i = 0; i < p->n_labels; i++)
		n += p->labels[i].key_len +
		     (p->labels[i].type == LABEL_STRING ? p->labels[i].str_len : 0);
	return n;
}

void profile_fini(struct profile *p)
{
	for (size_t i = 0; i < p->n_texts; i++)
		free(p->texts[i]);
	free(p->texts);
	free(p->frames);
	free(p->stacks);
	free(p->labels);
	free(p->samples);
	*p = (struct profile){ .limits = p->limits, .prefix = p->prefix };
}

/* ---- labels ---- */

int profile_labels_add(struct profile_labels *l, const char *name, const char *value,
		       struct err *err)
{
	size_t n = strlen(name), m = strlen(value);
	if (!strncmp(name, "__", 2))
		return 0;
	if (!n || n > PROFILE_KEY_MAX || m > PROFILE_VALUE_MAX)
		return err_set(err, -EINVAL,
			       "a label's name has 1 to %d bytes, its value at most %d",
			       PROFILE_KEY_MAX, PROFILE_VALUE_MAX);
	if (l->n == PROFILE_LABELS_MAX)
		return err_set(err, -E2BIG, "more than %d labels", PROFILE_LABELS_MAX);
	l->v[l->n++] = (struct label){ .key = name,
				       .key_len = (uint32_t)n,
				       .str = value,
				       .str_len = (uint32_t)m,
				       .type = LABEL_STRING };
	return 0;
}

int profile_labels_of_name(struct profile_labels *l, char *text, struct err *err)
{
	char *brace = strchr(text, '{'), *rest = brace ? brace + 1 : NULL;
	size_t n = strlen(text);
	if (brace && text[n - 1] != '}')
		return err_set(err, -EINVAL, "name: app{key=value,...}");
	if (brace) {
		text[n - 1] = 0;
		*brace = 0;
	}
	/* The kind of profile stands behind the last dot, for clients that send one kind a name. */
	int rc = *text ? profile_labels_add(l, "service_name", text, err)
		       : err_set(err, -EINVAL, "name: whose profile? app{key=value,...}");
	for (char *pair; !rc && rest && *rest && (pair = strsep(&rest, ","));) {
		char *value = strchr(pair, '=');
		if (!value)
			return err_set(err, -EINVAL, "name: app{key=value,...}");
		*value++ = 0;
		size_t m = strlen(value);
		if (m >= 2 && value[0] == '"' && value[m - 1] == '"') {
			value[m - 1] = 0;
			value++;
		}
		rc = profile_labels_add(l, pair, value, err);
	}
	return rc;
}

/* ---- building ---- */

int profile_own_text(struct profile *p, char *text)
{
	if (!text || ARRAY_RESERVE(p->texts, p->texts_cap, p->n_texts + 1)) {
		free(text);
		return -ENOMEM;
	}
	p->texts[p->n_texts++] = text;
	return 0;
}

char *profile_text(struct profile *p, const void *s, size_t len)
{
	len = len > PROFILE_TEXT_MAX ? PROFILE_TEXT_MAX : len;
	char *c = malloc(len + 1);
	if (!c)
		return NULL;
	memcpy(c, s ? s : "", len);
	c[len] = 0;
	return profile_own_text(p, c) ? NULL : c;
}

/* A name for selectors, files and pages. */
void profile_clean_event(char *name)
{
	for (char *c = name; *c; c++)
		if ((unsigned char)*c <= ' ' || strchr("{}\"',<>&", *c) || (unsigned char)*c > '~')
			*c = '_';
}

int profile_add_type(struct profile *p, const char *event, const char *unit, uint64_t period,
		     size_t *ret)
{
	struct profile_type t = { .period = period };
	snprintf(t.event, sizeof(t.event), "%.15s%.60s", p->prefix ? p->prefix : "", event);
	snprintf(t.unit, sizeof(t.unit), "%.30s", unit);
	profile_clean_event(t.event);
	for (size_t i = 0; i < p->n_types; i++) {
		if (strcmp(p->type[i].event, t.event) || p->type[i].period != period)
			continue;
		*ret = i;
		return 0;
	}
	if (p->n_types == PROFILE_TYPES_MAX)
		return -E2BIG;
	p->type[p->n_types] = t;
	*ret = p->n_types++;
	return 0;
}

int profile_push_label(struct profile *p, struct profile_sample *s, const struct label *l)
{
	if (s->n_labels == PROFILE_LABELS_MAX)
		return 0;
	if (p->n_labels == profile_limits_of(p)->labels)
		return -E2BIG;
	if (ARRAY_RESERVE(p->labels, p->labels_cap, p->n_labels + 1))
		return -ENOMEM;
	p->labels[p->n_labels++] = *l;
	s->n_labels++;
	return 0;
}

int profile_new_sample(struct profile *p, const struct profile_labels *l,
		       struct profile_sample **ret)
{
	if (p->n_samples == profile_limits_of(p)->samples)
		return -E2BIG;
	if (ARRAY_RESERVE(p->samples, p->samples_cap, p->n_samples + 1))
		return -ENOMEM;
	struct profile_sample *s = &p->samples[p->n_samples++];
	memset(s, 0, sizeof(*s));
	s->stack = (uint32_t)p->n_stacks;
	s->label = (uint32_t)p->n_labels;
	*ret = s;
	int rc = 0;
	for (size_t i = 0; !rc && i < l->n; i++)
		rc = profile_push_label(p, s, &l->v[i]);
	return rc;
}

int profile_push_frame(struct profile *p, struct profile_sample *s, uint32_t frame)
{
	if (s->depth == PROFILE_DEPTH_MAX)
		return 0; /* the frames of the root are dropped, as of our own stacks */
	if (p->n_stacks == profile_limits_of(p)->stacks)
		return -E2BIG;
	if (ARRAY_RESERVE(p->stacks, p->stacks_cap, p->n_stacks + 1))
		return -ENOMEM;
	p->stacks[p->n_stacks++] = frame;
	s->depth++;
	return 0;
}

int profile_new_frame(struct profile *p, const struct profile_frame *f, uint32_t *ret)
{
	if (p->n_frames == profile_limits_of(p)->frames)
		return -E2BIG;
	if (ARRAY_RESERVE(p->frames, p->frames_cap, p->n_frames + 1))
		return -ENOMEM;
	p->frames[p->n_frames] = *f;
	*ret = (uint32_t)p->n_frames++;
	return 0;
}
