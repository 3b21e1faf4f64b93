/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever looks also takes the answer that has come meanwhile, and sends the next question: no
 * thread waits. One question is on its way at a time.
 */
#include "sql/texts.h"

#include "sql/messages.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_S 10  /* before what failed or is unknown is asked for again */
#define STALE_MAX 8 /* answers to earlier questions that are dropped at a time */

struct kept {
	int64_t id;
	char *text;	 /* NULL: the server has none */
	time_t asked_s;	 /* 0: a free place */
	uint64_t looked; /* the number of the look-up that wanted it last */
};

struct sql_texts {
	pthread_mutex_t lock;
	int fd;
	bool waiting; /* for an answer */
	time_t failed_s;
	char error[SQL_ERROR_MAX];
	struct sql_question question;
	struct sql_answer answer;
	uint64_t looks;
	struct kept kept[SQL_KEPT_MAX];
};

static time_t now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1; /* never 0 */
}

int sql_asker_start(struct sql_asker *ret, const char *conninfo, struct err *err)
{
	int fd[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd))
		return err_sys(err, -errno, "postgres: socketpair");
	int room = 2 * (int)sizeof(struct sql_answer);
	(void)setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	pid_t pid = fork();
	if (!pid) {
		close(fd[0]);
		sql_ask_run(fd[1], conninfo);
	}
	int rc = pid < 0 ? err_sys(err, -errno, "postgres: fork") : 0;
	close(fd[1]);
	if (rc)
		close(fd[0]);
	else
		*ret = (struct sql_asker){ fd[0], pid };
	return rc;
}

void sql_asker_stop(struct sql_asker *a)
{
	if (a->fd >= 0)
		close(a->fd);
	if (a->pid > 0) {
		kill(a->pid, SIGKILL);
		waitpid(a->pid, NULL, 0);
	}
	*a = (struct sql_asker){ -1, 0 };
}

int sql_texts_new(struct sql_texts **ret, int fd)
{
	struct sql_texts *t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	pthread_mutex_init(&t->lock, NULL);
	t->fd = fd;
	*ret = t;
	return 0;
}

void sql_texts_free(struct sql_texts *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < SQL_KEPT_MAX; i++)
		free(t->kept[i].text);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static struct kept *find(struct sql_texts *t, int64_t id)
{
	for (size_t i = 0; i < SQL_KEPT_MAX; i++)
		if (t->kept[i].asked_s && t->kept[i].id == id)
			return &t->kept[i];
	return NULL;
}

/* Return the place of an id: its own, a free one, or that which was looked up longest ago. */
static struct kept *place_of(struct sql_texts *t, int64_t id)
{
	struct kept *at = find(t, id);
	for (size_t i = 0; !at && i < SQL_KEPT_MAX; i++)
		if (!t->kept[i].asked_s)
			at = &t->kept[i];
	if (at)
		return at;
	at = &t->kept[0];
	for (size_t i = 1; i < SQL_KEPT_MAX; i++)
		if (t->kept[i].looked < at->looked)
			at = &t->kept[i];
	return at;
}

static void keep(struct sql_texts *t, int64_t id, const char *text)
{
	struct kept *at = place_of(t, id);
	free(at->text);
	*at = (struct kept){ id, text ? strdup(text) : NULL, now_s(), t->looks };
}

static bool is_asked(const struct sql_question *q, int64_t id)
{
	for (uint32_t i = 0; i < q->n; i++)
		if (q->id[i] == id)
			return true;
	return false;
}

/* Keep what came; ids of the question that the answer lacks are unknown to the server. */
static void take(struct sql_texts *t, size_t len)
{
	const struct sql_answer *a = &t->answer;
	size_t head = offsetof(struct sql_answer, data), at = 0, room = len - head;
	memcpy(t->error, a->error, sizeof(t->error));
	t->error[sizeof(t->error) - 1] = 0;
	t->failed_s = *t->error ? now_s() : 0;
	for (uint32_t i = 0; !t->failed_s && i < t->question.n; i++)
		keep(t, t->question.id[i], NULL);
	for (uint32_t i = 0; i < a->n && i < SQL_IDS_MAX; i++) {
		size_t n = strnlen(a->data + at, room - at);
		if (at + n >= room)
			break;
		if (is_asked(&t->question, a->id[i]))
			keep(t, a->id[i], a->data + at);
		at += n + 1;
	}
}

/* A process that was taken over may have answered a question more than once. */
static ssize_t receive_answer(struct sql_texts *t)
{
	ssize_t n = -1;
	for (unsigned i = 0; i < STALE_MAX; i++) {
		n = recv(t->fd, &t->answer, sizeof(t->answer), MSG_DONTWAIT);
		if (n < (ssize_t)sizeof(t->answer.number) || t->answer.number == t->question.number)
			return n;
		n = -1;
	}
	return n;
}

static void receive(struct sql_texts *t)
{
	ssize_t n = t->waiting ? receive_answer(t) : -1;
	if (n < 0)
		return;
	t->waiting = false;
	if ((size_t)n >= offsetof(struct sql_answer, data)) {
		take(t, (size_t)n);
		return;
	}
	strcpy(t->error, "the process that asks has ended");
	t->failed_s = now_s();
}

static void ask(struct sql_texts *t, const int64_t *ids, size_t n)
{
	time_t now = now_s();
	if (t->waiting || (t->failed_s && now - t->failed_s < AGAIN_S))
		return;
	t->question.n = 0;
	for (size_t i = 0; i < n; i++) {
		const struct kept *k = find(t, ids[i]);
		if (!k || (!k->text && now - k->asked_s >= AGAIN_S))
			t->question.id[t->question.n++] = ids[i];
	}
	if (t->question.n && getrandom(&t->question.number, sizeof(t->question.number),
				       GRND_NONBLOCK) == sizeof(t->question.number))
		t->waiting = send(t->fd, &t->question, sizeof(t->question),
				  MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

enum sql_state sql_texts_look(struct sql_texts *t, const int64_t *ids, size_t n, char **text,
			      char ret_error[static SQL_ERROR_MAX])
{
	pthread_mutex_lock(&t->lock);
	n = n < SQL_IDS_MAX ? n : SQL_IDS_MAX;
	t->looks++;
	receive(t);
	ask(t, ids, n);
	for (size_t i = 0; i < n; i++) {
		struct kept *k = find(t, ids[i]);
		text[i] = k && k->text ? strdup(k->text) : NULL;
		if (k)
			k->looked = t->looks;
	}
	memcpy(ret_error, t->error, SQL_ERROR_MAX);
	enum sql_state state = t->waiting ? SQL_PENDING : *t->error ? SQL_FAILED : SQL_DONE;
	pthread_mutex_unlock(&t->lock);
	return state;
}

void sql_texts_wait(struct sql_texts *t)
{
	struct pollfd p = { .fd = t->fd, .events = POLLIN };
	pthread_mutex_lock(&t->lock);
	bool waiting = t->waiting;
	pthread_mutex_unlock(&t->lock);
	if (waiting)
		(void)poll(&p, 1, 2000 * SQL_DEADLINE_S);
}
