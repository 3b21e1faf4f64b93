/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine itself loses: an emulated CPU that its host does not run misses ticks of its
 * timer, and so does every profiler there. Plain perf events without BPF, one per CPU, at the rate
 * of the recordings, count those ticks.
 */
#ifndef TESTS_VM_CONTROL_H
#define TESTS_VM_CONTROL_H

/* Count from now on, on the CPUs 0 and 1; 0 or -errno. One control at a time. */
int control_begin(void);

/*
 * Ticks due since control_begin() less those that came; -1 when that is not known. Ends the
 * control.
 */
double control_end(void);

#endif
