# SPDX-License-Identifier: Apache-2.0
"""The programs of bench-truth: what each needs, how it is built and run, and what its stacks are.

Commands run in a directory of the program's own. SRC is this directory, ROOT the repository's,
BUILD what was built. `chain` is a regular expression for the functions from the root to the leaf,
joined by ';', each by its bare name; MARK in it stands for the two functions whose time is known."""
import dataclasses
import glob
import os
import shutil
import subprocess

MARK = '(three|one)'
C = 'gcc -std=gnu11 -D_GNU_SOURCE -I$ROOT/include -o app'
CLANG = 'clang -std=gnu11 -D_GNU_SOURCE -I$ROOT/include -o app'
CXX = 'g++ -std=c++20 -D_GNU_SOURCE -I$ROOT/include -o app'
O2 = '-O2 -g -fomit-frame-pointer'


@dataclasses.dataclass
class Program:
    name: str
    build: str = ''
    needs: tuple = ()           # programs, or commands that succeed; else the row is "not run"
    run: str = './app ARGS'     # ARGS: TRIALS MILLISECONDS FIRST
    source: str = 'parts.h'     # where the two functions are
    caller: str = 'truth.h'     # where run() calls them, if a line says so; '' if not known
    chain: str = '(^|;)main;trials;run;by;' + MARK + '(;|$)'
    root: str = '_start|main|start_thread|__?clone3?|clone3|thread_start'
    labels: bool = False
    lines: bool = True
    runs: int = 4               # processes
    trials: int = 4             # in each
    ms: int = 60


TIMED = 'timed_' + MARK + '(;[^;]*)?;' + MARK + '(;|$)'  # as truth.h calls them, in another language by one function more


def chain(middle, before='main;'):
    return '(^|;)' + before + middle + ';' + TIMED


def c(name, flags, source='plain.c', compiler=C, after='', needs=(), by='by', before='main;', **more):
    word = compiler.split()[0]
    more.setdefault('labels', True)
    return Program(name, f'{compiler} {flags} $SRC/{source} {more.pop("link", "")}\n{after}', (word, *needs),
                   chain=more.pop('chain', chain('trials;run;' + by, before)), **more)


SPLIT = 'objcopy --only-keep-debug app app.debug && strip app'
# As Fedora does it: the functions that .dynsym has not, compressed.
MINI = '''objcopy --only-keep-debug app app.debug
nm app --format=posix --defined-only | awk '$2 == "T" || $2 == "t" { print $1 }' | sort >keep
objcopy -S --remove-section .comment --keep-symbols=keep app.debug app.symbols
strip --strip-debug app.symbols
xz -kf app.symbols && strip app && objcopy --add-section .gnu_debugdata=app.symbols.xz app'''
# Its file below /usr/lib/debug is there while the programs run, and until they are judged.
BY_ID = SPLIT + '''
id=$(readelf -n app | sed -n 's/.*Build ID: //p')
echo "/usr/lib/debug/.build-id/$(echo $id | cut -c 1-2)/$(echo $id | cut -c 3-).debug" >path'''
IN_ROOT = 'unshare --mount --pid --fork chroot root /app ARGS'

