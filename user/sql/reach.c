/* SPDX-License-Identifier: Apache-2.0 */
#include "sql/reach.h"

#include "sandbox/confine.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DNS_PORT 53
#define SERVER_PORTS 8
#define SERVER_FILES 16
#define FILE_BYTES 512

/* The server, as libpq understands what was configured. */
struct server {
	const struct libpq_option *given, *defaults;
	uint16_t ports[1 + SERVER_PORTS];
	struct role_path files[SERVER_FILES];
	char homes[6][FILE_BYTES];
	struct confine_given reach;
};

static const char *value_of(const struct libpq_option *o, const char *keyword)
{
	for (; o && o->keyword; o++)
		if (!strcmp(o->keyword, keyword))
			return o->value && *o->value ? o->value : NULL;
	return NULL;
}

static const char *setting(const struct server *s, const char *keyword)
{
	const char *v = value_of(s->given, keyword);
	return v ? v : value_of(s->defaults, keyword);
}

/* Hosts are a list; an empty one is the default directory of sockets. */
static bool has_unix_socket(const char *hosts)
{
	for (const char *at = hosts; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!*at || *at == ',' || *at == '/' || *at == '@')
			return true;
	return !hosts;
}

/* None: any, where there are more than have room, or one that is no number. */
static void take_ports(struct server *s)
{
	const char *at = setting(s, "port");
	size_t n = 0;
	s->ports[n++] = DNS_PORT;
	while (at && n < 1 + SERVER_PORTS) {
		char *end;
		const unsigned long port = strtoul(at, &end, 10);
		if (end == at || port > UINT16_MAX || (*end && *end != ','))
			return;
		s->ports[n++] = (uint16_t)port;
		at = *end ? end + 1 : NULL;
	}
	if (at)
		return;
	s->reach.ports = s->ports;
	s->reach.n_ports = n;
}

static void add_file(struct server *s, const char *path)
{
	if (path && s->reach.n_paths < SERVER_FILES)
		s->files[s->reach.n_paths++] = (struct role_path){ path, role_path_read };
}

/* Versions of libpq differ in where they look for the home directory. */
static void take_files(struct server *s)
{
	static const char *const at_home[] = { ".pgpass", ".postgresql", ".pg_service.conf" };
	static const char *const named[] = { "passfile",    "sslcert", "sslkey",
					     "sslrootcert", "sslcrl",  "sslcrldir" };
	const struct passwd *user = getpwuid(geteuid());
	const char *homes[] = { getenv("HOME"), user ? user->pw_dir : NULL };
	size_t n = 0;
	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; homes[i] && k < 3; k++, n++) {
			snprintf(s->homes[n], FILE_BYTES, "%s/%s", homes[i], at_home[k]);
			add_file(s, s->homes[n]);
		}
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		add_file(s, setting(s, named[i]));
	add_file(s, getenv("PGSERVICEFILE"));
	add_file(s, getenv("PGSYSCONFDIR"));
	s->reach.paths = s->files;
}

int sql_reach_confine(const struct libpq *l, const char *conninfo)
{
	static struct server s;
	s.given = l->parse(conninfo, NULL);
	s.defaults = l->defaults();
	/* What a service names is not known here. */
	const bool service = !s.given || value_of(s.given, "service");
	s.reach.unix_sockets =
		service || (!setting(&s, "hostaddr") && has_unix_socket(setting(&s, "host")));
	if (!service)
		take_ports(&s);
	take_files(&s);
	return confine_reach(ROLE_SQL_ASKER, &s.reach);
}
