/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer DIRECTORY FIRST N ALL ROWS: a program like any other that writes a store. It commits
 * windows FIRST to FIRST + N - 1 of the ALL of the scenario. It says of each on its standard
 * output: "+I" it is durable, "-I" it is lost.
 */
#include "fault/scenario.h"
#include "store/writer.h"

static void say(char sign, size_t i)
{
	char line[32];
	int n = snprintf(line, sizeof(line), "%c%zu\n", sign, i);
	if (write(STDOUT_FILENO, line, (size_t)n) != n)
		exit(3);
}

int main(int argc, char **argv)
{
	static struct scenario s;
	struct store_writer *w = NULL;
	struct err err = { 0 };
	if (argc != 6)
		return 2;
	size_t first = strtoul(argv[2], NULL, 10), n = strtoul(argv[3], NULL, 10);
	scenario_make(&s, strtoul(argv[4], NULL, 10), strtoul(argv[5], NULL, 10));
	for (size_t i = first; i < first + n && i < s.m.n; i++) {
		int rc = scenario_before(&w, argv[1], i, &err);
		if (!rc)
			rc = scenario_commit(&s, w, i, &err);
		if (rc)
			fprintf(stderr, "window %zu: %s\n", i, err.text);
		say(rc ? '-' : '+', i);
	}
	store_writer_close(w);
	scenario_fini(&s);
	return 0;
}
