/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of this host that are asked, and do not tell by themselves: the kubelet, the container
 * runtime (CRI), docker and podman. They are asked when the recorder misses a container, and now
 * and then.
 */
#include "pods/watcher.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ANSWER_MAX (32u << 20)
#define ANSWER_MS 5000u
#define TRIES 3

struct place {
	struct watcher *w;
	struct web_place at;
	const char *what;
	unsigned gap_ms, period_ms; /* between questions, at least and at most */
	int (*list)(struct place *p, struct err *err);
	bool old_cri; /* v1alpha2 */
};

static int ask(struct place *p, const char *path, bool grpc, enum pods_format f,
	       unsigned *ret_status, struct err *err)
{
	struct pods_page page;
	struct watcher *w = p->w;
	const struct web_request q = { .path = path,
				       .body = grpc ? "" : NULL,
				       .grpc = grpc,
				       .max_bytes = ANSWER_MAX,
				       .deadline_ms = ANSWER_MS,
				       .stop_fd = -1 };
	w->body.len = 0;
	int rc = web_ask(w->web, &p->at, &q, ret_status, &w->body, err);
	if (rc)
		return rc;
	if (*ret_status != 200)
		return err_set(err, -EAGAIN, "%s answers %u%s", p->what, *ret_status,
			       *ret_status == 401 || *ret_status == 403
				       ? "; allow the service account to get nodes/proxy (or "
					 "nodes/pods)"
				       : "");
	const uint8_t *bytes = w->body.data ? w->body.data : (const uint8_t *)"";
	rc = watcher_parse(w, f, bytes, w->body.len, &page);
	return rc ? err_set(err, rc, "%s answers what cannot be read", p->what) : 0;
}

/* Ask now and then, and when something is missed, until it fails some times in a row. */
static int poll_place(struct place *p, struct err *err)
{
	struct watcher *w = p->w;
	bool listed = false;
	int rc = 0;
	for (unsigned failed = 0; failed < TRIES || listed;) {
		watcher_mark(w, POD_LIST_BEGIN);
		rc = p->list(p, err);
		if (rc) {
			watcher_say(w, false, "%s", err->text);
			watcher_sleep(w, web_backoff_ms(failed++), false);
			continue;
		}
		watcher_mark(w, POD_LIST_END);
		if (!listed || failed)
			watcher_say(w, true, "containers from %s", p->what);
		listed = true;
		failed = 0;
		if (!watcher_sleep(w, p->gap_ms, false))
			watcher_sleep(w, p->period_ms - p->gap_ms, true);
	}
	return rc;
}

/* ---- kubelet ---- */

static int list_kubelet(struct place *p, struct err *err)
{
	unsigned status;
	return ask(p, "/pods", false, PODS_JSON_LIST, &status, err);
}

void source_kubelet_url(const struct pods_config *cfg, char ret[SOURCE_URL_BYTES])
{
	snprintf(ret, SOURCE_URL_BYTES, "%s",
		 cfg->kubelet ? cfg->kubelet : "https://127.0.0.1:10250");
}

int source_kubelet(struct watcher *w, struct err *err)
{
	char token[512], base[SOURCE_URL_BYTES];
	source_kubelet_url(w->cfg, base);
	snprintf(token, sizeof(token), "%s/token",
		 w->cfg->credentials ? w->cfg->credentials : PODS_CREDENTIALS);
	struct place p = { .w = w,
			   .gap_ms = 1000,
			   .period_ms = 30000,
			   .list = list_kubelet,
			   .at = { .base = base, .token = token, .any_certificate = true } };
	p.what = p.at.base;
	return poll_place(&p, err);
}

/* ---- sockets ---- */

static const char *const cri_sockets[] = { "/run/containerd/containerd.sock", "/run/crio/crio.sock",
					   "/run/cri-dockerd.sock",
					   "/run/k3s/containerd/containerd.sock" };
static const char *const engine_sockets[] = { "/run/docker.sock", "/run/podman/podman.sock" };

#define COUNT(v) (sizeof(v) / sizeof((v)[0]))

/* The first one that is there; NULL: none. */
static const char *find_socket(const char *const *usual, size_t n)
{
	struct stat st;
	for (size_t i = 0; i < n; i++)
		if (!stat(usual[i], &st) && S_ISSOCK(st.st_mode))
			return usual[i];
	return NULL;
}

bool source_any_socket(void)
{
	return find_socket(cri_sockets, COUNT(cri_sockets)) ||
	       find_socket(engine_sockets, COUNT(engine_sockets));
}

static int ask_cri(struct place *p, const char *call, enum pods_format f, unsigned *ret_status,
		   struct err *err)
{
	char path[128];
	snprintf(path, sizeof(path), "/runtime.%s.RuntimeService/%s",
		 p->old_cri ? "v1alpha2" : "v1", call);
	return ask(p, path, true, f, ret_status, err);
}

static int list_cri(struct place *p, struct err *err)
{
	enum { UNIMPLEMENTED = 500 + 12 };
	unsigned status = 0;
	int rc = ask_cri(p, "ListPodSandbox", PODS_CRI_SANDBOXES, &status, err);
	if (rc && status == UNIMPLEMENTED) {
		p->old_cri = !p->old_cri;
		rc = ask_cri(p, "ListPodSandbox", PODS_CRI_SANDBOXES, &status, err);
	}
	return rc ? rc : ask_cri(p, "ListContainers", PODS_CRI_CONTAINERS, &status, err);
}

int source_cri(struct watcher *w, struct err *err)
{
	struct place p = { .w = w,
			   .gap_ms = 100,
			   .period_ms = 60000,
			   .list = list_cri,
			   .at.base = "http://localhost" };
	p.at.socket =
		w->cfg->socket ? w->cfg->socket : find_socket(cri_sockets, COUNT(cri_sockets));
	if (!p.at.socket)
		return err_set(err, -ENOENT, "no socket of a container runtime here");
	p.what = p.at.socket;
	return poll_place(&p, err);
}

static int list_engine(struct place *p, struct err *err)
{
	unsigned status;
	return ask(p, "/containers/json", false, PODS_DOCKER, &status, err);
}

int source_engine(struct watcher *w, struct err *err)
{
	struct place p = { .w = w,
			   .gap_ms = 100,
			   .period_ms = 60000,
			   .list = list_engine,
			   .at.base = "http://localhost" };
	p.at.socket = w->cfg->socket ? w->cfg->socket
				     : find_socket(engine_sockets, COUNT(engine_sockets));
	if (!p.at.socket)
		return err_set(err, -ENOENT, "no socket of docker or podman here");
	p.what = p.at.socket;
	return poll_place(&p, err);
}
