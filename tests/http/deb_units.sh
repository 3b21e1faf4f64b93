#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package, by dpkg, under a real systemd: an upgrade from one that had a single unit,
# while somebody asks; the same version again; removed, purged.
. "$(dirname "$0")/units.bash"
command -v dpkg-deb >/dev/null || skip "no dpkg-deb"
make_upper
make -C "$here/../.." --no-print-directory -s deb \
	BUILD="$(realpath --relative-to="$here/../.." "$build")" >make.log 2>&1 ||
	bad "make deb: $(tail -1 make.log)"
cp "$build"/ascribe_*.deb upper/before/new.deb
dpkg-deb -R upper/before/new.deb before
of=$(dirname "$(find before -name ascribe.service)")
single_unit >"$of/ascribe.service"
rm "$of"/{ascribe-*,system-ascribe.slice}
sed -i 's/^Version: .*/Version: 0.0.1/' before/DEBIAN/control
dpkg-deb --root-owner-group -b before upper/before/old.deb >/dev/null
# What `make install` has put there; settings of the administrator's stay.
rm upper/$units/*.{service,socket,slice} upper/usr/bin/ascribe
mkdir -p upper/usr/lib/systemd/system
boot_units
inside mount --bind /$units /usr/lib/systemd/system
inside rm -f /usr/bin/ascribe /usr/sbin/policy-rc.d # images of containers forbid services
inside mkdir -p /etc/systemd/system
installs() {
	inside dpkg -i --force-depends --force-confold "/before/$1.deb" >dpkg.log 2>&1 ||
		{ tail -3 dpkg.log && false; }
}
ok "the package of before is installed" installs old
ok "nothing runs yet" sh -c "! nsenter -t $systemd -a pgrep ascribe"
sd daemon-reload
ok "it starts" sd start ascribe
ok "it serves" within 30 serves
recorder=$(main)
ok "all in one unit" inside grep -q '/ascribe.service$' \
	"/proc/$(inside pgrep -x ascribe-web)/cgroup"
asks "upgraded" installs new
ok "another recorder" test "$(main)" != "$recorder"
ok "with its keeper in another unit" test "$(main ascribe-keeper)" != 0
ok "and the server in a third" test "$(names "$(web)")" = "ascribe-web "
ok "it records into the same store" records
asks "the same version again" installs new
ok "the settings stay" inside grep -q '^token-file' /etc/ascribe/ascribe.yaml
ok "removed" inside dpkg -r ascribe
ok "nothing runs any more" within 10 sh -c "! nsenter -t $systemd -a pgrep ascribe"
ok "no socket is left" test -z "$(sd list-sockets --all --no-legend '*ascribe*')"
ok "the store stays" inside test -e /var/lib/ascribe/HEADER
ok "purged" inside dpkg -P ascribe
ok "no file is left" sh -c "! nsenter -t $systemd -a find /run /var/lib /var/cache -maxdepth 1 -name '*ascribe*' | grep ."
finish
