# SPDX-License-Identifier: Apache-2.0
#   make install [DESTDIR=] [PREFIX=/usr/local]; make uninstall removes what that made, never the
#   store or a file of /etc
#   make deb: build/ascribe_VERSION-1~debRELEASE_ARCH.deb, by debhelper

PREFIX ?= /usr/local
DESTDIR ?=
SYSTEMD ?= $(PREFIX)/lib/systemd/system
UNITS := ascribe.service ascribe-keeper.service ascribe-keeper.socket ascribe-web@.service \
	ascribe-web.socket system-ascribe.slice
TMPFILES := $(PREFIX)/lib/tmpfiles.d
MAN1 := $(PREFIX)/share/man/man1
# What the help and the manual refer to, and whoever labels programs.
DOC_DIR := $(PREFIX)/share/doc/ascribe
DOCS := http json labels memory recipes fleet
# The sampler of allocations: the library, where `record --heap` looks for it, and its source.
HEAP_DIR := $(PREFIX)/lib/ascribe
HEAP_SOURCE := $(PREFIX)/share/ascribe/heap.c
# Labels for other languages: the library where linkers look, and a file for each language.
LABEL_SO := $(PREFIX)/lib/libascribe-label.so
LABEL_DIR := $(PREFIX)/share/ascribe/label
LABEL_FILES := python/ascribe.py rust/ascribe.rs node/ascribe.js java/ascribe/Labels.java \
	go/otel.go
# Where each shell looks for completions; Debian's zsh has a place of its own for packages.
BASH_DIR := $(PREFIX)/share/bash-completion/completions
ZSH_DIR := $(PREFIX)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
FISH_DIR := $(PREFIX)/share/fish/vendor_completions.d
VERSION := $(shell sed -n 's/^.define ASCRIBE_VERSION "\(.*\)"/\1/p' user/cli/cmd.h)
DEB_ARCH := $(shell dpkg --print-architecture 2>/dev/null)
DEB_RELEASE := $(shell . /etc/os-release && echo "deb$$VERSION_ID")
DEB := $(BUILD)/ascribe_$(VERSION)-1~$(DEB_RELEASE)_$(DEB_ARCH).deb
# Of every file in what is packed: that of the commit, which files of a source tarball have, too.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
export SOURCE_DATE_EPOCH

install: $(BUILD)/ascribe $(HEAP_LIB) $(LABEL_LIB) $(BUILD)/man/ascribe.1
install: ## the program, kubectl's plug-in, headers, manual, completions, unit: DESTDIR, PREFIX
	install -D -m 755 $(BUILD)/ascribe $(DESTDIR)$(PREFIX)/bin/ascribe
	install -m 755 deploy/kubernetes/kubectl-ascribe $(DESTDIR)$(PREFIX)/bin/
	install -d $(DESTDIR)$(MAN1)
	install -m 644 $(BUILD)/man/*.1 deploy/kubernetes/kubectl-ascribe.1 $(DESTDIR)$(MAN1)/
	install -D -m 644 deploy/completion/ascribe.bash $(DESTDIR)$(BASH_DIR)/ascribe
	install -D -m 644 deploy/completion/_ascribe $(DESTDIR)$(ZSH_DIR)/_ascribe
	install -D -m 644 deploy/completion/ascribe.fish $(DESTDIR)$(FISH_DIR)/ascribe.fish
	install -d $(DESTDIR)$(PREFIX)/include/ascribe $(DESTDIR)$(SYSTEMD)
	install -m 644 include/ascribe/*.h include/ascribe/*.hpp \
		$(DESTDIR)$(PREFIX)/include/ascribe/
	for f in $(UNITS); do \
		sed 's|@BIN@|$(PREFIX)/bin/ascribe|' deploy/$$f >$(DESTDIR)$(SYSTEMD)/$$f && \
		chmod 644 $(DESTDIR)$(SYSTEMD)/$$f || exit 1; done
	install -D -m 644 $(HEAP_LIB) $(DESTDIR)$(HEAP_DIR)/libascribe-heap.so
	install -D -m 644 lib/heap.c $(DESTDIR)$(HEAP_SOURCE)
	install -D -m 644 $(LABEL_LIB) $(DESTDIR)$(LABEL_SO)
	for f in $(LABEL_FILES); do \
		install -D -m 644 lib/label/$$f $(DESTDIR)$(LABEL_DIR)/$$f || exit 1; done
	install -d $(DESTDIR)$(DOC_DIR)
	install -m 644 $(DOCS:%=docs/%.md) $(DESTDIR)$(DOC_DIR)/
	install -D -m 644 deploy/ascribe.tmpfiles $(DESTDIR)$(TMPFILES)/ascribe.conf
	[ -e $(DESTDIR)/etc/ascribe/ascribe.yaml ] || \
		install -D -m 644 deploy/ascribe.yaml $(DESTDIR)/etc/ascribe/ascribe.yaml

uninstall: ## what install made; the store and /etc/ascribe stay
	rm -f $(DESTDIR)$(PREFIX)/bin/ascribe $(DESTDIR)$(PREFIX)/bin/kubectl-ascribe \
		$(DESTDIR)$(MAN1)/ascribe.1 \
		$(DESTDIR)$(MAN1)/ascribe-*.1 $(DESTDIR)$(MAN1)/kubectl-ascribe.1 \
		$(UNITS:%=$(DESTDIR)$(SYSTEMD)/%) \
		$(DESTDIR)$(BASH_DIR)/ascribe $(DESTDIR)$(ZSH_DIR)/_ascribe \
			$(DESTDIR)$(FISH_DIR)/ascribe.fish \
		$(DESTDIR)$(HEAP_DIR)/libascribe-heap.so $(DESTDIR)$(HEAP_SOURCE) \
		$(DESTDIR)$(LABEL_SO) \
		$(DESTDIR)$(TMPFILES)/ascribe.conf $(DOCS:%=$(DESTDIR)$(DOC_DIR)/%.md) \
			$(patsubst include/%,$(DESTDIR)$(PREFIX)/include/%,$(wildcard \
			include/ascribe/*.h*))
	rm -rf $(DESTDIR)$(LABEL_DIR)
	-rmdir $(DESTDIR)$(PREFIX)/include/ascribe $(DESTDIR)$(DOC_DIR) $(DESTDIR)$(HEAP_DIR) \
		$(dir $(DESTDIR)$(HEAP_SOURCE))

deb: $(BUILD)/ascribe $(BUILD)/man/ascribe.1 ## a package for this Debian
	$(Q)tools/deps package
	$(call say,DEB,$(DEB))
	$(Q)BUILD=$(BUILD) VERSION=$(VERSION) ARCH=$(DEB_ARCH) MAKE='$(MAKE)' tools/deb $(DEB)

# What the program is linked with; of the static one, too, where it is built.
sbom: $(BUILD)/ascribe ## the parts of the program: build/ascribe.cdx.json (CycloneDX)
	$(Q)VERSION=$(VERSION) tools/sbom $< >$<.cdx.json
	$(Q)[ ! -e $(STATIC) ] || VERSION=$(VERSION) tools/sbom $(STATIC) $(STATIC).map \
		>$(STATIC).cdx.json

release: ## packages, static program, tarball, parts, sums in build/release/VERSION, as root
	$(Q)VERSION=$(VERSION) tools/release $(BUILD)/release/$(VERSION) \
		$(or $(RELEASE),bookworm trixie)

.PHONY: install uninstall deb sbom release