NATIVE = [
    c('gcc -O0', '-O0 -g'),
    c('gcc -O1', '-O1 -g'),
    c('gcc -O2', O2),
    c('gcc -O3', '-O3 -g'),
    c('gcc -Os', '-Os -g'),
    c('gcc -O2, frame pointers', '-O2 -g -fno-omit-frame-pointer'),
    c('gcc -O2, no debug info', '-O2', lines=False),
    c('gcc -O2, frame pointers, no .eh_frame', '-O2 -g -fno-omit-frame-pointer -fno-asynchronous-unwind-tables'),
    c('gcc, LTO', O2 + ' -flto'),
    c('gcc, not PIE', O2 + ' -no-pie'),
    c('gcc, static', O2 + ' -static'),
    c('gcc, static PIE', O2 + ' -static-pie'),
    c('gcc, sections of their own, gc', O2 + ' -ffunction-sections -Wl,--gc-sections'),
    c('gcc, CET', O2 + ' -fcf-protection=full'),
    c('gcc, 2 segments', O2 + ' -Wl,-z,noseparate-code'),
    c('gcc, stripped, exported', O2 + ' -DPART="__attribute__((noinline))" -rdynamic', after='strip app', lines=False,
      chain='(^|;)' + MARK + '(;|$)'),
    c('gcc, .gnu_debuglink', O2, after=SPLIT + ' && objcopy --add-gnu-debuglink=app.debug app'),
    c('gcc, debug file by build id', O2, after=BY_ID, run='mkdir -p $(dirname $(cat path)) && cp app.debug $(cat path) && echo file $(cat path) && ./app ARGS'),
    c('gcc, .gnu_debugdata', O2, after=MINI, needs=('xz',), lines=False),
    c('gcc, split DWARF', O2 + ' -gsplit-dwarf'),
    c('gcc, DWARF 4', O2 + ' -gdwarf-4'),
    c('gcc, compressed DWARF', O2 + ' -gz'),
    c('gcc, gold', O2 + ' -fuse-ld=gold', needs=('ld.gold',)),
    c('gcc, lld', O2 + ' -fuse-ld=lld', needs=('ld.lld',)),
    c('gcc, mold', O2 + ' -fuse-ld=mold', needs=('mold',)),
    c('clang -O0', '-O0 -g', compiler=CLANG),
    c('clang -O2', O2, compiler=CLANG),
    c('clang -O3', '-O3 -g', compiler=CLANG),
    c('clang -O2, frame pointers', '-O2 -g -fno-omit-frame-pointer', compiler=CLANG),
    c('clang, ThinLTO, lld', O2 + ' -flto=thin -fuse-ld=lld', compiler=CLANG, needs=('ld.lld',)),
    c('musl, static', O2 + ' -static -DNO_LABELS', compiler=C.replace('gcc', 'musl-gcc', 1), labels=False),
    c('musl', O2 + ' -DNO_LABELS', compiler=C.replace('gcc', 'musl-gcc', 1), labels=False),
    Program('i386, frame pointers', 'clang -m32 -O2 -g -fno-omit-frame-pointer -ffreestanding -nostdlib -static '
            '-fuse-ld=lld -o app $SRC/i386.c', ('clang', 'ld.lld'), caller='i386.c'),
]

WAYS = [
    c('C, recursion, 200 calls', O2 + ' -DDEPTH=200', 'recursion.c', by='by(;down){201}'),
    c('C, recursion, 800 calls', O2 + ' -DDEPTH=800', 'recursion.c', by='by(;down){801}'),
    c('C, tail calls', O2, 'tail.c', chain=chain('trials;run')),
    c('C, signal handler', O2, 'handler.c', by='by;.*handler'),
    c('C, signal handler, own stack', O2 + ' -DALTERNATE', 'handler.c', by='by;.*handler'),
    c('C, alloca, aligned', O2, 'room.c'),
    c('C, longjmp', O2, 'jumps.c', by='by;nested'),
    c('C, fibers (ucontext)', O2, 'fibers.c', chain=chain('fiber', ''), root='__start_context|fiber'),
    c('C, threads', O2 + ' -pthread', 'threads.c', before='thread;'),
    c('C, child of fork', O2 + ' -DCHILD=fork', 'child.c'),
    c('C, child of vfork', O2 + ' -DCHILD=vfork', 'child.c'),
    c('C, dlopen', O2, 'opens.c', after=f'gcc {O2} -fPIC -shared -o opened.so $SRC/opened.c'),
    c('C, called back by libc', O2, 'callback.c', by='by;.*compare'),
    c('C, assembler without CFI', O2, 'bare.c', by='by;bare'),
    c('C, file removed', O2, 'gone.c', after='mv app kept', run='cp kept app.FIRST && ./app.FIRST ARGS'),
    c('C, container: another root', O2 + ' -static', after='mkdir -p root && mv app root', run=IN_ROOT, needs=('unshare',)),
    c('C, container: musl of its own', O2 + ' -DNO_LABELS', compiler=C.replace('gcc', 'musl-gcc', 1), labels=False,
      after='mkdir -p root/lib && mv app root && cp -L /lib/ld-musl-x86_64.so.1 root/lib', run=IN_ROOT, needs=('unshare',)),
    c('JIT, perf map', O2, 'jit.c', lines=False),
    c('JIT, jitdump', O2 + ' -DDUMP', 'jit.c', lines=False),
    c('C++, exception', O2, 'exception.cpp', CXX, by='by;thrower.*;~guard'),
    c('C++, objects, lambda', O2, 'objects.cpp', CXX, by='by;work(;[^;]*)*'),
    c('C++, coroutine', O2, 'coroutine.cpp', CXX, by='by;(.*;)?worker'),
    c('C++, std::thread', O2 + ' -pthread', 'standard_thread.cpp', CXX, before='.*;'),
    c('C++, clang, objects, lambda', O2, 'objects.cpp', CXX.replace('g++', 'clang++'), by='by;work(;[^;]*)*'),
]

