/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread, an epoll loop, many connections: each has a label set of its own, attached while its
 * handler runs. That is one store before the handler and one behind it (ascribe_swap). A handler
 * may add labels for a part of its work. uring.c is the same with io_uring.
 *
 * Clients are threads that send a byte and wait for the answer. Prints the CPU seconds of each
 * label, measured by the work itself.
 *
 *   event_loop [SECONDS]
 */
#include <ascribe/label.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "burn.h"

#define CONNECTIONS 3

struct connection {
	int server, client; /* ends of a socket pair */
	const char *tenant;
	double work_s; /* for each request */
	int requests;
	double read_s, answer_s;
	struct ascribe_label_set labels; /* as long as the connection */
};

/* One request. False: the other end has closed. */
static int handle(struct connection *c)
{
	char byte;
	if (read(c->server, &byte, 1) != 1)
		return 0;
	c->read_s += burn(c->work_s / 2);
	{
		ASCRIBE_LABEL_SCOPE("step", "answer");
		c->answer_s += burn(c->work_s / 2);
	}
	return write(c->server, &byte, 1) == 1;
}

static void loop(struct connection *v, int n)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), open = n;
	for (int i = 0; i < n; i++) {
		struct epoll_event e = { .events = EPOLLIN, .data = { .ptr = &v[i] } };
		epoll_ctl(ep, EPOLL_CTL_ADD, v[i].server, &e);
	}
	while (open) {
		struct epoll_event ready[16];
		int k = epoll_wait(ep, ready, 16, -1);
		for (int i = 0; i < k; i++) {
			struct connection *c = ready[i].data.ptr;
			const struct ascribe_record_header *before =
				ascribe_swap(&c->labels.header);
			int more = handle(c);
			ascribe_swap(before);
			if (!more) {
				epoll_ctl(ep, EPOLL_CTL_DEL, c->server, NULL);
				open--;
			}
		}
	}
	close(ep);
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
	loop(v, CONNECTIONS);
	for (int i = 0; i < CONNECTIONS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < CONNECTIONS; i++)
		printf("%s\"%s read\": %.6f, \"%s answer\": %.6f", i ? ", " : "{", v[i].tenant,
		       v[i].read_s, v[i].tenant, v[i].answer_s);
	puts("}");
	return 0;
}
