/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/confine.h"

#include "sandbox/names_files.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of the kinds of access those that a file can have; to truncate is one since Linux 6.2. */
#define FILE_ACCESS \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | \
	 LANDLOCK_ACCESS_FS_EXECUTE | 1ull << 14)

/* ---- descriptors, user, capabilities ---- */

static int close_others(int keep)
{
	unsigned low = CONFINE_NOT ? 3 : 0; /* a sanitizer's report goes to stderr */
	if ((unsigned)keep > low && syscall(SYS_close_range, low, keep - 1, 0))
		return -errno;
	if (syscall(SYS_close_range, keep + 1, ~0u, 0))
		return -errno;
	/* Not that a library writes its complaints into a connection. */
	int null = 0;
	while (null >= 0 && null < 3)
		null = open("/dev/null", O_RDWR);
	if (null > 2)
		close(null);
	return 0;
}

static int become(const struct role *r)
{
	if (r->user == ROLE_SAME_USER || r->user == ROLE_TARGET_USER || geteuid() != 0)
		return 0;
	const gid_t group = r->keeps_group ? getegid() : r->user;
	if (!setgroups(0, NULL) && !setresgid(group, group, group) &&
	    setresuid(r->user, r->user, r->user) && errno != EPERM && errno != EINVAL)
		return -errno;
	return 0;
}

static int keep_capabilities(enum role_id who)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct have[2], keep[2] = { 0 };
	if (syscall(SYS_capget, &head, have))
		return -errno;
	const uint64_t keeps =
		role_keeps(who, have[0].permitted | (uint64_t)have[1].permitted << 32);
	for (unsigned c = 0; c < ROLE_CAPABILITIES; c++)
		if (!(keeps >> c & 1))
			prctl(PR_CAPBSET_DROP, c, 0, 0, 0); /* without CAP_SETPCAP it stays */
	keep[0].effective = keep[0].permitted = (uint32_t)keeps;
	keep[1].effective = keep[1].permitted = (uint32_t)(keeps >> 32);
	/* Where there are none, a unit may forbid even to give them up. */
	if (memcmp(have, keep, sizeof(keep)) != 0 && syscall(SYS_capset, &head, keep))
		return -errno;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -errno : 0;
}

/* Bytes of private writable memory that we have now. */
static int data_size(size_t *ret)
{
	unsigned long size, resident, shared, text, lib, data;
	char line[256];
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (n <= 0)
		return -EIO;
	line[n] = '\0';
	if (sscanf(line, "%lu %lu %lu %lu %lu %lu", &size, &resident, &shared, &text, &lib,
		   &data) != 6)
		return -EIO;
	*ret = data * (size_t)sysconf(_SC_PAGESIZE);
	return 0;
}

/*
 * What a process has when it gives up its rights: RLIMIT_DATA counts from zero. Read while paths
 * can still be opened.
 */
static size_t data_before;

int confine_rights(enum role_id who, int keep)
{
	prctl(PR_SET_NAME, roles[who].name);
	int rc = keep == CONFINE_KEEP_ALL ? 0 : close_others(keep);
	rc = rc ? rc : data_size(&data_before);
	rc = rc ? rc : become(&roles[who]);
	return rc ? rc : keep_capabilities(who);
}

/* ---- limits ---- */

/* No limit is raised: that would take a capability. */
static int limit(int what, rlim_t value)
{
	struct rlimit l;
	if (getrlimit((__rlimit_resource_t)what, &l))
		return -errno;
	l.rlim_max = value < l.rlim_max ? value : l.rlim_max;
	l.rlim_cur = l.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &l) ? -errno : 0;
}

static int limit_resources(const struct role *r, const struct confine_given *given)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < r->n_limits; i++) {
		const struct role_limit *l = &r->limits[i];
		rc = limit(l->what, l->value != ROLE_AS_ASKED ? l->value
				    : l->what == RLIMIT_DATA  ? data_before + given->memory
							      : given->file_bytes);
	}
	return rc;
}

/* ---- paths, ports, signals ---- */

/* As Linux 6.12 has them; our headers may be older. Bits and members that are 0 suit any kernel. */
struct ruleset {
	uint64_t paths, network, scope;
};
struct port_rule {
	uint64_t access, port;
};
#define RULE_PORT 2
#define BIND_TCP (1ull << 0)
#define CONNECT_TCP (1ull << 1)
#define SCOPE_ABSTRACT_SOCKETS (1ull << 0)
#define SCOPE_SIGNALS (1ull << 1)

/* What of this the kernel rules. */
static struct ruleset ruled(struct ruleset all)
{
	static const struct {
		int version; /* of Landlock */
		struct ruleset what;
	} since[] = { { 2, { .paths = 1ull << 13 } },		    /* to refer: Linux 5.19 */
		      { 3, { .paths = 1ull << 14 } },		    /* to truncate: 6.2 */
		      { 4, { .network = BIND_TCP | CONNECT_TCP } }, /* 6.7 */
		      { 6, { .scope = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS } } }; /* 6.12 */
	const int version =
		(int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++) {
		if (version >= since[i].version)
			continue;
		all.paths &= ~since[i].what.paths;
		all.network &= ~since[i].what.network;
		all.scope &= ~since[i].what.scope;
	}
	return all;
}

