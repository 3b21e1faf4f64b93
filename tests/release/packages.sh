#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package: what lintian says of it, the same bytes whoever makes it, its parts by
# CycloneDX; C and BPF objects of two directories.
. "$(dirname "$0")/lib.bash"
ok "make deb" run_make deb
deb=$(echo "$build"/ascribe_*.deb)
cp "$deb" first.deb
ok "again, with another umask, locale and time zone" \
	sh -c 'umask 077 && LC_ALL=C.UTF-8 LANG=de_DE TZ=Asia/Tokyo make -C "$1" -s BUILD="$2" deb' sh \
	"$root" "$relative"
ok "the same bytes" same first.deb "$deb"
if command -v lintian >/dev/null; then
	lintian -EI --allow-root --no-tag-display-limit "$deb" >lintian.out 2>&1
	ok "lintian: no error and no warning" sh -c '! grep ^[EW]: lintian.out'
	ok "no override is unused" sh -c '! grep unused-override lintian.out'
else
	echo "no lintian here"
fi
dpkg-deb -R "$deb" tree
ok "no file is for its owner alone" test -z "$(find tree -path tree/DEBIAN -prune -o ! -perm -444 -print)"
ok "no name of this host's directories" sh -c '! grep -rlF "$1" tree' sh "$root"
ok "each file has its checksum" sh -c 'cd tree && md5sum --quiet -c DEBIAN/md5sums'
ok "its library is known to the linker" grep -q ldconfig tree/DEBIAN/triggers

# Two directories, one source.
for d in here elsewhere/deeper; do
	mkdir -p "$d"
	cp -r "$root"/{Makefile,mk,bpf,include,vmlinux,user} "$d/"
	(cd "$d" && make -s build/user/util/buf.o build/bpf/sample.bpf.o >/dev/null 2>make.log) ||
		bad "make in $d: $(tail -1 "$d/make.log")"
done
for f in user/util/buf.o bpf/sample.bpf.o; do
	ok "$f of two directories" same here/build/$f elsewhere/deeper/build/$f
done
finish
