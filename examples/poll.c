/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futures that are polled, as Rust's are: a task is a state machine, an executor calls poll() until
 * it says ready. The task has the record that is to be attached while it is polled; the executor
 * swaps it in and out, one load and one store each. In Rust it would be a wrapper around the future
 * whose poll() does the same.
 *
 * Prints the CPU seconds of each label, measured by the work itself.   poll [SECONDS]
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "burn.h"

enum poll_result { PENDING, READY };

struct future {
	enum poll_result (*poll)(struct future *f);
};

/* ---- the wrapper: any future, with labels ---- */

struct labelled {
	struct future future;
	struct future *inner;
	const struct ascribe_record_header *labels; /* while polled: the executor's */
};

static enum poll_result poll_labelled(struct future *f)
{
	struct labelled *l = (struct labelled *)f;
	l->labels = ascribe_swap(l->labels);
	enum poll_result r = l->inner->poll(l->inner);
	l->labels = ascribe_swap(l->labels);
	return r;
}

/* ---- a future of the application: three states, then once more, until its time is used up ---- */

struct query {
	struct future future;
	double left;
	int state;
	double spent;
};

static enum poll_result poll_query(struct future *f)
{
	static const double part[] = { 0.0002, 0.0010, 0.0003 };
	struct query *q = (struct query *)f;
	double s = burn(part[q->state]);
	q->state = (q->state + 1) % 3;
	q->spent += s;
	q->left -= s;
	return q->left > 0 ? PENDING : READY;
}

/* ---- an executor of two threads; a task that is pending may go on with the other one ---- */

#define TASKS 3

static struct future *queue[TASKS];
static int n_queue, alive;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;

static void *execute(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	while (alive) {
		if (!n_queue) {
			pthread_cond_wait(&news, &lock);
			continue;
		}
		struct future *f = queue[0];
		n_queue--;
		for (int i = 0; i < n_queue; i++)
			queue[i] = queue[i + 1];
		pthread_mutex_unlock(&lock);
		enum poll_result r = f->poll(f);
		pthread_mutex_lock(&lock);
		if (r == PENDING)
			queue[n_queue++] = f;
		else
			alive--;
		pthread_cond_broadcast(&news);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(int argc, char **argv)
{
	static const char *const names[TASKS] = { "first", "second", "third" };
	static const double share[TASKS] = { 1, 0.5, 0.25 };
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	struct ascribe_label_set set[TASKS];
	struct query query[TASKS];
	struct labelled task[TASKS];
	pthread_t thread[2];
	for (int i = 0; i < TASKS; i++) {
		ascribe_set_init(&set[i]);
		ascribe_set_add_string(&set[i], "task", names[i]);
		query[i] = (struct query){ .future = { poll_query }, .left = seconds * share[i] };
		task[i] = (struct labelled){ { poll_labelled }, &query[i].future, &set[i].header };
		queue[i] = &task[i].future;
	}
	n_queue = alive = TASKS;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, execute, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < TASKS; i++)
		printf("%s\"%s\": %.6f", i ? ", " : "{", names[i], query[i].spent);
	puts("}");
	return 0;
}
