# SPDX-License-Identifier: Apache-2.0
# bpf/x.bpf.c -> build/bpf/x.bpf.o -> build/gen/x.skel.h

BPF_SRC := $(wildcard bpf/*.bpf.c)
SKELETONS := $(BPF_SRC:bpf/%.bpf.c=$(BUILD)/gen/%.skel.h)
BPF_ARCH := $(if $(filter aarch64,$(ARCH)),arm64,x86)

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c
	$(call say,BPF,$<)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) -Wall -Werror \
		-Ivmlinux/$(ARCH) -Iinclude $(PREFIX_MAP) \
		-MMD -MP -c -o $@ $<

$(BUILD)/gen/%.skel.h: $(BUILD)/bpf/%.bpf.o
	$(call say,SKEL,$@)
	@mkdir -p $(@D)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf >$@

# The compilers that are tested, as far as this release has them (tools/deps).
CLANGS := $(foreach c,clang-14 clang-19,$(if $(shell command -v $(c)),$(c)))

# The other machine's, to see that it compiles and keeps its barriers; and those of this one.
BPF_ARM64 := $(patsubst %,$(BUILD)/%/sample.arm64.o,$(CLANGS))
$(BPF_ARM64): $(BUILD)/clang-%/sample.arm64.o: bpf/sample.bpf.c
	$(call say,BPF,$@)
	@mkdir -p $(@D)
	$(Q)clang-$* -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_arm64 -Wall -Werror \
		-Ivmlinux/aarch64 -Iinclude \
		-MMD -MP -c -o $@ $<

check-bpf-arm64: $(BPF_ARM64) $(patsubst %,$(BUILD)/%/sample.bpf.o,$(CLANGS))
	$(Q)tools/check-bpf-barriers $^

.PHONY: check-bpf-arm64
.SECONDARY: $(BPF_SRC:bpf/%.bpf.c=$(BUILD)/bpf/%.bpf.o)
-include $(wildcard $(BUILD)/bpf/*.d) $(BPF_ARM64:.o=.d)
