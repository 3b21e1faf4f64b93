# SPDX-License-Identifier: Apache-2.0
# Messages of CRI (k8s.io/cri-api, runtime/v1/api.proto) as far as containerd.sh needs them.
#   cri.py pause FILE.tar PROGRAM     an image local/pause:1 whose only file is the program
#   cri.py sandbox [ID] > REQUEST     RunPodSandbox; with an ID, Stop- and RemovePodSandbox
#   cri.py container ID > REQUEST     CreateContainer in that sandbox
#   cri.py show < ANSWER              fields, one a line: "1.3.1 web"
import hashlib
import io
import json
import sys
import tarfile


def varint(v):
    out = b""
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def field(n, v):
    if isinstance(v, int):
        return varint(n << 3) + varint(v)
    v = v.encode() if isinstance(v, str) else v
    return varint(n << 3 | 2) + varint(len(v)) + v


def message(**fields):
    return b"".join(field(int(n[1:]), v) for n, v in fields.items())


def sandbox():
    host = message(_1=2, _2=1, _3=2)  # namespaces: network and IPC of the node
    return message(
        _1=message(_1="web-0", _2="6a7b", _3="shop", _4=0),
        _6=message(_1="app", _2="web"),
        _8=message(_2=message(_1=host)),
    )


def container(sandbox_id):
    labels = message(_1="io.kubernetes.container.name", _2="nginx")
    config = message(_1=message(_1="nginx", _2=0), _2=message(_1="local/pause:1"), _9=labels)
    return message(_1=sandbox_id, _2=config, _3=sandbox())


def read_varint(b, at):
    v = shift = 0
    while True:
        v |= (b[at] & 127) << shift
        at += 1
        shift += 7
        if b[at - 1] < 128:
            return v, at


# No text of these messages begins with a byte below 32, which a message inside begins with.
def show(b, path=""):
    at = 0
    while at < len(b):
        tag, at = read_varint(b, at)
        name = path + str(tag >> 3)
        if tag & 7 == 0:
            v, at = read_varint(b, at)
            print(name, v)
            continue
        assert tag & 7 == 2, f"wire type {tag & 7} at {at}"
        n, at = read_varint(b, at)
        part = b[at : at + n]
        assert len(part) == n, "cut off"
        at += n
        if part and part[0] < 32:
            show(part, name + ".")
        else:
            print(name, part.decode())


def pause(out, program):
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as t:
        t.add(program, arcname="pause")
    layer = layer.getvalue()
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
    }
    config = json.dumps(config).encode()
    name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": name, "RepoTags": ["local/pause:1"], "Layers": [digest + ".tar"]}]
    with tarfile.open(out, "w") as t:
        for n, b in (
            (name, config),
            (digest + ".tar", layer),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(n)
            info.size = len(b)
            t.addfile(info, io.BytesIO(b))


if sys.argv[1] == "pause":
    pause(*sys.argv[2:])
elif sys.argv[1] == "show":
    show(sys.stdin.buffer.read())
elif sys.argv[1] == "container":
    sys.stdout.buffer.write(container(sys.argv[2]))
else:
    b = message(_1=sys.argv[2]) if len(sys.argv) > 2 else message(_1=sandbox())
    sys.stdout.buffer.write(b)
