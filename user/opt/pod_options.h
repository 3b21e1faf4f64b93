/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon's options for names of pods and containers mean. */
#ifndef ASCRIBE_OPT_POD_OPTIONS_H
#define ASCRIBE_OPT_POD_OPTIONS_H

#include "opt/options.h"
#include "pods/pods.h"

/* As the command line and the configuration have them; rows: daemon/settings.c. */
struct pod_options {
	const char *names, *node, *api, *credentials, *kubelet, *socket;
	struct opt_list labels, annotations;
};

/* What the options mean; texts are borrowed. -EINVAL: the text begins with the option's name. */
int pod_options_config(const struct pod_options *o, struct pods_config *ret, struct err *err);

#endif
