/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up rights, for good: what roles.c says of a process is put in force. */
#ifndef ASCRIBE_SANDBOX_CONFINE_H
#define ASCRIBE_SANDBOX_CONFINE_H

#include "sandbox/roles.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Sanitizers make system calls and allocate memory of their own: their builds run the same code
 * unconfined.
 */
#if defined(__SANITIZE_ADDRESS__)
#define CONFINE_NOT 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CONFINE_NOT 1
#endif
#endif
#ifndef CONFINE_NOT
#define CONFINE_NOT 0
#endif

/*
 * Who parses, downloads and serves. No account, dynamic user, container or range of subordinate
 * ids has these numbers: they end below 2^31 (systemd, docs/UIDS-GIDS.md). So only root can signal
 * these children.
 */
#define CONFINE_PARSER 4294836223u
#define CONFINE_DOWNLOADER 4294836222u
#define CONFINE_WEB 4294836221u

#define CONFINE_KEEP_ALL (-1) /* descriptors */

/*
 * Take the name of this role, close every descriptor but keep (the standard ones become
 * /dev/null), become its user if we are root, keep no capability but its own, and gain none again.
 * Without CAP_SETUID, or where our user namespace has no such user, we stay who we are. Only the
 * calling thread: call it before there are others. 0 or -errno.
 */
int confine_rights(enum role_id who, int keep);

/* What the table leaves to the process. */
struct confine_given {
	size_t memory;	     /* RLIMIT_DATA: bytes that may be allocated beyond what there is */
	uint64_t file_bytes; /* RLIMIT_FSIZE */
	const struct role_path *paths;
	size_t n_paths;
	const uint16_t *ports; /* of TCP, that may be connected to; none: any. Since Linux 6.7 */
	size_t n_ports;
	bool unix_sockets; /* of a role whose sockets are limited */
};

/*
 * The rest, behind confine_rights: limits of the role, its paths (Landlock) and its system calls
 * (seccomp). given: what the table leaves open, NULL: nothing. Kernels without Landlock (before
 * 5.13, or not configured) have seccomp alone. 0 or -errno.
 */
int confine_reach(enum role_id who, const struct confine_given *given);

/* Of a child: the terminal's signals are ignored, the recorder decides when it ends. */
void confine_signals(void);

#endif
