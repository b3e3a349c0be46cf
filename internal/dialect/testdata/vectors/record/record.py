"""What two Python libraries really do, on a stub of their Redis client and a clock that stands still:

  pip download --no-deps redis==2.8.0 tasktiger==0.12    # and unpack them side by side
  python3 record.py redis-py redis-2.8.0 > ../recorded-redispy.txt
  python3 record.py tasktiger tasktiger-0.12/tasktiger > ../recorded-tasktiger.txt

The format is that of the other files in that folder; its header explains it.
"""
import re, sys, time, types

which, path = sys.argv[1], sys.argv[2]
sys.path.insert(0, path)
if which == "redis-py":
    from redis.client import Lock
    from redis.connection import Connection
else:  # the module wants a newer redis-py beside it, of which the old lock uses nothing
    lock = types.ModuleType("redis.lock")
    lock.LockError, lock.Lock = Exception, object
    redis = types.ModuleType("redis")
    redis.WatchError, redis.lock = Exception, lock
    sys.modules.update({"redis": redis, "redis.lock": lock})
    from redis_lock import Lock

NOW = 1400000000123456789
LEASE = 30
SEENS = [b"1400000000.1234567", b"1400000000.1234569", b"1400000000.12", b"1400000000.2", b"1400000000", b"1400000001",
         b"1", b"0", b"-5", b"+5", b" 5 ", b"5x", b"1.4e9", b"1e999", b"-1e999", b"", b"abc", b"nan", b"inf", b"1_0",
         b"2147483649.0", b"1400000000123", b"9223372036854775807", b"4611686018427387904", None,
         b"01020300-0000-4000-8000-000000000000:1400000060124", b"\xff", b"."]


class Stub:
    def __init__(self, seen=None, old=None):
        self.seen, self.old, self.sent = seen, old, []

    def setnx(self, key, value):
        self.sent.append(("setnx", value))
        return 0

    def get(self, key):
        return self.seen

    def getset(self, key, value):
        self.sent.append(("getset", value))
        return self.old

    def delete(self, key):
        self.sent.append(("del", None))


def text(value):
    """What the client library puts on the wire for a Python value."""
    return repr(value).encode() if isinstance(value, float) else str(value).encode()


def word(value):
    if value is None:
        return "nil"
    return "=" + value.decode() if re.fullmatch(rb"[!-~]*", value) else "hex:" + value.hex()


def clock(nanos):
    # CPython makes the double of its own nanoseconds so; a whole second exactly.
    seconds = nanos // 10**9 if nanos % 10**9 == 0 else nanos / 1e9
    time.time = lambda: float(seconds)


def attempt(seen, old, lease=LEASE):
    stub = Stub(seen, old)
    held = Lock(stub, "stock", timeout=lease)
    try:
        end = "won" if held.acquire(blocking=False) else "lost"
    except ValueError:
        end = "threw"
    return stub, held, end


print("# Recorded by record/record.py on Python", sys.version.split()[0] + ".")
print("dialect", which)
for nanos in (NOW, 1400000000000000000, 1400000000500000000, 1600000000987654321, 1699999999999999999, 1, 4102444800000000001):
    for lease in (30, 1, 0.25, 3600):
        clock(nanos)
        stub, _, _ = attempt(b"9999999999", None, lease)
        print("stamp", nanos, int(lease * 1000), "-", word(text(stub.sent[0][1])))
clock(NOW)
for seen in SEENS:
    stub, _, end = attempt(seen, None)
    print("next", NOW, "-", word(seen), "fail" if end == "threw" else "getset" if stub.sent[-1][0] == "getset" else "wait")
for seen in (b"1", b"1400000000", None):
    for old in SEENS:
        print("wins", NOW, word(seen), word(old), attempt(seen, old)[2])
for seen in SEENS + [b"1400000030.1234567", b"1400000030.1234565", b"1400000030.1234569", b"1400000031"]:
    stub, held, _ = attempt(b"1", b"1")
    own = text(stub.sent[0][1])
    stub.seen, stub.sent = seen, []
    try:
        held.release()
        did = "del" if stub.sent else "leave"
    except ValueError:
        did = "fail"
    print("release", NOW, word(own), word(seen), did)
