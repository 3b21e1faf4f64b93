/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of labels as Pyroscope's clients know them. They have letters, digits and _ alone, so
 * http.route is http_route. Each series has a service_name. Of profiles that were sent it is their
 * own label; of what was recorded here it is `service`, or `comm` in a store without that.
 */
#ifndef ASCRIBE_HTTP_PYRO_NAMES_H
#define ASCRIBE_HTTP_PYRO_NAMES_H

#include "http/request.h"

#define PYRO_SERVICE "service_name"
#define PYRO_TYPE "__profile_type__"

struct pyro_names {
	char **keys, **names; /* [n]: of the store; of a client */
	size_t n, cap;
};

/* Those of the newest file, or that ClickHouse listed. To be released either way. */
int pyro_names_read(struct pyro_names *n, const struct request *r, struct store *s,
		    struct err *err);
void pyro_names_fini(struct pyro_names *n);

/* The key behind a name in a question about an event; name itself where there is none. */
const char *pyro_names_key(const struct pyro_names *n, const struct store_event *e,
			   const char *name);

#endif
