/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait for locks, and know who held them. locks SECONDS FILE; begins when FILE.go is
 * there, and stays until it is killed. Prints as JSON how often and how long who waited for which
 * lock, and who held it last:
 *
 *   {"waits": [{"lock": "global", "victim": "a", "owner": "b", "n": 7, "seconds": 0.5}, ...],
 *    "heap": 93824992235168, "shared": 64, "tgid": 4711}   the place of two mutexes
 *
 * For each lock there are two threads, so nobody else takes it from who was woken. A thread has
 * another tenant, "a", "b" or "c", in each round. The holder notes its tenant in the lock just
 * before it releases it; who had to wait reads that.
 *
 *   global, member, heap   mutexes: a variable, a member of an array, allocated
 *   shared                 a mutex in FILE, which two processes map at different addresses
 *   inherit                a mutex with priority inheritance
 *   write, read            a read-write lock: a writer that waits for the reader, and a reader
 *   condvar                a condition variable: the owner is who signals it
 *   semaphore              likewise: who posts it
 *   timeout                a mutex that is held for longer than others wait for it
 *   signal                 likewise; a thread with tenant "k" sends signals to who waits: here the
 *                          victim is its "a", the owner has no meaning
 *
 * locks many SECONDS: two threads pass 600 mutexes on, one after the other.
 */
#include <ascribe/label.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
	GLOBAL,
	MEMBER,
	HEAP,
	SHARED,
	INHERIT,
	WRITE,
	READ,
	CONDVAR,
	SEMAPHORE,
	TIMEOUT,
	SIGNAL,
	LOCKS
};
enum { TENANTS = 3 };
static const char *const lock_names[LOCKS] = { "global",    "member",  "heap",	"shared",
					       "inherit",   "write",   "read",	"condvar",
					       "semaphore", "timeout", "signal" };

struct wait {
	atomic_ullong n, ns;
};

/* In FILE, so that the child has it, too. */
struct common {
	char before[64]; /* the mutex is not at the beginning */
	pthread_mutex_t mutex;
	atomic_int over;
	int last[LOCKS]; /* the tenant that released it last; under the lock */
	struct wait waits[LOCKS][TENANTS][TENANTS];
};

static struct common *common;
pthread_mutex_t global_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t inheriting_mutex;
pthread_mutex_t timeout_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t signal_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t global_rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_cond_t ready_condition = PTHREAD_COND_INITIALIZER;
sem_t posted_semaphore;
struct shard {
	long items;
	pthread_mutex_t mutex;
} shards[4];
static pthread_mutex_t *heap_mutex;

/* Not a constant: gcc then looks into the hash of short keys, and warns of what is not so. */
static const char *volatile tenant_key = "tenant";

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_us(unsigned us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000l };
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/*
 * Time since the boot in which this thread was not in the queue of a CPU: waits for a CPU are no
 * waits for a lock.
 */
static uint64_t unqueued(void)
{
	static __thread int fd = -1;
	unsigned long long ran, queued;
	char text[100];
	if (fd < 0)
		fd = open("/proc/thread-self/schedstat", O_RDONLY);
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	if (sscanf(text, "%llu %llu", &ran, &queued) != 2)
		exit(2);
	return now() - queued;
}

/* A round of one thread: its tenant. */
struct round {
	struct ascribe_scope scope;
	uint32_t random;
	int tenant;
};

static unsigned draw(struct round *r, unsigned max)
{
	r->random = r->random * 1664525u + 1013904223u;
	return (r->random >> 16) % max;
}

/* A label counts for a millisecond after it was read: be another one for longer than that. */
static void begin(struct round *r)
{
	static const char *const tenants[TENANTS] = { "a", "b", "c" };
	r->tenant = (int)draw(r, TENANTS);
	ascribe_attach_string(&r->scope, tenant_key, tenants[r->tenant]);
	pause_us(1500 + draw(r, 1500));
}

static void end(struct round *r)
{
	ascribe_detach(&r->scope);
	pause_us(200 + draw(r, 1000));
}

static void note(int lock, int victim, int owner, uint64_t since)
{
	struct wait *w = &common->waits[lock][victim][owner];
	w->n++;
	w->ns += unqueued() - since;
}

/* ---- mutexes ---- */

struct of_mutex {
	int lock;
	pthread_mutex_t *mutex;
	uint32_t seed;
};

static void *use_mutex(void *arg)
{
	const struct of_mutex *m = arg;
	struct round r = { .random = m->seed };
	while (!common->over) {
		begin(&r);
		if (pthread_mutex_trylock(m->mutex)) {
			uint64_t at = unqueued();
			pthread_mutex_lock(m->mutex);
			note(m->lock, r.tenant, common->last[m->lock], at);
		}
		pause_us(2000 + draw(&r, 4000));
		common->last[m->lock] = r.tenant;
		pthread_mutex_unlock(m->mutex);
		end(&r);
	}
	return NULL;
}

