/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's end of the process that serves (ascribe-web): start it, start it again when it
 * ends, and exchange messages with it (web_messages.h). It is this program, executed anew, so its
 * memory holds nothing of the recorder.
 *
 *   state      is left by
 *   none       serving_begin, time to try again       -> started
 *   started    WEB_UP -> up; WEB_FAILED, end of file  -> none, after a while
 *   up         serving_begin, serving_rest            -> ending
 *              end of file, no answer for HUNG_NS     -> none, after a while
 *   ending     end of file, after END_NS SIGKILL      -> none; started at once after serving_begin
 *
 * Nothing here waits but serving_end. One thread.
 */
#ifndef ASCRIBE_DAEMON_SERVING_H
#define ASCRIBE_DAEMON_SERVING_H

#include "daemon/web_messages.h"
#include "util/err.h"
#include "util/buf.h"

#include <sys/types.h>

/* What it serves, and with what. All is borrowed until the next serving_begin, or serving_end. */
struct serving_setup {
	const char *store;
	const struct http_config *http; /* addresses, hosts, limits */
	struct http_sockets *sockets;	/* bound anew where a server shut them */
	int fd[WEB_LISTEN];		/* -1: none; that of the store is opened here */
	char *const *rules;		/* sections of `metrics:` */
	size_t n_rules;
	uint64_t audit_bytes;
	int64_t rules_from_ns; /* windows that begin then or later count */
};

struct serving {
	int fd;	   /* -1: no process is connected */
	pid_t pid; /* 0: none, or it has not told */
	bool wanted, up, ending;
	bool told;	   /* a state, since its start */
	bool limit_unsent; /* the budget in config */
	bool audit_unsent; /* the file in setup */
	/* CLOCK_MONOTONIC: of its start; of the state that it did not answer (0: none); of a try */
	uint64_t began_ns, asked_ns, next_ns, ends_ns;
	unsigned failures; /* starts one after the other that did not live long */
	uint64_t starts;
	struct serving_setup setup;
	struct buf config; /* the first packet */
};

void serving_init(struct serving *s);
/* Serve with this setup; who serves with another one ends first. -E2BIG, -ENOMEM. */
int serving_begin(struct serving *s, const struct serving_setup *setup, struct err *err);
/* Serve no more, until the next serving_begin. */
void serving_rest(struct serving *s);
/* Serve no more: wait for its end, at most wait_ms. */
void serving_end(struct serving *s, unsigned wait_ms);

/*
 * Start it, end it, as it is time to. *ret_ns: how long until the next look. -ETIMEDOUT: it did not
 * answer, and was killed. -errno: it cannot be started now.
 */
int serving_look(struct serving *s, uint64_t *ret_ns, struct err *err);

/*
 * The next message. -EAGAIN: there is none now; -EPIPE: the process is gone, and what it asked for
 * with it.
 */
int serving_take(struct serving *s, union web_to_recorder *ret);

/* Whether it can be told a state: it has answered the last one. */
bool serving_may_tell(const struct serving *s);
void serving_tell(struct serving *s, const struct web_state *state, const struct buf *metrics);
/* The end of a request. */
void serving_done(struct serving *s, uint64_t id, int rc, const char *text);
void serving_limit(struct serving *s, uint64_t question_bytes);

/* Write the log of requests to this file from now on; borrowed as the setup. */
void serving_audit(struct serving *s, int fd);

/* Memory of the process: its own, and that of files which it may fill. */
uint64_t serving_memory(const struct serving *s);

#endif
