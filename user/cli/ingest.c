/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ingest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define WAIT_S 5
#define SERVICE "service_name"

int ingest_init(struct ingest *i)
{
	*i = (struct ingest){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	pthread_mutex_init(&i->lock, NULL);
	pthread_cond_init(&i->done, NULL);
	return i->fd < 0 ? -errno : 0;
}

void ingest_fini(struct ingest *i)
{
	if (i->fd >= 0)
		close(i->fd);
	pthread_mutex_destroy(&i->lock);
	pthread_cond_destroy(&i->done);
}

int ingest_put(struct ingest *i, const struct profile *p, struct err *err)
{
	uint64_t one = 1;
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_S;
	pthread_mutex_lock(&i->lock);
	if (i->waiting) {
		i->refused++;
		pthread_mutex_unlock(&i->lock);
		return err_set(err, -EAGAIN, "another profile is being stored");
	}
	i->waiting = p;
	i->taken = i->finished = false;
	if (write(i->fd, &one, sizeof(one)) != sizeof(one))
		i->taken = false; /* the counter is full: it is readable all the same */
	int late = 0;
	while (!i->finished && (i->taken || !late))
		late = i->taken ? pthread_cond_wait(&i->done, &i->lock) : pthread_cond_timedwait(&i->done, &i->lock, &until);
	int rc = i->finished ? i->rc : -EAGAIN;
	i->waiting = NULL;
	i->refused += rc != 0;
	pthread_mutex_unlock(&i->lock);
	if (rc == -EAGAIN)
		return err_set(err, rc, "nothing is written now");
	return rc ? err_set(err, -EAGAIN, "it could not be stored: %s", strerror(-rc)) : 0;
}

/* ---- the writing thread ---- */

static int add_frame(struct store_writer *w, const struct profile_frame *f, uint32_t *ret)
{
	struct store_frame s = { .kind = FRAME_USER, .line = f->line };
	int rc = store_add_string(w, f->function, strlen(f->function), &s.function);
	rc = rc ? rc : store_add_string(w, f->module, strlen(f->module), &s.module);
	rc = rc ? rc : store_add_string(w, f->file, strlen(f->file), &s.file);
	return rc ? rc : store_add_frame(w, &s, ret);
}

struct rules {
	const struct label_filter *filter;
	const struct redactor *redactor;
};

static bool is_service(const struct label *l)
{
	return l->key_len == strlen(SERVICE) && !memcmp(l->key, SERVICE, l->key_len);
}

/* The labels of a sample that may be kept, in out; what gives way is in room. */
static size_t kept_labels(const struct profile *p, const struct profile_sample *s, const struct rules *rules, struct label *out, char *room)
{
	struct label more[PROFILE_LABELS_MAX];
	size_t n = 0, n_more = 0;
	for (uint32_t i = 0; i < s->n_labels; i++) {
		const struct label *l = &p->labels[s->label + i];
		if (is_service(l))
			out[n++] = *l;
		else
			more[n_more++] = *l;
	}
	n_more = filter_apply(rules->filter, rules->redactor, more, n_more, room);
	for (size_t i = 0; i < n_more; i++)
		out[n++] = more[i];
	return labels_normalize(out, n);
}

static int add_sample(struct store_writer *w, const struct profile *p, const struct rules *rules, const uint32_t *frames, const uint32_t *events,
		      const struct profile_sample *s)
{
	struct label labels[PROFILE_LABELS_MAX];
	char room[PROFILE_LABELS_MAX * REDACTED_LEN];
	uint32_t set, stack = 0;
	int rc = store_add_set(w, labels, kept_labels(p, s, rules, labels, room), &set);
	for (uint32_t i = s->depth; !rc && i--;) {
		uint32_t parent = stack;
		rc = store_add_stack(w, parent, frames[p->stacks[s->stack + i]], &stack);
	}
	for (size_t t = 0; !rc && t < p->n_types; t++) {
		/* Half a millisecond more or less, never nothing. */
		uint64_t n = p->type[t].time ? (s->value[t] + PROFILE_NS_PER_SAMPLE / 2) / PROFILE_NS_PER_SAMPLE : s->value[t];
		if (s->value[t])
			rc = store_add_row(w, set, stack, events[t], n ? n : 1, s->value[t]);
	}
	return rc;
}

static int add_profile(struct store_writer *w, const struct profile *p, const struct rules *rules)
{
	uint32_t events[PROFILE_TYPES_MAX], *frames = calloc(p->n_frames + 1, sizeof(*frames));
	int rc = frames ? 0 : -ENOMEM;
	for (size_t t = 0; !rc && t < p->n_types; t++) {
		struct store_event e = { p->type[t].event, p->type[t].unit, p->type[t].time ? PROFILE_NS_PER_SAMPLE : 0, p->type[t].time ? 0 : 1 };
		rc = store_add_event(w, &e, &events[t]);
	}
	for (size_t i = 0; !rc && i < p->n_frames; i++)
		rc = add_frame(w, &p->frames[i], &frames[i]);
	for (size_t i = 0; !rc && i < p->n_samples; i++)
		rc = add_sample(w, p, rules, frames, events, &p->samples[i]);
	free(frames);
	return rc;
}

void ingest_take(struct ingest *i, struct store_writer *w, const struct label_filter *f, const struct redactor *r)
{
	const struct rules rules = { f, r };
	uint64_t n;
	if (read(i->fd, &n, sizeof(n)) != sizeof(n))
		return;
	pthread_mutex_lock(&i->lock);
	const struct profile *p = i->finished || i->taken ? NULL : i->waiting;
	i->taken = p != NULL;
	pthread_mutex_unlock(&i->lock);
	if (!p)
		return;
	int rc = w ? add_profile(w, p, &rules) : -EAGAIN;
	pthread_mutex_lock(&i->lock);
	i->profiles += !rc;
	i->samples += rc ? 0 : p->n_samples;
	i->rc = rc;
	i->finished = true;
	i->taken = false;
	pthread_cond_broadcast(&i->done);
	pthread_mutex_unlock(&i->lock);
}
