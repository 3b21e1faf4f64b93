# SPDX-License-Identifier: Apache-2.0
# make static: build/ascribe-static, one file without libraries. It is the program of mk/user.mk,
# but for what loads libraries of the host (user/util/library.h).

STATIC := $(BUILD)/ascribe-static
STATIC_ARCHIVES := $(BUILD)/static/libroaring.a $(BUILD)/static/libZydis.a
STATIC_OBJ := $(BUILD)/static/library.o $(BUILD)/static/p11_kit.o
# What those of the program need in turn.
STATIC_LIBS := $(LIBS) -lbz2 -ltasn1 -lidn2 -lunistring -lhogweed -lnettle -lgmp

$(BUILD)/static/libroaring.a: tools/static-libraries
	$(call say,STATIC,$(@D))
	$(Q)CC='$(CC)' tools/static-libraries $(@D)
$(BUILD)/static/libZydis.a: $(BUILD)/static/libroaring.a

$(BUILD)/static/library.o: user/util/library.c user/util/library.h $(BUILD)/flags
$(BUILD)/static/p11_kit.o: lib/static/p11_kit.c $(BUILD)/flags
$(STATIC_OBJ):
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -DASCRIBE_STATIC -c -o $@ $<

# ld warns of functions that may load libraries: library.c keeps getpwuid and getgrgid from it.
$(STATIC): $(CLI_OBJ) $(BUILD)/libascribe.a $(STATIC_OBJ) $(STATIC_ARCHIVES)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out -pie,$(LDFLAGS)) -static-pie -s -Wl,--gc-sections \
		-Wl,-Map=$@.map -o $@ $(CLI_OBJ) \
		$(STATIC_OBJ) $(BUILD)/libascribe.a -L$(BUILD)/static $(IBERTY) \
		-Wl,--start-group $(STATIC_LIBS) -Wl,--end-group

static: ## one file without libraries, for every Linux since 5.19: build/ascribe-static
	$(Q)tools/deps build static
	$(Q)$(MAKE) --no-print-directory $(STATIC)

# Minimal Debian systems, from the mirror that apt uses or MIRROR.
ROOTS := $(patsubst %,$(BUILD)/roots/%,$(or $(RELEASE),bullseye bookworm \
	trixie))
$(ROOTS): $(BUILD)/roots/%:
	$(call say,ROOT,$@)
	@mkdir -p $(@D)
	$(Q)rm -rf $@.new && debootstrap --variant=minbase $* $@.new \
		$(or $(MIRROR),http://deb.debian.org/debian) >$@.log && mv $@.new $@

test-static: $(ROOTS) $(BUILD)/ascribe $(BUILD)/tests/record/busy
test-static: ## the static program in an empty root and in minimal Debian 11 to 13, as root
	$(Q)ROOTS='$(abspath $(ROOTS))' BUILD=$(BUILD) bash tests/record/static.sh

.PHONY: static test-static
