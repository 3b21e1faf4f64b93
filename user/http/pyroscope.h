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

/*
 * "process_cpu:cpu:nanoseconds:cpu:nanoseconds" is the first event that stands for time; others are
 * called after their event: times of waits (and of who ended them)
 * "off-cpu:delay:nanoseconds:waits:count".
 */
void pyro_type_id(const struct store *s, uint32_t event, char out[PYRO_ID_MAX]);
/*
 * [store_n_events]: the events that are types, to be freed. Not those that are no profile, further
 * rates of one event, and what the asker may not see (query/visible.h).
 */
int pyro_types(struct store *s, bool **ret, struct err *err);
/* -EINVAL: no such type. */
int pyro_find_type(const struct store *s, const char *id, uint32_t *ret_event, struct err *err);
/* What a question about a type sums. */
void pyro_of_type(const struct store *s, uint32_t event, struct query_spec *spec);
/* What a sample of an event is worth in the unit of its type. */
int64_t pyro_scale(const struct store_event *e);

struct export_source;
/* Answer with pprof. */
int pyro_write_pprof(struct request *r, const struct export_source *src, bool gzipped,
		     struct err *err);
/* The range of all that the store has; 0: it has nothing. */
int pyro_extent(struct store *store, int64_t *ret_from, int64_t *ret_to, struct err *err);

request_handler pyro_profile_types, pyro_label_names, pyro_label_values, pyro_series,
	pyro_select_series, pyro_stacktraces, pyro_profile, pyro_diff, pyro_stats;
request_handler pyro_render, pyro_render_diff, pyro_legacy_values, http_pprof;

#endif
