# SPDX-License-Identifier: Apache-2.0
"""supervisor.py NOTIFY PIDFILE PROGRAM ARGUMENT...: the part of systemd that a daemon with a store of
descriptors sees (sd_notify(3), sd_pid_notify_with_fds(3), sd_listen_fds(3)). A program that ends is
started again after half a second with the descriptors that are kept, once all its processes have
ended; those that stay get SIGTERM, and SIGKILL after 15 s. SIGTERM ends both."""
import array, os, select, signal, socket, subprocess, sys, time
notify, pidfile, argv = sys.argv[1], sys.argv[2], sys.argv[3:]
kept, ending = [], []
signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(notify)
def say(text): print('supervisor:', text, file=sys.stderr, flush=True)
def forget():
    for _, fd in kept: os.close(fd)
    kept.clear()
def hear():
    data, control, _, _ = s.recvmsg(4096, socket.CMSG_SPACE(64 * 4))
    fds = array.array('i')
    for level, kind, got in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS): fds.frombytes(got)
    lines = data.decode().split('\n')
    name = next((l[7:] for l in lines if l.startswith('FDNAME=')), 'stored')
    if 'FDSTOREREMOVE=1' in lines:
        for k in [k for k in kept if k[0] == name]:
            os.close(k[1])
            kept.remove(k)
    if 'FDSTORE=1' in lines: kept.extend((name, fd) for fd in fds)
    else:
        for fd in fds: os.close(fd)
    if 'FDSTORE=1' in lines or 'FDSTOREREMOVE=1' in lines: say(f'{len(kept)} descriptors')
def start():
    shell = 'export LISTEN_PID=$$; exec "$@"'
    n = len(kept)
    high = [os.dup(fd) for _, fd in kept]
    def arrange():  # in the child: descriptors from 3 on
        up = [os.dup2(fd, 500 + i) for i, fd in enumerate(high)]
        for i, fd in enumerate(up): os.dup2(fd, 3 + i)
        os.closerange(3 + n, 1000)
        os.setsid()
    env = dict(os.environ, NOTIFY_SOCKET=notify, FDSTORE='8', LISTEN_FDS=str(n), LISTEN_FDNAMES=':'.join(k for k, _ in kept))
    p = subprocess.Popen(['sh', '-c', shell, 'sh', *argv], env=env, preexec_fn=arrange, close_fds=False)
    for fd in high: os.close(fd)
    open(pidfile + '.new', 'w').write(str(p.pid))
    os.rename(pidfile + '.new', pidfile)
    return p
def rest(session):  # the control group of a service, as far as sessions are one
    out = subprocess.run(['ps', '-o', 'pid=,stat=', '-s', str(session)], capture_output=True, text=True).stdout
    return [int(l.split()[0]) for l in out.splitlines() if not l.split()[1].startswith('Z')]
def end_all(session, how):
    for pid in rest(session):
        try: os.kill(pid, how)
        except ProcessLookupError: pass  # it has ended meanwhile
while not ending:
    p = start()
    while p.poll() is None and not ending:
        if select.select([s], [], [], 0.02)[0]: hear()
    if ending: p.terminate()
    p.wait()
    while select.select([s], [], [], 0)[0]: hear()
    end_all(p.pid, signal.SIGTERM)
    until = time.time() + 15
    while rest(p.pid) and time.time() < until: time.sleep(0.02)
    end_all(p.pid, signal.SIGKILL)
    say(f'ended with {p.returncode}')
    time.sleep(0.5)
forget()
