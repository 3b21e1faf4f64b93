#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make install, uninstall and deb, into directories of their own; the unit as systemd reads it.
. "$(dirname "$0")/lib.bash"
root=$(realpath "$here/../..")
build=$(realpath --relative-to="$root" "$build")
run() { make -C "$root" --no-print-directory BUILD="$build" "$@"; }

ok "install" run install DESTDIR="$dir/root" PREFIX=/opt/a
ok "the program runs" sh -c "root/opt/a/bin/ascribe --version | grep -q ascribe"
ok "kubectl's plug-in" root/opt/a/bin/kubectl-ascribe --help
ok "its manual pages" sh -c 'for c in $(root/opt/a/bin/ascribe help --commands); do grep -q "SH OPTIONS" root/opt/a/share/man/man1/ascribe-$c.1 || exit 1; done'
ok "and the one of all" sh -c "grep -q 'EXIT STATUS' root/opt/a/share/man/man1/ascribe.1"
ok "completions" sh -c 'cd root/opt/a/share && ls bash-completion/completions/ascribe zsh/site-functions/_ascribe fish/vendor_completions.d/ascribe.fish'
ok "what the help refers to" sh -c '(root/opt/a/bin/ascribe daemon --help; root/opt/a/bin/ascribe report --help; cat root/opt/a/share/man/man1/*) | grep -o "docs/[a-z]*\.md" | sort -u |
	while read -r f; do ls "root/opt/a/share/doc/ascribe/${f#docs/}" || exit 1; done'
for unit in ascribe ascribe-keeper ascribe-web@; do
	ok "the unit $unit names it" grep -qE 'ExecStart=/opt/a/bin/ascribe (daemon|serve)' \
		root/opt/a/lib/systemd/system/$unit.service
done
ok "a header compiles" sh -c 'echo "#include <ascribe/label.h>" | cc -xc -Iroot/opt/a/include -fsyntax-only -'
ok "the sampler of allocations" sh -c 'LD_PRELOAD=$PWD/root/opt/a/lib/ascribe/libascribe-heap.so /bin/true 2>&1 | wc -c | grep -qx 0 && ls root/opt/a/share/ascribe/heap.c'
ok "labels for other languages" sh -c 'ASCRIBE_LABEL_LIB=$PWD/root/opt/a/lib/libascribe-label.so PYTHONPATH=root/opt/a/share/ascribe/label/python python3 -B -c "import ascribe; assert ascribe.set(\"k\", \"v\") and ascribe.current()"'
echo changed: 1 >>root/etc/ascribe/ascribe.yaml
ok "install again" run install DESTDIR="$dir/root" PREFIX=/opt/a
ok "leaves a changed file alone" grep -q 'changed: 1' root/etc/ascribe/ascribe.yaml
ok "uninstall" run uninstall DESTDIR="$dir/root" PREFIX=/opt/a
ok "leaves nothing but /etc" sh -c '! find root -type f | grep -v ^root/etc/ && ! find root -depth -name ascribe -type d | grep -v ^root/etc/'
ok "deb" run deb
deb=$(echo "$root/$build"/ascribe_*.deb)
ok "dpkg reads it" sh -c "dpkg-deb -I '$deb' | grep -q 'Depends:.*libmicrohttpd'"
dpkg-deb -x "$deb" deb
ok "its manual and completions" sh -c 'cd deb/usr/share && ls man/man1/ascribe-top.1.gz man/man1/ascribe.1.gz bash-completion/completions/ascribe zsh/vendor-completions/_ascribe'
ok "its program runs" sh -c 'deb/usr/bin/ascribe --version'
ok "its file is good" deb/usr/bin/ascribe daemon -c deb/etc/ascribe/ascribe.yaml --check-config
elf=deb/usr/bin/ascribe
ok "position-independent" sh -c "readelf -h '$elf' | grep -q 'Type:.*DYN'"
ok "its symbols are bound when it starts" sh -c "readelf -d '$elf' | grep -q 'FLAGS_1.*NOW'"
ok "and their table is read-only from then on" sh -c "readelf -l '$elf' | grep -q GNU_RELRO"
ok "its stacks are protected" sh -c "readelf -W --dyn-syms '$elf' | grep -q __stack_chk_fail"
ok "its copies are checked" sh -c "readelf -W --dyn-syms '$elf' | grep -qE '__(memcpy|snprintf|read)_chk'"
ok "no stack is executable" sh -c "readelf -lW '$elf' | grep GNU_STACK | grep -qv RWE"
elf=deb/usr/lib/libascribe-label.so
ok "the library of labels: bound when it is loaded" sh -c "readelf -d '$elf' | grep -q NOW"
ok "read-only from then on" sh -c "readelf -lW '$elf' | grep -q GNU_RELRO"
ok "without an executable stack" sh -c "readelf -lW '$elf' | grep GNU_STACK | grep -qv RWE"
if command -v systemd-analyze >/dev/null; then
	units=$(dirname "$(find deb -name ascribe.service)")
	sed -i "s|=/usr/bin|=$dir/deb/usr/bin|; /^Documentation/d" "$units"/*ascribe*
	ok "systemd reads the units" sh -c "! systemd-analyze verify --man=no $units/*ascribe* 2>&1 | grep ascribe"
	# docs/security.md says what each part of the rest is for.
	scores=
	for most in ascribe=1.5 ascribe-web@=0.3 ascribe-keeper=3.7; do
		unit=${most%=*}.service
		score=$(systemd-analyze security --offline=true "$units/$unit" 2>/dev/null |
			sed -n 's/.*: \([0-9.]*\) .*/\1/p' | tail -1)
		ok "$unit: $score" awk "BEGIN { exit !(${score:-10} <= ${most#*=}) }"
		scores+="${scores:+, }$score: $unit"
	done
	echo "systemd-analyze security: $scores"
fi
finish
