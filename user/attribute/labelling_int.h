/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by labelling.c (which processes have labels, and where) and definitions.c (what their sets
 * mean).
 */
#ifndef ASCRIBE_ATTRIBUTE_LABELLING_INT_H
#define ASCRIBE_ATTRIBUTE_LABELLING_INT_H

#include "ascribe/label_abi.h"
#include "attribute/labelling.h"
#include "attribute/sources.h"
#include "util/due.h"
#include "util/list.h"
#include "util/quota.h"

#define LABELLING_BUCKETS 65536
#define LABELLING_KEY_BUCKETS 1024
/* Kept at a time; at half of it, all are asked for again after the window */
#define DEFINITIONS_MAX 262144
#define DEFINITIONS_BYTES (64u << 20)
/* Of one process: further ones are (other) until all are asked for again */
#define PROC_SETS_MAX 32768
#define PROC_BYTES_MAX (8u << 20)
#define PROC_KEYS_MAX 16 /* keys that (other) is shown for */
#define KEY_TABLES_MAX 16384

/* What is kept of a process that has labels. */
struct labelled {
	struct proc_id id;
	struct source_list sources;
	size_t n_sets, bytes;
	struct list_node full;		   /* of labelling.full: it has more sets than are kept */
	struct label other[PROC_KEYS_MAX]; /* each key that its sets had, as (other) */
	size_t n_other;
	char key[PROC_KEYS_MAX][ASCRIBE_KEY_MAX];
};

/* An image that the BPF program asked about: its proc_image.layer[PROC_LABELS]. */
struct subject {
	struct proc_id id;
	struct proc_image *image;
	struct labelled *labelled; /* NULL: it has none */
	uint32_t tries;		   /* still to do */
	bool published;
	bool script_noted;	/* its interpreter is not known, and that was counted */
	bool go_noted;		/* likewise its version of Go */
	struct list_node fresh; /* of labelling.fresh: not looked at yet */
	struct due_item due;	/* of labelling.due: to be looked at again */
	struct list_node late;	/* of labelling.late: a file of it is not read yet */
};

struct definition;
struct key_table;

struct labelling {
	struct sampler *sampler;
	struct procs *procs;
	struct resolver *resolver;
	struct sources *sources;
	struct definition *definitions[LABELLING_BUCKETS];
	struct key_table *keys[LABELLING_KEY_BUCKETS];
	/* Users share DEFINITIONS_MAX, DEFINITIONS_BYTES and KEY_TABLES_MAX */
	struct quota n_definitions, bytes, n_keys;
	size_t sets_max;
	bool any_missed, look;
	/* Arguments of probes or timed calls are labels: processes without labels may have sets */
	bool probes;
	char *calls[MAX_EVENTS]; /* the functions whose calls are timed, by event; else NULL */
	uint32_t generation;
	struct label_filter *filter;
	struct redactor redactor;
	struct list fresh;     /* subjects, in the order in which they were asked about */
	struct due due;	       /* subjects */
	struct list late;      /* subjects that are due, too */
	struct list full;      /* labelled */
	struct quota subjects; /* of PROC_PUBLISHED_MAX */
	uint64_t n_looks;
	uint64_t absent_second; /* of absent_reads */
	struct quota absent_reads;
	struct script_unknown scripts[SCRIPT_LANGUAGES], go;
	void (*on_known)(void *ctx, struct proc_image *im);
	void *known_ctx;
};

/* Forget what was defined before the generation that is asked for now. */
void labelling_drop_definitions(struct labelling *l);

#endif
