import com.github.jedis.lock.JedisLock;
import getsetlock.dual.DualLock;
import getsetlock.dual.DualMember;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;

/**
 * A service that can go back from DualLock to its old lock, for a test and for docs/guide/java-dual.md. Orders are lines on stdin, what
 * happens is a line on stdout; it ends when stdin does.
 *
 * <p>{@code take KEY MILLIS} answers {@code took KEY true|false}, {@code release KEY} {@code released KEY true|false}; either
 * {@code failed KEY WHY}. The end is {@code closed}.
 */
final class SwitchedService {
    public static void main(String[] args) throws Exception {
        StockLocks locks = StockLocks.open(new JedisPool(args[0], Integer.parseInt(args[1])), args[2]);
        Map<String, StockLocks.Held> held = new HashMap<>();
        System.out.println("ready");
        Scanner in = new Scanner(System.in, "UTF-8");
        while (in.hasNextLine()) {
            String[] order = in.nextLine().split(" ");
            String key = order[1];
            try {
                if (order[0].equals("take")) {
                    StockLocks.Held got = locks.acquire(key, Integer.parseInt(order[2]));
                    held.put(key, got);
                    System.out.println("took " + key + " " + (got != null));
                } else {
                    System.out.println("released " + key + " " + held.remove(key).release());
                }
            } catch (RuntimeException e) {
                System.out.println("failed " + key + " " + e.getMessage());
            }
        }
        locks.close();
        System.out.println("closed");
        System.exit(0);
    }
}

/** The service's locks: the old ones or DualLock, as the property stock.lock says when the service starts. */
abstract class StockLocks {
    interface Held {
        /** Gives the lock back. False: it was lost before, so another client may have worked at the same time. */
        boolean release();
    }

    /** Waits for the lock at most so long; null if it was held all the time. */
    abstract Held acquire(String key, int waitMillis) throws InterruptedException;

    /** Call it on shutdown, after the last release. */
    abstract void close() throws InterruptedException;

    static StockLocks open(JedisPool pool, String host) {
        String which = System.getProperty("stock.lock", "old");                      // 1
        switch (which) {
            case "old":
                return new OldLocks(pool);
            case "dual":
                return new DualLocks(pool, host);
            default:
                throw new IllegalArgumentException("stock.lock is " + which + "; it must be old or dual");
        }
    }
}

final class OldLocks extends StockLocks {
    private final JedisPool pool;

    OldLocks(JedisPool pool) {
        this.pool = pool;
    }

    @Override
    Held acquire(String key, int waitMillis) throws InterruptedException {
        Jedis jedis = pool.getResource();
        JedisLock lock = new JedisLock(jedis, key, waitMillis, 60_000);
        boolean held = false;
        try {
            held = lock.acquire();
        } finally {
            if (!held) {
                jedis.close();
            }
        }
        return !held ? null : () -> {
            try {
                lock.release();
            } finally {
                jedis.close();
            }
            return true;                                                             // 2
        };
    }

    @Override
    void close() {}
}

final class DualLocks extends StockLocks {
    private final DualMember member;
    private final DualLock locks;

    DualLocks(JedisPool pool, String host) {
        member = new DualMember(pool, "stock:", "shop@" + host);                     // 3
        locks = new DualLock(pool, member, new DualLock.Terms());
    }

    @Override
    Held acquire(String key, int waitMillis) throws InterruptedException {
        DualLock.Lease lease = locks.acquire(key, waitMillis);
        if (lease == null) {
            return null;
        }
        lease.onLost(Thread.currentThread()::interrupt);
        return lease::release;
    }

    @Override
    void close() throws InterruptedException {
        member.goodbye(10_000);                                                      // 4
        locks.close();
    }
}
