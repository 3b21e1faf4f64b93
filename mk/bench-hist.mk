# SPDX-License-Identifier: Apache-2.0
# Histograms beside HdrHistogram_c and a bare atomic add.
#   make bench-hist [HDR=source tree of HdrHistogram_c]; without it the copy in Debian's source of
#   redis is used.

HDR ?=
# Where a loop of four cycles lies in memory may cost it a quarter: all contenders begin on a cache
# line.
HIST_ALIGN := -falign-functions=64 -falign-loops=64
HDR_DIR := $(BUILD)/bench/hdr

$(HDR_DIR)/src/hdr_histogram.c: tests/bench/hdr
	$(call say,HDR,$(HDR_DIR))
	@mkdir -p $(BUILD)/bench
	$(Q)tests/bench/hdr $(HDR_DIR) $(HDR)

# As its own project builds it.
$(HDR_DIR)/hdr_histogram.o: $(HDR_DIR)/src/hdr_histogram.c
	$(call say,CC,$@)
	$(Q)$(CC) -O3 -DNDEBUG $(HIST_ALIGN) \
		-std=gnu99 -w -DHDR_MALLOC_INCLUDE='<stdlib.h>' -Dhdr_malloc=malloc \
		-Dhdr_calloc=calloc \
		-Dhdr_realloc=realloc -Dhdr_free=free -I$(HDR_DIR)/include -I$(HDR_DIR)/src -c \
			-o $@ $<

$(BUILD)/bench/bench_hist: tests/bench/bench_hist.c tests/bench/bench.c $(HDR_DIR)/hdr_histogram.o \
	$(BUILD)/libascribe.a
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) $(HIST_ALIGN) $(INCLUDE) $(BENCH_INCLUDE) \
		-I$(HDR_DIR)/include -MMD -MP -MF $@.d $(LDFLAGS) -o $@ \
		$(filter %.c %.o,$^) $(BUILD)/libascribe.a $(IBERTY) $(LIBS)

bench-hist: $(BUILD)/bench/bench_hist
bench-hist: ## histograms beside HdrHistogram_c and a bare atomic add; HDR=its source tree
	$(Q)$(KEEP) $<

.PHONY: bench-hist
-include $(BUILD)/bench/bench_hist.d