RUSTC = 'rustc --edition 2021 -g -o app'
RUST = dict(needs=('rustc',), source='truth.rs', caller='', chain='(^|;)main;trials;run;by;(.*;)?' + MARK + '(;|$)')
GO = 'GOFLAGS=-mod=mod GOCACHE=$BUILD/gocache GO111MODULE=off'
GO_CHAIN = '(^|;)goexit;.*trials;run;by;(.*;)?' + MARK + '(;|$)'
OTHER = f'gcc {O2} -std=gnu11 -D_GNU_SOURCE -I$ROOT/include -c -o other.o $SRC/other.c'


def other(name, build, source, needs, **more):
    return Program(name, OTHER + more.pop('start', '') + '\n' + build, needs, source=source, labels=True,
                   chain=more.pop('chain', chain('trials;run;by')), **more)


COMPILED = [
    Program('Rust, debug', RUSTC + ' $SRC/truth.rs', **RUST),
    Program('Rust -O', RUSTC + ' -O $SRC/truth.rs', **RUST),
    Program('Rust -O, LTO, abort', RUSTC + ' -O -C lto=fat -C panic=abort $SRC/truth.rs', **RUST),
    Program('Go', GO + ' go build -o app $SRC/truth.go', ('go',), source='truth.go', caller='', chain=GO_CHAIN,
            root='goexit', labels=True),
    Program('Go, stripped', GO + ' go build -ldflags="-s -w" -o app $SRC/truth.go', ('go',), source='truth.go', caller='',
            chain=GO_CHAIN, root='goexit', labels=True),
    Program('Go, PIE', GO + ' go build -buildmode=pie -o app $SRC/truth.go', ('go',), source='truth.go', caller='',
            chain=GO_CHAIN, root='goexit', labels=True),
    Program('Go, C by cgo', 'cp $SRC/cgo/main.go $SRC/parts.h .\n' + GO + ' go build -o app .', ('go', 'gcc'),
            caller='', root='goexit', chain='(^|;)goexit;.*trials;run;calls(Three|One);(.*;)?' + MARK + '(;|$)'),
    other('Fortran', f'gfortran {O2} -fno-inline -c -o parts.o $SRC/parts.f90 && gfortran -o app other.o parts.o',
          'parts.f90', ('gfortran',)),
    other('Ada', 'cp $SRC/parts_ada.ad? .\n' + f'gnatmake -q -c {O2} parts_ada.adb && gcc -o app other.o parts_ada.o -lgnat',
          'parts_ada.adb', ('gnatmake',)),
    other('D', f'gdc {O2} -fno-druntime -c -o parts.o $SRC/parts.d && gcc -o app other.o parts.o', 'parts.d', ('gdc',)),
    other('OCaml', 'cp $SRC/parts.ml .\nocamlopt -g -output-complete-obj -o whole.o parts.ml\n'
          'gcc -O2 -g -I$(ocamlopt -where) -c -o ocaml.o $SRC/ocaml.c\ngcc -o app other.o ocaml.o whole.o -lm -ldl',
          'parts.ml', ('ocamlopt',), start=' -DSTARTS=start_ocaml',
          chain='(^|;)main;trials;run;by;timed_(three|one);(.*;)?call_(three|one);' + MARK + '(;|$)'),
    Program('Pascal', 'cp $SRC/truth.pas . && fpc -v0 -O2 -gw3 -oapp truth.pas', ('fpc',), source='truth.pas', caller='',
            chain='(^|;)trials;run;by;' + MARK + '(;|$)', root='_start|main|_?FPC_.*|SI_.*|_haltproc'),
]


def pythons():
    found = {}
    for path in ['/usr/bin/python3', *glob.glob('/usr/bin/python3.1?'), *glob.glob('/usr/local/bin/python3.1?'),
                 *glob.glob(os.path.expanduser('~/.pyenv/versions/3.1*/bin/python3'))]:
        if os.access(path, os.X_OK):
            version = subprocess.run([path, '-c', 'import sys; print("%d.%d" % sys.version_info[:2])'],
                                     capture_output=True, text=True).stdout.strip()
            found.setdefault(version, path)
    return {v: p for v, p in sorted(found.items()) if int(v.split('.')[1]) >= 11}


