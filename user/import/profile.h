/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile of another program, checked and laid out so that storing it is a walk over arrays.
 * Every index is in range, every text a C string, every count bounded.
 *
 *   pprof.h, otlp.h, folded.h, trie.h, perf_script.h --> struct profile --> write.h
 *
 * One thread at a time may use a profile.
 */
#ifndef ASCRIBE_IMPORT_PROFILE_H
#define ASCRIBE_IMPORT_PROFILE_H

#include "labels/labels.h"
#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_TYPES_MAX 6
#define PROFILE_LABELS_MAX 32
#define PROFILE_DEPTH_MAX 512
#define PROFILE_KEY_MAX 255	  /* bytes of a label's key; */
#define PROFILE_VALUE_MAX 1024	  /* and of its value */
#define PROFILE_MODULE "[import]" /* of frames without a file */
#define PROFILE_SENT "ingest:"	  /* prefix of events of profiles that the server takes */
#define PROFILE_TEXT_MAX 4096	  /* bytes of a name; longer ones are cut */
#define PROFILE_PERIOD_NS \
	1000000ull /* of types that are time, when the profile does not say it   \
				      */

/* How large a profile may be. */
struct profile_limits {
	size_t bytes;	/* of pprof, unpacked */
	size_t message; /* bytes of memory for the unpacked message */
	size_t samples, frames;
	size_t stacks; /* frames of all samples */
	size_t labels; /* of all samples */
};
extern const struct profile_limits profile_sent; /* by a client of the server; of a zero profile */
extern const struct profile_limits profile_file; /* a file that the user imports */

struct profile_type {
	char event[80];
	char unit[32];
	uint64_t period; /* nanoseconds that a sample stands for; 0: values are no time */
};

struct profile_frame {
	const char *function, *module, *file;
	uint32_t line;
	bool kernel;
	bool inlined; /* into the next frame */
};

/* Samples may share a stack, or their labels. */
struct profile_sample {
	uint32_t stack, depth;	  /* frames[stacks[stack + i]], leaf first */
	uint32_t label, n_labels; /* labels[label + i] */
	uint64_t count; /* samples of the types that are no time; 0: as many as the value */
	uint64_t value[PROFILE_TYPES_MAX];
};

/* All zero, but for limits and prefix, is an empty profile. */
struct profile {
	const struct profile_limits *limits; /* NULL: profile_sent */
	const char *prefix;		     /* of names of events; NULL: none */
	/* Realtime. from_ns 0: the profile has no time. to_ns <= from_ns: it has no duration. */
	int64_t from_ns, to_ns;
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
	char **texts; /* owned; frames and labels point to them */
	size_t n_texts, texts_cap;
};

void profile_fini(struct profile *p);

/* Return about the bytes that it adds to a store that has nothing of it yet. */
size_t profile_size(const struct profile *p);

/* ---- labels of all samples ---- */

struct profile_labels {
	struct label v[PROFILE_LABELS_MAX];
	size_t n;
};

/*
 * Take "app{k=v,k2=v2}" or "app": service_name and the rest. text is changed and must outlive l. 0
 * or -EINVAL.
 */
int profile_labels_of_name(struct profile_labels *l, char *text, struct err *err);

/*
 * Add a label, or drop it when its name begins with __. The texts must outlive l. 0, -EINVAL, or
 * -E2BIG for more than PROFILE_LABELS_MAX.
 */
int profile_labels_add(struct profile_labels *l, const char *name, const char *value,
		       struct err *err);

/* ---- building, by readers of formats. All return 0, -ENOMEM, or -E2BIG at a limit ---- */

/* Return the limits that hold. */
const struct profile_limits *profile_limits_of(const struct profile *p);

/* Keep a copy of a text; NULL: out of memory. */
char *profile_text(struct profile *p, const void *s, size_t len);

/* Take over a text of malloc, which is freed on failure, too. */
int profile_own_text(struct profile *p, char *text);

/* Put '_' for each character that names of events do not have. */
void profile_clean_event(char *name);

/* Find or add a type. period: see struct profile_type. */
int profile_add_type(struct profile *p, const char *event, const char *unit, uint64_t period,
		     size_t *ret);

/* Begin a sample with these labels. It is valid until the next call. */
int profile_new_sample(struct profile *p, const struct profile_labels *l,
		       struct profile_sample **ret);

/* Add a label to the last sample; one beyond PROFILE_LABELS_MAX is dropped. */
int profile_push_label(struct profile *p, struct profile_sample *s, const struct label *l);

/* Add a frame to the last sample, towards the root; one beyond PROFILE_DEPTH_MAX is dropped. */
int profile_push_frame(struct profile *p, struct profile_sample *s, uint32_t frame);

/* Add a frame. Its texts must outlive the profile. */
int profile_new_frame(struct profile *p, const struct profile_frame *f, uint32_t *ret);

#endif
