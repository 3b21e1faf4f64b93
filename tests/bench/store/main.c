/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store on a generated load, beside what else one might keep the samples in.
 * tests/bench/bench_store.sh runs it.
 *
 *   bench_store write DIR low|high|thin|real WINDOWS SECONDS [STACKS]
 *                                                     write windows so long; time, memory and bytes
 *                                                     of it
 *   bench_store query DIR [RANGE]                     questions of growing ranges
 *   bench_store cover DIR                             blocks merged for random ranges
 *   bench_store compare DIR SCRATCH WINDOWS           the first windows as pprof and folded stacks,
 *                                                     gzipped, and the store's own blocks in SQLite
 *                                                     and LMDB
 *
 * The load: a window of 10 s holds 30,000 samples, stacks drawn by Zipf(1.05). low: a label of 64
 * containers, drawn by Zipf, too, but for the LOW_HOME share of samples that run where their stack
 * is at home: about 12,000 rows. high: a tenant of 200 as well, and 2,800 queries per window with a
 * fresh UUID each; HIGH_HOME of a query's samples are of one stack: about 24,000 rows. thin: 20
 * samples, where only the blocks count. STACKS: a directory of folded stacks from real programs
 * (*.folded, root first), of which 34,670 are taken. Without it as many are made up, 22 frames deep
 * on average, of 9,921 functions. CONTAINERS, QUERIES (at most 2,800) and N_STACKS in the
 * environment: other numbers of them. real: each file of STACKS is a window, with its own samples,
 * in turns. All from fixed seeds.
 */
#include "export/export.h"
#include "query/query.h"
#include "bench_store.h"

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc >= 6 && !strcmp(argv[1], "write") && atoll(argv[4]) > 0 && atoll(argv[5]) > 0)
		write_store(argv[2], argv[3], (uint64_t)atoll(argv[4]), atoll(argv[5]),
			    argc > 6 ? argv[6] : NULL);
	else if (argc == 3 && !strcmp(argv[1], "cover"))
		cover_store(argv[2]);
	else if ((argc == 3 || argc == 4) && !strcmp(argv[1], "query"))
		query_store(argv[2], argc == 4 ? argv[3] : NULL);
	else if (argc == 5 && !strcmp(argv[1], "compare") && atoll(argv[4]) > 0)
		compare(argv[2], argv[3], (uint64_t)atoll(argv[4]));
	else
		return fputs("usage: see the head of bench_store.c\n", stderr), 2;
	return 0;
}