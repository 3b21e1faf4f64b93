#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The messages of the tests of push, export and Pyroscope's questions, read by what protoc makes of
# the files that OpenTelemetry, Pyroscope, Parca and pprof publish. The tests look at what was read.
# The files come from GitHub, or from clones below the directory PROTOS.
. "$(dirname "$0")/../http/lib.bash"
export PATH=/usr/bin:$PATH # Debian's python3 has Debian's modules
command -v protoc >/dev/null || skip "no protoc"
python3 -c 'import google.protobuf' 2>/dev/null || skip "no python3-protobuf"
ls /usr/include/google/protobuf/duration.proto >/dev/null 2>&1 || skip "no libprotobuf-dev"
protos=${PROTOS:-$build/others/protos}
mkdir -p "$protos"
for of in open-telemetry/opentelemetry-proto grafana/pyroscope parca-dev/parca google/pprof; do
	[ -e "$protos/${of#*/}" ] ||
		git clone -q --depth 1 "https://github.com/$of" "$protos/${of#*/}" 2>clone.err ||
		skip "$of cannot be cloned: $(tail -1 clone.err)"
done
# Options for HTTP and OpenAPI need more files, and are no part of a message.
plain() { # from to
	cp -r "$1" "$2"
	find "$2" -name '*.proto' -exec sed -Ei '/^import "(google\/api|gnostic)\//d
		s/ \[\((gnostic|google\.api)[^;]*\];/;/
		/^ *option \((gnostic|google\.api)[^;]*;$/d
		/^ *option \((gnostic|google\.api)/,/^ *\};/d' {} +
}
export BUILD=$build PUBLISHED=$dir/published
mkdir "$PUBLISHED"
makes() { # owner, directory, file...
	local owner=$1 from=$2
	shift 2
	plain "$from" "$owner"
	ok "protoc reads what $owner publishes" protoc -I "$owner" -I /usr/include \
		--include_imports --descriptor_set_out="$PUBLISHED/$owner.set" "$@"
}
makes opentelemetry "$protos/opentelemetry-proto" \
	opentelemetry/proto/collector/profiles/v1development/profiles_service.proto
makes pyroscope "$protos/pyroscope/api" push/v1/push.proto querier/v1/querier.proto
makes parca "$protos/parca/proto" parca/profilestore/v1alpha1/profilestore.proto
makes pprof "$protos/pprof/proto" profile.proto
for script in cli/otlp http/push http/push_daemon http/pyroscope; do
	ok "$script" bash "$here/../$script.sh"
done
sort "$PUBLISHED/checked" | uniq -c
for message in ExportProfilesServiceRequest PushRequest WriteRawRequest perftools.profiles \
	SelectMergeStacktracesResponse SelectSeriesResponse DiffResponse; do
	ok "$message" grep -q "$message" "$PUBLISHED/checked"
done
finish
