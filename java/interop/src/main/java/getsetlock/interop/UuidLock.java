// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

import java.util.UUID;
import redis.clients.jedis.Jedis;

/**
 * The rules that jedis-lock adopted after 1.0.0, rewritten from their
 * description. The value is {@code uuid:millis}, with one uuid for the life of
 * the object. It is taken over when expired <em>or mine</em>, and a missing or
 * unreadable value counts as expired. The class keeps the faults of these
 * rules, which the tests are about. Two clients can hold together: a loser's
 * uuid stays on the key and is "mine" at its next poll. And a GETSET on a key
 * just deleted leaves a value although no client holds.
 */
final class UuidLock implements Mutex {
    private static final long POLL_MILLIS = 100;
    private static final int DEFAULT_WAIT_MILLIS = 10_000;
    private static final int DEFAULT_LEASE_MILLIS = 60_000;
    private static final UUID NOBODY = new UUID(0, 0);

    private final Jedis jedis;
    private final String key;
    private final int waitMillis;
    private final int leaseMillis;
    private final UUID me;
    private volatile boolean held;

    UuidLock(Jedis jedis, String key, Integer waitMillis, Integer leaseMillis, UUID me) {
        this.jedis = jedis;
        this.key = key;
        this.waitMillis = waitMillis == null ? DEFAULT_WAIT_MILLIS : waitMillis;
        this.leaseMillis = leaseMillis == null ? DEFAULT_LEASE_MILLIS : leaseMillis;
        this.me = me;
    }

    @Override
    public synchronized boolean acquire() throws InterruptedException {
        for (int left = waitMillis; left >= 0; left -= POLL_MILLIS) {
            if (attempt()) {
                held = true;
                return true;
            }
            Thread.sleep(POLL_MILLIS);
        }
        return false;
    }

    /**
     * One stamp is used for the SETNX and the GETSET after it, however long the
     * pause between them.
     */
    private boolean attempt() {
        // The sum with the slack is an int, as in the original: the greatest
        // lease overflows, to a stamp in the past.
        int life = leaseMillis + 1;
        String stamp = me + ":" + (System.currentTimeMillis() + life);
        if (jedis.setnx(key, stamp) == 1) {
            return true;
        }
        String seen = jedis.get(key);
        if (!expiredOrMine(seen)) {
            return false;
        }
        String before = jedis.getSet(key, stamp);
        return before != null && before.equals(seen);
    }

    /**
     * A value that cannot be read, or a missing key, counts as expired in 1970
     * without an owner. Only a clock before 1970 takes it for live.
     */
    private boolean expiredOrMine(String value) {
        UUID owner = NOBODY;
        long until = 0;
        try {
            String[] parts = value.split(":");
            UUID uuid = UUID.fromString(parts[0]);
            until = Long.parseLong(parts[1]);
            owner = uuid;
        } catch (RuntimeException unreadable) {
            // Treated as a value without an owner: the rules do not distinguish
            // a missing value, uuid, second part or number.
        }
        return until < System.currentTimeMillis() || owner.equals(me);
    }

    @Override
    public synchronized void release() {
        if (held) {
            jedis.del(key);
            held = false;
        }
    }

    @Override
    public boolean held() {
        return held;
    }
}
