/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up privileges, for good. */
#ifndef ASCRIBE_SANDBOX_CONFINE_H
#define ASCRIBE_SANDBOX_CONFINE_H

#include <stddef.h>
#include <stdint.h>

/* Close every descriptor but keep, become nobody if we are root, drop all capabilities, no new ones. 0 or -errno. */
int confine_privileges(int keep);

/*
 * The rest, for who reads foreign bytes: Landlock (no path at all), resource limits, and seccomp: memory without execution,
 * reading and measuring of descriptors that are open, messages on sockets that are open, the end. Asking for a file by path fails with EACCES,
 * any other call kills. memory: bytes that may be allocated beyond what there is. 0 or -errno.
 */
int confine_worker(size_t memory);

/*
 * For who downloads, after confine_privileges, in the directory that it may write to: no other path to write to, system directories to
 * read (libraries, certificates, how to resolve names), no file beyond file_bytes, no new process (threads are), no program started, sockets
 * of the internet and what resolving names needs. 0 or -errno.
 */
int confine_downloader(uint64_t file_bytes);

/* Of a child: the terminal's signals are ignored, the recorder decides when it ends. */
void confine_signals(void);

#define CONFINE_NOBODY 65534 /* who root becomes */

#endif
