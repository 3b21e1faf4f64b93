/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread, an io_uring loop, many connections: a completion's user_data leads to the connection,
 * whose labels are attached while it is handled. That is one store before and one behind. A
 * connection has one operation under way: a read, then the answer's write.
 *
 * Clients are threads that send a byte and wait for the answer. Prints the CPU seconds of each
 * label, measured by the work itself; exits 77 where the kernel has no io_uring, or forbids it.
 *
 *   uring [SECONDS]
 */
#include <ascribe/label.h>

#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "burn.h"

#define CONNECTIONS 3

struct connection {
	int server, client; /* ends of a socket pair */
	const char *tenant;
	double work_s; /* for each request */
	int requests;
	int answering;
	char byte;
	double read_s, answer_s;
	struct ascribe_label_set labels; /* as long as the connection */
};

/* Begin the connection's next operation; it is submitted with those of the others. */
static void begin(struct io_uring *ring, struct connection *c)
{
	/* There is room for one of each connection */
	struct io_uring_sqe *e = io_uring_get_sqe(ring);
	if (c->answering)
		io_uring_prep_send(e, c->server, &c->byte, 1, MSG_NOSIGNAL);
	else
		io_uring_prep_recv(e, c->server, &c->byte, 1, 0);
	io_uring_sqe_set_data(e, c);
}

/* What has been read is worked on; what has been answered is done with. */
static void handle(struct connection *c)
{
	c->answering = !c->answering;
	if (!c->answering)
		return;
	c->read_s += burn(c->work_s / 2);
	ASCRIBE_LABEL_SCOPE("step", "answer");
	c->answer_s += burn(c->work_s / 2);
}

static void loop(struct io_uring *ring, struct connection *v, int n)
{
	int open = n;
	for (int i = 0; i < n; i++)
		begin(ring, &v[i]);
	while (open) {
		struct io_uring_cqe *done;
		if (io_uring_submit_and_wait(ring, 1) < 0 || io_uring_peek_cqe(ring, &done))
			continue;
		struct connection *c = io_uring_cqe_get_data(done);
		int result = done->res;
		io_uring_cqe_seen(ring, done);
		if (result != 1) { /* the other end has closed */
			open--;
			continue;
		}
		const struct ascribe_record_header *before = ascribe_swap(&c->labels.header);
		handle(c);
		ascribe_swap(before);
		begin(ring, c);
	}
}

static void *client(void *p)
{
	struct connection *c = p;
	char byte = 'x';
	for (int i = 0; i < c->requests; i++)
		if (write(c->client, &byte, 1) != 1 || read(c->client, &byte, 1) != 1)
			break;
	shutdown(c->client, SHUT_RDWR);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct connection v[CONNECTIONS] = {
		{ .tenant = "acme", .work_s = 0.0020 },
		{ .tenant = "globex", .work_s = 0.0010 },
		{ .tenant = "initech", .work_s = 0.0005 },
	};
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	pthread_t thread[CONNECTIONS];
	struct io_uring ring;
	int rc = io_uring_queue_init(2 * CONNECTIONS, &ring, 0);
	if (rc) {
		printf("the kernel refuses io_uring: %s\n", strerror(-rc));
		return 77;
	}
	for (int i = 0; i < CONNECTIONS; i++) {
		int pair[2];
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
			perror("socketpair");
			return 1;
		}
		v[i].server = pair[0];
		v[i].client = pair[1];
		v[i].requests = (int)(seconds * 500);
		ascribe_set_init(&v[i].labels);
		ascribe_set_add_string(&v[i].labels, "tenant", v[i].tenant);
		pthread_create(&thread[i], NULL, client, &v[i]);
	}
	loop(&ring, v, CONNECTIONS);
	for (int i = 0; i < CONNECTIONS; i++)
		pthread_join(thread[i], NULL);
	io_uring_queue_exit(&ring);
	for (int i = 0; i < CONNECTIONS; i++)
		printf("%s\"%s read\": %.6f, \"%s answer\": %.6f", i ? ", " : "{", v[i].tenant,
		       v[i].read_s, v[i].tenant, v[i].answer_s);
	puts("}");
	return 0;
}
