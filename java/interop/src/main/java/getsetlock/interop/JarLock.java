// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

import com.github.jedis.lock.JedisLock;
import java.lang.reflect.Field;
import redis.clients.jedis.Jedis;

/**
 * The published class, unchanged. Reflection only reads its flag, for which it
 * has no method.
 */
final class JarLock implements Mutex {
    private final JedisLock lock;

    /** A null time selects the jar's default, through the jar's own constructors. */
    JarLock(Jedis jedis, String key, Integer waitMillis, Integer leaseMillis) {
        if (waitMillis == null && leaseMillis != null) {
            throw new IllegalArgumentException("the jar has no constructor with a lease and no wait");
        }
        if (waitMillis == null) {
            lock = new JedisLock(jedis, key);
        } else if (leaseMillis == null) {
            lock = new JedisLock(jedis, key, waitMillis);
        } else {
            lock = new JedisLock(jedis, key, waitMillis, leaseMillis);
        }
    }

    @Override
    public boolean acquire() throws InterruptedException {
        return lock.acquire();
    }

    @Override
    public void release() {
        lock.release();
    }

    /** Reads without the monitor, which a waiting acquire keeps for its whole wait. */
    @Override
    public boolean held() {
        try {
            Field locked = JedisLock.class.getDeclaredField("locked");
            locked.setAccessible(true);
            return locked.getBoolean(lock);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("this is not jedis-lock 1.0.0", e);
        }
    }
}
