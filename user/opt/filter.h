/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of every command that reads a store: which store, which part of it, how it is shown.
 */
#ifndef ASCRIBE_OPT_FILTER_H
#define ASCRIBE_OPT_FILTER_H

#include "fleet/fleet.h"
#include "opt/options.h"
#include "query/query.h"

#define DEFAULT_STORE "./ascribe.data"

struct filter {
	const char *where;
	int64_t from_ns, to_ns;
	const char *event;
	bool idle, json, explain;
	const char *metric;		/* NULL: samples of the event */
	const char *names;		/* NULL: full */
	bool by_start;			/* see struct query_spec; no option */
	uint64_t limit;			/* UINT64_MAX: not given */
	uint64_t memory;		/* of an answer, in bytes */
	bool blames;			/* the metric may be blame; no option */
	unsigned parts;			/* struct query_spec; no option */
	uint32_t least;			/* likewise */
	struct fleet_server clickhouse; /* url NULL: a store */
};

/* clang-format off: a table */
#define FILTER_INIT \
	{ .from_ns = INT64_MIN, .to_ns = INT64_MAX, .limit = UINT64_MAX, .memory = QUERY_MEMORY }

#define NAMES_OPTIONS(type, member) \
	{ "names", \
	  0, \
	  OPT_STRING, \
	  "STYLE", \
	  "full; folded: clones (.isra.0, .cold, ...) are their function; simple: also without " \
	  "template arguments and parameters (default of tables for people)", \
	  offsetof(type, member.names), \
	  0, \
	  0 }
#define RANGE_OPTIONS(type, member) \
	{ "from", \
	  0, \
	  OPT_TIME, \
	  "T", \
	  "start: -1h, \"10 minutes ago\", 14:05, \"2026-11-23 14:05\", 2026-11-23T14:05:00Z, " \
	  "epoch seconds", \
	  offsetof(type, member.from_ns), \
	  0, \
	  0 }, \
		{ "to", \
		  0, \
		  OPT_TIME, \
		  "T", \
		  "end; windows that overlap the range are read whole, but in ranges " \
		  "of less than a minute for which there are tracks", \
		  offsetof(type, member.to_ns), \
		  0, \
		  0 }
#define MEMORY_OPTION(type, member) \
	{ "memory", \
	  0, \
	  OPT_SIZE, \
	  "SIZE", \
	  "memory for the answer: where that is too little the smallest rows are summed as " \
	  "(other) (default 64MiB)", \
	  offsetof(type, member.memory), \
	  1 << 20, \
	  0 }
#define CLICKHOUSE_OPTIONS(type, member) \
	{ "clickhouse", \
	  0, \
	  OPT_STRING, \
	  "URL", \
	  "ask ascribe's tables in ClickHouse instead of a store: https://HOST:8443/?database=NAME", \
	  offsetof(type, member.url), \
	  0, \
	  0 }, \
		{ "clickhouse-user",	       0, OPT_STRING, "NAME", "its user", \
		  offsetof(type, member.user), 0, 0 }, \
		{ "clickhouse-password-file", \
		  0, \
		  OPT_STRING, \
		  "FILE", \
		  "the user's password is in this file", \
		  offsetof(type, member.password), \
		  0, \
		  0 }, \
		{ "clickhouse-ca-file", \
		  0, \
		  OPT_STRING, \
		  "FILE", \
		  "certificates of ClickHouse's CA, PEM (default: those of the system)", \
		  offsetof(type, member.authority), \
		  0, \
		  0 }
#define WHERE_OPTIONS(type, member) \
	{ "where", \
	  'w', \
	  OPT_STRING, \
	  "SELECTOR", \
	  "only samples with these labels: {tenant=\"a\",query_id=~\"4.*\",comm!=\"sh\"}", \
	  offsetof(type, member.where), \
	  0, \
	  0 }, \
		RANGE_OPTIONS(type, member), \
		{ "event", \
		  'e', \
		  OPT_STRING, \
		  "EVENT", \
		  "the event to show (default: the first of the store)", \
		  offsetof(type, member.event), \
		  0, \
		  0 }, \
		{ "idle", \
		  'i', \
		  OPT_FLAG, \
		  NULL, \
		  "include the samples of idle CPUs, and idle waits", \
		  offsetof(type, member.idle), \
		  0, \
		  0 }, \
		MEMORY_OPTION(type, member), CLICKHOUSE_OPTIONS(type, member.clickhouse)
#define METRIC_OPTION(type, member) \
	{ "metric", \
	  'm', \
	  OPT_STRING, \
	  "METRIC", \
	  "time instead of samples: cpu, off (blocked), runq (waiting for a CPU), wall (all " \
	  "three); needs a recording with --wall. waker: blocked, by who ended it (--waker): " \
	  "stacks are the waker's, and its labels have by. before them. latency: wall-clock time " \
	  "of label values, what ran alone counts in full (--latency). value: what the hits of " \
	  "--event measured, as the time of calls (uretprobe). Memory (record -e heap): " \
	  "alloc_space, alloc_objects; inuse_space (heap for short) and inuse_objects, averages " \
	  "of the range", \
	  offsetof(type, member.metric), \
	  0, \
	  0 }
#define LIMIT_OPTION(type, member, text) \
	{ "limit", 'n', OPT_UINT, "N", text, offsetof(type, member.limit), 0, 0 }
#define JSON_OPTION(type, member) \
	{ "json", 0, OPT_FLAG, NULL, "print JSON", offsetof(type, member.json), 0, 0 }
#define EXPLAIN_OPTION(type, member) \
	{ "explain", \
	  0, \
	  OPT_FLAG, \
	  NULL, \
	  "say on stderr what was read and how long each step took", \
	  offsetof(type, member.explain), \
	  0, \
	  0 }
/* clang-format on */

#endif
