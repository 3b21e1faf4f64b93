# SPDX-License-Identifier: Apache-2.0
# Figures. Each target prints the figure, the machine and what it is compared with, in one run.

BENCH_LABELS := $(BUILD)/bench/bench_attach $(BUILD)/bench/libbench_attach.so

$(BUILD)/bench/libbench_attach.so: tests/bench/bench_attach_lib.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -fPIC -shared -std=gnu11 $(WARN) -Iinclude -MMD -MP -MF $@.d -o $@ $<

$(BUILD)/bench/bench_attach: tests/bench/bench_attach.cpp $(BUILD)/bench/libbench_attach.so
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) -O2 -g -std=c++17 -Wall -Wextra -Iinclude -MMD -MP -MF $@.d -o $@ $^ -Wl,-rpath,'$$ORIGIN'

bench-labels: $(BENCH_LABELS) ## what labels cost the application
	$(Q)$(BUILD)/bench/bench_attach

.PHONY: bench-labels
-include $(BENCH_LABELS:=.d)
