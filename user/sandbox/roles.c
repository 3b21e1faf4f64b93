/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/roles_int.h"

#include "sandbox/confine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define CAP(name) (1ull << CAP_##name)
#define N(list) (sizeof(list) / sizeof((list)[0]))
#define GIB (1ull << 30)
#define MIB (1ull << 20)

/* ---- paths ---- */

#define READ \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE)
/* Since 5.19 and 6.2; our headers may be older. */
#define ACCESS_REFER (1ull << 13)
#define ACCESS_TRUNCATE (1ull << 14)
#define FILE_IN \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | ACCESS_REFER | ACCESS_TRUNCATE)

const uint64_t role_path_read = READ;
const uint64_t role_path_file = FILE_IN;
const uint64_t role_path_socket = LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE;
const uint64_t role_path_handled = READ | FILE_IN | LANDLOCK_ACCESS_FS_MAKE_CHAR |
				   LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
				   LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

/*
 * Libraries, and in /etc what resolves names and checks certificates: not its passwords and private
 * keys. A file that is replaced is another one (confine_names_changed).
 */
#define NAMES \
	{ "/usr", READ }, { "/lib", READ }, { "/lib64", READ }, { "/run/systemd/resolve", READ }, \
		{ "/run/resolvconf", READ }, { "/run/NetworkManager", READ }, \
		{ "/run/nscd", READ }, { "/var/lib/ca-certificates", READ }, \
		{ "/etc/ld.so.cache", READ }, { "/etc/resolv.conf", READ }, \
		{ "/etc/hosts", READ }, { "/etc/host.conf", READ }, \
		{ "/etc/nsswitch.conf", READ }, { "/etc/gai.conf", READ }, \
		{ "/etc/mdns.allow", READ }, { "/etc/services", READ }, { "/etc/passwd", READ }, \
		{ "/etc/localtime", READ }, { "/etc/krb5.conf", READ }, \
		{ "/etc/postgresql-common", READ }, { "/etc/ssl/certs", READ }, \
		{ "/etc/ssl/cert.pem", READ }, { "/etc/ssl/openssl.cnf", READ }, \
		{ "/etc/gnutls", READ }, { "/etc/pki/tls/certs", READ }, \
		{ "/etc/pki/tls/openssl.cnf", READ }, { "/etc/pki/ca-trust", READ }, \
	{ \
		"/etc/crypto-policies", READ \
	}

static const struct role_path names[] = { NAMES };
static const struct role_path names_and_cache[] = { NAMES, { ".", READ } };
static const struct role_path recorder_files[] = { { "/", READ },
						   { "/dev/null", LANDLOCK_ACCESS_FS_WRITE_FILE } };
static const struct role_path jvm_tmp[] = {
	{ ".", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
		       LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE }
};
static const struct role_path store[] = { { ".", LANDLOCK_ACCESS_FS_READ_FILE |
							 LANDLOCK_ACCESS_FS_READ_DIR } };

#define FOR_NAMES "reads libraries, what resolves names and checks certificates"
static const struct role_paths
	no_paths = { .text = "none" },
	recorder_paths = { "reads what its user may read; writes the store, "
			   "and where its sockets are; binds no TCP port",
			   recorder_files, N(recorder_files), false },
	by_hand_paths = { "reads all; writes the store; binds no TCP port", recorder_files,
			  N(recorder_files), false },
	fetcher_paths = { FOR_NAMES ", the cache; writes one file's directory there",
			  names_and_cache, N(names_and_cache), true },
	watcher_paths = { FOR_NAMES ", its credentials", names, N(names), true },
	pusher_paths = { FOR_NAMES ", the store, its token and "
				   "certificates; writes its cursor's directory",
			 names, N(names), true },
	sql_paths = { FOR_NAMES ", its password and keys", names, N(names), true },
	jvm_paths = { "reads and makes files in the JVM's /tmp", jvm_tmp, N(jvm_tmp), false },
	web_paths = { "reads the store", store, N(store), false };

/* ---- limits ---- */

