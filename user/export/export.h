/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matched samples of a query in the formats of other tools, written to a stdio stream (a file,
 * stdout, open_memstream). Names and labels come from other programs: each format's own separators
 * in them are replaced, bytes that are no UTF-8 become U+FFFD where the format wants UTF-8.
 *
 * All calls: 0; -ENOMEM; -EIO when the stream fails, with errno's reason in err. What was written
 * before a failure stays in the stream: the caller discards it.
 */
#ifndef ASCRIBE_EXPORT_EXPORT_H
#define ASCRIBE_EXPORT_EXPORT_H

#include "query/query.h"
#include "query/view.h"
#include "symbols/starts.h"

#include <jansson.h>
#include <stdio.h>

enum export_memory {
	EXPORT_ALLOC_OBJECTS,
	EXPORT_ALLOC_SPACE,
	EXPORT_INUSE_OBJECTS,
	EXPORT_INUSE_SPACE,
	EXPORT_MEMORY,
};

struct export_source {
	struct store *store;
	struct query *query;
	/*
	 * pprof: NULL, or answers of the same store and range, of which query is one, for
	 * EXPORT_MEMORY: the types of a profile of memory, as Go's have them
	 */
	struct query *const *memory;
	const char *where;	  /* the selector's text, NULL or "" for everything */
	bool idle;		  /* idle samples are included */
	bool otel;		  /* pprof: labels have OpenTelemetry's names (otel_names.h) */
	bool bare;		  /* pprof: no tags */
	struct export_part *part; /* pprof, otlp: NULL: all rows */
	struct export_program *program; /* llvm-prof; pprof: NULL, or where functions begin */
	/* What query was opened with, and what the times of its samples are read by. */
	const struct query_spec *asked;
	struct export_times *times; /* results of formats with times; NULL: not asked for */
	/* otlp: only these labels; firefox, perfetto: these make a thread; n_keys 0: all */
	const char *const *keys;
	size_t n_keys;
	/* otlp: further attributes of each resource, which replace labels of that name */
	const struct label *external;
	size_t n_external;
};

/* What an export with times has. */
struct export_times {
	size_t windows,
		untracked; /* in the range; of them without a track: nothing of them is there */
	uint64_t samples, waits; /* that were written */
	uint64_t crowded;	 /* waits that overlapped too many others of their track */
};

/* The program that a profile for its compiler is of. */
struct export_program {
	const struct starts *starts;
	const char *name; /* of its file, without directories */
	/* Results of llvm-prof: samples in its code; those of them that have no line */
	uint64_t samples, without;
};

/* Some of the rows, for who sends them in pieces. */
struct export_part {
	size_t from, to;	/* rows of the query, [from, to); to is at most their number */
	size_t max_bytes;	/* end behind the row that reaches this, before compression */
	uint32_t shares, share; /* those of the query (query_spec) */
	/* Results: [from, end) were written, as so many bytes before compression (pprof alone) */
	size_t end, bytes;
};

/*
 * What a number says. The value of a row: of events that stand for time, and of waits, nanoseconds;
 * of others their own unit. By the event: samples where they are drawn, the value where a wait was
 * measured (off-cpu, runq): how often one waited says little.
 */
enum export_unit {
	EXPORT_BY_EVENT = 0,
	EXPORT_SAMPLES,
	EXPORT_VALUE,
};

/*
 * Deeper stacks lose their root side: three times what a sample can hold, so only a damaged store
 * has them.
 */
#define EXPORT_DEPTH_MAX 2048

/* The frames of a stack, leaf first; returns how many, at most EXPORT_DEPTH_MAX. */
size_t export_stack(const struct store *s, uint32_t stack, uint32_t *out);
/* The same of a row: where samples below its stack were cut, the leaf is frame 0, (other). */
size_t export_row_stack(const struct export_source *src, const struct store_row *row,
			uint32_t out[EXPORT_DEPTH_MAX + 1]);
/* A frame of these; an empty one for frame 0. */
const struct store_frame *export_frame(const struct store *s, uint32_t id);
/* How many of n frames, leaf first, are at one address: inlined calls and their function. */
size_t export_inlined(const struct store *s, const uint32_t *frames, size_t n);

/* Where a frame's function begins; NULL: src->program does not say. */
const struct start *export_start(const struct export_source *src, const struct store_frame *f);

/* The label of a query's label set with this key; NULL: it has none. */
const struct label *export_label(const struct query *q, uint32_t set, const char *key);

enum export_kind {
	EXPORT_KERNEL,
	EXPORT_LIBRARY,
	EXPORT_EXECUTABLE,
	EXPORT_JIT,
	EXPORT_OTHER, /* idle, unknown, root */
	EXPORT_LABEL, /* of a label: no frame */
};

