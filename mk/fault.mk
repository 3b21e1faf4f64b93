# SPDX-License-Identifier: Apache-2.0
# Faults of the store: power lost, calls and allocations that fail, writers killed, bits flipped.
# Every tests/fault/test_*.c is a test program. `make test-all` runs all of them at a size that
# takes a minute or two, `make test` a part of that. `make reliability` prints what they and the
# hostile programs of other tests saw. `make reliability-full` takes hours, and adds what it saw to
# tests/counts.

comma := ,
FAULT := $(patsubst tests/fault/%.c,$(BUILD)/fault/%,$(sort $(wildcard tests/fault/test_*.c)))
# Those that are worth it under sanitizers; the others start programs, or do the same many times.
FAULT_ASAN := $(filter-out %/test_power %/test_kill %/test_bits %/test_parsers,$(FAULT))
# `make test` runs those with sanitizers, and the others without.
FAULT_PLAIN := $(if $(ASCRIBE_TEST_ALL),$(FAULT),$(filter-out $(FAULT_ASAN),$(FAULT)))
FAULT_OBJ := $(BUILD)/fault/scenario.o $(BUILD)/fault/disk.o
FAULT_WRITERS := $(BUILD)/fault/writer $(patsubst %,$(BUILD)/fault/writer-no-%,fdatasync fsync \
	dirsync)
FAULT_CFLAGS = $(INCLUDE) -Itests -DFAULT_RECORDER='"$(abspath $(BUILD))/fault/recorder.so"' \
	-DFAULT_WRITER='"$(abspath $(BUILD))/fault/writer"' \
	-DFAULT_PROGRAMS='"$(abspath $(BUILD))/fault/*"' -MMD -MP

$(BUILD)/fault/%.o: tests/fault/%.c $(BUILD)/flags
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(FAULT_CFLAGS) -c -o $@ $<

$(BUILD)/fault/test_%: $(BUILD)/fault/test_%.o $(FAULT_OBJ) $(BUILD)/libascribe.a
	$(call say,TEST,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(BUILD)/libascribe.a $(IBERTY) \
		$(LIBS) -lcmocka

# Their calls go through the recorder, which makes them fail.
$(BUILD)/fault/test_calls $(BUILD)/fault/test_ops: $(BUILD)/fault/recorder.o

$(BUILD)/fault/test_alloc: $(BUILD)/fault/alloc.o

# Never with a sanitizer: it is loaded before programs that know nothing of it.
$(BUILD)/fault/recorder.so: tests/fault/recorder.c tests/fault/log.h tests/fault/faults.h
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -g -std=gnu11 $(WARN) $(if $(CI),-Werror) \
		-D_GNU_SOURCE -DRECORDER_SHARED -Itests -shared -fPIC -o $@ $<

# The program, and builds of it that do not sync.
$(BUILD)/fault/writer-no-fdatasync: FAULT_STUB := -DSTUB_DATA
$(BUILD)/fault/writer-no-fsync: FAULT_STUB := -DSTUB_FILES
$(BUILD)/fault/writer-no-dirsync: FAULT_STUB := -DSTUB_DIRS
$(FAULT_WRITERS): $(BUILD)/fault/writer.o $(BUILD)/fault/scenario.o tests/fault/stub_sync.c \
	$(BUILD)/libascribe.a
	$(call say,TEST,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) \
		$(if $(FAULT_STUB),$(FAULT_STUB) -Wl$(comma)--wrap=fdatasync$(comma)--wrap=fsync \
			tests/fault/stub_sync.c) \
		$(BUILD)/libascribe.a $(IBERTY) $(LIBS) -lcmocka

$(BUILD)/fault/test_power $(BUILD)/fault/test_kill: | $(BUILD)/fault/recorder.so $(FAULT_WRITERS)

fault-programs: $(FAULT)
.SECONDARY: $(FAULT:=.o) $(FAULT_OBJ) $(BUILD)/fault/writer.o
fault: $(FAULT_PLAIN) ## the store's faults alone; all of them with ASCRIBE_TEST_ALL=1
	$(Q)tools/test $(foreach t,$(FAULT_PLAIN),'fault/$(notdir $(t))=$(t)')

# ROWS="kill bits" selects; all of them by name: tools/reliability.
reliability reliability-full: test-programs fault-programs races-programs
reliability: ## faults and attacks with counts; ROWS="kill bits"
	$(Q)BUILD=$(BUILD) BESIDE='$(BESIDE)' tools/reliability $(ROWS)

reliability-full: ## all of it, MINUTES=60 of what has no end
	$(Q)FULL=1 BUILD=$(BUILD) BESIDE='$(BESIDE)' tools/reliability $(ROWS); status=$$?; \
		$(MAKE) -B --no-print-directory docs/reliability.md && exit $$status

.PHONY: fault fault-programs reliability reliability-full
-include $(wildcard $(BUILD)/fault/*.d)
