/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rights.h"

#include "collect/rights.h"
#include "daemon/log.h"
#include "daemon/web_start.h"
#include "http/listen.h"
#include "push/pusher.h"
#include "sandbox/confine.h"
#include "util/own.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define UNIX "unix:"
#define PATH_BYTES 1024

/* All that takes a capability in the life of a daemon. */
static keeper_op *const ops[] = { COLLECTOR_OPS, listen_op,  listen_stale_op,
				  web_start_op,	 capture_op, pusher_op };
#define N_OPS (sizeof(ops) / sizeof(ops[0]))

/* Those of pusher_op and capture_op; not the option of a keeper's unit, which no capture is. */
static int make_arguments(const struct daemon *d, char *ret[KEEPER_ARGUMENTS_MAX + 1],
			  struct err *err)
{
	size_t n = 0;
	if ((size_t)d->argc > KEEPER_ARGUMENTS_MAX)
		return err_set(err, -E2BIG, "more than %u arguments", KEEPER_ARGUMENTS_MAX - 1);
	ret[n++] = (char *)(uintptr_t)d->s.o.store;
	for (int i = 1; i < d->argc; i++)
		if (strcmp(d->argv[i], "--" DAEMON_KEEPER) != 0)
			ret[n++] = d->argv[i];
	ret[n] = NULL;
	return 0;
}

int daemon_keep_rights(const struct daemon *d, struct err *err)
{
	char *arguments[KEEPER_ARGUMENTS_MAX + 1];
	int rc = make_arguments(d, arguments, err);
	rc = rc ? rc : keeper_start(ops, N_OPS, arguments, err);
	if (!rc)
		own_count_through(keeper_pid());
	return rc;
}

void daemon_use_keeper(int fd, pid_t pid)
{
	keeper_join(ops, N_OPS, fd, pid);
	own_count_through(pid);
}

int daemon_serve_rights(const struct daemon *d, int fd, struct err *err)
{
	char *arguments[KEEPER_ARGUMENTS_MAX + 1];
	int rc = make_arguments(d, arguments, err);
	if (rc)
		return rc;
	keeper_serve(ops, N_OPS, arguments, fd);
}

int daemon_drop_rights(struct err *err)
{
	setpriority(PRIO_PROCESS, 0, -20); /* as record does, and for its reason */
	int rc = confine_rights(ROLE_RECORDER, CONFINE_KEEP_ALL);
	return rc ? err_sys(err, rc, "giving up the rights of the recorder") : 0;
}

/* Of a file: up to its last slash. */
static const char *directory_of(const char *path, char out[PATH_BYTES])
{
	const char *slash = strrchr(path, '/');
	snprintf(out, PATH_BYTES, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	return out;
}

int daemon_limit_paths(const struct daemon *d, struct err *err)
{
	const size_t most = 1 + d->s.http.n_listen;
	struct role_path *paths = calloc(most, sizeof(*paths));
	char(*text)[PATH_BYTES] = calloc(most, sizeof(*text));
	size_t n = 0;
	int rc = paths && text ? 0 : -ENOMEM;
	if (!rc)
		paths[n++] = (struct role_path){ d->s.o.store, role_path_file };
	for (size_t i = 0; !rc && i < d->s.http.n_listen; i++) {
		const char *at = d->s.http.listen[i], *path = at + strlen(UNIX);
		if (!strncmp(at, UNIX, strlen(UNIX))) {
			directory_of(path, text[n]);
			paths[n] = (struct role_path){ text[n], role_path_socket };
			n++;
		}
	}
	const struct confine_given given = { .paths = paths, .n_paths = n };
	own_begin_peak(); /* this opens a file for writing */
	rc = rc ? rc : confine_reach(ROLE_RECORDER, &given);
	free(paths);
	free(text);
	return rc ? err_sys(err, rc, "limiting where the recorder may write") : 0;
}

int daemon_look_at_keeper(struct daemon *d, struct err *err)
{
	const bool late = keeper_is_late();
	if (keeper_is_lost())
		return err_set(err, -EPIPE,
			       "ascribe-keeper, which has the rights to record, was killed: start "
			       "the daemon again");
	if (late && !d->keeper_late) {
		d->published.keeper_late++;
		log_line(LOG_LINE_ERROR,
			 "ascribe-keeper, which has the rights to record, does not answer: is it "
			 "stopped? Recording goes on with what is open");
	}
	if (!late && d->keeper_late)
		log_line(LOG_LINE_INFO, "ascribe-keeper answers again");
	d->keeper_late = late;
	return 0;
}
