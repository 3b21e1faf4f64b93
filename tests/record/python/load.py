# What tests/record/python.sh records: load.py MODE SECONDS. It prints how long each part ran, in
# seconds.
import hashlib, os, random, sys, threading, time

local = threading.local()
all_took = [] # of each thread


def took(name, seconds):
    if not hasattr(local, 'took'):
        local.took = {}
        all_took.append(local.took)
    local.took[name] = local.took.get(name, 0) + seconds

def timed(name, f, *args):
    begin = time.thread_time()
    f(*args)
    took(name, time.thread_time() - begin)


# ---- 3 : 1 ----

def burn(n):
    x = n
    for i in range(n):
        x = (x * 31 + i) % 65521
    return x

class Walk:
    def down(self, depth, f, n):
        return self.down(depth - 1, f, n) + 1 if depth else f(n)
    def three(self, n):
        return burn(n) + burn(n) + burn(n)
    @staticmethod
    def one(n):
        return burn(n)

def walk(seconds):
    time.sleep(0.3) # found by its first samples
    w = Walk()
    end = time.thread_time() + seconds
    now = time.thread_time()
    while now < end:
        begin = now
        n = random.randrange(1000, 8000) # no turn keeps step with the samples
        w.down(24, w.three, n)
        middle = time.thread_time()
        w.down(24, w.one, n)
        now = time.thread_time()
        took('three', middle - begin)
        took('one', now - middle)

def in_threads(seconds):
    threads = [threading.Thread(target=walk, args=(seconds / 3,)) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

def in_child(seconds):
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        os._exit(0)
    walk(seconds)


# ---- parts ----

def spend(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(300))

class Server:
    def heavy(self):
        spend(0.6)
    def light(self):
        spend(0.2)
    @staticmethod
    def größe():
        spend(0.1)

class Made:
    def __init__(self):
        spend(0.2)

def in_init():
    Made()
    Made()

def through_c():
    def by_key(x):
        spend(0.02)
        return -x
    sorted(range(8), key=by_key)

def numbers():
    for i in range(4):
        spend(0.03)
        yield i

def in_generator():
    return list(numbers())

def deep(n):
    return deep(n - 1) if n else spend(0.2)

def without_lock():
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        hashlib.pbkdf2_hmac('sha256', b'x', b'y', 30000)

def reuse():
    for i in range(8): # code comes and goes, mostly at one address
        names = {'spend': spend}
        exec('def reused_%d():\n    spend(0.05)\n' % i, names)
        names['reused_%d' % i]()
        del names

def oldest(go):
    go.wait()
    spend(0.2)

def in_crowd():
    go, end = threading.Event(), threading.Event()
    threads = [threading.Thread(target=oldest, args=(go,))]
    threads += [threading.Thread(target=end.wait) for _ in range(200)]
    for t in threads:
        t.start()
    go.set()
    threads[0].join()
    end.set()
    for t in threads[1:]:
        t.join()

def forked():
    spend(0.2)

def parts(_seconds):
    server = Server()
    time.sleep(0.3) # found by its first samples
    spend(0.1)
    for f in server.heavy, server.light, Server.größe, in_init, through_c, in_generator:
        timed(f.__qualname__, f)
    timed('reuse', reuse)
    timed('deep', deep, 300)
    thread = threading.Thread(target=timed, args=('without_lock', without_lock))
    thread.start()
    thread.join()
    in_crowd()
    pid = os.fork()
    if pid == 0:
        forked()
        os._exit(0)
    os.waitpid(pid, 0)

def main(mode, seconds):
    modes = {'main': walk, 'threads': in_threads, 'child': in_child, 'parts': parts}
    modes[mode](float(seconds))
    total = {}
    for of_one in all_took:
        for name, seconds in of_one.items():
            total[name] = total.get(name, 0) + seconds
    for name, seconds in total.items():
        print('%s %f' % (name, seconds))

sys.setrecursionlimit(2000)
main(sys.argv[1], sys.argv[2]) # called so, not by C
