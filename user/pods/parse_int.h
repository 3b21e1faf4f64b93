/* SPDX-License-Identifier: Apache-2.0 */
/* What the formats of parse.h share: one record at a time, filled from checked texts. */
#ifndef ASCRIBE_PODS_PARSE_INT_H
#define ASCRIBE_PODS_PARSE_INT_H

#include "pods/parse.h"

/* Foreign bytes, any of them NUL. s is NULL where there is no such text. */
struct span {
	const char *s;
	size_t n;
};

#define SPAN(text) ((struct span){ (text), sizeof(text) - 1 })

struct parse {
	const struct pods_wanted *want;
	const char *node;
	pods_emit emit;
	void *ctx;
	struct pods_page page;
	struct pod_record r;
};

/* Find a label by its key. */
typedef struct span (*parse_label)(const void *labels, const char *key);

bool span_is(struct span t, const char *text);
/* Copy what fits whole characters of UTF-8 into out, and a NUL. The text has no NUL. */
void span_cut(struct span t, char *out, size_t cap);

/* Start a record. */
void parse_begin(struct parse *p, enum pod_what what);
/* False: a text does not fit, which is counted; emit nothing. */
bool parse_pod(struct parse *p, struct span uid, struct span namespace, struct span name);
bool parse_uid(struct parse *p, struct span uid);
/* The uid in cgroup paths of a static pod, from its mirror's annotations. */
void parse_mirror(struct parse *p, struct span hash, struct span mirror);
/* Add a container, whose id may begin with "containerd://". A full record is emitted before. */
void parse_container(struct parse *p, struct span id, struct span name);
/* Add all wanted labels, or annotations. */
void parse_labels(struct parse *p, parse_label label, const void *labels);
void parse_annotations(struct parse *p, parse_label annotation, const void *annotations);
void parse_emit(struct parse *p);

/* ---- workloads: parse_workload.c ---- */

/* The pod's controller. created_s: of the pod, since 1970. */
void parse_owner(struct parse *p, struct span kind, struct span name, struct span template_hash,
		 int64_t created_s);
/* The same, guessed from the pod's name and labels. */
void parse_guess_owner(struct parse *p, parse_label label, const void *labels, int64_t created_s);
/* Seconds since 1970 of an RFC 3339 time in UTC. False: it is none. */
bool parse_time(struct span t, int64_t *ret);
/* Set the workload if both texts fit. */
void parse_workload(struct parse *p, struct span kind, struct span name);

/* ---- lists in parts: parse_items.c ---- */

/* The array of items of a list, with its brackets. False: there is none. */
bool parse_find_items(const char *bytes, size_t len, struct span *ret);
/* Take the next item from the array's rest: 1; 0: there are no more; -1: this is no array. */
int parse_next_item(struct span *items, struct span *ret);

/* ---- JSON: parse_json.c ---- */

/* The text of an object's member; object: a json_t. It serves as parse_label, too. */
struct span parse_member(const void *object, const char *key);

/* ---- one for each format; as pods_parse ---- */

int parse_json_list(struct parse *p, const char *bytes, size_t len);
int parse_json_watch(struct parse *p, const char *bytes, size_t len);
int parse_cri_containers(struct parse *p, const uint8_t *bytes, size_t len);
int parse_cri_sandboxes(struct parse *p, const uint8_t *bytes, size_t len);
int parse_engine(struct parse *p, const char *bytes, size_t len);

#endif
