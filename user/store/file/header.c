/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file/header.h"

#include "store/file/file.h"
#include "store/file/format.h"
#include "store/file/message.h"
#include "store/file/meta.h"
#include "store/file/store.pb-c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef Ascribe__Store__Header Message;

static ProtobufCBinaryData bytes_of(const char *s)
{
	return (ProtobufCBinaryData){ s ? strlen(s) : 0, (uint8_t *)s };
}

static int list_names(const char *const *names, size_t n, ProtobufCBinaryData **ret)
{
	if (n > COUNTERS_MAX)
		return -E2BIG;
	*ret = calloc(n, sizeof(**ret));
	for (size_t i = 0; *ret && i < n; i++)
		(*ret)[i] = bytes_of(names[i]);
	return *ret ? 0 : -ENOMEM;
}

static int encode(struct buf *out, const struct header *h)
{
	const struct store_meta *m = &h->meta;
	Message p = ASCRIBE__STORE__HEADER__INIT;
	p.created_ns = m->created_ns;
	p.host = bytes_of(m->host);
	p.os = bytes_of(m->os);
	p.what = bytes_of(m->what);
	p.n_lost = m->n_lost;
	p.n_flagged = m->n_flagged;
	int rc = list_names(m->lost_names, m->n_lost, &p.lost);
	if (!rc)
		rc = list_names(m->flagged_names, m->n_flagged, &p.flagged);
	if (!rc)
		rc = message_pack(out, &p.base);
	if (!rc)
		rc = message_add_unknown(out, &h->unknown);
	if (!rc && out->len > HEADER_PAYLOAD_MAX)
		rc = -E2BIG;
	free(p.lost);
	free(p.flagged);
	return rc;
}

int header_write(int dir_fd, const char *dir, const struct header *h, struct err *err)
{
	struct buf b = BUF_INIT, payload = BUF_INIT;
	int rc = encode(&payload, h);
	if (!rc)
		rc = message_frame(&b, HEADER_MAGIC, h->store_id, &payload);
	/* The copy is for `store repair` alone. */
	if (!rc)
		rc = file_replace(dir_fd, HEADER_COPY_NAME, b.data, b.len);
	if (!rc)
		rc = file_replace(dir_fd, HEADER_NAME, b.data, b.len);
	buf_fini(&payload);
	buf_fini(&b);
	return rc ? err_sys(err, rc, "cannot write %s/%s", dir, HEADER_NAME) : 0;
}

static char *text_of(const ProtobufCBinaryData *b)
{
	return strndup(b->len ? (const char *)b->data : "", b->len);
}

static int take_names(const ProtobufCBinaryData *v, size_t n, const char *const **ret,
		      size_t *ret_n)
{
	if (n > COUNTERS_MAX)
		return -EBADMSG;
	const char **names = calloc(n, sizeof(*names));
	if (!names)
		return -ENOMEM;
	*ret = names;
	*ret_n = n;
	for (size_t i = 0; i < n; i++)
		if (!(names[i] = text_of(&v[i])))
			return -ENOMEM;
	return 0;
}

static int take_meta(struct store_meta *m, const Message *p)
{
	m->created_ns = p->created_ns;
	m->host = text_of(&p->host);
	m->os = text_of(&p->os);
	m->what = text_of(&p->what);
	if (!m->host || !m->os || !m->what)
		return -ENOMEM;
	int rc = take_names(p->lost, p->n_lost, &m->lost_names, &m->n_lost);
	return rc ? rc : take_names(p->flagged, p->n_flagged, &m->flagged_names, &m->n_flagged);
}

static int decode(struct header *h, const struct buf *b, uint32_t *ret_version)
{
	int rc = message_check(b, HEADER_MAGIC, FORMAT_VERSION, &h->store_id, ret_version);
	if (rc)
		return rc;
	ProtobufCMessage *p;
	rc = message_unpack(&ascribe__store__header__descriptor, b, &p);
	if (rc)
		return rc;
	rc = take_meta(&h->meta, (Message *)p);
	if (!rc)
		rc = message_keep_unknown(p, &h->unknown);
	protobuf_c_message_free_unpacked(p, NULL);
	return rc;
}

int header_read_file(struct header *ret, int dir_fd, const char *dir, const char *name,
		     struct err *err)
{
	struct buf b = BUF_INIT;
	struct header h = { 0 };
	uint32_t version = 0;
	int rc = file_read_whole(dir_fd, name, HEADER_SIZE, HEADER_SIZE + HEADER_PAYLOAD_MAX, &b);
	if (!rc)
		rc = decode(&h, &b, &version);
	buf_fini(&b);
	if (!rc) {
		*ret = h;
		return 0;
	}
	header_fini(&h);
	if (rc == -EPROTONOSUPPORT)
		return file_other_version(dir, version, err);
	if (rc == -EBADMSG)
		return err_set(err, rc, "%s/%s is damaged (offset 0)", dir, name);
	return err_sys(err, rc, "cannot read %s/%s", dir, name);
}

int header_read(struct header *ret, int dir_fd, const char *dir, struct err *err)
{
	return header_read_file(ret, dir_fd, dir, HEADER_NAME, err);
}

void header_fini(struct header *h)
{
	if (!h)
		return;
	meta_fini(&h->meta);
	free(h->unknown.data);
	memset(h, 0, sizeof(*h));
}
