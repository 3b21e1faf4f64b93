/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of sources share. */
#ifndef ASCRIBE_ATTRIBUTE_SOURCES_INT_H
#define ASCRIBE_ATTRIBUTE_SOURCES_INT_H

#include "attribute/file_facts.h"
#include "attribute/sources.h"

#define FACTS_BUCKETS 1024

/* A recipe compiled for a file. */
struct file_path {
	struct file_path *next;
	uint32_t step, n_steps;
	struct elf_variable start; /* as in struct path */
	size_t n_fields;
	struct foreign_field field[];
};

/* What one content of a file has. With recipes for its path: under that path. */
struct facts {
	struct facts *next;
	uint64_t path; /* hash; 0: no recipe is for it */
	uint64_t seen; /* hash of the path that it was looked up by last */
	uint8_t content[RESOLVER_CONTENT];
	struct file_facts file;
	struct file_path *paths;
	bool read;		    /* file is known, */
	size_t n_recipes;	    /* and so many recipes were looked at */
	struct symbols_again again; /* the rest has no answer yet */
	struct symbols_job job;
};

struct sources {
	struct sampler *sampler;
	struct resolver *resolver;
	struct facts *facts[FACTS_BUCKETS];
	size_t n_facts;
	const struct recipes *recipes;
	char key[SAMPLER_LATENCY_KEY]; /* of record --latency; "": none */
	struct err warning;
	struct label_step *steps; /* shared with the BPF program */
	uint32_t n_steps;
	uint32_t elastic, datadog, perforator_int, perforator_text; /* steps of built-in paths */
	uint32_t elastic_n, datadog_n, perforator_int_n, perforator_text_n;
};

/*
 * Append steps to those that the BPF program reads. Return where they begin; without room *ret_n
 * stays.
 */
uint32_t sources_add_steps(struct sources *s, const struct label_step *v, uint32_t n,
			   uint32_t *ret_n);

/* ---- source_facts.c ---- */

/* Return what a mapped file has. NULL: unknown, and with *ret_late there is no answer yet. */
const struct facts *source_facts_of(struct sources *s, const struct proc_image *im,
				    const struct proc_map *m, bool *ret_late);

/* Drop the facts of all files. Steps of paths stay where they are: processes go on using them. */
void source_facts_forget(struct sources *s);

/* ---- source_otel.c ---- */

/* Drop the process context that is being read. */
void source_list_forget_otel(struct source_list *list);

#endif
