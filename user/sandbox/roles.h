/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of ascribe's processes and of what each may do. These facts stand nowhere else:
 * confine.c enforces them, `ascribe check` compares the processes of a daemon with them, and
 * tools/roles.c prints them into docs/security.md.
 */
#ifndef ASCRIBE_SANDBOX_ROLES_H
#define ASCRIBE_SANDBOX_ROLES_H

#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum role_id {
	ROLE_RECORDER,
	ROLE_BY_HAND,
	ROLE_NOTIFIER,
	ROLE_KEEPER,
	ROLE_NURSERY,
	ROLE_READER,
	ROLE_PARSER,
	ROLE_DOWNLOADER,
	ROLE_FETCHER,
	ROLE_JVM,
	ROLE_POD_KEEPER,
	ROLE_POD_WATCHER,
	ROLE_POD_PARSER,
	ROLE_PUSH_KEEPER,
	ROLE_PUSHER,
	ROLE_SQL_KEEPER,
	ROLE_SQL_ASKER,
	ROLE_WEB,
	N_ROLES,
};

/* Users besides the numbers of roles.c. */
#define ROLE_SAME_USER UINT32_MAX	   /* the recorder's */
#define ROLE_TARGET_USER (UINT32_MAX - 1u) /* of the process that is worked for */

/* What may be done below a directory, or to a file. */
struct role_path {
	const char *path; /* relative to the working directory, or absolute */
	uint64_t access;  /* LANDLOCK_ACCESS_FS_* */
};
extern const uint64_t role_path_handled; /* every kind of access that is ruled */
extern const uint64_t role_path_read;	 /* read files and directories, execute */
extern const uint64_t role_path_file;	 /* read, write, make, remove files and directories */
extern const uint64_t role_path_socket;	 /* make and remove sockets */

struct role_paths {
	const char *text;
	const struct role_path *v;
	size_t n;
	bool resolves; /* they are for names and certificates: files elsewhere may be named, too */
};

/* What becomes of a system call, if all these arguments fit. */
struct role_call {
	int call;
	uint32_t action;
	unsigned n_args;
	struct scmp_arg_cmp args[2];
};

struct role_calls {
	const char *name, *text;
	uint32_t otherwise; /* the action for all other calls */
	const struct role_call *v;
	size_t n;
	/* That sockets may have, where these are limited; then no rule is for socket(2) */
	const int *families;
	size_t n_families;
};

/* Both the soft and the hard limit. */
struct role_limit {
	int what; /* RLIMIT_* */
	uint64_t value;
};
#define ROLE_AS_ASKED UINT64_MAX /* struct confine_given says it */
#define ROLE_LIMITS_MAX 6

struct role {
	const char *name; /* of the process; the kernel keeps 15 characters */
	const char *purpose;
	uint32_t user;
	bool keeps_group;		/* although it has a user of its own */
	uint64_t capabilities;		/* at most: bits */
	const struct role_calls *calls; /* NULL: any */
	const struct role_paths *paths; /* NULL: any */
	/* With paths: its signals and abstract Unix sockets reach nobody else, since Linux 6.12 */
	bool alone;
	bool binds_none; /* with paths: no address of TCP, since Linux 6.7; its keeper does */
	struct role_limit limits[ROLE_LIMITS_MAX];
	size_t n_limits;
	const char *started, *again; /* by whom and when; when again after its end */
};

extern const struct role roles[N_ROLES];

#define ROLE_CAPABILITIES 41 /* of Linux 6.18 */
/* Name of a capability, as in capabilities(7), without "CAP_". */
extern const char *const role_capability_names[ROLE_CAPABILITIES];

/*
 * What the process may keep of these capabilities: CAP_SYS_ADMIN only where
 * kernel.perf_event_paranoid or the lack of CAP_BPF or CAP_PERFMON asks for it.
 */
uint64_t role_keeps(enum role_id who, uint64_t have);

#endif
