# SPDX-License-Identifier: Apache-2.0
# tests/unit/test_x.c -> build/tests/test_x; tests/cli/*.sh and tests/labels/*.sh run the built binary.

UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/unit/test_*.c)))

$(BUILD)/tests/%: tests/unit/%.c $(BUILD)/libascribe.a
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -Itests -MMD -MP $(LDFLAGS) -o $@ $< $(BUILD)/libascribe.a $(IBERTY) $(LIBS) -lcmocka

unit: $(UNIT) ## build and run the unit tests
	@for t in $(UNIT); do echo "== $$t"; $$t || exit 1; done

# A synthetic store for tests/cli.
$(BUILD)/tests/mkstore: tests/tools/mkstore.c $(BUILD)/libascribe.a
	$(call say,TEST,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -MMD -MP $(LDFLAGS) -o $@ $< $(BUILD)/libascribe.a $(IBERTY) $(LIBS)

cli-tests: $(BUILD)/ascribe $(BUILD)/tests/mkstore ## run the commands on a synthetic store
	@for t in $(sort $(wildcard tests/cli/*.sh)); do echo "== $$t"; BUILD=$(BUILD) $$t || exit 1; done

e2e: $(BUILD)/ascribe $(BUILD)/tests/mkstore ## the flame page in a browser; skipped where there is none
	@for t in $(sort $(wildcard tests/e2e/*.sh)); do echo "== $$t"; BUILD=$(BUILD) $$t || [ $$? = 77 ] || exit 1; done

-include $(wildcard $(BUILD)/tests/*.d)
