/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libpq that was taken over: where a connection fails it says what it could reach. HOSTILE_READS
 * has paths, each with a blank behind it; a socket of AF_UNIX is tried.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char said[200] = "reached:";

static void say(const char *what)
{
	strncat(said, " ", sizeof(said) - strlen(said) - 1);
	strncat(said, what, sizeof(said) - strlen(said) - 1);
}

void *PQconnectdb(const char *conninfo)
{
	char list[512], *path = list, *end;
	(void)conninfo;
	snprintf(list, sizeof(list), "%s", getenv("HOSTILE_READS"));
	for (; (end = strchr(path, ' ')); path = end + 1) {
		*end = 0;
		if (open(path, O_RDONLY) >= 0)
			say(path);
	}
	if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0)
		say("unix");
	return said;
}

int PQstatus(const void *conn)
{
	return conn != NULL; /* 0 is CONNECTION_OK */
}

char *PQerrorMessage(const void *conn)
{
	(void)conn;
	return said;
}

/* The rest is never called, or knows nothing. */
void *PQconninfoParse(const char *conninfo, char **why);
void *PQconndefaults(void);
void PQsetClientEncoding(void);
void PQexecParams(void);
void PQresultStatus(void);
void PQntuples(void);
void PQgetvalue(void);

static struct {
	char *keyword, *variable, *compiled, *value, *label, *shown;
	int shown_size;
} options[] = { { .keyword = (char *)"host" }, { .keyword = (char *)"port" }, { .keyword = NULL } };

void *PQconninfoParse(const char *conninfo, char **why)
{
	(void)why;
	options[0].value = strstr(conninfo, "host=/") ? (char *)"/run" : (char *)"127.0.0.1";
	options[1].value = (char *)"5432";
	return options;
}
void *PQconndefaults(void)
{
	return options;
}
void PQsetClientEncoding(void)
{
}
void PQexecParams(void)
{
}
void PQresultStatus(void)
{
}
void PQntuples(void)
{
}
void PQgetvalue(void)
{
}
