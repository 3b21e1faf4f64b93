# SPDX-License-Identifier: Apache-2.0
# arm64 on another machine: a Debian for it, a build by a cross compiler, and tests in an emulated
# machine.
#   make test-arm64 [KERNELS="6.1 6.12 6.12-16k"] [TIMEOUT=900]: as root, the first time with five
#   minutes for the Debian. 6.12-16k has pages of 16 KiB; Debian has no kernel with 64 KiB.

ARM64 := $(BUILD)/arm64
ARM64_ROOT := $(abspath $(ARM64)/root)
ARM64_MAKE = $(MAKE) --no-print-directory BUILD=$(ARM64)/build ARCH=aarch64 \
	SYSROOT=$(ARM64_ROOT) AR=aarch64-linux-gnu-ar \
	CC='aarch64-linux-gnu-gcc --sysroot=$(ARM64_ROOT)' \
	IBERTY=$(ARM64_ROOT)/usr/lib/aarch64-linux-gnu/libiberty.a
ARM64_KERNELS := $(if $(filter command%,$(origin KERNELS)),$(KERNELS),6.1 6.12 6.12-16k)

$(ARM64_ROOT)/complete: tools/root-arm64
	$(Q)tools/deps arm64
	$(call say,ROOT,$(@D))
	$(Q)tools/root-arm64 $(@D)

test-arm64: $(ARM64_ROOT)/complete
test-arm64: ## the program under Debian's kernels for arm64, in QEMU, as root; KERNELS=6.1
	+$(Q)$(ARM64_MAKE) test-kernels KERNELS='$(ARM64_KERNELS)' TIMEOUT=$(or $(TIMEOUT),900)
	+$(Q)$(ARM64_MAKE) pmu-arm64 order-arm64 units-arm64 KERNELS='$(firstword $(ARM64_KERNELS))'

ifneq ($(SYSROOT),)
# Of the build for arm64 itself: instructions that order memory. In a machine with a whole Debian
# the unit tests of the layers that know machines and kernels, or with ASCRIBE_TEST_ALL of all.
# test_unwind_walk walks code for x86-64; test_unwind_walk_arm64 walks that for arm64. test_lent is
# among the checks on each kernel; test_unwind_pool wants the programs of a larger Debian.
order-arm64: $(BUILD)/libascribe.a $(VM)/guest
	$(Q)tools/check-arm64-order $(BUILD)

MACHINE_LAYERS := attribute|collect|elf|hist|labels|proc|sampler|sandbox|stacks|symbols|unwind
UNITS_OF_MACHINE := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(shell \
	grep -lE '#include "($(MACHINE_LAYERS))/' tests/unit/test_*.c)) \
	$(BUILD)/tests/test_unwind_walk_arm64
UNITS_ARM64 := $(filter-out $(if $(ASCRIBE_TEST_ALL),,$(UNIT_TAIL:%=$(BUILD)/tests/%)) \
	$(addprefix $(BUILD)/tests/,test_unwind_walk test_lent test_unwind_pool),$(if \
	$(ASCRIBE_TEST_ALL),$(UNIT),$(sort $(UNITS_OF_MACHINE))))
$(VM)/units.cpio: $(UNITS_ARM64) $(SYSROOT)/complete tests/vm/debian tests/vm/units tests/vm/init
	$(call say,INITRD,$@)
	$(Q)tests/vm/debian $@ $(SYSROOT) $(UNITS_ARM64)

units-arm64: $(VM)/units.cpio
	$(Q)NAME=units EXPECTED=$(words $(UNITS_ARM64)) MEMORY=3072 TIMEOUT=$(or $(TIMEOUT),900) \
		ARCH=$(ARCH) tests/vm/boot $(KERNELS) $< $(VM)

pmu-arm64: $(VM)/initrd.gz
	$(Q)NAME=pmu VM_PART=pmu TIMEOUT=$(or $(TIMEOUT),900) ARCH=$(ARCH) \
		tests/vm/boot $(KERNELS) $< $(VM)

.PHONY: order-arm64 pmu-arm64 units-arm64
endif

.PHONY: test-arm64