def interpreted():
    script = dict(runs=2, trials=8, ms=80, caller='')
    python = dict(script, source='truth_py.py', labels=True)
    env = 'PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$ROOT/lib/label/python ASCRIBE_LABEL_LIB=$BUILD/libascribe-label.so '
    rows = []
    ways = {'plain': 'plain;timed_.*', 'generator': 'generator;.*by_generator;timed_.*', 'task': 'task;.*by_task;timed_.*',
            'callback': 'callback;.*timed_.*'}
    for i, (version, path) in enumerate(pythons().items()):
        for way, middle in ways.items() if i == 0 else [('plain', ways['plain'])]:
            rows.append(Program(f'CPython {version}' + ('' if way == 'plain' else ', ' + way), '', (path,),
                                env + f'{path} $SRC/truth_py.py ARGS {way}', root='_start|main|<module>',
                                chain=f'(^|;)<module>;trials;run;{middle};{MARK}(;|$)', **python))
    node = dict(script, runs=1, trials=16, source='truth.js', root='_start|main|Start|Main.*',
                chain='(^|;)trials;run;(down;){9}' + MARK + '(;|$)')
    rows += [Program('Node', '', ('node',), 'node $SRC/truth.js ARGS 200', **node),
             Program('Node, interpreted', '', ('node',), 'node --jitless $SRC/truth.js ARGS 4', **node),
             Program('Node, --perf-basic-prof', '', ('node',), 'echo file /tmp/perf-$$.map\nexec node --perf-basic-prof $SRC/truth.js ARGS 200', **node)]
    java = dict(script, runs=1, trials=16, source='Truth.java', root='_start|main|start_thread|__?clone3?|clone3',
                chain='(^|;)main;trials;run;(down;)+(.*;)?' + MARK + '(;|$)')
    for vm in sorted({os.path.realpath(p) for p in glob.glob('/usr/lib/jvm/*/bin/java')}):
        version = subprocess.run([vm, '-version'], capture_output=True, text=True).stderr.split('"')[1].split('.')[0]
        for mode, rounds in ('', 1600), ('-Xint', 100):
            rows.append(Program(f'Java {version}' + (', interpreted' if mode else ''),
                                'javac --release 17 -d . $SRC/Truth.java', ('javac', vm), f'{vm} {mode} Truth ARGS {rounds}',
                                **java))
    rows.append(Program('Java, frame pointers', 'javac --release 17 -d . $SRC/Truth.java', ('javac', 'java'),
                        'java -XX:+PreserveFramePointer Truth ARGS 1600', **java))
    php = dict(script, source='truth.php', root='_start|main|{main}', chain='(^|;){main};trials;run;(down;){9}' + MARK + '(;|$)')
    jit = '-d opcache.enable_cli=1 -d opcache.jit_buffer_size=32M -d opcache.jit=tracing'
    rows += [Program('PHP', '', ('php',), 'php $SRC/truth.php ARGS 250', **php),
             Program('PHP, opcache', '', ('php',), 'php -d opcache.enable_cli=1 $SRC/truth.php ARGS 250', **php),
             Program('PHP, compiled', '', ('php',), f'php {jit} $SRC/truth.php ARGS 1000', **php)]
    ruby = dict(script, source='truth.rb', root='_start|main|<main>',
                chain='(^|;)<main>;trials;.*run;(down;)+(.*;)?' + MARK + '(;|$)')
    rows += [Program('Ruby', '', ('ruby',), 'ruby $SRC/truth.rb ARGS', **ruby),
             Program('Ruby, YJIT', '', ('ruby', 'ruby --yjit -e 1'), 'ruby --yjit $SRC/truth.rb ARGS', **ruby),
             Program('Perl', '', ('perl',), 'perl $SRC/truth.pl ARGS', source='truth.pl', root='_start|main|{main}',
                     chain='(^|;){main};trials;run;by;' + MARK + '(;|$)', **script)]
    return rows


def programs():
    return NATIVE + WAYS + COMPILED + interpreted()


def missing(program):
    return [n for n in program.needs if not (subprocess.run(n.split(), capture_output=True).returncode == 0 if ' ' in n
                                             else shutil.which(n))]
