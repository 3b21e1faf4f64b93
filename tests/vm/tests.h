/* SPDX-License-Identifier: Apache-2.0 */
/* The tests that have files of their own: labels.c, waits.c, pmu.c. */
#ifndef TESTS_VM_TESTS_H
#define TESTS_VM_TESTS_H

void test_labels(void);

void test_waits(void);
void test_wakers(void);
void test_latency(void);
void test_locks(void);
void test_waits_hotplug(void);
void test_waits_clock(void);
void test_waits_suspend(void);

void test_pmu(void);

#endif