/* What a frame is, by its kind and its module's name. */
enum export_kind export_frame_kind(const struct store *s, uint32_t frame);

/*
 * "comm;root;...;leaf_[k] count" per line: Brendan Gregg's folded stacks; inlined calls end in
 * _[i].
 */
int export_folded(const struct export_source *src, enum export_unit unit, FILE *f, struct err *err);

/*
 * profile.proto, gzipped. Two values per sample: samples/count and, for events that stand for time,
 * cpu/nanoseconds, for the others the event's own; with EXPORT_SAMPLES readers show the first, else
 * the second. Each label is a tag.
 */
int export_pprof(const struct export_source *src, enum export_unit unit, FILE *f, struct err *err);
/*
 * An ExportProfilesServiceRequest of OpenTelemetry, protobuf, not compressed: of one profile for
 * each resource, which is a container or else a service. Events that stand for time are counted in
 * samples with their period, others have their value; with EXPORT_VALUE all have it.
 */
int export_otlp(const struct export_source *src, enum export_unit unit, FILE *f, struct err *err);
/* speedscope's JSON: one profile, of stacks below the program's name (comm). */
int export_speedscope(const struct export_source *src, enum export_unit unit, FILE *f,
		      struct err *err);
/* Comma-separated values: a line for each label set and stack, a column for each label. */
int export_csv(const struct export_source *src, enum export_unit unit, FILE *f, struct err *err);
/* The text of `perf script`: an entry for each sample, or of waits for each row. */
int export_perf_script(const struct export_source *src, enum export_unit unit, FILE *f,
		       struct err *err);
/*
 * LLVM's sample profile, as text, of src->program. -ENODATA: no sample is in
 * its code.
 */
int export_llvm_prof(const struct export_source *src, enum export_unit unit, FILE *f,
		     struct err *err);
/*
 * A profile for profiler.firefox.com, with values as weights, or with EXPORT_SAMPLES samples. Where
 * every window of the range has a track, and there are at most 2^20 instants: threads of the host,
 * or for each value of src->keys, with their samples and waits; times says how many. Else of sums:
 * a thread for each label set of the query. Names of more than 4 KiB are cut.
 */
int export_firefox(const struct export_source *src, enum export_unit unit, FILE *f,
		   struct err *err);
/*
 * A Perfetto trace: samples of the query's event and waits, each with its time and stack, by their
 * tracks (docs/architecture-tracks.md). src->keys: a track for each of their values, else for each
 * thread. Which events: query_spec.event alone, or those of its metric (cpu, off, runq), else all.
 * Memory: that of a window, of label sets (THREADS_SETS_BYTES) and of the names of the stacks.
 * -EINVAL: the metric has no times. -ENODATA: no window of the range has a track.
 */
int export_perfetto(const struct export_source *src, enum export_unit unit, FILE *f,
		    struct err *err);
/* The value of a row of this event, as above. */
uint64_t export_value(const struct store_event *e, const struct store_row *row);

/*
 * A flame graph. root: the part below one frame, pruned for itself. It names each frame from the
 * outermost to that one, with dots between, by eight hexadecimal digits. They are FNV-1a (32 bits)
 * over the bytes of its name, a NUL, and those of its module, as they stand in `frames`. against: a
 * baseline, of the same store and event.
 */
#define EXPORT_FLAME_LEAST 10000 /* nodes with less than 1/10000 of the samples are in "(other)" */
struct export_flame_spec {
	uint64_t max_nodes; /* 0: 20,000; the others are summed in "(other)" */
	const char *root;   /* NULL or "": everything */
	struct query_view_spec view;
	struct query *against; /* NULL: none */
	const char
		*split;	 /* NULL, or a key: the root's children are its values; without a baseline.
			      The query is one of QUERY_KEYS_STACKS by that key. */
	uint32_t values; /* of split: so many, and all others as one */
};
/* query_spec.least of a question whose answer is only drawn as a flame graph. */
static inline uint32_t export_flame_least(const struct export_flame_spec *how, bool against)
{
	bool whole = how->view.view == QUERY_VIEW_DOWN && (!how->root || !*how->root) && !against &&
		     !how->split;
	return whole ? EXPORT_FLAME_LEAST : 0;
}

/* A self-contained HTML page. */
int export_flame(const struct export_source *src, const struct export_flame_spec *spec, FILE *f,
		 struct err *err);

/* The page's data as a value, new. -EINVAL: no such root; -ENOENT: nothing is there any more. */
int export_flame_data(const struct export_source *src, const struct export_flame_spec *spec,
		      json_t **ret, struct err *err);

/* The page's data alone, JSON. */
int export_flame_json(const struct export_source *src, const struct export_flame_spec *spec,
		      FILE *f, struct err *err);

#endif
