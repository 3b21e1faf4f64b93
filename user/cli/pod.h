/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe --pod NAMESPACE/NAME COMMAND: ask the agent on the node of a Kubernetes pod. */
#ifndef ASCRIBE_CLI_POD_H
#define ASCRIBE_CLI_POD_H

#include "opt/complete.h"

/*
 * Run a reading command in the agent of the pod's node by `kubectl exec`, for the samples of that
 * pod alone. argv[0] is --pod or --pod=NAMESPACE/NAME. Return the exit status when the command was
 * not run; else this process becomes kubectl.
 */
int pod_command(int argc, char **argv, complete_table table);

#endif
