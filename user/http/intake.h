/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much the server takes in. Profiles are bounded by their size over time, so that the store's
 * writer keeps up and keeps within its quota. Bodies are bounded by the memory that they occupy
 * together. Any thread.
 */
#ifndef ASCRIBE_HTTP_INTAKE_H
#define ASCRIBE_HTTP_INTAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTAKE_BURST (8 << 20) /* bytes of profiles at once */
#define INTAKE_RATE (1 << 20)  /* and a second, in the long run */
/* bytes of all bodies that have come and were not answered yet */
#define INTAKE_HELD_MAX (16u << 20)

struct intake {
	pthread_mutex_t lock;
	int64_t credit; /* bytes; below 0 after a profile that was larger than what was left */
	uint64_t at_ns; /* when credit was as much */
	size_t held;	/* atomic */
};

void intake_init(struct intake *i);
void intake_fini(struct intake *i);

/* 0: a profile may come; otherwise the seconds until one may, at least 1. */
unsigned intake_delay_s(struct intake *i, uint64_t now_ns);
/* A profile, or more of one, was taken in. */
void intake_charge(struct intake *i, size_t bytes, uint64_t now_ns);

/* False: bodies have too much memory already; nothing is held then. */
bool intake_hold(struct intake *i, size_t bytes);
void intake_release(struct intake *i, size_t bytes);

#endif
