/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/processes.h"

#include "daemon/units.h"
#include "sandbox/roles.h"
#include "util/array.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define NAME_MAX_BYTES 16 /* TASK_COMM_LEN */
#define TEXT_BYTES 1000
#define AGAIN_MS 100 /* a process that was just forked gives up its rights meanwhile */

struct process {
	int tgid, parent;
	bool has_unit; /* of its own: systemd has chosen its user */
	char name[NAME_MAX_BYTES];
};

struct processes {
	struct process *v;
	size_t n, cap;
};

/* ---- /proc ---- */

/* Read a file of a process, up to cap - 1 bytes, with a NUL behind. Its length; 0: it has ended. */
static size_t read_file(int tgid, const char *file, char *text, size_t cap)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", tgid, file);
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, cap - 1, f) : 0;
	if (f)
		fclose(f);
	text[n] = 0;
	return n;
}

/* Return what stands behind "\nKEY" in a file of lines, or NULL. */
static const char *line_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	return at ? at + strlen(key) : NULL;
}

static uint64_t number_of(const char *text, const char *key, int base)
{
	const char *at = line_of(text, key);
	return at ? strtoull(at, NULL, base) : 0;
}

static bool read_process(int tgid, struct process *ret)
{
	char text[4096];
	const char *name;
	*ret = (struct process){ .tgid = tgid };
	if (!read_file(tgid, "status", text, sizeof(text)) || strncmp(text, "Name:\t", 6))
		return false;
	name = text + 6;
	snprintf(ret->name, sizeof(ret->name), "%.*s", (int)strcspn(name, "\n"), name);
	ret->parent = (int)number_of(text, "\nPPid:\t", 10);
	return true;
}

static int list_processes(struct processes *ret)
{
	DIR *d = opendir("/proc");
	int rc = d ? 0 : -errno;
	for (struct dirent *e; !rc && (e = readdir(d));) {
		int tgid = atoi(e->d_name);
		struct process p;
		if (tgid <= 0 || !read_process(tgid, &p))
			continue;
		rc = ARRAY_RESERVE(ret->v, ret->cap, ret->n + 1);
		if (!rc)
			ret->v[ret->n++] = p;
	}
	if (d)
		closedir(d);
	return rc;
}

static bool is_daemon(const struct process *p)
{
	char arguments[64];
	size_t n;
	if (strcmp(p->name, roles[ROLE_RECORDER].name) != 0)
		return false;
	n = read_file(p->tgid, "cmdline", arguments, sizeof(arguments));
	const char *second = memchr(arguments, 0, n);
	return second && second + 1 < arguments + n && !strcmp(second + 1, "daemon");
}

static const struct process *parent_of(const struct processes *all, const struct process *p)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].tgid == p->parent)
			return &all->v[i];
	return NULL;
}

/*
 * A keeper that systemd has started is its recorder's, as if that had: the one in the unit beside
 * its own.
 */
static void join_keeper(const struct processes *all, struct process *keeper)
{
	char own[UNIT_CGROUP_BYTES], peer[UNIT_CGROUP_BYTES];
	const struct process *parent = parent_of(all, keeper);
	if ((parent && is_daemon(parent)) || !read_file(keeper->tgid, "cgroup", own, sizeof(own)))
		return;
	for (size_t i = 0; i < all->n; i++)
		if (is_daemon(&all->v[i]) &&
		    read_file(all->v[i].tgid, "cgroup", peer, sizeof(peer)) &&
		    unit_is_beside(own, peer, UNIT_RECORDER))
			keeper->parent = all->v[i].tgid;
}

/* What serves in a unit beside the keeper's is its keeper's. */
static void join_web(struct processes *all, const struct process *keeper)
{
	char own[UNIT_CGROUP_BYTES], peer[UNIT_CGROUP_BYTES];
	if (!read_file(keeper->tgid, "cgroup", own, sizeof(own)))
		return;
	for (size_t i = 0; i < all->n; i++) {
		struct process *p = &all->v[i];
		if (!strcmp(p->name, roles[ROLE_WEB].name) &&
		    read_file(p->tgid, "cgroup", peer, sizeof(peer)) &&
		    unit_is_beside(own, peer, UNIT_WEB)) {
			p->parent = keeper->tgid;
			p->has_unit = true;
		}
	}
}

static void join_keepers(struct processes *all)
{
	for (size_t i = 0; i < all->n; i++) {
		if (strcmp(all->v[i].name, roles[ROLE_KEEPER].name) != 0)
			continue;
		join_keeper(all, &all->v[i]);
		join_web(all, &all->v[i]);
	}
}

/* Return the first daemon among p and its ancestors: one that captures is another one's child. */
static const struct process *daemon_of(const struct processes *all, const struct process *p)
{
	const struct process *found = NULL;
	for (size_t depth = 0; p && depth < 8; depth++, p = parent_of(all, p))
		found = is_daemon(p) ? p : found;
	return found;
}

