/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What tests/labels/key_bpf.c asks of key.bpf.c. */
#ifndef ASCRIBE_TESTS_LABELS_KEY_BPF_H
#define ASCRIBE_TESTS_LABELS_KEY_BPF_H

#define KEY_TEXTS 16
#define KEY_TEXT_MAX 64

struct key_task {
	unsigned long long seed, key;
	unsigned long long hash[KEY_TEXTS];
	struct {
		unsigned long long len;
		unsigned char bytes[KEY_TEXT_MAX];
	} text[KEY_TEXTS];
};

#endif