static int add_rule(int ruleset, int type, const void *rule)
{
	return syscall(SYS_landlock_add_rule, ruleset, type, rule, 0) ? -errno : 0;
}

static int allow_path(int ruleset, const struct role_path *p, uint64_t ruled_access)
{
	struct landlock_path_beneath_attr attr = { .allowed_access = p->access & ruled_access };
	struct stat st;
	attr.parent_fd = open(p->path, O_PATH | O_CLOEXEC);
	if (attr.parent_fd < 0)
		return 0; /* this host has no such directory */
	int rc = fstat(attr.parent_fd, &st) ? -errno : 0;
	if (!rc && !S_ISDIR(st.st_mode))
		attr.allowed_access &= FILE_ACCESS;
	rc = rc ? rc : add_rule(ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr);
	close(attr.parent_fd);
	return rc;
}

static int allow_port(int ruleset, uint16_t port)
{
	const struct port_rule rule = { CONNECT_TCP, port };
	return add_rule(ruleset, RULE_PORT, &rule);
}

static int limit_reach(const struct role *r, const struct confine_given *given)
{
	const struct ruleset set = ruled((struct ruleset){
		role_path_handled,
		(given->n_ports ? CONNECT_TCP : 0) | (r->binds_none ? BIND_TCP : 0),
		r->alone ? SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS : 0 });
	struct role_path named[NAMES_FILES_GIVEN];
	const size_t n_named = r->paths->resolves ? names_files_given(named) : 0;
	int fd = (int)syscall(SYS_landlock_create_ruleset, &set, sizeof(set), 0), rc = 0;
	if (fd < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	if (r->paths->resolves)
		names_files_keep(r->paths);
	for (size_t i = 0; !rc && i < r->paths->n; i++)
		rc = allow_path(fd, &r->paths->v[i], set.paths);
	for (size_t i = 0; !rc && i < given->n_paths; i++)
		rc = allow_path(fd, &given->paths[i], set.paths);
	for (size_t i = 0; !rc && i < n_named; i++)
		rc = allow_path(fd, &named[i], set.paths);
	for (size_t i = 0; set.network && !rc && i < given->n_ports; i++)
		rc = allow_port(fd, given->ports[i]);
	if (!rc && syscall(SYS_landlock_restrict_self, fd, 0))
		rc = -errno;
	close(fd);
	return rc;
}

/* ---- system calls ---- */

/* No datagrams: systemd takes orders by them. A raw Unix socket is one for datagrams, too. */
static int limit_unix_sockets(scmp_filter_ctx f)
{
	static const uint64_t types[] = { SOCK_DGRAM, SOCK_RAW };
	int rc = 0;
	for (size_t i = 0; !rc && i < sizeof(types) / sizeof(types[0]); i++) {
		rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 2,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffff, AF_UNIX),
				      SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, types[i]));
		rc = rc ? rc
			: seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socketpair), 1,
					   SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, types[i]));
	}
	return rc;
}

/* The families up to AF_MAX of our headers, and all beyond. */
static int limit_sockets(scmp_filter_ctx f, const struct role_calls *calls, bool unix_sockets)
{
	int rc = 0;
	for (int family = 0; !rc && family <= AF_MAX; family++) {
		bool keep = family == AF_UNIX && unix_sockets;
		for (size_t i = 0; i < calls->n_families; i++)
			keep |= family == calls->families[i];
		if (keep && family == AF_UNIX)
			rc = limit_unix_sockets(f);
		if (!keep)
			rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
					      SCMP_A0(family < AF_MAX ? SCMP_CMP_EQ : SCMP_CMP_GE,
						      (uint64_t)family));
	}
	return rc;
}

static int limit_calls(const struct role_calls *calls, const struct confine_given *given)
{
	scmp_filter_ctx f = seccomp_init(calls->otherwise);
	int rc = f ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < calls->n; i++) {
		const struct role_call *c = &calls->v[i];
		rc = seccomp_rule_add_array(f, c->action, c->call, c->n_args, c->args);
		if (rc == -EDOM)
			rc = 0; /* this machine has no such call */
	}
	if (!rc && calls->n_families)
		rc = limit_sockets(f, calls, given->unix_sockets);
	rc = rc ? rc : seccomp_load(f);
	seccomp_release(f);
	return rc;
}

int confine_reach(enum role_id who, const struct confine_given *given)
{
	static const struct confine_given nothing;
	const struct role *r = &roles[who];
	given = given ? given : &nothing;
	if (CONFINE_NOT)
		return 0;
	int rc = limit_resources(r, given);
	if (!rc && r->paths)
		rc = limit_reach(r, given);
	return rc || !r->calls ? rc : limit_calls(r->calls, given);
}

void confine_signals(void)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	sigset_t none;
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}
