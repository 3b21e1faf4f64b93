/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events in the code of programs: a function (uprobe), its return (uretprobe) or a static probe
 * (USDT) of a file. Every process that has the file mapped hits it, also those that begin later.
 *
 *   uprobe:FILE:SYMBOL[+OFFSET]     all functions of this name; OFFSET in bytes, also as 0x1f
 *   uretprobe:FILE:SYMBOL           how long its calls take
 *   usdt:FILE:PROVIDER:NAME
 *   heap[:FILE]                     otel_memory:alloc and otel_memory:free (docs/memory.md), by
 *                                   default of our own library
 *
 * With :argN=UNIT behind it, argument N of a function at its entry, or of a static probe, is the
 * value of a hit. The first one is arg1. UNIT is bytes, ns or count. With :argN=int, =label (64
 * bits) or =text (a pointer to it) the argument is the label argN of a hit. A hit has one value and
 * PROBE_LABELS such labels at most: :arg1=label:arg2=bytes.
 *
 * FILE is anybody's: a worker of the sandbox finds the places in it.
 */
#ifndef ASCRIBE_SAMPLER_PROBE_H
#define ASCRIBE_SAMPLER_PROBE_H

#include "elf/image.h"
#include "sampler/probe_arg.h"
#include "sandbox/sandbox.h"
#include "symbols/symbols.h"
#include "util/buf.h"
#include "util/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The index of the sandbox's operation: after those of user/attribute (collector.c). */
#define PROBE_OP (SYMBOLS_OPS + 3)

#define PROBE_FILE_MAX 320
#define PROBE_NAME_MAX 192
#define PROBE_PLACES_MAX 256 /* of an event: the compiler copies what it inlines */

enum probe_kind { PROBE_FUNCTION, PROBE_CALLS, PROBE_STATIC, PROBE_HEAP };

/* An argument that is read at each hit. */
struct probe_read {
	unsigned arg;  /* from 1; 0: none */
	unsigned unit; /* see probe_unit */
};

struct probe_spec {
	enum probe_kind kind;
	char file[PROBE_FILE_MAX];
	char provider[PROBE_NAME_MAX]; /* USDT */
	char name[PROBE_NAME_MAX];     /* of the function or the probe */
	uint64_t offset;	       /* from the beginning of the function, bytes */
	struct probe_read value, label[PROBE_LABELS];
	unsigned n_labels;
	/* USDT: what the note must say of its arguments; "": anything */
	char arguments[PROBE_NAME_MAX];
};

/* A place in the file. */
struct probe_place {
	uint64_t offset;    /* of the instruction in the file, bytes */
	uint64_t semaphore; /* of the count of users, in the file; 0: there is none */
	struct probe_arguments arguments;
};

bool probe_is(const char *event);
bool probe_is_heap(const char *event);
/* Of such an event: the spec of the probe of allocations, or of that of frees. */
struct probe_spec probe_of_heap(const struct probe_spec *heap, bool frees);

/* The event's text. -EINVAL: the error has the right form. */
int probe_parse(struct probe_spec *ret, const char *event, struct err *err);

/* The function that such an event names: "f" of "uretprobe:/x:f". A part of event; NULL: none. */
const char *probe_symbol(const char *event);

/* The unit of a hit's value: "bytes", "nanoseconds", "count". */
const char *probe_unit(const struct probe_spec *p);

/*
 * Open a place as a perf event, disabled; takes CAP_SYS_ADMIN. The kernel asks for the file anew,
 * by the name of the descriptor.
 */
int probe_open(int file, const struct probe_place *at, bool is_return, int *ret_fd,
	       struct err *err);

/*
 * In a worker. The request is a probe_spec; its descriptors are the file and, if there is one, its
 * debug file.
 */
int probe_op(const struct sandbox_request *q, struct buf *out);

struct probe_found {
	struct probe_place place[PROBE_PLACES_MAX];
	size_t n;
	/* Where the file has no .symtab: by what its debug file is found; len 0 elsewhere */
	uint8_t build_id[ELF_BUILD_ID_MAX];
	size_t build_id_len;
};

/*
 * Find the places of an event in the file that fd has open. debug: its debug file, or -1; of
 * another build it is left out. On failure ret->n is 0. -ENOENT: the file has no such function or
 * probe, ret->build_id is filled; -EDOM: the argument cannot be had; -E2BIG: too many places;
 * -EADDRNOTAVAIL: programs would crash there;
 * -EBADMSG: it is no ELF file, or a damaged one; -ETIMEDOUT.
 */
int probe_find(struct sandbox *s, const struct probe_spec *spec, int fd, int debug,
	       struct probe_found *ret, struct err *err);

#endif
