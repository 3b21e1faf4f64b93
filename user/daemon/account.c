/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/account.h"

#include "util/own.h"

#include <stdio.h>

#define MIB (1u << 20)
#define ROOM (12 * MIB) /* the least that windows and symbols work with */
#define TEXT_PARTS 4

const char *const account_names[N_ACCOUNT] = {
#define X(part, help) #part,
	ACCOUNT_PARTS(X)
#undef X
};

void account_read(struct account *ret, const struct collector_progress *p, uint64_t program_bytes,
		  uint64_t server)
{
	struct own_memory own;
	own_memory(&own);
	uint64_t *part = ret->part;
	*ret = (struct account){ .children_cpu_ns = own.first_children_cpu_ns, .more = own.more };
	part[ACCOUNT_program] = program_bytes;
	part[ACCOUNT_tables] = p->kernel.tables;
	part[ACCOUNT_rings] = p->kernel.rings;
	part[ACCOUNT_threads] = p->kernel.threads;
	part[ACCOUNT_unwind] = p->kernel.unwind_rows;
	part[ACCOUNT_children] = own.children;
	part[ACCOUNT_symbols] = p->symbols.bytes;
	part[ACCOUNT_dictionaries] = p->store.dictionaries;
	part[ACCOUNT_window] = p->store.window;
	part[ACCOUNT_server] = server;
	uint64_t named = p->symbols.bytes + p->store.dictionaries + p->store.window;
	part[ACCOUNT_other] = own.anonymous > named ? own.anonymous - named : 0;
	ret->total = own.anonymous + program_bytes + own.children + server + p->kernel.tables +
		     p->kernel.rings + p->kernel.threads + p->kernel.unwind_rows;
	ret->reserved =
		p->parsing.memory_max > own.children ? p->parsing.memory_max - own.children : 0;
}

uint64_t account_needs(const struct account *at_start)
{
	/* The governor begins to give things up at 95%, the parsers' part included. */
	uint64_t bytes = (at_start->total + ROOM) * 20 / (19 - 20 / ACCOUNT_WORKERS);
	return (bytes + MIB - 1) / MIB * MIB;
}

const char *account_text(const struct account *a, char *out, size_t cap)
{
	bool said[N_ACCOUNT] = { false };
	size_t len = 0;
	out[0] = 0;
	for (unsigned n = 0; n < TEXT_PARTS; n++) {
		unsigned most = 0;
		for (unsigned i = 0; i < N_ACCOUNT; i++)
			if (!said[i] && (said[most] || a->part[i] > a->part[most]))
				most = i;
		said[most] = true;
		if (len < cap)
			len += (size_t)snprintf(out + len, cap - len, "%s%s %.1f MiB",
						n ? ", " : "", account_names[most],
						(double)a->part[most] / MIB);
	}
	return out;
}
