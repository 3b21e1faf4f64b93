/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up privileges, for good. */
#ifndef ASCRIBE_SANDBOX_CONFINE_H
#define ASCRIBE_SANDBOX_CONFINE_H

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

/*
 * Close every descriptor but keep, become user if we are root, drop all capabilities, gain no new
 * ones. 0 or -errno.
 */
int confine_privileges(int keep, unsigned user);

/*
 * Of who reads other processes: close every descriptor but keep, drop all capabilities but
 * CAP_SYS_PTRACE (memory, maps, root), CAP_DAC_READ_SEARCH (files of others) and
 * CAP_CHECKPOINT_RESTORE (map_files, since 5.9). 0 or -errno.
 */
int confine_reader(int keep);

/*
 * Of who asks other programs over sockets: close every descriptor but keep, drop all capabilities,
 * stay the same user, whom such sockets and files with tokens may belong to. 0 or -errno.
 */
int confine_asker(int keep);

/*
 * The rest, for who reads foreign bytes: Landlock (no path at all), resource limits, and seccomp.
 * Allowed are memory without execution, reading and measuring of descriptors that are open,
 * messages on sockets that are open, the end. Asking for a file by path fails with EACCES, any
 * other call kills. memory: bytes that may be allocated beyond what there is. 0 or -errno.
 */
int confine_worker(size_t memory);

/*
 * For who downloads, after confine_privileges, in the directory that it may write to. It may write
 * to no other path, and read system directories: libraries, certificates, how to resolve names. No
 * file beyond file_bytes, no new process (threads are allowed), no program started. Sockets are
 * those of the internet and what resolving names needs. 0 or -errno.
 */
int confine_downloader(uint64_t file_bytes);

/* The same, without writing anywhere; dir (may be NULL) may be read, too. */
int confine_client(const char *dir);

/*
 * For who pushes: the same, but it may write files in one directory, of no more than a page, and
 * read all that is in these directories.
 */
int confine_pusher(const char *writable, const char *const *readable, size_t n);

/*
 * For who serves a store, which is its working directory: become CONFINE_WEB if we are root, with
 * the group that we have, which reads the store's files; drop all capabilities. Only files of the
 * store can be opened, for reading. Of system calls those remain that serving on open sockets
 * takes: no new socket, process, program or signal. memory: bytes that may be allocated beyond what
 * there is. Before there are threads. 0 or -errno.
 */
int confine_web(size_t memory);

/* Of a child: the terminal's signals are ignored, the recorder decides when it ends. */
void confine_signals(void);

#endif
