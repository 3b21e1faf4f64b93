/* SPDX-License-Identifier: Apache-2.0 */
#include "pods/record.h"

#include <string.h>

#define END(text) ((text)[sizeof(text) - 1] = 0)

static bool flags_are_bool(const struct pod_record *r)
{
	uint8_t flag[2];
	memcpy(&flag[0], &r->ok, 1);
	memcpy(&flag[1], &r->merge, 1);
	return flag[0] <= 1 && flag[1] <= 1;
}

bool pod_record_check(struct pod_record *r, uint64_t len)
{
	if (len != sizeof(*r) || r->what < POD_SEEN || r->what > POD_STATE || !flags_are_bool(r) ||
	    r->n_containers > POD_CONTAINERS_MAX || r->n_extra > POD_EXTRA_MAX)
		return false;
	END(r->uid);
	END(r->cgroup_uid);
	END(r->namespace);
	END(r->name);
	END(r->kind);
	END(r->workload);
	END(r->text);
	for (uint16_t i = 0; i < r->n_containers; i++) {
		END(r->container[i].id);
		END(r->container[i].name);
		if (!r->container[i].id[0])
			return false;
	}
	for (uint16_t i = 0; i < r->n_extra; i++) {
		END(r->extra[i].value);
		if (r->extra[i].wanted >= POD_EXTRA_MAX)
			return false;
	}
	bool is_pod = r->what == POD_SEEN || r->what == POD_GONE;
	return !is_pod || r->uid[0] || r->n_containers == 1;
}
