/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send the windows of a store to a receiver of profiles, one after the other.
 *
 *   store --> window behind the cursor --> rows of an event --> messages --> POST --> cursor
 *
 * The store is the queue: nothing else is kept of what is to be sent. The cursor is a file that
 * says what was sent (cursor.h). It moves when the receiver has answered, so an outage loses
 * nothing that retention keeps, and a restart sends nothing twice. Only a message whose answer was
 * lost is sent again.
 *
 * Everything here blocks: a process that pushes does nothing else.
 */
#ifndef ASCRIBE_PUSH_PUSH_H
#define ASCRIBE_PUSH_PUSH_H

#include "labels/labels.h"
#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PUSH_HEADERS_MAX 16
#define PUSH_LABELS_MAX 16
#define PUSH_KEYS_MAX 24
#define PUSH_NAME_MAX 240

struct push_stats;

/* Texts are borrowed. NULL, 0: the default in brackets. */
struct push_config {
	const char *store;
	const char *url;    /* http:// or https://, without user and password */
	const char *format; /* otlp, pyroscope, parca, pprof, clickhouse, clickhouse-otel [otlp] */
	const char *cursor; /* file [in the directory `push` of the store] */
	const char *tenant; /* X-Scope-OrgID */
	const char *user;   /* clickhouse: its name [the server's default] */
	const char *token;  /* file with a bearer token, or clickhouse's password, read for
				    each message */
	const char *authority;	 /* file with the CA's certificates [those of the system] */
	const char *certificate; /* our own, and its key: files */
	const char *key;
	const char *compression; /* gzip, zstd, none [otlp: gzip, clickhouse: zstd; else the
				    profiles in it] */
	const char *where;	 /* selector */
	const char *const *keys; /* labels that go there [all; as series: target.c] */
	size_t n_keys;
	const char *const *headers; /* "Name: value" */
	size_t n_headers;
	const struct label *external; /* of every profile */
	size_t n_external;
	bool idle;	    /* with the samples of idle CPUs, and idle waits */
	bool create_tables; /* clickhouse: where they are missing, or older */
	/* Windows that end behind from and begin before to; to 0: no end. From is of no consequence
	   once there is a cursor. */
	int64_t from_ns, to_ns;
	int64_t max_age_ns;  /* older ones are not sent; < 0: all are [as the receiver has it] */
	uint64_t max_bytes;  /* of a message before compression [as the receiver has it] */
	uint64_t memory;     /* of a window's rows; more go in 32 shares, then (other) [32 MiB] */
	unsigned timeout_ms; /* of a try [30,000] */
	int64_t give_up_ns;  /* end when the receiver does not take a message so long; 0: never */
	bool follow;	     /* go on with the windows that come */
	bool newest;	     /* begin with them where there is no cursor; else with the oldest */
	int stop_fd;	     /* readable: end; -1: none */
	/* When something happened: a window was sent, or could not be. */
	void (*report)(void *ctx, const struct push_stats *st);
	void *ctx;
};

/* Since push_run began. */
struct push_stats {
	uint64_t windows; /* sent, or without anything to send */
	uint64_t coarse;  /* of them, older than the receiver keeps whole: it has their sums */
	uint64_t too_old; /* windows that the receiver would not take */
	uint64_t cut;	  /* windows that retention cut before they were sent */
	uint64_t messages, rows, bytes; /* sent; bytes: as they were sent */
	uint64_t refused;  /* messages that the receiver will never take (400, 413, 422) */
	uint64_t rejected; /* profiles that it says it did not keep (OTLP: partial success) */
	uint64_t failures; /* tries that are repeated */
	int64_t oldest_ns; /* end of the oldest window that is to be sent; 0: there is none */
	uint64_t began_ns; /* CLOCK_MONOTONIC; all of these count from then on */
	bool failing;	   /* the last try failed */
	char text[700];	   /* why; also of the last refusal */
};

/* What a receiver is called in messages: "otlp to HOST:PORT". */
int push_name(const struct push_config *c, char ret[PUSH_NAME_MAX], struct err *err);

/* Whether the configuration makes sense. -EINVAL: the text begins with the member's name. */
int push_check(const struct push_config *c, struct err *err);

/*
 * 0: everything is sent, or stop_fd was readable. -ETIMEDOUT: given up. -EBUSY: another process
 * sends by this cursor. -EBADMSG: a damaged cursor. -EACCES, ...: a cursor that cannot be written.
 * Else as store_open, query_open, web_new. With `follow` what fails after the first window was
 * looked for is tried again.
 */
int push_run(const struct push_config *c, struct push_stats *ret, struct err *err);

#endif
