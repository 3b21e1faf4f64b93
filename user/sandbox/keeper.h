/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that keeps the capabilities of a recorder that has given up its own. It does what the
 * recorder asks for, out of a table of this program: opens a descriptor, or starts a process. It
 * sees no foreign byte.
 *
 *   recorder                      keeper
 *   id, index in the table,  -->  ops[index]
 *   bytes, descriptors       <--  id, result, bytes, descriptors
 *
 * A program that keeps its capabilities starts none: there, each op runs in the process that asks.
 * The keeper ends 3 s at most after whoever started it: it lets its children end by themselves. One
 * that ended cannot be started again, since nobody has the capabilities any more. For one thread at
 * a time.
 */
#ifndef ASCRIBE_SANDBOX_KEEPER_H
#define ASCRIBE_SANDBOX_KEEPER_H

#include "util/err.h"
#include "util/passed.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_QUESTION_MAX 16384u
#define KEEPER_ANSWER_MAX 1024u
/*
 * For any answer but loaded programs: the first one comes when the keeper was executed, on a busy
 * or emulated machine.
 */
#define KEEPER_WAIT_MS 10000u

struct keeper_question {
	const void *bytes;
	size_t len;
	const int *fds;
	size_t n_fds;
};

struct keeper_answer {
	size_t len, n_fds;
	int fds[PASSED_MAX]; /* of whoever asked */
	_Alignas(8) uint8_t bytes[KEEPER_ANSWER_MAX];
};

/*
 * Answer a question. *ret is empty before; on an error, *err says why. The bytes may come from a
 * recorder that was taken over: an op does nothing with them that a recorder has no need for.
 * -EDQUOT: it was asked for more than a recording needs.
 */
typedef int keeper_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err);

/*
 * Start it with these ops, a constant of this program. arguments: what it says ops are about, at
 * most KEEPER_ARGUMENTS_MAX and NULL; others see it among its arguments.
 */
int keeper_start(keeper_op *const *ops, size_t n_ops, char *const *arguments, struct err *err);
#define KEEPER_ARGUMENTS_MAX 256u

/*
 * The same without a parent, over a socket that keeps packets apart: keeper_join asks the process
 * at the other end of fd, which is taken over; keeper_serve is that process, and never returns.
 */
void keeper_join(keeper_op *const *ops, size_t n_ops, int fd, pid_t pid);
_Noreturn void keeper_serve(keeper_op *const *ops, size_t n_ops, char *const *arguments, int fd);

/* For ops: the arguments of keeper_start. */
char *const *keeper_arguments(void);

/* Its process, 0: there is none; and its CPU time in ns until now, or until it ended. */
pid_t keeper_pid(void);
uint64_t keeper_cpu_ns(void);

/* It ends. */
void keeper_end(void);

/*
 * Have op answer within wait_ms. -ETIMEDOUT: it has not, or the keeper is stopped; what it answers
 * later is dropped. Until that came, further questions have -ETIMEDOUT at once. -EPIPE: the keeper
 * has ended.
 */
int keeper_ask(keeper_op *op, const struct keeper_question *q, unsigned wait_ms,
	       struct keeper_answer *ret, struct err *err);

/* It was started, and has ended by itself. */
bool keeper_is_lost(void);

/* A question was not answered in time, and is not yet. */
bool keeper_is_late(void);

/* Answers -EDQUOT so far. */
uint64_t keeper_refused(void);

#endif