/* ---- the rights of a process ---- */

struct rights {
	uint32_t user[4]; /* real, effective, saved, filesystem */
	uint64_t effective, permitted, inheritable, ambient, bounding;
	/* Of a daemon: what its keeper has; the filters that it was started with */
	uint64_t kept;
	unsigned base;
	bool no_new_privs;
	unsigned seccomp, filters;
	char limits[4096];
};

static bool read_rights(int tgid, struct rights *ret)
{
	char text[4096];
	uint32_t *u = ret->user;
	const char *users;
	if (!read_file(tgid, "status", text, sizeof(text)) ||
	    !read_file(tgid, "limits", ret->limits, sizeof(ret->limits)))
		return false;
	users = line_of(text, "\nUid:");
	if (!users || sscanf(users, "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32, &u[0], &u[1],
			     &u[2], &u[3]) != 4)
		return false;
	ret->effective = number_of(text, "\nCapEff:", 16);
	ret->permitted = number_of(text, "\nCapPrm:", 16);
	ret->inheritable = number_of(text, "\nCapInh:", 16);
	ret->ambient = number_of(text, "\nCapAmb:", 16);
	ret->bounding = number_of(text, "\nCapBnd:", 16);
	ret->no_new_privs = number_of(text, "\nNoNewPrivs:", 10);
	ret->seccomp = (unsigned)number_of(text, "\nSeccomp:", 10);
	ret->filters = (unsigned)number_of(text, "\nSeccomp_filters:", 10); /* since 5.9 */
	return true;
}

static const char *const limit_names[RLIM_NLIMITS] = {
	[RLIMIT_DATA] = "Max data size",      [RLIMIT_AS] = "Max address space",
	[RLIMIT_CORE] = "Max core file size", [RLIMIT_FSIZE] = "Max file size",
	[RLIMIT_NPROC] = "Max processes",     [RLIMIT_NOFILE] = "Max open files",
};

/* The hard limit; UINT64_MAX: unlimited. */
static uint64_t limit_of(const struct rights *r, int what)
{
	char soft[24], hard[24];
	const char *at = line_of(r->limits, limit_names[what]);
	if (!at || sscanf(at, "%23s %23s", soft, hard) != 2 || !strcmp(hard, "unlimited"))
		return UINT64_MAX;
	return strtoull(hard, NULL, 10);
}

/* ---- texts ---- */

struct text {
	char *at;
	size_t n;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(t->at + t->n, TEXT_BYTES - t->n, fmt, ap);
	va_end(ap);
	t->n += (size_t)n < TEXT_BYTES - t->n ? (size_t)n : TEXT_BYTES - t->n - 1;
}

static void add_capabilities(struct text *t, uint64_t bits)
{
	if (!bits)
		add(t, "no capability");
	for (unsigned c = 0, n = 0; c < 64; c++) {
		if (!(bits >> c & 1))
			continue;
		if (c < ROLE_CAPABILITIES)
			add(t, "%sCAP_%s", n++ ? " " : "", role_capability_names[c]);
		else
			add(t, "%scapability %u", n++ ? " " : "", c);
	}
}

static void describe(const struct rights *r, const struct role *role, int tgid, struct text *to)
{
	add(to, "%d: user %u, ", tgid, r->user[1]);
	add_capabilities(to, r->permitted);
	add(to, ", bounding set %" PRIx64 ", no_new_privs %d, seccomp %u", r->bounding,
	    r->no_new_privs, r->seccomp);
	for (size_t i = 0; role && i < role->n_limits; i++) {
		const uint64_t value = limit_of(r, role->limits[i].what);
		const char *name = limit_names[role->limits[i].what] + strlen("Max ");
		if (value == UINT64_MAX)
			add(to, ", %s unlimited", name);
		else
			add(to, ", %s %" PRIu64, name, value);
	}
}

/* ---- what differs ---- */

static void compare_user(const struct rights *r, const struct rights *of_daemon,
			 const struct role *role, struct text *to)
{
	if (role->user == ROLE_TARGET_USER)
		return;
	const bool own = role->user != ROLE_SAME_USER && of_daemon->user[1] == 0 &&
			 of_daemon->kept >> CAP_SETUID & 1;
	const uint32_t wanted = own ? role->user : of_daemon->user[1];
	for (size_t i = 0; i < 4; i++) {
		if (r->user[i] == wanted)
			continue;
		add(to, "its user should be %" PRIu32 "; ", wanted);
		return;
	}
}

