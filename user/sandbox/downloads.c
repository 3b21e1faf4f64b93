/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/downloads.h"

#include "sandbox/channel.h"
#include "sandbox/download_cache.h"
#include "sandbox/downloader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHANNEL_NS 1000000000ull /* for a message of some bytes, which is there or fits at once */
#define PAUSE_NS 30000000000ull	 /* after a server that did not answer; doubled each time */
#define PAUSE_MAX_NS (20 * PAUSE_NS)
#define END_MS 200u
#define TRIES 3 /* of one id, when servers do not answer */

enum state {
	WAITING, /* in the queue */
	UNDER_WAY,
	HERE, /* in the cache, unless it was trimmed */
	NEVER,
};

struct wanted {
	uint8_t id[DOWNLOADS_ID_MAX];
	uint8_t len, tries;
	bool looked; /* in the cache, in vain: servers must be asked */
	bool came;   /* is counted */
	enum state state;
};

struct downloads {
	int fd;		  /* -1: the downloader is gone */
	pid_t pid;	  /* 0: another process's child */
	struct wanted *v; /* all that was ever asked for */
	size_t n, cap;
	size_t under_way; /* index, while something is: active */
	bool active;
	uint64_t pause_ns, pause_until_ns;
	struct downloads_stats stats;
};

static void set_defaults(struct downloads_config *cfg)
{
	cfg->file_bytes = cfg->file_bytes ? cfg->file_bytes : DOWNLOADS_FILE_BYTES;
	cfg->file_s = cfg->file_s ? cfg->file_s : DOWNLOADS_FILE_S;
	cfg->cache_bytes = cfg->cache_bytes ? cfg->cache_bytes : DOWNLOADS_CACHE_BYTES;
	cfg->cache_age_s = cfg->cache_age_s ? cfg->cache_age_s : DOWNLOADS_CACHE_AGE_S;
}

static int start_downloader(struct downloads *d, int cache, const struct downloads_config *cfg,
			    struct err *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return err_sys(err, -errno, "socketpair");
	int rc = downloader_start(cfg, pair[1], cache, &d->pid);
	close(pair[1]);
	if (rc) {
		close(pair[0]);
		return err_sys(err, rc, "starting the process that downloads (/proc/self/exe)");
	}
	d->fd = pair[0];
	return 0;
}

int downloads_new(struct downloads **ret, const struct downloads_config *cfg, struct err *err)
{
	struct downloads_config full = *cfg;
	int cache;
	set_defaults(&full);
	int rc = download_cache_open(cfg->cache, &cache, err);
	if (rc)
		return rc;
	struct downloads *d = calloc(1, sizeof(*d));
	rc = d ? start_downloader(d, cache, &full, err) : err_sys(err, -ENOMEM, "downloads");
	close(cache);
	if (rc) {
		free(d);
		return rc;
	}
	*ret = d;
	return 0;
}

int downloads_adopt(struct downloads **ret, int fd, struct err *err)
{
	struct downloads *d = calloc(1, sizeof(*d));
	if (!d)
		return err_sys(err, -ENOMEM, "downloads");
	d->fd = fd;
	*ret = d;
	return 0;
}

void downloads_free(struct downloads *d)
{
	if (!d)
		return;
	if (d->fd >= 0)
		close(d->fd);
	/* It ends by itself then, unless it is stopped: that one ends with us. */
	for (unsigned ms = 0; d->pid && ms < END_MS && !waitpid(d->pid, NULL, WNOHANG); ms++)
		poll(NULL, 0, 1);
	free(d->v);
	free(d);
}

int downloads_fd(const struct downloads *d)
{
	return d->fd;
}

void downloads_stats(const struct downloads *d, struct downloads_stats *ret)
{
	*ret = d->stats;
}

/* It is gone, and will not come back. */
static void give_up(struct downloads *d)
{
	close(d->fd);
	d->fd = -1;
	d->active = false;
	d->stats.failed += d->stats.waiting;
	d->stats.waiting = 0;
}

static struct wanted *find(struct downloads *d, const uint8_t *id, size_t len)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].len == len && !memcmp(d->v[i].id, id, len))
			return &d->v[i];
	return NULL;
}

static struct wanted *add(struct downloads *d, const uint8_t *id, size_t len)
{
	if (d->n == DOWNLOADS_IDS_MAX)
		return NULL;
	if (d->n == d->cap) {
		size_t cap = d->cap ? 2 * d->cap : 64;
		struct wanted *v = realloc(d->v, cap * sizeof(*v));
		if (!v)
			return NULL;
		d->v = v;
		d->cap = cap;
	}
	struct wanted *w = &d->v[d->n++];
	*w = (struct wanted){ .len = (uint8_t)len };
	memcpy(w->id, id, len);
	d->stats.asked++;
	return w;
}

int downloads_ask(struct downloads *d, const uint8_t *id, size_t len)
{
	if (d->fd < 0 || !len || len > DOWNLOADS_ID_MAX)
		return -ENOENT;
	struct wanted *w = find(d, id, len);
	if (w && w->state != HERE)
		return w->state == NEVER ? -ENOENT : 0;
	w = w ? w : add(d, id, len);
	if (!w)
		return -ENOENT;
	w->state = WAITING;
	d->stats.waiting++;
	downloads_tick(d);
	return 0;
}

