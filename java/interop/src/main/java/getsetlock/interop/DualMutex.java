// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

import getsetlock.dual.DualLock;
import getsetlock.dual.DualMember;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPoolConfig;

/**
 * The lock of docs/guide/java-dual.md as the orders need it: with its own member, and
 * one lease at a time.
 */
final class DualMutex implements Mutex {
    private final JedisPool pool;
    private final DualMember member;
    private final DualLock locks;
    private final String key;
    private final long waitMillis;
    private volatile DualLock.Lease lease;

    DualMutex(String host, int port, String key, Integer waitMillis, Integer leaseMillis, String namespace) {
        JedisPoolConfig config = new JedisPoolConfig();
        config.setMaxTotal(8);
        this.pool = new JedisPool(config, host, port, 5_000);
        this.member = new DualMember(pool, namespace, "interop", "Jedis", 200);
        DualLock.Terms terms = new DualLock.Terms();
        terms.behindMillis = 1_000L; // all members run on this machine
        if (leaseMillis != null) {
            terms.ttlMillis = leaseMillis;
            terms.gapMillis = Math.min(terms.gapMillis, leaseMillis / 10);
        }
        terms.pollMillis = 20;
        this.locks = new DualLock(pool, member, terms);
        this.key = key;
        this.waitMillis = waitMillis == null ? 10_000 : waitMillis;
    }

    @Override
    public boolean acquire() throws InterruptedException {
        DualLock.Lease taken = locks.acquire(key, waitMillis);
        if (taken != null) {
            lease = taken;
        }
        return taken != null;
    }

    @Override
    public void release() {
        DualLock.Lease held = lease;
        if (held != null) {
            lease = null;
            held.release();
        }
    }

    @Override
    public boolean held() {
        DualLock.Lease held = lease;
        return held != null && held.isHeld();
    }

    @Override
    public void end() {
        locks.close();
        member.close();
        pool.close();
    }

    @Override
    public void goodbye() throws InterruptedException {
        member.goodbye(10_000);
        locks.close();
        pool.close();
    }
}
