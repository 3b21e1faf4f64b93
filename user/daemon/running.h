/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs in the daemon: a recorder in this process, and the process that serves (serving.h).
 *
 * Recording is changed (another rate, other events) by opening a second recorder beside the first,
 * stopping the one, starting the other: some milliseconds. Whoever serves goes on meanwhile.
 */
#ifndef ASCRIBE_DAEMON_RUNNING_H
#define ASCRIBE_DAEMON_RUNNING_H

#include "daemon/audit_log.h"
#include "daemon/capture.h"
#include "daemon/freeze.h"
#include "daemon/metrics.h"
#include "daemon/pushing.h"
#include "daemon/saving.h"
#include "daemon/serving.h"
#include "daemon/settings.h"
#include "labels/recipe.h"
#include "sql/texts.h"
#include "store/writer.h"

struct daemon {
	int argc;
	char **argv;
	struct daemon_settings s;
	struct recipes recipes; /* a recorder points into it: read once */
	bool joined;		/* a keeper that another unit started, with its clients */
	bool keeper_late;	/* the log says so */
	struct downloads *downloads;
	struct pods *pods; /* NULL: nobody names containers */
	/* As it was logged last, and when another reason may be */
	bool pods_ok;
	char pods_said[256];
	uint64_t pods_next_ns;
	struct sql_asker sql;
	struct audit_log audit;
	/* Memory for the counters of `metrics:` and for a profile; -1: none */
	int rules_fd, memory_fd;
	int64_t rules_from_ns; /* CLOCK_REALTIME: since when they count */
	struct pushing pushing;
	/*
	 * Its key is nowhere else, and ends with us: what is redacted is the same in all recorders
	 */
	struct redactor redactor;
	struct store_writer *writer;
	struct collector *collector;  /* NULL: killed, or it could not begin again */
	struct http_sockets *sockets; /* they stay open while nobody serves */
	bool sockets_kept;	      /* by systemd, for the next process */
	struct serving serving;
	bool served; /* it could begin, at least once */
	struct ingest ingest;
	struct capture capture;
	struct freeze_counts freezes;
	uint64_t froze_ns;	  /* CLOCK_BOOTTIME: when a rule last did; 0: none */
	uint64_t freeze_windows;  /* windows when rules of waits were last asked */
	uint64_t asked_freeze_ns; /* CLOCK_BOOTTIME: when the process that serves had one made */
	bool freeze_failed;	  /* the log says so */
	struct saving saving;
	struct published published;
	/*
	 * CLOCK_BOOTTIME: when the process that serves had the state last; until when it waits;
	 * when addresses that could not be listened on are tried again
	 */
	uint64_t told_ns, paused_until_ns, mend_ns;
	bool resumed, killed, gone; /* gone: the store */
	int signals;
	uint64_t drains, drained_ns, failed;
	char stale[EVENT_NAME_MAX]; /* collector_progress: the log has it */
	unsigned rule_ticks;	    /* looks since the rules of the selection are as they are */
	uint64_t drains_before;	    /* of recorders that ended */
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

/* ---- server.c ---- */

/*
 * Serve at the addresses of the settings, as they are now. On failure nobody serves: the daemon
 * records all the same.
 */
int daemon_start_server(struct daemon *d, struct err *err);
/*
 * Tell the process that serves how it goes, and do what it asks for. *io_until_ns (CLOCK_BOOTTIME)
 * becomes the time of the next call, where that is earlier. -EIO: it could not begin, and never
 * did.
 */
int daemon_serve(struct daemon *d, uint64_t *io_until_ns, struct err *err);
/* Readable when the process that serves asks for something; -1: it does not. */
int daemon_server_fd(const struct daemon *d);
/* Wait for its end, and close the sockets. */
void daemon_end_server(struct daemon *d);
/* What a question may use has changed. */
void daemon_limit_server(struct daemon *d);

/* Counters of another list of rules begin anew. */
void daemon_renew_rules(struct daemon *d, const struct daemon_settings *old);

/* ---- running.c ---- */

/* Receivers of another list than before a reload go on where their cursors are. */
void daemon_renew_push(struct daemon *d, const struct daemon_settings *old);

/*
 * Write the open window and freeze the last minutes. why: for the log, which has the outcome. ret
 * (may be NULL): what was made. -EAGAIN: nothing is written now. -EDQUOT: as freeze_may;
 * no window ends then. Others: as freeze_store.
 */
int daemon_freeze(struct daemon *d, const char *why, struct freeze_made *ret, struct err *err);

/* Freeze when a rule holds; windows: written so far. */
void daemon_look_at_rules_of_freezes(struct daemon *d, uint64_t windows);

/* Whether two options name the same in the same order. */
bool daemon_same_list(const struct opt_list *a, const struct opt_list *b);

#endif
