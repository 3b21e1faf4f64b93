/* SPDX-License-Identifier: Apache-2.0 */
/* The tests that have files of their own: labels.c, waits.c, pmu.c, modes.c; and of run.c. */
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

void test_cgroup(void);

void test_nohz_full(void);
void test_integrity(void);
void test_confidentiality(void);
void test_no_btf(void);
void test_many_cpus(void);
void test_cgroup_v1(void);
void test_cgroup_hybrid(void);

#endif
