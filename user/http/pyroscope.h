/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a question in Pyroscope's terms is in ours: profile types are events, label selectors are
 * selectors.
 */
#ifndef ASCRIBE_HTTP_PYROSCOPE_H
#define ASCRIBE_HTTP_PYROSCOPE_H

#include "http/request.h"
#include "query/query.h"

#define PYRO_ID_MAX 256
#define PYRO_NODES 8192 /* when nobody says how many */
#define PYRO_NODES_MAX 65536
#define PYRO_NAMES_MAX 2000 /* values in a list */

/*
 * "process_cpu:cpu:nanoseconds:cpu:nanoseconds" is the first event that stands for time; others are
 * called after their event: times of waits (and of who ended them)
 * "off-cpu:delay:nanoseconds:waits:count".
 */
void pyro_type_id(const struct store *s, uint32_t event, char out[PYRO_ID_MAX]);
/* -EINVAL: no such type. */
int pyro_find_type(const struct store *s, const char *id, uint32_t *ret_event, struct err *err);
/* What a question about a type sums. */
void pyro_of_type(const struct store *s, uint32_t event, struct query_spec *spec);
/* What a sample of an event is worth in the unit of its type. */
int64_t pyro_scale(const struct store_event *e);

/* All selectors at once, without __profile_type__; to be freed. -ENOMEM. */
int pyro_selector(char *const *v, size_t n, char **ret);

/* Names of all label keys, sorted; each call of cb gets one. */
int pyro_label_names(struct store *s, int (*cb)(void *ctx, const char *name), void *ctx,
		     struct err *err);
/* The values of a key with the most samples. */
int pyro_label_values(struct store *s, const struct query_spec *spec, const char *key,
		      int (*cb)(void *ctx, const char *text, size_t len), void *ctx,
		      struct err *err);

request_handler pyro_profile_types, pyro_names, pyro_values, pyro_series, pyro_select_series,
	pyro_stacktraces, pyro_profile, pyro_diff, pyro_stats;
request_handler pyro_render, pyro_render_diff, pyro_legacy_values, http_pprof;

#endif
