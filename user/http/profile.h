/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile that somebody sent, checked and laid out so that storing it is a walk over arrays: every index is in range, every text a C
 * string, every count bounded. Made by a worker, stored by the thread that writes the store.
 */
#ifndef ASCRIBE_HTTP_PROFILE_H
#define ASCRIBE_HTTP_PROFILE_H

#include "labels/labels.h"
#include "util/buf.h"
#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_TYPES_MAX 6
#define PROFILE_LABELS_MAX 32
#define PROFILE_SAMPLES_MAX 100000
#define PROFILE_FRAMES_MAX 200000
#define PROFILE_DEPTH_MAX 512
#define PROFILE_STACKS_MAX 1000000    /* frames of all samples */
#define PROFILE_TEXT_MAX 4096	      /* of names; longer ones are cut */
#define PROFILE_NS_PER_SAMPLE 1000000 /* of types that are time: all of them are one event, whatever their period */

struct profile_type {
	char event[80]; /* "ingest:cpu" */
	char unit[32];
	bool time; /* values are nanoseconds */
};

struct profile_frame {
	const char *function, *module, *file;
	uint32_t line;
};

struct profile_sample {
	uint32_t stack, depth; /* frames[stack[i]], leaf first */
	uint32_t label, n_labels; /* labels[label + i] */
	uint64_t value[PROFILE_TYPES_MAX];
};

struct profile {
	struct profile_type type[PROFILE_TYPES_MAX];
	size_t n_types;
	struct profile_frame *frames;
	size_t n_frames, frames_cap;
	struct label *labels;
	size_t n_labels, labels_cap;
	uint32_t *stacks;
	size_t n_stacks, stacks_cap;
	struct profile_sample *samples;
	size_t n_samples, samples_cap;
	char **texts; /* what all of it points into */
	size_t n_texts, texts_cap;
};

/* About the bytes that it adds to a store that has nothing of it yet. */
size_t profile_size(const struct profile *p);

/* Labels of all samples; checked by the calls below. */
struct profile_labels {
	struct label v[PROFILE_LABELS_MAX];
	size_t n;
};

/* "app{k=v,k2=v2}" or "app": service_name and the rest; text is changed and must stay. -EINVAL. */
int profile_labels_of_name(struct profile_labels *l, char *text, struct err *err);
/* Names that begin with __ are left out. The texts must stay. -EINVAL, -E2BIG. */
int profile_labels_add(struct profile_labels *l, const char *name, const char *value, struct err *err);

/*
 * Add what a body says; labels may be borrowed from whoever calls, as long as the profile lives. -EINVAL: no such thing; -E2BIG, -EMSGSIZE: more
 * than is taken; -ENOMEM. profile_fini either way.
 */
int profile_add_pprof(struct profile *p, const uint8_t *data, size_t len, const struct profile_labels *l, struct err *err);
/* "root;leaf 12" a line, samples at so many a second. */
int profile_add_folded(struct profile *p, const uint8_t *data, size_t len, uint64_t rate, const struct profile_labels *l, struct err *err);
void profile_fini(struct profile *p);

/* At most max bytes of what is gzipped: -EMSGSIZE for more, -EINVAL when it is not. */
int profile_gunzip(const uint8_t *data, size_t len, size_t max, struct buf *out, struct err *err);

#endif
