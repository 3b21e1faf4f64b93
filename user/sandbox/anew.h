/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children that are this program, executed anew: their memory holds no setting, token or key of the
 * recorder, and has other addresses. Those of the sandbox have a constructor that runs before
 * main() and knows its own argv[0]; the one that serves is a command.
 */
#ifndef ASCRIBE_SANDBOX_ANEW_H
#define ASCRIBE_SANDBOX_ANEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ANEW_FD 3 /* the first of the descriptors that a child is given */

/*
 * True where execution gives this program rights that its caller lacks: set-user-ID, file
 * capabilities. Then it may do nothing that its arguments ask for, and children must be forked.
 */
bool anew_gains_rights(void);

/*
 * Execute this program with these n descriptors, at most 4, as ANEW_FD and the next ones. The
 * standard descriptors are /dev/null. 0 or -errno.
 */
int anew_spawn(char *const argv[], char *const envp[], const int *fds, size_t n, pid_t *ret_pid);

/*
 * Name a constant or function of this program in an argument of a child. Addresses differ in each
 * execution, their distances do not.
 */
void anew_to_distance(char *out, size_t cap, uintptr_t address);
uintptr_t anew_from_distance(const char *text);

/* In a child that was forked instead: have these descriptors there, and no others. 0 or -errno. */
int anew_take(const int *fds, size_t n);

#endif