/*
 * The one that waits and was tried least, the first of those; before all others those that may be
 * in the cache.
 */
static struct wanted *next(const struct downloads *d)
{
	struct wanted *best = NULL;
	for (size_t i = 0; d->stats.waiting && i < d->n; i++) {
		struct wanted *w = &d->v[i];
		if (w->state != WAITING)
			continue;
		if (!w->looked)
			return w;
		if (!best || w->tries < best->tries)
			best = w;
	}
	return best;
}

int downloads_tick(struct downloads *d)
{
	uint64_t now = channel_now_ns();
	struct wanted *w = d->fd < 0 || d->active ? NULL : next(d);
	if (!w)
		return -1;
	if (w->looked && now < d->pause_until_ns)
		return (int)((d->pause_until_ns - now + 999999) / 1000000);
	struct channel_head h = { .what = w->looked ? DOWNLOADER_GET : DOWNLOADER_LOOK,
				  .len = w->len };
	if (channel_send(d->fd, &h, w->id, NULL, 0, now + CHANNEL_NS)) {
		give_up(d);
		return -1;
	}
	w->state = UNDER_WAY;
	w->tries += w->looked;
	d->active = true;
	d->under_way = (size_t)(w - d->v);
	return -1;
}

bool downloads_busy(const struct downloads *d)
{
	if (d->fd < 0 || d->active)
		return d->fd >= 0;
	const struct wanted *w = next(d);
	return w && (!w->looked || channel_now_ns() >= d->pause_until_ns);
}

/* Nobody answered: this is about the servers, not about the file. */
static bool is_silence(int rc)
{
	static const int codes[] = { ETIME,	   ETIMEDOUT,	ECONNREFUSED,
				     EHOSTUNREACH, ENETUNREACH, ECONNRESET,
				     ECONNABORTED, ENETDOWN,	EAGAIN };
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (rc == -codes[i])
			return true;
	return false;
}

static void pause_for_servers(struct downloads *d, struct wanted *w)
{
	d->stats.failed++;
	d->pause_ns = d->pause_ns ? 2 * d->pause_ns : PAUSE_NS;
	if (d->pause_ns > PAUSE_MAX_NS)
		d->pause_ns = PAUSE_MAX_NS;
	d->pause_until_ns = channel_now_ns() + d->pause_ns;
	w->state = w->tries < TRIES ? WAITING : NEVER;
}

static void settle(struct downloads *d, struct wanted *w, int rc)
{
	d->active = false;
	if (!w->looked && rc == -ENODATA) {
		w->looked = true;
		w->state = WAITING;
		return;
	}
	if (is_silence(rc)) {
		pause_for_servers(d, w);
		d->stats.waiting -= w->state == NEVER;
		return;
	}
	if (w->looked)
		d->pause_ns = d->pause_until_ns = 0;
	w->looked = false; /* it may be asked for again, when it has come */
	d->stats.waiting--;
	w->state = rc ? NEVER : HERE;
	d->stats.came += !rc && !w->came;
	w->came |= !rc;
	d->stats.absent += rc == -ENOENT;
	d->stats.refused += rc && rc != -ENOENT;
}

static int receive(struct downloads *d, int *ret_fd)
{
	struct channel_head h;
	struct stat st;
	size_t n = 0;
	int file = -1;
	int rc = channel_recv_head(d->fd, &h, &file, 1, &n, channel_now_ns() + CHANNEL_NS);
	if (rc || h.len || h.what > 0 || (h.what == 0) != (n == 1) || !d->active) {
		if (!rc && n)
			close(file);
		return -EPIPE;
	}
	if (n && (fstat(file, &st) || !S_ISREG(st.st_mode))) {
		close(file);
		return -EPIPE;
	}
	*ret_fd = file;
	settle(d, &d->v[d->under_way], h.what);
	return 0;
}

int downloads_take(struct downloads *d, struct download *ret)
{
	struct pollfd p = { .fd = d->fd, .events = POLLIN };
	int file = -1;
	while (d->fd >= 0 && poll(&p, 1, 0) > 0) {
		if (receive(d, &file)) {
			give_up(d);
			break;
		}
		const struct wanted w = d->v[d->under_way];
		downloads_tick(d);
		if (w.state == WAITING)
			continue; /* not the last word on it */
		*ret = (struct download){ .len = w.len, .fd = file };
		memcpy(ret->id, w.id, w.len);
		return 0;
	}
	return -EAGAIN;
}

void downloads_discard(struct downloads *d, const uint8_t *id, size_t len)
{
	struct wanted *w = find(d, id, len);
	if (!w || w->state != HERE)
		return;
	w->state = NEVER;
	d->stats.came--;
	d->stats.refused++;
	struct channel_head h = { .what = DOWNLOADER_DISCARD, .len = w->len };
	if (d->fd >= 0 && channel_send(d->fd, &h, w->id, NULL, 0, channel_now_ns() + CHANNEL_NS))
		give_up(d);
}
