#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make release` refuses before it builds anything, the source tarball, and the parts of the
# program, by the schema of CycloneDX and by the linker's own list.
. "$(dirname "$0")/lib.bash"
command -v git >/dev/null || skip "git is needed"
git clone -q --depth 1 "file://$root" clone 2>/dev/null || skip "the source is no clone"
# Of what is not committed yet, too.
(cd "$root" && git diff --name-only --diff-filter=d HEAD &&
	git ls-files --others --exclude-standard) | sort -u >changed
(cd "$root" && xargs -r cp --parents -t "$dir/clone") <changed
version=$(sed -n 's/^.define ASCRIBE_VERSION "\(.*\)"/\1/p' "$root/user/cli/cmd.h")
git -C clone config user.name test
git -C clone config user.email test@example.org
commit() {
	git -C clone add -A
	git -C clone commit -qm test --allow-empty
	git -C clone tag -f -a -m test "v$version" >/dev/null
}
check() { VERSION=$version clone/tools/release --check; }
refuses() { # text
	check >out 2>&1 && { bad "it accepts: $1"; return; }
	ok "it refuses: $1" grep -q -- "$1" out
}
log=clone/CHANGELOG.md
commit
ok "a clean tree at its tag" check
touch clone/more
refuses "the tree has changes that no commit has"
rm clone/more
git -C clone tag -d "v$version" >/dev/null
refuses "HEAD is not tagged v$version"
cp $log kept.md
sed -i "s/^## \[$version\].*/## [9.9.9] - 2026-01-01/" $log
commit
refuses "CHANGELOG.md has no section"
sed -i "s/^## \[9.9.9\].*/## [$version] - 2026-01-01/" $log
commit
refuses "CHANGELOG.md dates $version 2026-01-01"
cp kept.md $log
sed -i 's/^version: .*/version: 9.9.9/' clone/deploy/helm/ascribe/Chart.yaml
commit
refuses "Chart.yaml has the version"
version=1.0
refuses "is no semantic version"

ok "the parts of the program" run_make sbom
bom=$build/ascribe.cdx.json
cp "$bom" first.json
ok "again" run_make sbom
ok "the same bytes" cmp first.json "$bom"
# The oracle: the loader's list, of which the C library and its loader are one source.
readelf -d "$ascribe" | grep -c NEEDED >needed
jq '[.components[] | select(.purl | startswith("pkg:deb"))] | length' "$bom" >debian
ok "$(cat debian) sources for $(cat needed) libraries" \
	test "$(cat debian)" -ge "$(($(cat needed) - 4))" -a "$(cat debian)" -le "$(cat needed)"
ok "each has a version and a licence" jq -e 'all(.components[]; .version and .licenses[0].expression)' "$bom"
ok "the page's packages, by their lock" jq -e --slurpfile lock "$root/web/package-lock.json" '
	[.components[] | select(.purl | startswith("pkg:npm")) | [.name, .version]] ==
	[$lock[0].packages | to_entries[] | select(.key != "") | [(.key | sub(".*node_modules/"; "")), .value.version]]' "$bom"
[ ! -e "$build/ascribe-static.cdx.json" ] || ok "the static one has more" sh -c \
	'[ $(jq ".components | length" "$1") -gt $(jq ".components | length" "$2") ]' sh \
	"$build/ascribe-static.cdx.json" "$bom"
modules=$root/build/npm/cyclonedx
(cd "$root" && tools/fetch-npm tests/tools/cyclonedx "$modules" cyclonedx 2>/dev/null)
if [ -d "$modules/node_modules/ajv" ]; then
	export MODULES=$modules/node_modules
	ok "CycloneDX 1.5" node "$here/validate.mjs" "$build"/*.cdx.json
	sed 's/"type": "library"/"type": "thing"/' "$bom" >bad.json
	ok "and what is not is noticed" sh -c '! node "$1" bad.json' sh "$here/validate.mjs"
else
	echo "no schema of CycloneDX here: $(tail -1 "$modules/npm.log" 2>/dev/null)"
fi
finish
