# SPDX-License-Identifier: Apache-2.0
# Figures. Each target measures some beside what they are compared with. tools/benchmarks keeps them
# in docs/benchmarks.tsv (KEEP= does not), of which docs/benchmarks.md is made.
#   make bench [BENCHES="sample labels"]

KEEP ?= tools/benchmarks run
BENCHES ?= sample own drain labels unwind churn separation idle rates sched hist probes symbols \
	truth serve page export store store-curves fleet

BENCH_TOGGLED := $(BUILD)/bench/bench_switch $(BUILD)/bench/bench_pg
BENCH_LABELS := $(BUILD)/bench/bench_attach $(BUILD)/bench/libbench_attach.so \
	$(BUILD)/bench/bench_key $(BUILD)/bench/bench_sets $(BUILD)/bench/bench_filter
BENCH_GO := $(if $(shell command -v go),$(BUILD)/bench/pprof_do)
BENCH_PROGRAMS := $(patsubst %,$(BUILD)/bench/%,bench_sample bench_own bench_drain bench_foreign)
BENCH_KINDS := $(patsubst %,$(BUILD)/bench/bench_labelled_%,own otel custom path)
BENCH_INCLUDE := -Itests/bench -I$(BUILD)/bench

$(BUILD)/bench/libbench_attach.so: tests/bench/bench_attach_lib.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -fPIC -shared -std=gnu11 $(WARN) -Iinclude -MMD -MP -MF $@.d -o $@ $<

$(BUILD)/bench/bench_attach: tests/bench/bench_attach.cpp $(BUILD)/bench/libbench_attach.so
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) -O2 -g -std=c++17 -Wall -Wextra -Iinclude -MMD -MP -MF $@.d -o $@ $^ \
		-Wl,-rpath,'$$ORIGIN'

$(BUILD)/bench/bench_key: tests/bench/bench_key.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -std=gnu11 $(WARN) -Iinclude -MMD -MP -MF $@.d -o $@ $<

$(BUILD)/bench/bench_filter: tests/bench/bench_filter.c $(BUILD)/libascribe.a
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $(INCLUDE) -MMD -MP -MF $@.d \
		-o $@ $< $(BUILD)/libascribe.a

$(BUILD)/bench/bench_sets: tests/bench/bench_sets.c $(BUILD)/libascribe.a
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $(INCLUDE) -MMD -MP -MF $@.d \
		-o $@ $< $(BUILD)/libascribe.a -lxxhash

# Go's own labels, where Go is installed.
$(BUILD)/bench/pprof_do: tests/bench/pprof_do.go
	$(call say,GO,$@)
	@mkdir -p $(@D)
	$(Q)go build -o $@ $<

# The programs that ours is compared with.
$(BUILD)/bench/bench.bpf.o: tests/bench/bench.bpf.c
	$(call say,BPF,$<)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) -Wall -Werror \
		-Ivmlinux/$(ARCH) -MMD -MP -c -o $@ $<

$(BUILD)/bench/bench.skel.h: $(BUILD)/bench/bench.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name bench_bpf >$@

# As applications are built, with frame pointers.
$(BUILD)/bench/bench_load $(BUILD)/bench/high_load: $(BUILD)/bench/%: tests/bench/%.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -std=gnu11 \
		-D_GNU_SOURCE $(WARN) \
		-Iinclude -MMD -MP -MF $@.d -o $@ $<

# Loads under labels of one kind each.
$(BENCH_KINDS): $(BUILD)/bench/bench_labelled_%: tests/bench/bench_labelled.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -fno-omit-frame-pointer -std=gnu11 -D_GNU_SOURCE $(WARN) \
		-DKIND_$* -Iinclude -MMD -MP -MF $@.d -o $@ $<

$(BENCH_PROGRAMS): $(BUILD)/bench/%: tests/bench/%.c tests/bench/bench.c \
	$(BUILD)/bench/bench.skel.h $(BUILD)/libascribe.a
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) $(BENCH_INCLUDE) -MMD -MP -MF $@.d $(LDFLAGS) \
		-o $@ $(filter %.c,$^) \
		$(BUILD)/libascribe.a $(IBERTY) $(LIBS)

bench: ## measure, and make docs/benchmarks.md anew, as root; BENCHES="sample labels"; 4 hours
	$(Q)tools/deps build bench
	$(Q)for p in $(BENCHES); do \
		$(MAKE) --no-print-directory bench-$$p || failed="$$failed $$p"; done; \
	tools/benchmarks write && [ -z "$$failed" ] || \
		{ echo "bench: failed:$$failed" >&2; exit 1; }

bench-sample bench-own bench-drain: bench-%: $(BUILD)/bench/bench_% $(BUILD)/bench/bench_load
bench-sample bench-own bench-drain: bench-%: $(BUILD)/ascribe $(BUILD)/demo
bench-sample: ## what a sample costs in BPF
bench-own: ## what a recording costs, beside perf
bench-drain: ## samples that do not run
bench-sample bench-own bench-drain: bench-%:
	$(Q)$(KEEP) $<

