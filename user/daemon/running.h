/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs in the daemon: a recorder and a server, begun and ended together.
 *
 * Recording is changed (another rate, other events) by opening a second recorder beside the first,
 * stopping the one, starting the other: some milliseconds. The second needs a child forked before
 * there are threads, so the server rests meanwhile; connections wait in its sockets, which stay
 * open.
 */
#ifndef ASCRIBE_DAEMON_RUNNING_H
#define ASCRIBE_DAEMON_RUNNING_H

#include "daemon/metrics.h"
#include "daemon/pushing.h"
#include "daemon/saving.h"
#include "daemon/settings.h"
#include "labels/recipe.h"

struct daemon {
	int argc;
	char **argv;
	struct daemon_settings s;
	struct recipes recipes; /* a recorder points into it: read once */
	struct downloads *downloads;
	struct pods *pods; /* NULL: nobody names containers */
	/* As it was logged last, and when another reason may be */
	bool pods_ok;
	char pods_said[256];
	uint64_t pods_next_ns;
	struct sql_texts *sql;	    /* NULL: not asked for */
	struct metric_rules *rules; /* of settings s; NULL: there are none */
	struct pushing pushing;
	/*
	 * Its key is nowhere else, and ends with us: what is redacted is the same in all recorders
	 */
	struct redactor redactor;
	struct store_writer *writer;
	struct collector *collector;  /* NULL: killed, or it could not begin again */
	struct http_sockets *sockets; /* they stay open while the server rests */
	struct http_server *http;
	struct saving saving;
	struct published published;
	bool resumed, killed, gone; /* gone: the store */
	int signals;
	uint64_t drains, drained_ns, failed;
	unsigned rule_ticks;	/* looks since the rules of the selection are as they are */
	uint64_t drains_before; /* of recorders that ended */
};

struct saving_limits daemon_saving_limits(const struct daemon *d);

/*
 * Put another recorder in the place of the one that is there, or of none. On failure the old one
 * goes on, unless there was no memory for two at a time.
 */
int daemon_switch_collector(struct daemon *d, struct err *err);
/* The same; `why` is for the log, which has the error, too. */
void daemon_restart(struct daemon *d, const char *why);
/* Open a recorder that is not started yet, at the rate and detail that saving decided. */
int daemon_new_collector(struct daemon *d, struct collector **ret, struct err *err);
/* Write what it has, whatever becomes of the store, and close it. */
void daemon_end_collector(struct daemon *d);

/*
 * Serve at the addresses of the settings. What fails is logged: the daemon records without a
 * server.
 */
void daemon_start_http(struct daemon *d);
/* Rest: the sockets stay open, so that connections wait. */
void daemon_stop_http(struct daemon *d);
void daemon_close_sockets(struct daemon *d);

/*
 * At a reload, with the settings that were. Rules that stay go on counting: their texts move to the
 * new settings.
 */
void daemon_renew_rules(struct daemon *d, struct daemon_settings *old);
/* Likewise: receivers of another list go on where their cursors are. */
void daemon_renew_push(struct daemon *d, const struct daemon_settings *old);

#endif
