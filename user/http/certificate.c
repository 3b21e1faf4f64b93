/* SPDX-License-Identifier: Apache-2.0 */
#include "http/certificate.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <string.h>

static bool is_good(gnutls_session_t session)
{
	static const char purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;
	gnutls_typed_vdata_st for_clients = { .type = GNUTLS_DT_KEY_PURPOSE_OID,
					      .data = (unsigned char *)(uintptr_t)purpose };
	unsigned status = 0;
	return !gnutls_certificate_verify_peers(session, &for_clients, 1, &status) && !status;
}

bool certificate_name(struct MHD_Connection *c, char ret[static ACCESS_NAME_MAX + 1])
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	gnutls_session_t session = info ? info->tls_session : NULL;
	unsigned n = 0;
	const gnutls_datum_t *chain = session ? gnutls_certificate_get_peers(session, &n) : NULL;
	gnutls_x509_crt_t first;
	size_t size = ACCESS_NAME_MAX + 1;
	if (!chain || !n || !is_good(session) || gnutls_x509_crt_init(&first))
		return false;
	bool named = !gnutls_x509_crt_import(first, &chain[0], GNUTLS_X509_FMT_DER) &&
		     !gnutls_x509_crt_get_dn_by_oid(first, GNUTLS_OID_X520_COMMON_NAME, 0, 0, ret,
						    &size) &&
		     strlen(ret) == size; /* no NUL within it */
	gnutls_x509_crt_deinit(first);
	return named;
}
