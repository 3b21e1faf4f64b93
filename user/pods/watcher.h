/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that asks for pods, and the sources it can ask. Everything here blocks: nobody waits
 * for this process.
 */
#ifndef ASCRIBE_PODS_WATCHER_H
#define ASCRIBE_PODS_WATCHER_H

#include "pods/parse.h"
#include "pods/pods.h"
#include "client/web.h"

struct watcher {
	const struct pods_config *cfg;
	int out;    /* records to the recorder, who sends a byte when it misses a container */
	int parser; /* parser.h */
	struct web *web;
	struct buf body;
};

/*
 * Fork the process that keeps a watcher and its parser going, for the life of the socket fd. Its
 * pid or -errno. cfg is borrowed for as long.
 */
int watcher_start(const struct pods_config *cfg, int fd);

/* Where these two are asked; "": nowhere. */
#define SOURCE_URL_BYTES 512
void source_kubernetes_url(const struct pods_config *cfg, char ret[SOURCE_URL_BYTES]);
void source_kubelet_url(const struct pods_config *cfg, char ret[SOURCE_URL_BYTES]);

/* Tell the recorder how it goes. ok: it knows all pods. */
void watcher_say(struct watcher *w, bool ok, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A record without a pod: the begin or end of a list. */
void watcher_mark(struct watcher *w, enum pod_what what);
/* Parse a document and send its records on. -errno of parser_parse; ends with the parser. */
int watcher_parse(struct watcher *w, enum pods_format f, const uint8_t *bytes, size_t len,
		  struct pods_page *ret);
/* Sleep; true when the recorder missed a container meanwhile (early: then at once). */
bool watcher_sleep(struct watcher *w, unsigned ms, bool early);

/*
 * Serve from one source for as long as it answers. Return when it never did: -ENOENT when it is not
 * there, else -errno and why.
 */
int source_kubernetes(struct watcher *w, struct err *err);
int source_kubelet(struct watcher *w, struct err *err);
int source_cri(struct watcher *w, struct err *err);
int source_engine(struct watcher *w, struct err *err);

/* Is there a socket where runtimes and engines have theirs? */
bool source_any_socket(void);

#endif
