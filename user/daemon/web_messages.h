/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder and the process that serves (ascribe-web) tell each other: one packet each, of
 * fixed size but for texts, over a SOCK_SEQPACKET connection. Both are this program on this host,
 * so packets are C structures.
 *
 *   recorder                                    ascribe-web
 *     <-------  WEB_HERE                          its number, before it reads anything
 *     WEB_CONFIG with descriptors  ------->       first, once
 *     <-------  WEB_UP, or WEB_FAILED             it serves, or why it cannot
 *     WEB_STATE  ------------------------->       after each change, every 5 s at least
 *     <-------  WEB_ALIVE                         the answer
 *     WEB_LIMIT  ------------------------->       another budget
 *     WEB_NEW_AUDIT with a file  --------->       write to this one from now on
 *     <-------  WEB_PROFILE                       a profile that somebody sent is in memory
 *     WEB_DONE   ------------------------->       what became of it
 *     <-------  WEB_CAPTURE
 *     WEB_DONE   ------------------------->       it is in STORE/capture
 *     <-------  WEB_CAPTURE_END                   it was read
 *     <-------  WEB_FREEZE
 *     WEB_DONE   ------------------------->       its name in STORE/frozen, as the text
 *     end of file  ----------------------->       end
 *
 * The recorder trusts none of what comes, sends without waiting, and waits for no answer.
 */
#ifndef ASCRIBE_DAEMON_WEB_MESSAGES_H
#define ASCRIBE_DAEMON_WEB_MESSAGES_H

#include "http/listen.h"

#include <stdint.h>

enum web_message {
	WEB_CONFIG = 1,
	WEB_STATE,
	WEB_LIMIT,
	WEB_DONE,
	WEB_UP,
	WEB_FAILED,
	WEB_ALIVE,
	WEB_PROFILE,
	WEB_CAPTURE,
	WEB_CAPTURE_END,
	WEB_NEW_AUDIT,
	WEB_FREEZE,
	WEB_HERE,
};

/* Descriptors of WEB_CONFIG, in this order; a bit for each of those that are sent. */
enum web_descriptor {
	WEB_STORE, /* the directory */
	WEB_TOKEN, /* files that hold what they are called after */
	WEB_CAPTURE_TOKEN,
	WEB_TOKENS,
	WEB_CERT,
	WEB_KEY,
	WEB_CLIENT_CA,
	WEB_SQL,    /* the socket of ascribe-sql */
	WEB_AUDIT,  /* the log of requests, to append to */
	WEB_RULES,  /* memory for the counters of `metrics:` (metric_rules_keep) */
	WEB_MEMORY, /* for the profile of WEB_PROFILE: PROFILE_PACKED_MAX bytes */
	WEB_LISTEN, /* and the other addresses behind it */
	WEB_DESCRIPTORS = WEB_LISTEN + ADDRESSES_MAX,
};

#define WEB_TEXTS_MAX (64u << 10)   /* hosts and rules */
#define WEB_METRICS_MAX (96u << 10) /* 8 receivers with their texts, and all else */
#define WEB_TEXT_MAX 500	    /* why something failed */

struct web_config {
	uint32_t what;
	uint32_t has; /* bits of enum web_descriptor below WEB_LISTEN */
	uint32_t n_listen, n_hosts, n_rules;
	uint32_t anonymous, plain, token_tcp_only; /* 0 or 1, as in http_config */
	uint32_t workers, connections;
	uint64_t question_bytes;
	uint64_t quota[QUOTA_PARTS];
	uint64_t audit_bytes;  /* that the file of WEB_AUDIT may have */
	int64_t rules_from_ns; /* of windows that begin then or later, where WEB_RULES is empty */
	struct {
		char text[128]; /* as it was configured */
		char name[128]; /* with the port that was taken */
		uint32_t is_unix, unused;
	} listen[ADDRESSES_MAX];
	/* Behind it: n_hosts names and n_rules sections, each with its NUL */
};

struct web_state {
	uint32_t what;
	uint32_t metrics_len; /* bytes behind it, in Prometheus' text format */
	/* /readyz: from this time of CLOCK_BOOTTIME on the recorder is late; 0: see why */
	uint64_t ready_until_ns;
	char why[120];
};

struct web_limit {
	uint32_t what, unused;
	uint64_t question_bytes;
};

/* Of WEB_UP, WEB_ALIVE, WEB_CAPTURE_END, WEB_NEW_AUDIT. */
struct web_plain {
	uint32_t what;
};

struct web_here {
	uint32_t what;
	int32_t pid; /* the first one counts, where the recorder does not know it */
};

struct web_failed {
	uint32_t what;
	char text[WEB_TEXT_MAX];
};

/* WEB_MEMORY begins with these bytes (import/pack.h). */
struct web_profile {
	uint32_t what, len;
	uint64_t id;
	uint64_t until_ns; /* CLOCK_MONOTONIC: later nobody wants it stored any more */
};

struct web_capture {
	uint32_t what;
	uint32_t hz, seconds, unused;
	uint64_t id;
};

struct web_freeze {
	uint32_t what, unused;
	uint64_t id;
};

struct web_done {
	uint32_t what;
	int32_t rc;
	uint64_t id; /* of the profile, capture or freeze */
	char text[WEB_TEXT_MAX];
};

/* Any packet to the recorder. */
union web_to_recorder {
	uint32_t what;
	struct web_plain plain;
	struct web_here here;
	struct web_failed failed;
	struct web_profile profile;
	struct web_capture capture;
	struct web_freeze freeze;
};

/* Any packet to ascribe-web but the first, without the bytes behind a state. */
union web_to_server {
	uint32_t what;
	struct web_plain plain;
	struct web_state state;
	struct web_limit limit;
	struct web_done done;
};

#endif