/* ---- the read-write lock ---- */

static int last_writer, last_reader;

struct of_rwlock {
	int lock, *mine, *other; /* whose turn was the last one, on either side */
	int (*try_it)(pthread_rwlock_t *);
	int (*take)(pthread_rwlock_t *);
	uint32_t seed;
};

static const struct of_rwlock writers = { WRITE,
					  &last_writer,
					  &last_reader,
					  pthread_rwlock_trywrlock,
					  pthread_rwlock_wrlock,
					  77 },
			      readers = { READ,
					  &last_reader,
					  &last_writer,
					  pthread_rwlock_tryrdlock,
					  pthread_rwlock_rdlock,
					  78 };

static void *use_rwlock(void *arg)
{
	const struct of_rwlock *l = arg;
	struct round r = { .random = l->seed };
	while (!common->over) {
		begin(&r);
		if (l->try_it(&global_rwlock)) {
			uint64_t at = unqueued();
			l->take(&global_rwlock);
			note(l->lock, r.tenant, *l->other, at);
		}
		pause_us(2000 + draw(&r, 4000));
		*l->mine = r.tenant;
		pthread_rwlock_unlock(&global_rwlock);
		end(&r);
	}
	return NULL;
}

/* ---- the condition variable and the semaphore ---- */

static pthread_mutex_t items_mutex = PTHREAD_MUTEX_INITIALIZER;
static int items, item_owner, post_owner;
static atomic_int posted; /* nobody gives again before who was woken has read by whom */

static void *take_items(void *arg)
{
	struct round r = { .random = 79 };
	while (!common->over) {
		begin(&r);
		pthread_mutex_lock(&items_mutex);
		uint64_t at = unqueued();
		int waited = !items;
		while (!items)
			pthread_cond_wait(&ready_condition, &items_mutex);
		items = 0;
		if (waited)
			note(CONDVAR, r.tenant, item_owner, at);
		pthread_mutex_unlock(&items_mutex);
		at = unqueued();
		if (sem_trywait(&posted_semaphore)) {
			while (sem_wait(&posted_semaphore))
				;
			note(SEMAPHORE, r.tenant, post_owner, at);
		}
		posted = 0;
		end(&r);
	}
	return arg;
}

static void *give_items(void *arg)
{
	struct round r = { .random = 80 };
	while (!common->over) {
		begin(&r);
		pause_us(6000);
		pthread_mutex_lock(&items_mutex);
		int give = !items;
		item_owner = give ? r.tenant : item_owner;
		items = 1;
		pthread_mutex_unlock(&items_mutex);
		if (give)
			pthread_cond_signal(&ready_condition); /* the mutex is free by now */
		pause_us(6000);
		if (!posted) {
			post_owner = r.tenant;
			posted = 1;
			sem_post(&posted_semaphore);
		}
		end(&r);
		pause_us(3000);
	}
	return arg;
}

/* ---- locks that are held for long ---- */

static void *hold(void *mutex)
{
	struct ascribe_scope scope;
	ascribe_attach_string(&scope, tenant_key, "hog");
	pthread_mutex_lock(mutex);
	while (!common->over)
		pause_us(10000);
	pthread_mutex_unlock(mutex);
	ascribe_detach(&scope);
	return NULL;
}

static void *time_out(void *arg)
{
	struct round r = { .random = 81 };
	pause_us(50000); /* the holder has it */
	while (!common->over) {
		struct timespec t;
		begin(&r);
		uint64_t at = unqueued();
		clock_gettime(CLOCK_REALTIME, &t);
		t.tv_nsec += 5000000;
		t.tv_sec += t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
		if (pthread_mutex_timedlock(&timeout_mutex, &t) == ETIMEDOUT)
			note(TIMEOUT, r.tenant, 0, at);
		else
			pthread_mutex_unlock(&timeout_mutex);
		end(&r);
	}
	return arg;
}

static pthread_t signalled;
static atomic_int waits_for_it;

static void on_signal(int number)
{
	(void)number;
}

static void *be_signalled(void *arg)
{
	struct ascribe_scope scope;
	pause_us(50000);
	ascribe_attach_string(&scope, tenant_key, "a");
	waits_for_it = 1;
	pthread_mutex_lock(&signal_mutex);
	pthread_mutex_unlock(&signal_mutex);
	ascribe_detach(&scope);
	return arg;
}

static void *send_signals(void *arg)
{
	struct ascribe_scope scope;
	ascribe_attach_string(&scope, tenant_key, "k");
	while (!waits_for_it)
		pause_us(10000);
	pause_us(20000);
	while (!common->over) {
		uint64_t at = unqueued();
		pause_us(7000);
		pthread_kill(signalled, SIGUSR1);
		note(SIGNAL, 0, 0, at);
	}
	ascribe_detach(&scope);
	return arg;
}

/* ---- many ---- */

