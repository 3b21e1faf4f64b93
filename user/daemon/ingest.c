/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest.h"

#include "import/pack.h"
#include "import/write.h"
#include "proc/proc.h"
#include "store/writer.h"
#include "util/clock.h"
#include "util/memory_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS 1000000000ll
#define YEAR_2000_NS (946684800 * NS)
#define NOW_NS (60 * NS) /* clients send a profile some seconds after its end */

void ingest_init(struct ingest *i)
{
	*i = (struct ingest){ .profiles = 0 };
	intake_init(&i->intake);
}

void ingest_fini(struct ingest *i)
{
	intake_fini(&i->intake);
}

/* Whoever writes into the file may go on: what was read here is a copy. */
static int read_memory(int fd, size_t len, void **ret)
{
	if (!len || len > PROFILE_PACKED_MAX)
		return -EBADMSG;
	void *bytes = malloc(len);
	if (!bytes)
		return -ENOMEM;
	const ssize_t n = pread(fd, bytes, len, 0);
	memory_file_clear(fd);
	if (n != (ssize_t)len) {
		free(bytes);
		return -EBADMSG;
	}
	*ret = bytes;
	return 0;
}

struct late {
	const struct profile *profile;
	const struct profile_rules *rules;
};

static int fill(struct store_writer *w, void *ctx)
{
	const struct late *l = ctx;
	return profile_write(w, l->profile, l->rules);
}

/*
 * A profile of the past gets a window of its own. One of now is part of the open window, as are
 * those without a time, or with one that cannot be.
 */
static int store(struct store_writer *w, const struct profile *p, const struct profile_rules *rules)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	int64_t now = t.tv_sec * NS + t.tv_nsec;
	if (p->from_ns < YEAR_2000_NS || p->to_ns <= p->from_ns || p->to_ns > now - NOW_NS)
		return profile_write(w, p, rules);
	struct late late = { p, rules };
	struct err err = { 0 };
	return store_commit_apart(w, p->from_ns, p->to_ns, (int64_t)proc_now_ns(), fill, &late,
				  &err);
}

static int take(struct ingest *i, int fd, size_t len, struct store_writer *w,
		const struct profile_rules *rules)
{
	struct profile p = { .limits = NULL };
	void *bytes;
	int rc = read_memory(fd, len, &bytes);
	if (rc)
		return rc;
	rc = profile_unpack(bytes, len, &p);
	/* What makes no sense costs as much to read. */
	intake_charge(&i->intake, rc ? len : profile_size(&p), clock_ns(CLOCK_MONOTONIC));
	rc = rc ? rc : store(w, &p, rules);
	i->profiles += !rc;
	i->samples += rc ? 0 : p.n_samples;
	profile_fini(&p);
	return rc;
}

int ingest_take(struct ingest *i, int fd, size_t len, uint64_t until_ns, struct store_writer *w,
		const struct label_filter *f, const struct redactor *r, struct err *err)
{
	const struct profile_rules rules = { f, r, &i->credentials };
	const uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int rc = !w || now > until_ns ? err_set(err, -EAGAIN, "nothing is written now")
		 : intake_delay_s(&i->intake, now)
			 ? err_set(err, -EDQUOT, "more profiles come than are taken in")
			 : 0;
	if (!rc) {
		rc = take(i, fd, len, w, &rules);
		if (rc)
			rc = err_set(err, -EAGAIN, "it could not be stored: %s", strerror(-rc));
	}
	i->refused += rc != 0;
	return rc;
}
