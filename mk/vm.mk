# SPDX-License-Identifier: Apache-2.0
# The built program under other kernels, in QEMU: make test-kernels [KERNELS="6.1 6.12"]
# [TIMEOUT=400]. Kernels are Debian packages, fetched once into build/vm. A kernel is SERIES[+MODE]:
#   SERIES  6.1, 6.12, ..., new; with PREEMPT_RT 6.1-rt, 6.12-rt, new-rt (tests/vm/kernel)
#   MODE    nohz_full, integrity, confidentiality, no_btf, 64cpus, cgroup_v1, cgroup_hybrid: booted
#           in that way, and tested for what differs there (tests/vm/boot)

KERNELS ?= 6.1 6.12
VM := $(BUILD)/vm

$(VM)/guest: tests/vm/guest.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -std=gnu11 $(WARN) $(if $(CI),-Werror) \
		-D_GNU_SOURCE -fno-omit-frame-pointer -static \
		-Iinclude -MMD -MP -MF $@.d -o $@ $< -lpthread

VM_RUN := $(filter-out tests/vm/guest.c,$(wildcard tests/vm/*.c))
$(VM)/run: $(VM_RUN) $(wildcard tests/vm/*.h)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -std=gnu11 $(WARN) $(if $(CI),-Werror) -D_GNU_SOURCE \
		-o $@ $(filter %.c,$^) -ljansson -lm

VM_PROGRAMS := $(BUILD)/ascribe $(WITH_CLANG) $(BUILD)/tests/test_lent $(VM)/guest $(VM)/run
$(VM)/initrd.gz: $(VM_PROGRAMS) tests/vm/init tests/vm/initrd
	$(call say,INITRD,$@)
	$(Q)SYSROOT=$(SYSROOT) tests/vm/initrd $@ $(VM_PROGRAMS)

test-kernels: $(VM)/initrd.gz
test-kernels: ## label, stack and accounting tests under Debian's 6.1 and 6.12, in QEMU; KERNELS=6.1
	@failed=; for k in $(KERNELS); do $(if $(ASCRIBE_TEST_ALL),ASCRIBE_TEST_ALL=1) \
		ARCH=$(ARCH) tests/vm/boot $$k $< $(VM) || failed="$$failed $$k"; done; \
		[ -z "$$failed" ] || { echo "failed on:$$failed"; exit 1; }

.PHONY: test-kernels
-include $(wildcard $(VM)/*.d)
