// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

import java.util.Collections;
import java.util.UUID;
import redis.clients.jedis.Jedis;

/**
 * The token lock as in Java listings since Redis 2.6.12: SET with NX and PX,
 * and a script that deletes the key only if it holds the token. It polls like
 * the jar, so that only the format differs.
 */
final class TokenLock implements Mutex {
    private static final String COMPARE_AND_DELETE =
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    private static final int POLL_MILLIS = 100;

    private final Jedis jedis;
    private final String key;
    private final int waitMillis;
    private final long leaseMillis;
    private volatile String token;

    TokenLock(Jedis jedis, String key, Integer waitMillis, Integer leaseMillis) {
        this.jedis = jedis;
        this.key = key;
        this.waitMillis = waitMillis == null ? 10_000 : waitMillis;
        this.leaseMillis = leaseMillis == null ? 60_000 : leaseMillis;
    }

    @Override
    public boolean acquire() throws InterruptedException {
        String mine = UUID.randomUUID().toString();
        for (int left = waitMillis; left >= 0; left -= POLL_MILLIS) {
            if ("OK".equals(jedis.set(key, mine, "NX", "PX", leaseMillis))) {
                token = mine;
                return true;
            }
            Thread.sleep(POLL_MILLIS);
        }
        return false;
    }

    @Override
    public void release() {
        String mine = token;
        if (mine != null) {
            jedis.eval(COMPARE_AND_DELETE, Collections.singletonList(key), Collections.singletonList(mine));
            token = null;
        }
    }

    @Override
    public boolean held() {
        return token != null;
    }
}
