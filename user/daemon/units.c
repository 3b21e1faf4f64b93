/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/units.h"

#include <stdio.h>
#include <string.h>

/* An instance of x@.service is x@INSTANCE.service. */
static bool is_named(const char *name, size_t len, const char *unit)
{
	const char *at = strchr(unit, '@');
	const size_t all = strlen(unit), head = at ? (size_t)(at + 1 - unit) : all;
	return (at ? len > all : len == all) && !memchr(name, '/', len) &&
	       !strncmp(name, unit, head) &&
	       !strncmp(name + len - (all - head), unit + head, all - head);
}

/* A line that is this directory's, and then the unit's. */
static bool has_unit(const char *text, const char *directory, size_t len, const char *unit)
{
	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		if (!strncmp(text, directory, len) &&
		    is_named(text + len, strcspn(text + len, "\n"), unit))
			return true;
	return false;
}

/* systemd has one hierarchy of several: where we are in our unit. */
bool unit_is_beside(const char *own, const char *peer, const char *unit)
{
	for (; *own; own += strcspn(own, "\n"), own += *own == '\n') {
		const char *name = memrchr(own, '/', strcspn(own, "\n"));
		if (name++ && is_named(name, strcspn(name, "\n"), UNIT_KEEPER) &&
		    has_unit(peer, own, (size_t)(name - own), unit))
			return true;
	}
	return false;
}

static void read_cgroup(const char *who, char ret[UNIT_CGROUP_BYTES])
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%s/cgroup", who);
	FILE *f = fopen(path, "re");
	ret[f ? fread(ret, 1, UNIT_CGROUP_BYTES - 1, f) : 0] = 0;
	if (f)
		fclose(f);
}

bool unit_has(const char *unit, pid_t pid)
{
	char own[UNIT_CGROUP_BYTES], peer[UNIT_CGROUP_BYTES], who[24];
	snprintf(who, sizeof(who), "%d", (int)pid);
	read_cgroup("self", own);
	read_cgroup(who, peer);
	return unit_is_beside(own, peer, unit);
}
