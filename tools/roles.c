/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Print the table of processes (user/sandbox/roles.c) in Markdown, for docs/security.md: `make
 * docs/security.md`. `make lint` compares.
 */
#include "sandbox/confine.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#define COLUMN " | "

static void print_user(const struct role *r)
{
	if (r->user == ROLE_SAME_USER)
		printf("the recorder's");
	else if (r->user == ROLE_TARGET_USER)
		printf("the target's");
	else
		printf("%" PRIu32 "%s", r->user,
		       r->keeps_group
			       ? ", the recorder's group; in its unit a user that systemd chooses"
			       : "");
}

static void print_capabilities(uint64_t bits)
{
	const char *between = "";
	for (unsigned c = 0; c < ROLE_CAPABILITIES; c++) {
		if (bits >> c & 1) {
			printf("%s%s", between, role_capability_names[c]);
			between = ", ";
		}
	}
	if (!bits)
		printf("none");
}

/* A call may have a rule for each value of an argument: it is counted once. */
static size_t count_calls(const struct role_calls *c, uint32_t action)
{
	size_t n = 0;
	for (size_t i = 0; i < c->n; i++) {
		bool again = (c->v[i].action == SCMP_ACT_ALLOW) != (action == SCMP_ACT_ALLOW);
		for (size_t k = 0; k < i; k++)
			again |= c->v[k].call == c->v[i].call && c->v[k].action == c->v[i].action;
		n += !again;
	}
	return n;
}

static void print_calls(const struct role_calls *c)
{
	if (!c)
		printf("any");
	else if (c->otherwise == SCMP_ACT_ALLOW)
		printf("%s: %zu forbidden", c->name, count_calls(c, SCMP_ACT_ERRNO(1)));
	else
		printf("%s: %zu allowed", c->name, count_calls(c, SCMP_ACT_ALLOW));
}

static void print_limit(const struct role_limit *l)
{
	static const char *const names[RLIM_NLIMITS] = {
		[RLIMIT_DATA] = "memory",     [RLIMIT_AS] = "address space",
		[RLIMIT_CORE] = "core",	      [RLIMIT_FSIZE] = "file size",
		[RLIMIT_NPROC] = "processes", [RLIMIT_NOFILE] = "descriptors",
	};
	printf("%s ", names[l->what]);
	if (l->value == ROLE_AS_ASKED)
		printf("as configured");
	else if (l->value && l->value % (1u << 30) == 0)
		printf("%" PRIu64 " GiB", l->value >> 30);
	else if (l->value && l->value % (1u << 20) == 0)
		printf("%" PRIu64 " MiB", l->value >> 20);
	else
		printf("%" PRIu64, l->value);
}

static void print_role(const struct role *r)
{
	printf("| `%s`: %s" COLUMN, r->name, r->purpose);
	print_user(r);
	printf(COLUMN);
	print_capabilities(r->capabilities);
	printf(COLUMN);
	print_calls(r->calls);
	printf(COLUMN "%s" COLUMN, r->paths ? r->paths->text : "any");
	for (size_t i = 0; i < r->n_limits; i++) {
		printf("%s", i ? ", " : "");
		print_limit(&r->limits[i]);
	}
	printf("%s" COLUMN "%s; again: %s |\n", r->n_limits ? "" : "none", r->started, r->again);
}

/* Each list of calls once. */
static void print_lists(void)
{
	puts("\n| system calls | what they are |\n|---|---|");
	for (size_t i = 0; i < N_ROLES; i++) {
		const struct role_calls *c = roles[i].calls;
		bool again = !c;
		for (size_t k = 0; k < i; k++)
			again |= roles[k].calls == c;
		if (!again)
			printf("| %s | %s: %s |\n", c->name,
			       c->otherwise == SCMP_ACT_ALLOW ? "forbidden" : "allowed", c->text);
	}
}

int main(void)
{
	putchar('\n');
	puts("| process | user | capabilities, at most | system calls | paths | limits | started |");
	puts("|---|---|---|---|---|---|---|");
	for (size_t i = 0; i < N_ROLES; i++)
		print_role(&roles[i]);
	print_lists();
	putchar('\n');
	return 0;
}
