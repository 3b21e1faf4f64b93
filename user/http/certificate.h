/* SPDX-License-Identifier: Apache-2.0 */
/* Who a client is by its TLS certificate. */
#ifndef ASCRIBE_HTTP_CERTIFICATE_H
#define ASCRIBE_HTTP_CERTIFICATE_H

#include "http/access.h"

struct MHD_Connection;

/*
 * The common name of the connection's certificate: it is of tls_client_ca, good now, and for
 * clients. False: there is none, or the name is too long to be one of access.h.
 */
bool certificate_name(struct MHD_Connection *c, char ret[static ACCESS_NAME_MAX + 1]);

#endif