#define LIMITS(...) \
	.limits = { __VA_ARGS__ }, \
	.n_limits = sizeof((struct role_limit[]){ __VA_ARGS__ }) / sizeof(struct role_limit)
#define NO_CORE { RLIMIT_CORE, 0 }
/* Files may be mapped, which is no memory of ours. */
#define PARSER_LIMITS \
	LIMITS({ RLIMIT_DATA, ROLE_AS_ASKED }, { RLIMIT_AS, 4 * GIB }, NO_CORE, \
	       { RLIMIT_FSIZE, 0 }, { RLIMIT_NPROC, 0 }, { RLIMIT_NOFILE, 32 })
#define NETWORK_LIMITS(file_bytes) \
	LIMITS({ RLIMIT_FSIZE, file_bytes }, { RLIMIT_AS, GIB }, NO_CORE, { RLIMIT_NOFILE, 64 })
#define CURSOR_BYTES 4096

/* ---- processes ---- */

#define READS (CAP(SYS_PTRACE) | CAP(DAC_READ_SEARCH) | CAP(CHECKPOINT_RESTORE))

const struct role roles[N_ROLES] = {
	[ROLE_RECORDER] = {
		.name = "ascribe",
		.purpose = "samples, names, writes the store; a capture is another one",
		.user = ROLE_SAME_USER,
		.calls = &role_calls_recorder,
		.paths = &recorder_paths,
		.binds_none = true,
		.started = "by you or systemd",
		.again = "by systemd",
	},
	[ROLE_BY_HAND] = {
		.name = "ascribe",
		.purpose = "the same, where `record` or `top` was called: into any directory",
		.user = ROLE_SAME_USER,
		.capabilities = CAP(DAC_OVERRIDE),
		.calls = &role_calls_recorder,
		.paths = &by_hand_paths,
		.binds_none = true,
		.started = "by you",
		.again = "never",
	},
	[ROLE_NOTIFIER] = {
		.name = "ascribe-notify",
		.purpose = "notifies systemd; sees no foreign byte",
		.user = ROLE_SAME_USER,
		.started = "forked by the recorder, under systemd, at first",
		.again = "never",
	},
	[ROLE_KEEPER] = {
		.name = "ascribe-keeper",
		.purpose = "opens and starts what takes a capability; sees no foreign byte",
		.user = ROLE_SAME_USER,
		.capabilities = CAP(SYS_ADMIN) | CAP(BPF) | CAP(PERFMON) | READS | CAP(SYSLOG) |
				CAP(SYS_NICE) | CAP(SETUID) | CAP(SETGID) | CAP(KILL) |
				CAP(NET_BIND_SERVICE),
		.started = "by systemd, by ascribe-keeper.socket; else executed anew by the "
			   "recorder, before it gives up its own",
		.again = "never: the daemon ends, and systemd starts it again",
	},
	[ROLE_NURSERY] = {
		.name = "ascribe-nursery",
		.purpose = "forks parsers and readers; sees no foreign byte",
		.user = ROLE_SAME_USER,
		.capabilities = READS | CAP(SETUID) | CAP(SETGID) | CAP(KILL),
		.started = "executed anew by ascribe-keeper, at first",
		.again = "when it has ended, or does not answer for 1 s",
	},
	[ROLE_READER] = {
		.name = "ascribe-reader",
		.purpose = "opens files of other processes, copies their memory and /proc",
		.user = ROLE_SAME_USER,
		.capabilities = READS,
		.started = "forked by the nursery, for a question",
		.again = "for the next question",
	},
	[ROLE_PARSER] = {
		.name = "ascribe-parser",
		.purpose = "parses ELF, DWARF, unwind tables, perf maps",
		.user = CONFINE_PARSER,
		.calls = &role_calls_parser,
		.alone = true,
		.paths = &no_paths,
		PARSER_LIMITS,
		.started = "forked by the nursery, for a job",
		.again = "for the next job; after some jobs",
	},
	[ROLE_DOWNLOADER] = {
		.name = "ascribe-debuginfod",
		.purpose = "keeps the cache of debug files; sees no foreign byte",
		.user = CONFINE_DOWNLOADER,
		.started = "executed anew by ascribe-keeper's unit, else by the recorder, with "
			   "`debuginfod`",
		.again = "never",
	},
	[ROLE_FETCHER] = {
		.name = "ascribe-fetch",
		.purpose = "downloads one file",
		.user = CONFINE_DOWNLOADER,
		.calls = &role_calls_network,
		.alone = true,
		.paths = &fetcher_paths,
		NETWORK_LIMITS(ROLE_AS_ASKED),
		.started = "forked by ascribe-debuginfod, for a file",
		.again = "for the next file",
	},
	[ROLE_JVM] = {
		.name = "ascribe-jvm",
		.purpose = "has a JVM name its code",
		.user = ROLE_TARGET_USER,
		.calls = &role_calls_jvm,
		.paths = &jvm_paths,
		LIMITS({ RLIMIT_AS, GIB }, NO_CORE, { RLIMIT_FSIZE, 0 }, { RLIMIT_NPROC, 0 },
		       { RLIMIT_NOFILE, 32 }),
		.started = "executed anew by ascribe-keeper, with `jvm-attach`, for a JVM",
		.again = "for the next question to it",
	},
	[ROLE_POD_KEEPER] = {
		.name = "ascribe-podkeep",
		.purpose = "starts the next two again",
		.user = ROLE_SAME_USER,
		.started = "forked by ascribe-keeper's unit, else by the recorder, at first",
		.again = "never",
	},
	[ROLE_POD_WATCHER] = {
		.name = "ascribe-pods",
		.purpose = "asks Kubernetes, CRI or an engine for names of pods",
		.user = ROLE_SAME_USER,
		.calls = &role_calls_network,
		.alone = true,
		.paths = &watcher_paths,
		NETWORK_LIMITS(0),
		.started = "forked by ascribe-podkeep",
		.again = "when it has ended, at once, then after 0.5 s and more",
	},
	[ROLE_POD_PARSER] = {
		.name = "ascribe-podjson",
		.purpose = "parses what these answer",
		.user = CONFINE_PARSER,
		.calls = &role_calls_parser,
		.alone = true,
		.paths = &no_paths,
		PARSER_LIMITS,
		.started = "forked by ascribe-podkeep",
		.again = "with ascribe-pods",
	},
	[ROLE_PUSH_KEEPER] = {
		.name = "ascribe-pushkeep",
		.purpose = "starts the next one again",
		.user = ROLE_SAME_USER,
		.started = "executed anew by ascribe-keeper, for each receiver of `push`",
		.again = "at a reload that changes `push`",
	},
	[ROLE_PUSHER] = {
		.name = "ascribe-push",
		.purpose = "sends windows of the store to a receiver",
		.user = ROLE_SAME_USER,
		.calls = &role_calls_network,
		.alone = true,
		.paths = &pusher_paths,
		NETWORK_LIMITS(CURSOR_BYTES),
		.started = "forked by ascribe-pushkeep",
		.again = "when it has ended, at once, then after 0.5 s and more",
	},
	[ROLE_SQL_KEEPER] = {
		.name = "ascribe-sql",
		.purpose = "starts the next one; sees no foreign byte",
		.user = ROLE_SAME_USER,
		.started = "forked by ascribe-keeper's unit, else by the recorder, with `postgres`",
		.again = "never",
	},
	[ROLE_SQL_ASKER] = {
		.name = "ascribe-sqlask",
		.purpose = "asks a PostgreSQL server for statements",
		.user = ROLE_SAME_USER,
		.calls = &role_calls_network,
		.alone = true,
		.paths = &sql_paths,
		NETWORK_LIMITS(0),
		.started = "forked by ascribe-sql, for a question",
		.again = "for the next question",
	},
	[ROLE_WEB] = {
		.name = "ascribe-web",
		.purpose = "answers HTTP requests, takes profiles",
		.user = CONFINE_WEB,
		.keeps_group = true, /* it reads the store */
		.calls = &role_calls_web,
		.alone = true,
		.paths = &web_paths,
		/* Connections and files of the store; memory of profiles and of counters. */
		LIMITS({ RLIMIT_DATA, ROLE_AS_ASKED }, NO_CORE, { RLIMIT_FSIZE, 64 * MIB },
		       { RLIMIT_NOFILE, 16384 }),
		.started = "by systemd, by ascribe-web.socket, for ascribe-keeper's unit; else "
			   "executed anew by ascribe-keeper; with `listen`",
		.again = "when it has ended, or does not answer for 30 s; at a reload",
	},
};

