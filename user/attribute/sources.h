/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a process keeps labels that are not published in our way: which of its files have variables
 * of a known ABI, and where these are in this process. What a file has is found out once for each
 * content. Not thread-safe.
 *
 * Sources are read in the order of `struct source_list`; of equal keys the earlier source counts:
 * OpenTelemetry, custom-labels, Go, Elastic, Perforator, Datadog, label paths.
 */
#ifndef ASCRIBE_ATTRIBUTE_SOURCES_H
#define ASCRIBE_ATTRIBUTE_SOURCES_H

#include "labels/foreign.h"
#include "labels/otel.h"
#include "labels/recipe.h"
#include "sampler/sampler.h"
#include "stacks/resolve.h"

/* What a process has. The index of a source stays while the image lives: captures name it. */
struct source_list {
	uint32_t n;
	struct label_source source[LABEL_SOURCES];
	struct foreign_source decoder[LABEL_SOURCES];
	struct foreign_field *fields[LABEL_SOURCES]; /* owned */
	struct otel_context otel;
	uint64_t otel_at, otel_published_ns, otel_looked_ns;
	struct otel_context_head otel_head; /* of the context being read; size 0: none is */
	void *otel_message;		    /* its message, when that was read */
	uint32_t otel_looks;
};

struct sources;

/*
 * recipes (NULL: none) is borrowed until sources_free. key: the BPF programs are told where its
 * value is; "": none.
 */
int sources_new(struct sources **ret, struct sampler *s, struct resolver *r,
		const struct recipes *recipes, const char *key);
void sources_free(struct sources *s);

/*
 * Look in the files that the process maps; what is new is appended to *list. 0, or why to look
 * again. Something is there and not ready yet: the dynamic linker is at work. A file could not be
 * read for want of time (resolver_is_late). Attributes may have names that the process has not
 * published yet.
 */
#define SOURCES_NOT_YET 1
#define SOURCES_LATE 2
#define SOURCES_NAMELESS 4
/* With SOURCES_LATE: the process's memory has no answer yet (reader.h) */
#define SOURCES_UNANSWERED 8
int sources_find(struct sources *s, const struct proc_image *im, struct source_list *list);

/*
 * Where the goroutines of a Go program say who made them: GO_LAYOUT of go_wire.h, 0 for other
 * programs. *ret_unknown: the version (elf_go_version), where that is not known; else 0. 0 or
 * SOURCES_LATE.
 */
int sources_creators(struct sources *s, const struct proc_image *im, uint64_t *ret,
		     unsigned *ret_unknown);

/* Might this file have labels? For files that a process maps later. */
bool sources_has(struct sources *s, const struct proc_image *im, const struct proc_map *m);

/*
 * An attribute's name was not known: read the process context again, unless that was done just now.
 */
void sources_read_otel(struct source_list *list, uint32_t tgid);

/* Copy the sources for the BPF programs, with the index of the key in OpenTelemetry's names. */
void sources_publish(const struct sources *s, const struct source_list *list,
		     struct label_source ret[LABEL_SOURCES]);

/* What was wrong with a recipe for a file that runs here; "" when nothing was. */
const char *sources_warning(const struct sources *s);

void source_list_fini(struct source_list *list);

#endif