#define MANY 600

static pthread_mutex_t many[MANY];
static sem_t next_one, taken_one;

static void *follow(void *arg)
{
	for (unsigned i = 0;; i = (i + 1) % MANY) {
		sem_wait(&next_one);
		pthread_mutex_lock(&many[i]);
		pthread_mutex_unlock(&many[i]);
		sem_post(&taken_one);
	}
	return arg;
}

static pthread_t start(void *(*run)(void *), void *arg);

static void pass_many(double seconds)
{
	sem_init(&next_one, 0, 0);
	sem_init(&taken_one, 0, 0);
	for (unsigned i = 0; i < MANY; i++)
		pthread_mutex_init(&many[i], NULL);
	pause_us(500000);
	start(follow, NULL);
	uint64_t until = now() + (uint64_t)(seconds * 1e9);
	for (unsigned i = 0; now() < until || i < MANY; i++) {
		pthread_mutex_lock(&many[i % MANY]);
		sem_post(&next_one);
		pause_us(300);
		pthread_mutex_unlock(&many[i % MANY]);
		sem_wait(&taken_one);
	}
	_exit(0);
}

/* ---- all ---- */

static pthread_t start(void *(*run)(void *), void *arg)
{
	pthread_t t;
	if (pthread_create(&t, NULL, run, arg))
		exit(2);
	return t;
}

static void print(void)
{
	const char *comma = "";
	printf("{\"waits\": [");
	for (int l = 0; l < LOCKS; l++)
		for (int v = 0; v < TENANTS; v++)
			for (int o = 0; o < TENANTS; o++) {
				struct wait *w = &common->waits[l][v][o];
				if (!w->n)
					continue;
				printf("%s{\"lock\": \"%s\", \"victim\": \"%c\", \"owner\": \"%c\", "
				       "\"n\": %llu, \"seconds\": %.9f}",
				       comma, lock_names[l], 'a' + v, 'a' + o,
				       (unsigned long long)w->n, (double)w->ns / 1e9);
				comma = ",\n";
			}
	printf("],\n\"heap\": %llu, \"shared\": %llu, \"tgid\": %d}\n",
	       (unsigned long long)(uintptr_t)heap_mutex,
	       (unsigned long long)((char *)&common->mutex - (char *)common), (int)getpid());
	fflush(stdout);
}

static void init_shared(const char *file)
{
	int fd = open(file, O_RDWR | O_CREAT, 0600);
	pthread_mutexattr_t a;
	if (fd < 0 || ftruncate(fd, sizeof(*common)))
		exit(2);
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (common == MAP_FAILED)
		exit(2);
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&common->mutex, &a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_PRIVATE);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&inheriting_mutex, &a);
}

/* The other process, which maps the file elsewhere. */
static void be_child(const char *file)
{
	int fd = open(file, O_RDWR);
	void *elsewhere = (char *)common + (16 << 20);
	struct common *again =
		mmap(elsewhere, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (again == MAP_FAILED || again == common)
		exit(2);
	munmap(common, sizeof(*common));
	common = again;
	use_mutex(&(struct of_mutex){ SHARED, &common->mutex, 20 });
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	char go[512];
	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "many"))
		pass_many(atof(argv[2]));
	init_shared(argv[2]);
	heap_mutex = malloc(sizeof(*heap_mutex));
	pthread_mutex_init(heap_mutex, NULL);
	pthread_mutex_init(&shards[2].mutex, NULL);
	sem_init(&posted_semaphore, 0, 0);
	signal(SIGUSR1, on_signal);
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_child(argv[2]);
	}
	snprintf(go, sizeof(go), "%s.go", argv[2]);
	while (access(go, F_OK))
		pause_us(10000);
	pause_us(300000); /* the recorder gets to know us */
	struct of_mutex m[] = {
		{ GLOBAL, &global_mutex, 1 },	   { GLOBAL, &global_mutex, 2 },
		{ MEMBER, &shards[2].mutex, 3 },   { MEMBER, &shards[2].mutex, 4 },
		{ HEAP, heap_mutex, 5 },	   { HEAP, heap_mutex, 6 },
		{ INHERIT, &inheriting_mutex, 7 }, { INHERIT, &inheriting_mutex, 8 },
		{ SHARED, &common->mutex, 9 }
	};
	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++)
		start(use_mutex, &m[i]);
	start(use_rwlock, (void *)&writers);
	start(use_rwlock, (void *)&readers);
	start(take_items, NULL);
	start(give_items, NULL);
	start(hold, &timeout_mutex);
	start(time_out, NULL);
	start(hold, &signal_mutex);
	signalled = start(be_signalled, NULL);
	start(send_signals, NULL);
	pause_us((unsigned)(atof(argv[1]) * 1e6));
	common->over = 1;
	pause_us(100000); /* what was woken last is switched out, and so accounted */
	print();
	for (;;)
		pause();
}
