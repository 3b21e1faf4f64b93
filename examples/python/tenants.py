# SPDX-License-Identifier: Apache-2.0
"""Labels in Python: threads, then tasks of one event loop. Prints the CPU seconds of each label.
tenants.py [SECONDS]"""
import asyncio
import json
import sys
import threading
import time

import ascribe

used = {}


def burn(name, seconds):
    begin = time.thread_time()
    while time.thread_time() < begin + seconds:
        pass
    used[name] = used.get(name, 0) + time.thread_time() - begin


def serve(tenant, seconds):
    with open('/proc/thread-self/comm', 'w') as f:
        f.write(tenant)
    with ascribe.label(tenant=tenant, query_id=7):
        burn(tenant, seconds)
    burn('none', seconds / 10)


async def task(tenant, seconds):
    with ascribe.label(tenant=tenant):
        for _ in range(20):
            burn(tenant, seconds / 20)
            await asyncio.sleep(0)


async def tasks(seconds):
    asyncio.get_running_loop().set_task_factory(ascribe.task_factory)
    await asyncio.gather(task('task-a', 3 * seconds), task('task-b', seconds))


s = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
threads = [threading.Thread(target=serve, args=a) for a in (('a', 3 * s), ('b', s))]
for t in threads:
    t.start()
for t in threads:
    t.join()
asyncio.run(tasks(s))
print(json.dumps(used))
