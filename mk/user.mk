# SPDX-License-Identifier: Apache-2.0
# The program: every layer into one archive, the command line linked on top.

LIBS := -lbpf -lseccomp -lZydis -llzma -ldw -lelf -lz -lzstd -lxxhash -lpcre2-8 -lroaring \
	-ljansson -lprotobuf-c -lmicrohttpd -lgnutls -lyaml -lncursesw -ltinfo -lm -lpthread
IBERTY := $(firstword $(wildcard /usr/lib/*/libiberty.a) -liberty)

CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	-Wwrite-strings -Wvla
INCLUDE := -Iuser -Iinclude -I$(BUILD)/gen
SAN := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)
# Not beside sanitizers: their checks come first, and FORTIFY's calls hide what they look at.
# Debian's PIE is the default of its gcc alone.
HARDEN := $(if $(SANITIZE),,-fstack-protector-strong \
	-fPIE $(if $(filter -O0,$(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
HARDEN_LINK := $(if $(SANITIZE),,-pie -Wl,-z,relro,-z,now)
override CFLAGS += -std=gnu11 $(WARN) $(SAN) $(HARDEN) $(PREFIX_MAP) \
	-fno-strict-aliasing -D_GNU_SOURCE $(if $(CI),-Werror)
override LDFLAGS += $(SAN) $(HARDEN_LINK)

LIB_SRC := $(filter-out user/cli/%,$(sort $(wildcard user/*/*.c user/*/*/*.c)))
CLI_SRC := $(sort $(wildcard user/cli/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o) $(PB_OBJ) $(WEB_OBJ)
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/%.o)

$(BUILD)/ascribe: $(CLI_OBJ) $(BUILD)/libascribe.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(CLI_OBJ) $(BUILD)/libascribe.a $(IBERTY) $(LIBS)

man: $(BUILD)/man/ascribe.1 ## the manual pages, from the option tables
$(BUILD)/man/ascribe.1: $(BUILD)/ascribe
	$(call say,MAN,$@)
	@mkdir -p $(@D)
	$(Q)for c in $$($< help --commands); do $< help --man $$c >$(@D)/ascribe-$$c.1 || \
		exit 1; done
	$(Q)$< help --man >$@

$(BUILD)/libascribe.a: $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# Rebuild when the flags change.
$(BUILD)/flags: FORCE
	@mkdir -p $(BUILD)
	@echo '$(CC) $(CFLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(CFLAGS) $(LDFLAGS)' >$@
FORCE:

$(BUILD)/%.o: %.c $(BUILD)/flags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -MMD -MP -c -o $@ $<

# The recipes that the program brings along, one behind the other.
RECIPES := $(sort $(wildcard recipes/*.recipe))
$(BUILD)/gen/recipes.txt: $(RECIPES)
	@mkdir -p $(@D)
	$(Q)cat $^ >$@
$(BUILD)/user/labels/recipe_built_in.o: $(BUILD)/gen/recipes.txt
$(BUILD)/user/labels/recipe_built_in.o: override CFLAGS += -DRECIPES='"$(BUILD)/gen/recipes.txt"'

# What `top` knows of terminals by itself, as ncurses takes it from the environment.
$(BUILD)/gen/terminal.h:
	@mkdir -p $(@D)
	$(Q)printf '#define TOP_TERMINFO "%s"\n' "$$(infocmp -0 -q -Q2 xterm-256color)" >$@
$(BUILD)/user/top/screen.o: $(BUILD)/gen/terminal.h

# The tables that `push --create-tables` makes.
$(BUILD)/user/push/tables.o: deploy/clickhouse/one-node.sql
$(BUILD)/user/push/tables.o: override CFLAGS += \
	-DCLICKHOUSE_SQL='"deploy/clickhouse/one-node.sql"'

$(filter $(BUILD)/user/sampler/%,$(LIB_OBJ)): | $(SKELETONS)

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d)
