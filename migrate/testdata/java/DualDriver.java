import getsetlock.dual.DualLock;
import getsetlock.dual.DualMember;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPoolConfig;

/**
 * A service with the lock of docs/guide/java-dual.md and many leases, for tests of what the service itself sees. Orders are lines on
 * stdin, what happens is a line on stdout; it ends when stdin does.
 *
 * <p>{@code take KEY} answers {@code took KEY true|false}, {@code release KEY} {@code released KEY true|false}; either
 * {@code failed KEY CLASS}. {@code interrupt KEY} interrupts the take. {@code break N} makes the pool throw, N times, what no
 * Jedis throws. {@code silent MS} makes the member believe that its last answered heartbeat was that long ago. The lock uses the
 * database in the property lock.database. Old clients' clocks are known, but where a greatest lease is given. A lost lease is {@code lost KEY held|free}, and its onLost never returns.
 */
public final class DualDriver {
    private static final int SILENCE_MILLIS = 120_000; // a read's timeout: longer than any test waits

    private final Map<String, DualLock.Lease> leases = new ConcurrentHashMap<>();
    private final Map<String, Thread> takes = new ConcurrentHashMap<>();
    private final AtomicInteger broken = new AtomicInteger();
    private final DualMember member;
    private final DualLock locks;

    private DualDriver(String host, int port, String dialect, long ttlMillis, long gapMillis, Long greatestMillis) {
        JedisPoolConfig config = new JedisPoolConfig();
        config.setMaxTotal(16);
        JedisPool pool = new JedisPool(config, host, port, SILENCE_MILLIS, null, Integer.getInteger("lock.database", 0)) {
            @Override
            public Jedis getResource() {
                if (broken.getAndUpdate(n -> n > 0 ? n - 1 : 0) > 0) {
                    throw new IllegalStateException("broken");
                }
                return super.getResource();
            }
        };
        DualLock.Terms terms = new DualLock.Terms();
        terms.ttlMillis = ttlMillis;
        terms.gapMillis = gapMillis;
        if (greatestMillis == null) {
            terms.behindMillis = 1_000L;
        } else {
            terms.greatestMillis = greatestMillis;
        }
        JedisPool members = new JedisPool(config, host, port, SILENCE_MILLIS);
        member = new DualMember(members, "stock:", "driver", dialect, 60_000);
        locks = new DualLock(pool, member, terms);
    }

    public static void main(String[] args) {
        DualDriver driver;
        try {
            Long greatest = args.length > 5 ? Long.valueOf(args[5]) : null;
            driver = new DualDriver(args[0], Integer.parseInt(args[1]), args[2], Long.parseLong(args[3]), Long.parseLong(args[4]), greatest);
        } catch (RuntimeException e) {
            say("failed lock " + e);
            System.exit(0);
            return;
        }
        say("ready");
        Scanner in = new Scanner(System.in, "UTF-8");
        while (in.hasNextLine()) {
            String[] order = in.nextLine().split(" ");
            driver.obey(order[0], order[1]);
        }
        System.exit(0);
    }

    private void obey(String verb, String what) {
        switch (verb) {
            case "break":
                broken.set(Integer.parseInt(what));
                break;
            case "silent":
                silent(Long.parseLong(what));
                break;
            case "interrupt":
                takes.get(what).interrupt();
                break;
            default:
                Thread t = new Thread(() -> work(verb, what));
                takes.put(what, t);
                t.start();
        }
    }

    private void silent(long millis) {
        try {
            synchronized (member) {
                for (String name : new String[] {"heardNanos", "freshNanos"}) {
                    Field last = DualMember.class.getDeclaredField(name);
                    last.setAccessible(true);
                    last.setLong(member, System.nanoTime() - TimeUnit.MILLISECONDS.toNanos(millis));
                }
            }
        } catch (ReflectiveOperationException never) {
            throw new AssertionError(never);
        }
        say("silent");
    }

    private void work(String verb, String key) {
        try {
            say(verb.equals("take") ? "took " + key + " " + take(key) : "released " + key + " " + leases.get(key).release());
        } catch (InterruptedException | RuntimeException e) {
            say("failed " + key + " " + e.getClass().getSimpleName() + (e instanceof InterruptedException ? "" : " " + e.getMessage()));
        }
    }

    private boolean take(String key) throws InterruptedException {
        DualLock.Lease lease = locks.tryAcquire(key);
        if (lease == null) {
            return false;
        }
        leases.put(key, lease);
        lease.onLost(() -> {
            say("lost " + key + (lease.isHeld() ? " held" : " free"));
            try {
                new CountDownLatch(1).await(); // a job that does not stop
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        return true;
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
