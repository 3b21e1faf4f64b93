/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/shares.h"

#include "daemon/account.h"
#include "daemon/governor.h"
#include "util/own.h"

#define MIB (1u << 20)
#define MEMORY_MAX (256u * MIB)
/* Less is refused (saving_check), which takes a recorder to measure */
#define LEAST_BYTES (32u * MIB)
/* files that few samples need are read again sooner than they are kept for days */
#define SYMBOLS_BYTES (16u * MIB)
#define DICTIONARY_BYTES (24u * MIB)
#define UNWIND_BYTES (64u * MIB)
#define TABLES_BYTES (8u * MIB)
#define QUESTION_LEAST (8u * MIB)
/* The third keeps slow files from holding up others; below that size it would cost large files */
#define WORKERS_LEAST 3u
#define WORKER_LEAST_BYTES (16u * MIB)
#define LABEL_SETS 32768u /* of one process */
#define PROCESSES_LEAST 2048u
#define PROCESS_PART 32768u /* of memory-max, for one process in the tables of the BPF programs */
#define ROW_BYTES 100	    /* with its places in the hash and while rows are sorted */

static size_t at_most(uint64_t share, size_t most)
{
	return share < most ? (size_t)share : most;
}

/* As BPF knows them: a power of two, some 400 bytes each. */
static uint32_t processes(uint64_t memory_max)
{
	uint32_t n = PROCESSES_LEAST;
	while (n < SAMPLER_PROCESSES && 2 * (uint64_t)n * PROCESS_PART <= memory_max)
		n *= 2;
	return n;
}

void shares_of(uint64_t memory_max, unsigned memory_step, struct shares *ret)
{
	const unsigned part = memory_step >= MEMORY_NO_CACHES ? 16 : 8;
	uint64_t m = !memory_max ? MEMORY_MAX : memory_max < LEAST_BYTES ? LEAST_BYTES : memory_max;
	const uint64_t workers = m / ACCOUNT_WORKERS;
	const unsigned least =
		workers / WORKERS_LEAST < WORKER_LEAST_BYTES ? SANDBOX_LANES : WORKERS_LEAST;
	const size_t worker = at_most(workers / least, SYMBOLS_MEMORY);
	*ret = (struct shares){
		.symbols = at_most(m / 16, SYMBOLS_BYTES),
		.dictionaries = at_most(m / 10, DICTIONARY_BYTES),
		.unwind = at_most(m / 6, UNWIND_BYTES),
		/* there are two */
		.question = m / part > QUESTION_LEAST ? (size_t)(m / part) : QUESTION_LEAST,
		.label_sets = at_most(m / 8192, LABEL_SETS),
		.tables = at_most(m / 32, TABLES_BYTES),
		.processes = processes(m),
		.worker = memory_max ? worker : SYMBOLS_MEMORY,
		.workers = memory_max ? (unsigned)at_most(workers / worker,
							  SANDBOX_LANES * SANDBOX_WORKERS)
				      : 0,
		.rows = memory_max ? (size_t)(m / 16 / ROW_BYTES) : 0,
	};
}

void shares_configure(const struct shares *share, struct sampler_config *cfg)
{
	cfg->label_sets = share->label_sets;
	cfg->table_bytes = share->tables;
	cfg->processes = share->processes;
	cfg->unwind_bytes = share->unwind;
	cfg->symbols_bytes = share->symbols;
}

/* Three quarters of what our cgroups allow: the rest is for pages of files. 0: no limit. */
static uint64_t allowed(void)
{
	return own_memory_limit() / 4 * 3;
}

uint64_t shares_default(void)
{
	const uint64_t most = allowed();
	return most && most < MEMORY_MAX ? most : MEMORY_MAX;
}

void shares_fit(struct sampler_config *cfg, struct collector_detail *ret)
{
	const uint64_t most = allowed();
	struct shares share;
	*ret = (struct collector_detail){ 0 };
	if (!most)
		return;
	shares_of(most, 0, &share);
	shares_configure(&share, cfg);
	/* Nobody makes these tables larger when they fill. */
	cfg->table_bytes = (size_t)most / 8;
	/* Nobody asks: parsers have the part of questions, too. */
	ret->worker_memory = at_most(2 * share.worker, SYMBOLS_MEMORY);
	ret->workers = share.workers;
}
