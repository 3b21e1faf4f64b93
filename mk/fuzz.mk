# SPDX-License-Identifier: Apache-2.0
# Fuzz targets: tests/fuzz/fuzz_x.c, for clang's libFuzzer (libclang-rt-14-dev) as build/fuzz/x, for
# make test as a part of the program build/asan/fuzz/replay. What they are for is built without
# checksums, its stores have no compression, and hashes have 16 bits
# (FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION): a changed byte is read for what it means, and keys are
# told apart that have one hash.

FUZZ_CLANG ?= clang-14
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ := $(FUZZ_NAMES:%=$(BUILD)/fuzz/%)
# With a look at what inputs reach; the rest comes from libascribe.a, as it is. Whatever fills a
# buffer while a target runs must be among these: its inline functions tell AddressSanitizer which
# bytes may be used (util/room.h).
FUZZ_SRC := $(filter $(patsubst %,user/%,elf/% export/% fleet/% hist/% http/% import/% \
	labels/% mcp/% opt/% pods/% proc/% push/% query/% \
	store/% symbols/% unwind/% util/%),$(LIB_SRC))
FUZZ_SRC := $(filter-out user/push/tables.c user/export/flame_page.c,$(FUZZ_SRC))
FUZZ_OBJ := $(FUZZ_SRC:%.c=$(BUILD)/fuzz/%.o)
FUZZ_MODE := -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
FUZZ_CFLAGS := -g1 -O1 -w -std=gnu11 -D_GNU_SOURCE -fno-strict-aliasing \
	-fno-omit-frame-pointer \
	-fsanitize=address,undefined -fno-sanitize-recover=all \
	-fprofile-instr-generate -fcoverage-mapping $(FUZZ_MODE) \
	-DRECIPES='"$(BUILD)/gen/recipes.txt"' $(INCLUDE) -Itests -MMD -MP

$(FUZZ_OBJ): $(BUILD)/fuzz/%.o: %.c | $(PB_SRC)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -c -o $@ $<
$(BUILD)/fuzz/user/labels/recipe_built_in.o: $(BUILD)/gen/recipes.txt

# The allocators and system calls of these libraries are those of starve.c; some functions of glibc,
# liblzma, libzstd, libelf and libdw those of starve_libs.c.
STARVED := $(foreach f,malloc calloc realloc reallocarray strdup strndup open openat fcntl fstat \
	fstatat read pread getrandom pwrite fsync fdatasync ftruncate posix_fallocate renameat \
	mkdirat unlinkat dup fdopendir asprintf vasprintf open_memstream fclose \
	ZSTD_createCCtx ZSTD_compress ZSTD_compress2 ZSTD_decompressDCtx lzma_stream_decoder \
	elf_begin gelf_getshdr gelf_update_shdr elf_getdata elf_rawdata \
	dwarf_offdie dwarf_child dwarf_siblingof,--redefine-sym $(f)=fuzz_$(f))
STARVE_OBJ := $(BUILD)/fuzz/starve.o $(BUILD)/fuzz/starve_libs.o
$(BUILD)/fuzz/libfuzzed.a: $(FUZZ_OBJ)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
	$(Q)objcopy $(STARVED) $@
$(BUILD)/fuzz/libstarved.a: $(BUILD)/libascribe.a
	@mkdir -p $(@D)
	$(Q)objcopy $(STARVED) $< $@

$(STARVE_OBJ): $(BUILD)/fuzz/%.o: tests/fuzz/%.c
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CLANG) $(FUZZ_CFLAGS) -c -o $@ $<

$(FUZZ): $(BUILD)/fuzz/%: tests/fuzz/fuzz_%.c $(STARVE_OBJ) $(BUILD)/fuzz/libfuzzed.a \
	$(BUILD)/libascribe.a
	$(call say,FUZZ,$@)
	$(Q)$(FUZZ_CLANG) $(FUZZ_CFLAGS) -DLLVMFuzzerTestOneInput=fuzz_target -fsanitize=fuzzer \
		-o $@ $(filter-out %.h %.def,$^) $(IBERTY) $(LIBS) -lcmocka

# SECONDS is a variable of the shell: only that of the command line counts.
fuzz: $(if $(TARGET),$(TARGET:%=$(BUILD)/fuzz/%),$(FUZZ))
fuzz: ## run the fuzz targets, SECONDS=60 each; TARGET="elf otlp"
	$(Q)tools/fuzz $(BUILD)/fuzz $(if $(filter command line,$(origin SECONDS)),$(SECONDS),60) \
		$(or $(TARGET),$(FUZZ_NAMES))

fuzz-coverage: $(FUZZ) ## branches of each parser that its corpus takes
	$(Q)tools/fuzz-coverage $(BUILD)/fuzz $(FUZZ_NAMES)

# Each target's functions under its own names, in one program.
REPLAY := $(BUILD)/fuzz/replay
REPLAY_OBJ := $(FUZZ_NAMES:%=$(BUILD)/fuzz/replay_%.o)
REPLAY_MODE := $(patsubst %,$(BUILD)/fuzz/mode/%.o,user/util/crc32c user/util/idhash \
	user/store/file/columns)
$(REPLAY_OBJ): $(BUILD)/fuzz/replay_%.o: tests/fuzz/fuzz_%.c $(BUILD)/flags | $(PB_SRC)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(FUZZ_MODE) $(INCLUDE) -Itests -MMD -MP -c -o $@ $< \
		-DLLVMFuzzerTestOneInput=fuzz_$* -DLLVMFuzzerCustomMutator=mutate_$*
$(REPLAY_MODE): $(BUILD)/fuzz/mode/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(FUZZ_MODE) $(INCLUDE) -MMD -MP -c -o $@ $<
$(REPLAY): $(addprefix tests/fuzz/,replay.c starve.c starve_libs.c) $(REPLAY_OBJ) $(REPLAY_MODE) \
	$(BUILD)/fuzz/libstarved.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) -Itests -D'TARGETS=$(foreach n,$(FUZZ_NAMES),T($(n)))' $(LDFLAGS) \
		-o $@ $^ $(IBERTY) $(LIBS) -lcmocka

.PHONY: fuzz fuzz-coverage
-include $(FUZZ_OBJ:.o=.d) $(FUZZ:=.d) $(REPLAY_OBJ:.o=.d) $(REPLAY_MODE:.o=.d)
