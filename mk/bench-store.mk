# SPDX-License-Identifier: Apache-2.0
# The store's figures: a generated load, real stacks if there are some, and comparators in the same
# run.
#   make bench-store [WINDOWS=4320] [HIGH_WINDOWS=540] [YEAR=0] [STACKS=directory of *.folded]

BENCH_STORE := $(wildcard tests/bench/store/*.c)

$(BUILD)/bench/bench_store: $(BENCH_STORE) tests/bench/store/bench_store.h $(BUILD)/libascribe.a
	$(call say,BENCH,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) $(LDFLAGS) \
		-o $@ $(BENCH_STORE) $(BUILD)/libascribe.a $(IBERTY) $(LIBS) \
		-lsqlite3 -llmdb

bench-store: ## bytes, time and memory of the store on a generated load
	$(Q)tools/deps bench
	$(Q)$(MAKE) --no-print-directory $(BUILD)/bench/bench_store $(BUILD)/ascribe $(BUILD)/demo
	$(Q)WINDOWS='$(WINDOWS)' HIGH_WINDOWS='$(HIGH_WINDOWS)' STACKS='$(STACKS)' YEAR='$(YEAR)' \
		BUILD=$(BUILD) $(KEEP) bash tests/bench/bench_store.sh

bench-store-curves: $(BUILD)/bench/bench_store
bench-store-curves: ## a store by stacks, label sets and age (50 minutes)
	$(Q)BUILD=$(BUILD) $(KEEP) bash tests/bench/store_curves.sh

.PHONY: bench-store bench-store-curves