/* ---- capabilities ---- */

const char *const role_capability_names[ROLE_CAPABILITIES] = {
	[CAP_CHOWN] = "CHOWN",
	[CAP_DAC_OVERRIDE] = "DAC_OVERRIDE",
	[CAP_DAC_READ_SEARCH] = "DAC_READ_SEARCH",
	[CAP_FOWNER] = "FOWNER",
	[CAP_FSETID] = "FSETID",
	[CAP_KILL] = "KILL",
	[CAP_SETGID] = "SETGID",
	[CAP_SETUID] = "SETUID",
	[CAP_SETPCAP] = "SETPCAP",
	[CAP_LINUX_IMMUTABLE] = "LINUX_IMMUTABLE",
	[CAP_NET_BIND_SERVICE] = "NET_BIND_SERVICE",
	[CAP_NET_BROADCAST] = "NET_BROADCAST",
	[CAP_NET_ADMIN] = "NET_ADMIN",
	[CAP_NET_RAW] = "NET_RAW",
	[CAP_IPC_LOCK] = "IPC_LOCK",
	[CAP_IPC_OWNER] = "IPC_OWNER",
	[CAP_SYS_MODULE] = "SYS_MODULE",
	[CAP_SYS_RAWIO] = "SYS_RAWIO",
	[CAP_SYS_CHROOT] = "SYS_CHROOT",
	[CAP_SYS_PTRACE] = "SYS_PTRACE",
	[CAP_SYS_PACCT] = "SYS_PACCT",
	[CAP_SYS_ADMIN] = "SYS_ADMIN",
	[CAP_SYS_BOOT] = "SYS_BOOT",
	[CAP_SYS_NICE] = "SYS_NICE",
	[CAP_SYS_RESOURCE] = "SYS_RESOURCE",
	[CAP_SYS_TIME] = "SYS_TIME",
	[CAP_SYS_TTY_CONFIG] = "SYS_TTY_CONFIG",
	[CAP_MKNOD] = "MKNOD",
	[CAP_LEASE] = "LEASE",
	[CAP_AUDIT_WRITE] = "AUDIT_WRITE",
	[CAP_AUDIT_CONTROL] = "AUDIT_CONTROL",
	[CAP_SETFCAP] = "SETFCAP",
	[CAP_MAC_OVERRIDE] = "MAC_OVERRIDE",
	[CAP_MAC_ADMIN] = "MAC_ADMIN",
	[CAP_SYSLOG] = "SYSLOG",
	[CAP_WAKE_ALARM] = "WAKE_ALARM",
	[CAP_BLOCK_SUSPEND] = "BLOCK_SUSPEND",
	[CAP_AUDIT_READ] = "AUDIT_READ",
	[CAP_PERFMON] = "PERFMON",
	[CAP_BPF] = "BPF",
	[CAP_CHECKPOINT_RESTORE] = "CHECKPOINT_RESTORE",
};

/* Debian's kernels want CAP_SYS_ADMIN for any event where it is above 2. */
static bool is_paranoid(void)
{
	char text[16] = "";
	int fd = open("/proc/sys/kernel/perf_event_paranoid", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	return n <= 0 || strtol(text, NULL, 10) > 2;
}

uint64_t role_keeps(enum role_id who, uint64_t have)
{
	const uint64_t keeps = have & roles[who].capabilities, enough = CAP(BPF) | CAP(PERFMON);
	if ((keeps & CAP(SYS_ADMIN)) && (keeps & enough) == enough && !is_paranoid())
		return keeps & ~CAP(SYS_ADMIN);
	return keeps;
}