/* Of a process with a unit of its own: any user but those of the others. */
static void compare_unit_user(const struct rights *r, const struct rights *of_daemon,
			      struct text *to)
{
	for (size_t i = 0; i < 4; i++) {
		if (r->user[i] && r->user[i] != of_daemon->user[1])
			continue;
		add(to, "its user should be one that systemd has chosen for it (DynamicUser=); ");
		return;
	}
}

static void compare_limits(const struct rights *r, const struct role *role, struct text *to)
{
	for (size_t i = 0; i < role->n_limits; i++) {
		const struct role_limit *l = &role->limits[i];
		const uint64_t has = limit_of(r, l->what),
			       may = l->value == ROLE_AS_ASKED ? UINT64_MAX - 1 : l->value;
		const char *name = limit_names[l->what] + strlen("Max ");
		if (has > may && l->value == ROLE_AS_ASKED)
			add(to, "its %s should be limited; ", name);
		else if (has > may)
			add(to, "its %s should be at most %" PRIu64 "; ", name, may);
	}
}

static void compare(const struct process *p, const struct rights *r, const struct rights *of_daemon,
		    enum role_id who, struct text *to)
{
	const struct role *role = &roles[who];
	const uint64_t have = r->effective | r->permitted | r->inheritable | r->ambient,
		       more = have & ~role_keeps(who, have);
	if (p->has_unit)
		compare_unit_user(r, of_daemon, to);
	else
		compare_user(r, of_daemon, role, to);
	if (more) {
		add(to, "it should not have ");
		add_capabilities(to, more);
		add(to, "; ");
	}
	if (!r->no_new_privs)
		add(to, "it can gain rights by executing a program (no_new_privs is 0); ");
	if (role->calls && (r->seccomp != 2 || (r->filters && r->filters <= of_daemon->base)))
		add(to, "its system calls are not limited to those of \"%s\"; ", role->calls->name);
	compare_limits(r, role, to);
}

/* N_ROLES: none. */
static enum role_id role_of(const struct process *p)
{
	enum role_id who = 0;
	while (who < N_ROLES && strncmp(p->name, roles[who].name, NAME_MAX_BYTES - 1) != 0)
		who++;
	return who;
}

static bool read_child(const struct processes *all, const struct process *of, enum role_id who,
		       struct rights *ret)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct process *p = &all->v[i];
		if (p->parent == of->tgid && !strcmp(p->name, roles[who].name) &&
		    read_rights(p->tgid, ret))
			return true;
	}
	return false;
}

/*
 * What the process has that starts those of a daemon: it limits no system calls of its own. Nor
 * does ascribe-notify: what it has was the recorder's, whose unit may be another one.
 */
static void look_at_keeper(const struct processes *all, const struct process *p,
			   const struct process *of, struct rights *of_daemon)
{
	struct rights r;
	of_daemon->kept = of_daemon->base = 0;
	if (read_child(all, of, ROLE_KEEPER, &r)) {
		of_daemon->kept = r.permitted;
		of_daemon->base = r.filters;
	}
	if (p->tgid == of->tgid && read_child(all, of, ROLE_NOTIFIER, &r))
		of_daemon->base = r.filters;
	if (p->has_unit) /* nobody else has the filters of that unit alone */
		of_daemon->base = 0;
}

/* False: one of them has ended. */
static bool judge(const struct processes *all, const struct process *p, const struct process *of,
		  char *rights, char *differs)
{
	struct rights r, of_daemon;
	struct text text = { rights, 0 }, other = { differs, 0 };
	const enum role_id who = role_of(p);
	*differs = 0;
	if (!read_rights(p->tgid, &r) || !read_rights(of->tgid, &of_daemon))
		return false;
	look_at_keeper(all, p, of, &of_daemon);
	describe(&r, who < N_ROLES ? &roles[who] : NULL, p->tgid, &text);
	if (who == N_ROLES)
		add(&other, "the table has no such process of a daemon; ");
	else
		compare(p, &r, &of_daemon, who, &other);
	if (other.n)
		differs[other.n - 2] = 0; /* without the last separator */
	return true;
}

int processes_look(processes_tell tell, void *ctx)
{
	char rights[TEXT_BYTES], differs[TEXT_BYTES];
	struct processes all = { 0 };
	int rc = list_processes(&all), n = 0;
	join_keepers(&all);
	for (size_t i = 0; !rc && i < all.n; i++) {
		struct process p = all.v[i];
		const struct process *of = daemon_of(&all, &p);
		bool there = of && judge(&all, &p, of, rights, differs);
		if (there && *differs) {
			poll(NULL, 0, AGAIN_MS);
			there = read_process(p.tgid, &p);
			p.has_unit = all.v[i].has_unit;
			there = there && judge(&all, &p, of, rights, differs);
		}
		if (there)
			tell(ctx, p.name, rights, differs);
		n += of && of->tgid == p.tgid;
	}
	free(all.v);
	return rc ? rc : n;
}
