/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal between any two instructions of attach, detach and swap, whose handler attaches and
 * detaches: what OpenTelemetry's readers find agrees with what is attached afterwards. The same
 * when the library leaves OpenTelemetry's slot to another publisher meanwhile. Each instruction is
 * tried: the child is single-stepped to it, then gets the signal. Prints what disagrees, or PASS.
 */
#include "linkage.h"

#include <ascribe/label.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

C_LINKAGE __thread const struct ascribe_record_header *volatile otel_thread_ctx_v1;

enum region { FIRST_KEY, PLAIN, UNION, AGAIN, SWAP, LEAVE, REGIONS };
static const char *const names[] = { "the first key", "attach", "attach with a union",
				     "attach again",  "swap",	"swap and leave" };

static struct shared {
	volatile int inside, looked, wrong_attached, wrong_detached;
} *shared;
static struct ascribe_label_set outer, inner, handlers;
static volatile int keys_in_handler, leave_in_handler;

#define CHECK(what) \
	do { \
		if (!(what)) { \
			printf("line %d: %s\n", __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

static void on_signal(int signal)
{
	struct ascribe_scope scope;
	(void)signal;
	if (leave_in_handler) { /* as another thread does, in ascribe_otel_may() */
		__atomic_store_n(&ascribe_otel_state_v1.mode, (ascribe_u8)ASCRIBE_OTEL_LEFT,
				 __ATOMIC_RELAXED);
		return;
	}
	if (keys_in_handler) {
		ascribe_set_init(&handlers);
		ascribe_set_add_string(&handlers, "who", "handler");
	}
	ascribe_attach(&scope, &handlers);
	ascribe_detach(&scope);
}

static void look(volatile int *wrong)
{
	ascribe_u8 mode = *(volatile ascribe_u8 *)&ascribe_otel_state_v1.mode;
	const struct ascribe_record_header *shown = otel_thread_ctx_v1;
	if (mode == ASCRIBE_OTEL_OFF)
		return; /* nothing is published before there is a key */
	shared->looked++;
	/* Nothing of ours is right, too, when the library has left */
	*wrong += shown != ascribe_current() && (shown || mode == ASCRIBE_OTEL_ON);
}

static void run(enum region region)
{
	struct ascribe_scope a, b;
	const struct ascribe_record_header *was;
	if (region == UNION || region == AGAIN)
		ascribe_attach(&a, &outer);
	else if (region == LEAVE)
		ascribe_swap(&outer.header);
	raise(SIGSTOP); /* from here on instruction by instruction */
	shared->inside = 1;
	if (region == SWAP) {
		was = ascribe_swap(&outer.header);
		look(&shared->wrong_attached);
		ascribe_swap(was);
	} else if (region == LEAVE) {
		ascribe_swap(&inner.header);
		look(&shared->wrong_attached);
		ascribe_swap(NULL);
	} else {
		ascribe_attach(&b, region == AGAIN || region == PLAIN ? &outer : &inner);
		look(&shared->wrong_attached);
		ascribe_detach(&b);
	}
	shared->inside = 0;
	look(&shared->wrong_detached);
	if (region == UNION || region == AGAIN)
		ascribe_detach(&a);
	if (region == LEAVE) {
		ascribe_otel_state_v1.mode = ASCRIBE_OTEL_ON;
		ascribe_swap(NULL);
	}
}

static void fill(void)
{
	ascribe_set_init(&outer);
	ascribe_set_add_string(&outer, "who", "outer");
	ascribe_set_init(&inner);
	ascribe_set_add_string(&inner, "who", "inner");
	ascribe_set_init(&handlers);
	ascribe_set_add_string(&handlers, "who", "handler");
}

/* A child that runs the region again and again. */
static pid_t start(enum region region)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child)
		return child;
	struct sigaction act;
	memset(&act, 0, sizeof(act));
	act.sa_handler = on_signal;
	if (sigaction(SIGUSR1, &act, NULL) || ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(70);
	if (region == FIRST_KEY) {
		keys_in_handler = 1;
		ascribe_set_init(&inner);
		run(region); /* there is one first key: one process for each instruction */
		_exit(0);
	}
	fill();
	leave_in_handler = region == LEAVE;
	for (;;)
		run(region);
}

static int resume(pid_t child, int how, long signal)
{
	int status;
	CHECK(!ptrace((enum __ptrace_request)how, child, NULL, (void *)signal));
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static int is_stopped(int status, int signal)
{
	return WIFSTOPPED(status) && WSTOPSIG(status) == signal;
}

/* True: the region was left before the n-th step. */
static int try_instruction(pid_t child, long n)
{
	int began = 0, status = 0;
	for (long i = 0; i < n; i++) {
		status = resume(child, PTRACE_SINGLESTEP, 0);
		CHECK(is_stopped(status, SIGTRAP));
		began |= shared->inside;
		if (began && !shared->inside)
			return 1;
	}
	status = resume(child, PTRACE_CONT, SIGUSR1);
	CHECK(is_stopped(status, SIGSTOP) || (WIFEXITED(status) && !WEXITSTATUS(status)));
	return 0;
}

static long try_all(enum region region)
{
	long n = 0;
	int status, left = 0;
	pid_t child = 0;
	shared->looked = shared->wrong_attached = shared->wrong_detached = 0;
	for (; !left; n++) {
		if (!child) {
			child = start(region);
			CHECK(waitpid(child, &status, 0) == child && is_stopped(status, SIGSTOP));
		}
		shared->inside = 0;
		left = try_instruction(child, n);
		if (region == FIRST_KEY || left) {
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
			child = 0;
		}
	}
	return n;
}

int main(void)
{
	int wrong = 0;
	shared = (struct shared *)mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (int r = 0; r < REGIONS; r++) {
		long n = try_all((enum region)r);
		CHECK(n > 10 && shared->looked > n / 2);
		printf("%s: a signal at each of %ld instructions: wrong %d times while attached, "
		       "%d times afterwards\n",
		       names[r], n, shared->wrong_attached, shared->wrong_detached);
		wrong += shared->wrong_attached + shared->wrong_detached;
	}
	puts(wrong ? "FAIL" : "PASS");
	return wrong != 0;
}
