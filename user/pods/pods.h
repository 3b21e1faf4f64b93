/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of pods and containers, by their ids.
 *
 *   API server | kubelet | CRI | docker --HTTP--> watcher --records--> recorder: table
 *                                                  |   ^
 *                                                  v   |
 *                                                  parser (confined)
 *
 * The watcher is forked before anything sensitive is open and has no capability. It chooses a
 * source that answers, and another one when that one no longer does. A parent of its own starts it
 * again when it ends. The recorder never waits for it: names that are on their way are
 * -EINPROGRESS, and the sample is put aside as that of a new process is.
 *
 * Not thread-safe.
 */
#ifndef ASCRIBE_PODS_PODS_H
#define ASCRIBE_PODS_PODS_H

#include "pods/table.h"
#include "util/err.h"

#define PODS_LATE_NS 5000000000ull /* so long a new container's name is waited for */

#define PODS_CREDENTIALS "/var/run/secrets/kubernetes.io/serviceaccount"

enum pods_source {
	PODS_AUTO,	 /* the first of those below that answers */
	PODS_KUBERNETES, /* watch pods of the node by the API server */
	PODS_KUBELET,	 /* ask the kubelet of this host */
	PODS_CRI,	 /* the container runtime's socket */
	PODS_ENGINE,	 /* docker's or podman's socket */
	PODS_OFF,
};

/* Texts are borrowed until pods_open returns. NULL: the default in brackets. */
struct pods_config {
	enum pods_source source;
	const char *node; /* [$NODE_NAME] */
	const char *api;  /* [https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT] */
	/* Directory with token and ca.crt [PODS_CREDENTIALS] */
	const char *credentials;
	const char *kubelet; /* [https://127.0.0.1:10250] */
	const char *socket;  /* of the runtime or engine [the first usual one that is there] */
	struct pods_wanted wanted;
};

struct pods;

struct pods_stats {
	struct pods_table_stats table;
	uint64_t late;	  /* containers whose name did not come within PODS_LATE_NS */
	bool ok;	  /* the source knows all pods of the node */
	const char *text; /* what the watcher said last; "" at first; borrowed */
};

/* *ret is NULL when no source is to be asked, or none is there (PODS_AUTO). 0 or -errno. */
int pods_open(struct pods **ret, const struct pods_config *cfg, struct err *err);
/* Ask a watcher that another process started, by its socket, which is taken over. 0 or -errno. */
int pods_adopt(struct pods **ret, const struct pods_config *cfg, int fd, struct err *err);
void pods_close(struct pods *p);

/* Readable when records came. -1: none are taken now, or nobody sends any. */
int pods_fd(const struct pods *p);
/* Take records that came: a bounded number, for a fifth of a CPU at most. */
void pods_receive(struct pods *p);
/* Until pods_fd is to be looked at again; -1: it may be now. */
int pods_rest_ms(const struct pods *p);

/*
 * Name a container and its pod by their ids, as proc_container_id and proc_pod_uid find them in the
 * path of a cgroup; one of the lengths may be 0. 0: ret holds what is known, valid until the next
 * pods_receive. -ENOENT: nobody knows it. -EINPROGRESS: not known yet; ask again.
 */
int pods_find(struct pods *p, const char *id, size_t id_len, const char *uid, size_t uid_len,
	      struct pods_names *ret);

/* Grows whenever pods or containers came, went or changed. */
uint64_t pods_changes(const struct pods *p);
/* NULL: none was asked for. */
const char *pods_node(const struct pods *p);
const struct pods_wanted *pods_wanted(const struct pods *p);
void pods_stats(const struct pods *p, struct pods_stats *ret);

#endif
