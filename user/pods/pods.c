/* SPDX-License-Identifier: Apache-2.0 */
#include "pods/pods.h"

#include "hist/metrics.h"
#include "pods/watcher.h"
#include "util/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#define MISSED 1024	   /* containers without a name that are remembered */
#define RECEIVE_MAX 256	   /* records taken at a time, and then none */
#define REST_NS 5000000ull /* for so long, */
#define REST_SHARE 4	   /* and for so often the CPU time that they took */
#define SOCKET_BYTES (1 << 20)

/* A container or pod that the table lacks, or lacked when it was looked for first. */
struct missed {
	uint64_t hash;
	uint64_t since_ns; /* 0: a free place */
	bool pod;	   /* its pod is missing, too */
	bool late;
};

struct pods {
	struct pods_config cfg; /* of it only node and wanted are used later */
	char *node;
	int fd;
	pid_t pid;
	struct pods_table *table;
	struct missed missed[MISSED];
	uint64_t late, changes;
	uint64_t rests_until_ns; /* CLOCK_MONOTONIC */
	bool said, ok;
	char text[256];
	struct pod_record record;
};

/* Without any source there is no process. */
static bool is_needed(const struct pods_config *cfg)
{
	if (cfg->source == PODS_OFF)
		return false;
	return cfg->source != PODS_AUTO || cfg->api || cfg->socket ||
	       getenv("KUBERNETES_SERVICE_HOST") || source_any_socket();
}

static int start(struct pods *p, struct err *err)
{
	int fd[2], room = SOCKET_BYTES;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd))
		return err_sys(err, -errno, "names of pods: socketpair");
	(void)setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	p->fd = fd[0];
	p->pid = watcher_start(&p->cfg, fd[1]);
	close(fd[1]);
	return p->pid < 0 ? err_sys(err, p->pid, "names of pods: fork") : 0;
}

/* Have its watcher at the other end of fd; -1: start one. */
static int open_with(struct pods **ret, const struct pods_config *cfg, int fd, struct err *err)
{
	struct pods *p = calloc(1, sizeof(*p));
	int rc = p ? pods_table_new(&p->table, PODS_TABLE_BYTES) : -ENOMEM;
	if (rc) {
		free(p);
		return err_sys(err, rc, "names of pods");
	}
	const char *node = cfg->node ? cfg->node : getenv("NODE_NAME");
	p->cfg = *cfg;
	p->cfg.node = p->node = node ? strdup(node) : NULL;
	p->fd = fd;
	rc = node && !p->node ? err_sys(err, -ENOMEM, "names of pods") : 0;
	rc = rc || fd >= 0 ? rc : start(p, err);
	if (rc)
		pods_close(p);
	else
		*ret = p;
	return rc;
}

int pods_open(struct pods **ret, const struct pods_config *cfg, struct err *err)
{
	*ret = NULL;
	return is_needed(cfg) ? open_with(ret, cfg, -1, err) : 0;
}

int pods_adopt(struct pods **ret, const struct pods_config *cfg, int fd, struct err *err)
{
	return open_with(ret, cfg, fd, err);
}

void pods_close(struct pods *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	if (p->pid > 0) {
		kill(p->pid, SIGKILL);
		while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	pods_table_free(p->table);
	free(p->node);
	free(p);
}

int pods_fd(const struct pods *p)
{
	return clock_ns(CLOCK_MONOTONIC) < p->rests_until_ns ? -1 : p->fd;
}

int pods_rest_ms(const struct pods *p)
{
	const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	return now_ns < p->rests_until_ns ? (int)((p->rests_until_ns - now_ns) / 1000000 + 1) : -1;
}

static void take(struct pods *p, uint64_t now_ns)
{
	const struct pod_record *r = &p->record;
	if (r->what != POD_STATE) {
		pods_table_apply(p->table, r, now_ns);
		p->changes++;
		return;
	}
	p->said = true;
	p->ok = r->ok;
	memcpy(p->text, r->text, sizeof(p->text));
}

/* False: there was none. */
static bool receive_one(struct pods *p, uint64_t now_ns)
{
	const ssize_t n = recv(p->fd, &p->record, sizeof(p->record), MSG_DONTWAIT);
	if (n < 0 && errno != ECONNRESET)
		return false;
	if (n <= 0) {
		close(p->fd);
		p->fd = -1;
		p->ok = false;
		snprintf(p->text, sizeof(p->text), "the process that asks for pods has ended");
		return false;
	}
	if (pod_record_check(&p->record, (uint64_t)n))
		take(p, now_ns);
	return true;
}

void pods_receive(struct pods *p)
{
	const uint64_t now_ns = clock_ns(CLOCK_MONOTONIC),
		       ran_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	unsigned n = 0;
	if (now_ns < p->rests_until_ns)
		return;
	while (n < RECEIVE_MAX && p->fd >= 0 && receive_one(p, now_ns))
		n++;
	const uint64_t rest = REST_SHARE * (clock_ns(CLOCK_THREAD_CPUTIME_ID) - ran_ns);
	if (n)
		p->rests_until_ns = clock_ns(CLOCK_MONOTONIC) + (rest > REST_NS ? rest : REST_NS);
}

/* ---- what is not known ---- */

/* Measure how long the names of this container were waited for. */
static void note_found(struct missed *m, uint64_t now_ns, bool container)
{
	if (m->pod)
		metric_record(METRIC_pod_wait, now_ns - m->since_ns);
	m->pod = false;
	if (!container)
		return;
	metric_record(METRIC_container_wait, now_ns - m->since_ns);
	m->since_ns = 0;
}

/*
 * Is this container's name still on its way? The watcher is told once, and again when another one
 * has taken its place here.
 */
static bool is_coming(struct pods *p, struct missed *m, uint64_t hash, uint64_t now_ns)
{
	if (p->fd < 0 || (p->said && !p->ok))
		return false;
	if (!m->since_ns || m->hash != hash) {
		*m = (struct missed){ .hash = hash, .since_ns = now_ns, .pod = true };
		(void)!send(p->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	if (now_ns - m->since_ns < PODS_LATE_NS)
		return true;
	p->late += !m->late;
	m->late = true;
	return false;
}

int pods_find(struct pods *p, const char *id, size_t id_len, const char *uid, size_t uid_len,
	      struct pods_names *ret)
{
	const uint64_t hash = XXH3_64bits(id_len ? id : uid, id_len ? id_len : uid_len);
	struct missed *m = &p->missed[hash % MISSED];
	bool found = pods_table_find(p->table, id, id_len, uid, uid_len, ret);
	bool whole = found && (ret->container || !id_len);
	uint64_t now_ns = 0;
	bool coming = false;
	if (!whole)
		coming = is_coming(p, m, hash, now_ns = clock_ns(CLOCK_MONOTONIC));
	if (found && m->since_ns && m->hash == hash && (m->pod || whole))
		note_found(m, now_ns ? now_ns : clock_ns(CLOCK_MONOTONIC), whole);
	return whole ? 0 : coming ? -EINPROGRESS : found ? 0 : -ENOENT;
}

uint64_t pods_changes(const struct pods *p)
{
	return p->changes;
}

const char *pods_node(const struct pods *p)
{
	return p ? p->cfg.node : NULL;
}

const struct pods_wanted *pods_wanted(const struct pods *p)
{
	return &p->cfg.wanted;
}

void pods_stats(const struct pods *p, struct pods_stats *ret)
{
	*ret = (struct pods_stats){ .late = p->late, .ok = p->ok, .text = p->text };
	pods_table_stats(p->table, &ret->table);
}
