/* SPDX-License-Identifier: Apache-2.0 */
#include "record/remote.h"

#include "client/web.h"
#include "collect/collector.h"
#include "http/guard.h"
#include "import/pprof.h"
#include "import/write.h"
#include "proc/proc.h"
#include "record/rotate.h"
#include "store/writer.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define MORE_MS 60000 /* to begin, to write, to send */
#define NS 1000000000ll

/* Text in a query of a URL, RFC 3986, 2.1. */
static int add_escaped(struct buf *to, const char *s)
{
	int rc = 0;
	for (; !rc && *s; s++)
		rc = isalnum((unsigned char)*s) ? buf_add_u8(to, (uint8_t)*s)
						: buf_printf(to, "%%%02X", (unsigned char)*s);
	return rc;
}

static int make_path(const struct remote_recording *r, struct buf *to)
{
	int rc = buf_printf(to, "/debug/pprof/profile?seconds=%u&hz=%u", r->seconds, r->hz);
	if (!rc && r->where) {
		rc = buf_printf(to, "&where=");
		rc = rc ? rc : add_escaped(to, r->where);
	}
	return rc ? rc : buf_add_u8(to, 0);
}

static int find_place(const struct remote_recording *r, struct web_place *to, struct err *err)
{
	static const char local[] = "unix:";
	*to = (struct web_place){ .base = r->host,
				  .token = r->token_file,
				  .token_header = GUARD_TOKEN_HEADER ": ",
				  .authority = r->ca_file };
	if (!strncmp(r->host, local, strlen(local))) {
		to->base = "http://localhost";
		to->socket = r->host + strlen(local);
		return 0;
	}
	if (strncmp(r->host, "http://", 7) && strncmp(r->host, "https://", 8))
		return err_set(err, -EINVAL,
			       "--host %s: it must begin with http://, https:// or "
			       "unix:/",
			       r->host);
	return strchr(r->host, '@') ? err_set(err, -EINVAL,
					      "--host: use --token-file, lists of processes show "
					      "passwords")
				    : 0;
}

/* The message of a refusal, else its status. */
static int refused(const struct remote_recording *r, unsigned status, const struct buf *body,
		   struct err *err)
{
	json_t *o = json_loadb(body->data ? (const char *)body->data : "", body->len, 0, NULL);
	const char *text = json_string_value(json_object_get(o, "message"));
	int rc = err_set(err, status == 400 ? -EINVAL : -EACCES, "%s answers %u%s%.300s", r->host,
			 status, text ? ": " : "", text ? text : "");
	json_decref(o);
	return rc;
}

static int ask(const struct remote_recording *r, struct buf *out, struct err *err)
{
	struct buf path = BUF_INIT;
	struct web_place at;
	struct web *w = NULL;
	unsigned status = 0;
	int rc = find_place(r, &at, err);
	if (!rc && make_path(r, &path))
		rc = err_set(err, -ENOMEM, "out of memory");
	const struct web_request q = { .path = (const char *)path.data,
				       .max_bytes = profile_file.bytes,
				       .deadline_ms = r->seconds * 1000 + MORE_MS,
				       .stop_fd = -1 };
	rc = rc ? rc : web_new(&w, err);
	rc = rc ? rc : web_ask(w, &at, &q, &status, out, err);
	if (!rc && status != 200)
		rc = refused(r, status, out, err);
	web_free(w);
	buf_fini(&path);
	return rc;
}

static int write_store(struct remote_recording *r, const struct profile *p, struct err *err)
{
	const struct store_totals none = { 0 };
	const int64_t to = p->to_ns > p->from_ns ? p->to_ns : p->from_ns + r->seconds * NS;
	struct store_writer *w = NULL;
	struct store_options keep;
	char what[300];
	int rc = r->append ? 0 : rotate_store(r->out, &r->moved, err);
	store_options_default(&keep);
	keep.windows_only = true;
	snprintf(what, sizeof(what), "%.200s at %u Hz", r->host, r->hz);
	rc = rc ? rc : collector_open_store(&w, r->out, what, &keep, err);
	if (rc)
		return rc;
	rc = profile_write(w, p, NULL);
	rc = rc ? err_sys(err, rc, "cannot write %s", r->out)
		: store_commit_window(w, p->from_ns, to, (int64_t)proc_now_ns(), &none, err);
	store_writer_close(w);
	if (rc && r->moved)
		rotate_undo(r->out);
	return rc;
}

static int print(const struct buf *body, struct err *err)
{
	return fwrite(body->data, 1, body->len, stdout) == body->len && !fflush(stdout)
		       ? 0
		       : err_sys(err, errno ? -errno : -EIO, "cannot write the profile");
}

int remote_record(struct remote_recording *r, struct err *err)
{
	const struct profile_labels none = { .n = 0 };
	struct profile p = { .limits = &profile_file };
	struct buf body = BUF_INIT;
	int rc = ask(r, &body, err);
	rc = rc ? rc : profile_add_pprof(&p, body.data, body.len, &none, err);
	if (!rc && !p.n_samples)
		rc = err_set(err, -ENODATA, "%s: no sample was taken%s%s", r->host,
			     r->where ? " of " : "", r->where ? r->where : "");
	if (!rc && !strcmp(r->out, "-"))
		rc = print(&body, err);
	else
		rc = rc ? rc : write_store(r, &p, err);
	r->samples = p.n_samples;
	profile_fini(&p);
	buf_fini(&body);
	return rc;
}
