# SPDX-License-Identifier: Apache-2.0
# Lets PyPI's redlock-py contend for a key; see redlock_test.go. Arguments: the
# key, the file with the counter, the TTL in ms, and host:port of every server.
# The first line of the input starts it, the second one ends it.
import random
import sys
import threading
import time

from redlock import Redlock

key, file, ttl = sys.argv[1:4]
servers = [dict(zip(("host", "port"), s.split(":"))) for s in sys.argv[4:]]
redlock = Redlock(servers, retry_count=1_000_000, retry_delay=0.01)
stopped = threading.Event()


def wait_for_the_end():
    sys.stdin.readline()
    stopped.set()


for server in redlock.servers:
    server.ping()
print("ready", flush=True)
sys.stdin.readline()
threading.Thread(target=wait_for_the_end, daemon=True).start()
while not stopped.is_set():
    lock = redlock.lock(key, int(ttl))
    with open(file) as f:
        before = int(f.read())
    time.sleep(0.001)
    with open(file, "w") as f:
        f.write(str(before + 1))
    redlock.unlock(lock)
    print("did", flush=True)
    time.sleep(0.02 * random.random())