bench-programs: $(BENCH_GO) $(BUILD)/ascribe $(BUILD)/demo $(BUILD)/bench/bench_load \
	$(BENCH_PROGRAMS) $(BENCH_LABELS) $(BENCH_KINDS)

bench-labels: $(BENCH_LABELS) $(BENCH_GO) $(BUILD)/bench/bench_foreign $(BENCH_KINDS) \
	$(BUILD)/ascribe
bench-labels: ## what labels cost the application, and a sample (root)
	$(Q)for b in attach key sets filter foreign; do \
		$(KEEP) $(BUILD)/bench/bench_$$b || exit 1; done

$(BUILD)/bench/unwind_replay: tests/bench/unwind_replay.c $(BUILD)/libascribe.a
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -MMD -MP -MF $@.d $(LDFLAGS) \
		-o $@ $< $(BUILD)/libascribe.a $(IBERTY) $(LIBS)

bench-unwind: $(BUILD)/bench/unwind_replay
bench-unwind: $(BUILD)/ascribe $(BUILD)/tests/test_unwind $(BUILD)/tests/record/chains
bench-unwind: ## what unwinding by rules costs, and perf's stacks, as root
	$(Q)$(KEEP) tests/bench/unwind.sh $(BUILD)
	$(Q)$(KEEP) tests/bench/v8.sh $(BUILD)
	$(Q)$(KEEP) tests/bench/unwind_perf.sh $(BUILD)

$(BUILD)/bench/bench_symbols: tests/bench/bench_symbols.c $(BUILD)/libascribe.a
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -MMD -MP -MF $@.d $(LDFLAGS) \
		-o $@ $< $(BUILD)/libascribe.a $(IBERTY) $(LIBS)

bench-probes: $(BUILD)/ascribe $(BUILD)/tests/record/probed $(BUILD)/tests/record/latency
bench-probes: $(BUILD)/tests/record/locks $(BUILD)/bench/heap_map $(BUILD)/bench/bench_tracks
bench-probes: ## probes, allocations, latency, locks, tracks: each figure, as root
	$(Q)echo "== a hit, beside bpftrace" && $(KEEP) tests/bench/probes.sh $(BUILD)
	$(Q)echo "== allocations, beside heaptrack" && $(KEEP) tests/bench/heap.sh $(BUILD)
	$(Q)echo "== latency and lock holders" && $(KEEP) tests/bench/answers.sh $(BUILD)
	$(Q)echo "== the flight recorder" && $(MAKE) --no-print-directory -s bench-tracks

$(BUILD)/bench/bench_tracks: tests/bench/bench_tracks.c $(BUILD)/libascribe.a
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) $(LDFLAGS) -o $@ $< $(BUILD)/libascribe.a $(IBERTY) $(LIBS)
bench-tracks: $(BUILD)/bench/bench_tracks
bench-tracks: ## what tracks, a freeze and a heat map cost
	$(Q)dir=$$(mktemp -d) && echo "load $$(cut -d' ' -f1 /proc/loadavg)" && $(KEEP) $< $$dir; \
		rc=$$?; rm -rf $$dir; exit $$rc
.PHONY: bench-tracks

$(BUILD)/bench/heap_map: tests/bench/heap_map.cpp
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) -O2 -g -std=c++20 -fno-builtin -Wall -Wextra -o $@ $<

bench-heap: $(BUILD)/ascribe $(BUILD)/bench/heap_map
bench-heap: ## what sampling allocations costs redis, python3, a C++ map; heaptrack beside; as root
	$(Q)$(KEEP) tests/bench/heap.sh $(BUILD)

.PHONY: bench-heap

bench-truth: $(BUILD)/ascribe $(BUILD)/libascribe-label.so
bench-truth: ## are the stacks of 90 programs right, and perf's? as root (10 minutes)
	$(Q)tools/deps bench
	$(Q)$(KEEP) /usr/bin/python3 tests/bench/truth.py $(BUILD)

.PHONY: bench-truth

bench-symbols: $(BUILD)/bench/bench_symbols $(BUILD)/tests/test_symbols \
	$(BUILD)/tests/test_symbols_lines
bench-symbols: ## names: 100,000 addresses against nm, the time of a million, memory
	$(Q)ASCRIBE_SYMBOLS_FULL=1 $(BUILD)/tests/test_symbols
	$(Q)ASCRIBE_SYMBOLS_FULL=1 $(BUILD)/tests/test_symbols_lines
	$(Q)$(KEEP) $< /usr/bin /usr/sbin /usr/lib

