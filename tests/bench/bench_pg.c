/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What watching the scheduler costs a PostgreSQL server, for each transaction: bench_pg CONNINFO
 * SECONDS select|tpcb nothing|RECORDER (see toggle.h). Four clients, one statement at a time, as
 * pgbench's; CPU time of the server's processes.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "toggle.h"

#define CLIENTS 4
#define ACCOUNTS 500000 /* pgbench -i -s 5 */
#define TELLERS 50
#define BRANCHES 5

static bool tpcb;
static volatile bool stop;

static struct client {
	pthread_t thread;
	PGconn *connection;
	volatile unsigned long transactions;
} __attribute__((aligned(64))) client[CLIENTS];

static void ask(PGconn *c, const char *sql)
{
	PGresult *r = PQexec(c, sql);
	if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK)
		die(sql, PQerrorMessage(c));
	PQclear(r);
}

static void transact(PGconn *c, unsigned *seed)
{
	char sql[256];
	int account = 1 + rand_r(seed) % ACCOUNTS, teller = 1 + rand_r(seed) % TELLERS,
	    branch = 1 + rand_r(seed) % BRANCHES, delta = rand_r(seed) % 10000 - 5000;
	static const char *const updates[] = {
		"UPDATE pgbench_accounts SET abalance = abalance + %d WHERE aid = %d;",
		"UPDATE pgbench_tellers SET tbalance = tbalance + %d WHERE tid = %d;",
		"UPDATE pgbench_branches SET bbalance = bbalance + %d WHERE bid = %d;"
	};
	int ids[] = { account, teller, branch };
	if (tpcb) {
		ask(c, "BEGIN;");
		snprintf(sql, sizeof(sql), updates[0], delta, account);
		ask(c, sql);
	}
	snprintf(sql, sizeof(sql), "SELECT abalance FROM pgbench_accounts WHERE aid = %d;",
		 account);
	ask(c, sql);
	if (!tpcb)
		return;
	for (int i = 1; i < 3; i++) {
		snprintf(sql, sizeof(sql), updates[i], delta, ids[i]);
		ask(c, sql);
	}
	snprintf(
		sql, sizeof(sql),
		"INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (%d, %d, %d, %d, CURRENT_TIMESTAMP);",
		teller, branch, account, delta);
	ask(c, sql);
	ask(c, "END;");
}

static void *serve(void *arg)
{
	struct client *c = arg;
	unsigned seed = 1 + (unsigned)(c - client);
	while (!stop) {
		transact(c->connection, &seed);
		c->transactions++;
	}
	return NULL;
}

static struct reading look(void)
{
	struct reading r = { 0 };
	for (int i = 0; i < CLIENTS; i++) {
		char path[64];
		unsigned long ns = 0;
		snprintf(path, sizeof(path), "/proc/%d/schedstat",
			 PQbackendPID(client[i].connection));
		FILE *f = fopen(path, "r");
		if (!f || fscanf(f, "%lu", &ns) != 1)
			die(path,
			    "not there; has the kernel no CONFIG_SCHED_INFO, or is the server elsewhere?");
		fclose(f);
		r.ns += (double)ns;
		r.done += (double)client[i].transactions;
	}
	return r;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		die("usage", "bench_pg CONNINFO SECONDS select|tpcb nothing|RECORDER");
	tpcb = !strcmp(argv[3], "tpcb");
	for (int i = 0; i < CLIENTS; i++) {
		client[i].connection = PQconnectdb(argv[1]);
		if (PQstatus(client[i].connection) != CONNECTION_OK)
			die(argv[1], PQerrorMessage(client[i].connection));
		pthread_create(&client[i].thread, NULL, serve, &client[i]);
	}
	sleep(1);
	toggle(argv[4], atof(argv[2]), look);
	stop = true;
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(client[i].thread, NULL);
	return 0;
}
