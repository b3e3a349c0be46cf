# SPDX-License-Identifier: Apache-2.0
# Drives kazoo's Lock by orders over stdin; see java/zookeeper/package-info.java.
# The arguments are kazoo's extra_lock_patterns.
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

client, locks = None, {}


def lock(path):
    if path not in locks:
        locks[path] = client.Lock(path, extra_lock_patterns=sys.argv[1:])
    return locks[path]


def run(verb, *words):
    global client
    if verb == "open":
        client = KazooClient(hosts=words[0], timeout=int(words[1]) / 1000)
        client.start()
        return "true"
    if verb == "acquire":
        try:
            return "true" if lock(words[0]).acquire(timeout=int(words[1]) / 1000) else "false"
        except LockTimeout:
            return "false"
    if verb == "release":
        lock(words[0]).release()
        return ""
    if verb == "spin":
        times, end = 0, time.monotonic() + int(words[1]) / 1000
        while time.monotonic() < end:
            with lock(words[0]):
                times += 1
        return str(times)
    for _ in range(int(words[2])):  # count
        with lock(words[0]):
            with open(words[1]) as f:
                before = int(f.read())
            with open(words[1], "w") as f:
                f.write(str(before + 1))
    return ""


for line in sys.stdin:
    try:
        print("ok", run(*line.split()))
    except Exception as e:
        print("err", type(e).__name__, str(e).replace("\n", " "))