.PHONY: bench-labels bench-unwind bench-probes bench-symbols bench-programs
-include $(BUILD)/bench/unwind_replay.d $(BENCH_LABELS:=.d) $(BENCH_PROGRAMS:=.d) \
	$(BENCH_KINDS:=.d) $(BUILD)/bench/bench_load.d $(BUILD)/bench/high_load.d \
	$(BUILD)/bench/bench_symbols.d $(BUILD)/bench/bench.bpf.d

$(BUILD)/bench/serve_store: tests/bench/serve_store.c $(BUILD)/libascribe.a
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -MMD -MP -MF $@.d $(LDFLAGS) \
		-o $@ $< $(BUILD)/libascribe.a $(IBERTY) $(LIBS)

bench-serve: $(BUILD)/bench/serve_store $(BUILD)/bench/high_load $(BUILD)/ascribe
bench-serve: ## the server's and the daemon's figures, as root (20 minutes)
	$(Q)BUILD=$(BUILD) $(KEEP) bash tests/bench/bench_serve.sh

bench-page: $(BUILD)/bench/serve_store $(BUILD)/ascribe
bench-page: ## the page in Chromium: until it can be used, frames at 100,000 nodes, size
	$(Q)BUILD=$(BUILD) $(KEEP) bash tests/bench/bench_page.sh

bench-export: $(BUILD)/bench/serve_store $(BUILD)/ascribe
bench-export: ## exports of 10 million samples: time and memory of each format
	$(Q)BUILD=$(BUILD) $(KEEP) bash tests/bench/export.sh

.PHONY: bench-serve bench-page bench-export

# The client library of PostgreSQL has its header in a directory of its own.
$(BENCH_TOGGLED): $(BUILD)/bench/%: tests/bench/%.c tests/bench/toggle.c \
	$(BUILD)/bench/bench.skel.h $(BUILD)/gen/sample.skel.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) $(INCLUDE) $(BENCH_INCLUDE) \
		-isystem /usr/include/postgresql -MMD -MP -MF $@.d -o $@ \
		$(filter %.c,$^) -lbpf -lpthread -lm $(if $(findstring pg,$*),-lpq)

bench-sched: ## what watching the scheduler (record --wall) costs, as root; RUNS=7
	$(Q)$(MAKE) --no-print-directory $(BUILD)/ascribe $(BENCH_TOGGLED) \
		$(BUILD)/tests/record/waits
	$(Q)RUNS=$(or $(RUNS),7) $(KEEP) bash tests/bench/sched.sh $(BUILD)

.PHONY: bench-sched
-include $(BENCH_TOGGLED:=.d)

bench-churn: $(BUILD)/ascribe
bench-churn: ## what recording costs beside compilers and short processes, against perf; RUNS=3
	$(Q)BUILD=$(BUILD) RUNS=$(or $(RUNS),3) $(KEEP) bash tests/bench/churn.sh

bench-memory: $(BUILD)/tests/hasty/ascribe $(BUILD)/tests/record/crowd
bench-memory: ## memory-max of a daemon beside a flood of stacks, labels and waits, as root
	$(Q)BUILD=$(BUILD) bash tests/bench/memory.sh

bench-idle: $(BUILD)/ascribe $(BUILD)/tests/record/idle
bench-idle: ## what 10 to 32,000 idle processes cost, and 60,000 threads, as root (15 minutes)
	$(Q)BUILD=$(BUILD) $(KEEP) bash tests/bench/idle.sh

$(BUILD)/bench/switches: tests/bench/switches.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -std=gnu11 -D_GNU_SOURCE $(WARN) -o $@ $<

bench-rates: $(BUILD)/ascribe $(BUILD)/bench/switches $(BUILD)/tests/record/storm
bench-rates: ## recorders by switches, short processes and CPUs; RUNS=3, as root (10 minutes)
	$(Q)$(KEEP) /usr/bin/python3 tests/bench/rates.py $(BUILD)

bench-separation: $(BUILD)/ascribe
bench-separation: ## what it costs that a recorder is several processes, by perf; RUNS=3
	$(Q)BUILD=$(BUILD) RUNS=$(or $(RUNS),3) $(KEEP) bash tests/bench/separation.sh

.PHONY: bench-sample bench-own bench-drain bench-rates bench-fleet
.PHONY: bench-churn bench-memory bench-idle bench-separation

bench-fleet: $(BUILD)/ascribe $(BUILD)/tests/mkstore $(CLICKHOUSE_MODULES)/.fetched
bench-fleet: ## ClickHouse under 1,000 simulated nodes: inserts, bytes, questions; 10 minutes
	$(Q)rm -rf $(BUILD)/bench/fleet && mkdir -p $(BUILD)/bench/fleet
	$(Q)$(BUILD)/tests/mkstore $(BUILD)/bench/fleet/store crowd >/dev/null
	$(Q)ASCRIBE=$(BUILD)/ascribe $(KEEP) python3 tests/bench/fleet.py \
		$(BUILD)/bench/fleet $(BUILD)/bench/fleet/store
