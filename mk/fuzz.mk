# SPDX-License-Identifier: Apache-2.0
# Fuzzers for clang's libFuzzer: tests/fuzz/fuzz_x.c -> build/fuzz/fuzz_x. What they are linked with
# has no checksums, and a store no compression (FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION): a changed
# byte is read for what it means. Needs libclang-rt-14-dev.

FUZZ_CLANG ?= clang-14
FUZZ := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_SRC := $(wildcard $(patsubst %,user/%/*.c,elf hist labels proc query sandbox store/* symbols \
	unwind util))
FUZZ_SRC += $(filter-out user/import/pprof.c,$(wildcard user/import/*.c)) user/export/intern.c \
	user/export/otel_names.c
FUZZ_SRC += $(wildcard user/pods/parse.c user/pods/parse_*.c user/pods/record.c user/pods/table*.c)
FUZZ_PB := $(patsubst %,$(BUILD)/gen/%.pb-c,store/file/store pods/cri export/otlp)
FUZZ_OBJ := $(FUZZ_SRC:%.c=$(BUILD)/fuzz/%.o)
FUZZ_CFLAGS := -g -O1 -std=gnu11 -D_GNU_SOURCE -fno-strict-aliasing -fsanitize=address,undefined \
	-fno-sanitize-recover=all \
	-DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION \
		-DRECIPES='"$(BUILD)/gen/recipes.txt"' $(INCLUDE) -Itests -MMD -MP

$(FUZZ_OBJ): $(BUILD)/fuzz/%.o: %.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -c -o $@ $<
$(BUILD)/fuzz/user/labels/recipe_built_in.o: $(BUILD)/gen/recipes.txt

$(FUZZ_OBJ): | $(FUZZ_PB:=.h)

$(BUILD)/fuzz/libfuzzed.a: $(FUZZ_OBJ) $(FUZZ_PB:=.o)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(FUZZ): $(BUILD)/fuzz/%: tests/fuzz/%.c $(BUILD)/fuzz/libfuzzed.a
	$(call say,FUZZ,$@)
	$(Q)$(FUZZ_CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $< $(BUILD)/fuzz/libfuzzed.a \
		$(IBERTY) $(LIBS) -lcmocka

fuzz: $(FUZZ) ## the fuzzers, by clang; the head of each in tests/fuzz says how it is run

.PHONY: fuzz
-include $(FUZZ_OBJ:.o=.d) $(FUZZ:=.d)
