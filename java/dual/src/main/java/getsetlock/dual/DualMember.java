package getsetlock.dual;

import java.io.UnsupportedEncodingException;
import java.net.URLEncoder;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisNoScriptException;

/**
 * This service in the registry of a migration: it reads the phase of its namespace, says by heartbeat that it is there,
 * and counts the leases that run under each phase, so that no gate opens while one of an older phase does.
 *
 * <p>It promises what the Go registry asks of its members and no more. Heartbeats are dated by the server; this JVM's wall
 * clock is never read.
 */
public final class DualMember implements AutoCloseable {
    /** The phases in their order. */
    public enum Phase {
        NONE, OBSERVE, DUAL, SEALED, MODERN, CLEAN;

        String word() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /** The old clients' dialect that {@link DualLock} can write: jedis-lock 1.0.0. */
    static final String DIALECT = "Jedis";

    private static final String VERSION = "gsl/2";
    private static final String[] RECORD = {
        "epoch", "phase", "pending", "since", "dialect", "lease", "greatest", "spread", "gap", "job", "behind", "ahead", "server"
    };
    private static final SecureRandom RANDOM = new SecureRandom();

    // How far heartbeats are apart where the service does not say so: MEMBER_EVERY for each member, within bounds.
    private static final long LEAST_EVERY = 5_000;
    private static final long MEMBER_EVERY = 50;
    private static final long GREATEST_EVERY = 60_000;
    private static final long BEATS_COUNTED = 4;
    private static final long LIVED_FOR = 3_600_000;

    private final JedisPool pool;
    private final String namespace;
    private final String name;
    private final String dialect;
    private final boolean fixed; // heartbeats are as far apart as the service said
    private final String id;
    private final ScheduledExecutorService beats;
    private final Object round = new Object(); // one refresh at a time

    // Guarded by round.
    private String said;      // in this round: epoch, phase, probe
    private long nextEvery;   // what the next heartbeat will promise
    private long paidNanos;   // up to when this member's time is in the sum that members share
    private long summedNanos; // when that sum was read for its growth
    private long sum = -1;

    // Guarded by this.
    private long every; // when the next heartbeat comes, as the last one promised
    private final Map<Phase, Integer> leases = new EnumMap<>(Phase.class);
    private Phase phase = Phase.NONE;
    private long epoch;
    private long longestTtl;
    private long freshNanos;
    private String probe = "";
    private long probed = -1;
    private String why;
    private Runnable probing;
    private Supplier<Long> behind = () -> null; // by which the lock acts

    /** Joins with the dialect of jedis-lock 1.0.0. */
    public DualMember(JedisPool pool, String namespace, String name) {
        this(pool, namespace, name, DIALECT, 0);
    }

    /**
     * Joins. The server must answer; where there is no record yet the member is registered all the same and takes no lock
     * until there is one.
     *
     * @param pool        two connections at least, which nobody else exhausts
     * @param namespace   the keys that begin with it; empty for all
     * @param name        for people: host and program
     * @param dialect     the record's: a record of another one gives no phase, and a lock is only built on {@code "Jedis"}
     * @param everyMillis how far heartbeats are apart; 0 for five seconds, and in a fleet of more than 100 members for 50 ms
     *                    for each of them, up to a minute
     */
    public DualMember(JedisPool pool, String namespace, String name, String dialect, long everyMillis) {
        this.pool = pool;
        this.namespace = namespace;
        this.name = name;
        this.dialect = dialect;
        this.fixed = everyMillis > 0;
        this.every = fixed ? everyMillis : LEAST_EVERY;
        this.nextEvery = every;
        this.paidNanos = System.nanoTime();
        this.id = random(9);
        this.why = "there is no record " + recordKey() + ": begin with getsetlock migrate init";
        refresh();
        this.beats = Executors.newSingleThreadScheduledExecutor(r -> {
            Thread t = new Thread(r, "lock-member-" + id);
            t.setDaemon(true);
            return t;
        });
        beats.schedule(() -> beat(every()), every(), TimeUnit.MILLISECONDS);
    }

    public String id() {
        return id;
    }

    private synchronized long epoch() {
        return epoch;
    }

    String dialect() {
        return dialect;
    }

    /** The phase by which this service acts. */
    public synchronized Phase phase() {
        return phase;
    }

    /** The phase for an attempt, which counts as a lease until {@link #end}. */
    Phase begin(String key, long ttlMillis) {
        if (!key.startsWith(namespace)) {
            throw new IllegalArgumentException("the namespace " + namespace + " does not own the key " + key);
        }
        if (overdue()) {
            try {
                refresh();
            } catch (JedisException away) {
                // What was known holds on.
            }
        }
        synchronized (this) {
            if (phase == Phase.NONE) {
                throw new IllegalStateException("no phase, no lock: " + why);
            }
            if (phase == Phase.OBSERVE) {
                throw new IllegalStateException("the fleet is in phase observe, in which this service must still take its"
                        + " old lock: put this class to work from phase dual on");
            }
            longestTtl = Math.max(longestTtl, ttlMillis);
            leases.merge(phase, 1, Integer::sum);
            return phase;
        }
    }

    /** Nothing is held any more under an attempt of that phase, for certain. */
    synchronized void end(Phase under) {
        leases.computeIfPresent(under, (p, n) -> n > 1 ? n - 1 : null);
        notifyAll();
    }

    /** Runs with the next heartbeat, and again after each step; what it throws is published. */
    synchronized void attach(Runnable probing) {
        this.probing = probing;
        this.probed = -1;
    }

    /** Takes the lock's answer to how far behind the server's it takes old clients' clocks to be, in ms; null while unknown. */
    synchronized void actsBy(Supplier<Long> behind) {
        this.behind = behind;
    }

    String probeKey() {
        return "gsl:probe:" + inName() + ":" + id;
    }

    private synchronized boolean overdue() {
        return phase == Phase.NONE || System.nanoTime() - freshNanos > TimeUnit.MILLISECONDS.toNanos(3 * every);
    }

    private synchronized long every() {
        return every;
    }

    private void beat(long before) {
        try {
            refresh();
        } catch (RuntimeException missed) {
            // The next one tries again; who misses them sees it on the server.
        }
        long now = every();
        // A fleet that was started together learns together how large it is, and need not go on beating together.
        long pause = now < 2 * before ? now : ThreadLocalRandom.current().nextLong(now);
        if (!beats.isShutdown()) {
            beats.schedule(() -> beat(now), pause, TimeUnit.MILLISECONDS);
        }
    }

    /**
     * One round: read the record, take up its phase, try the scripts where that is due, and say so. A phase is acted by
     * only after the server knows this member, so that no lock of a stranger is taken: who has none says first what it will do.
     */
    public void refresh() {
        synchronized (round) {
            said = null;
            long asked = System.nanoTime();
            long lived = -1;
            if (phase() == Phase.NONE) {
                introduce(asked);
            } else {
                lived = read(asked);
            }
            tryProbe();
            if (!saying(epoch(), phase().word()).equals(said)) {
                publish(epoch(), phase().word());
            }
            if (lived >= 0) {
                pace(asked, lived);
            }
        }
    }

    /** Reads the record and says by what this service is about to act. */
    private void introduce(long asked) {
        String[] found = parse(get(recordKey()));
        if (found != null && found[4].equals(dialect)) {
            publish(Long.parseLong(found[0]), found[1]);
        } else {
            publish(epoch(), phase().word());
        }
        take(found, asked);
    }

    /** Takes up the record, and is the sum of all members' time, or -1 for who may not count them. */
    private long read(long asked) {
        Response<String> record;
        Response<Long> lived;
        try (Jedis jedis = pool.getResource()) {
            Pipeline message = jedis.pipelined();
            record = message.get(recordKey());
            lived = message.hincrBy(livedKey(), "ms", owes(asked));
            message.pexpire(livedKey(), LIVED_FOR);
            message.sync();
        }
        take(parse(record.get()), asked);
        try {
            return lived.get();
        } catch (JedisDataException refused) {
            return -1;
        }
    }

    /** What this member adds to the sum that all share: the time until its next heartbeat. */
    private long owes(long now) {
        long ahead = Math.max(TimeUnit.NANOSECONDS.toMillis(paidNanos - now), 0);
        return Math.min(Math.max(nextEvery - ahead, 0), GREATEST_EVERY);
    }

    /**
     * The sum of the time that members have lived grows by a millisecond a millisecond for each of them, so its growth tells
     * how many there are.
     */
    private void pace(long now, long lived) {
        long until = now + TimeUnit.MILLISECONDS.toNanos(nextEvery);
        paidNanos = until - paidNanos > 0 ? until : paidNanos;
        long since = TimeUnit.NANOSECONDS.toMillis(now - summedNanos);
        boolean anew = sum < 0 || lived < sum;
        if (!anew && since < BEATS_COUNTED * nextEvery - nextEvery / 2) {
            return; // within one period more or fewer of the others' heartbeats may lie than should
        }
        if (!anew && !fixed) {
            double members = (double) (lived - sum) / since;
            long whole = Math.round(Math.min(MEMBER_EVERY * members, GREATEST_EVERY) / 1000) * 1000;
            nextEvery = Math.max(whole, LEAST_EVERY);
        }
        summedNanos = now;
        sum = lived;
    }

    /** A record that is gone or older moves nobody: who has a phase keeps it. */
    private synchronized void take(String[] found, long asked) {
        freshNanos = asked;
        if (found == null) {
            return;
        }
        if (phase == Phase.NONE && !found[4].equals(dialect)) {
            why = "namespace " + namespace + " is recorded for the dialect " + found[4] + ", and this service writes " + dialect;
            return;
        }
        if (Long.parseLong(found[0]) >= epoch) {
            epoch = Long.parseLong(found[0]);
            phase = Phase.valueOf(found[1].toUpperCase(Locale.ROOT));
        }
    }

    private void tryProbe() {
        Runnable run;
        long at;
        synchronized (this) {
            if (probing == null || probed == epoch && probe.equals("ok")) {
                return;
            }
            run = probing;
            at = epoch;
        }
        String said = "ok";
        try {
            run.run();
        } catch (RuntimeException e) {
            said = String.valueOf(e.getMessage());
            said = said.length() > 200 ? said.substring(0, 200) : said;
        }
        synchronized (this) {
            probe = said;
            probed = at;
        }
    }

    /** The heartbeat as it stands on the server, up to the time, which the server adds. Called with this locked. */
    private String head(long epoch, String phase) {
        StringBuilder held = new StringBuilder();
        leases.forEach((p, n) -> held.append(held.length() == 0 ? "" : ",").append(p.word()).append(':').append(n));
        return VERSION + " id=" + id + " name=" + word(name) + " dialect=" + word(dialect) + " epoch=" + epoch + " phase=" + phase
                + " every=" + nextEvery + " ttl=" + longestTtl + " leases=" + (held.length() == 0 ? "-" : held)
                + " behind=" + (behind.get() == null ? "-" : behind.get()) + " ahead=-" // a guard needs no bound ahead
                + " probe=" + word(probe) + " seen=";
    }

    private void publish(long epoch, String phase) {
        String head = promise(epoch, phase);
        eval(pool, Scripts.BEAT, Collections.singletonList(memberKey()), Arrays.asList(head, "", ""));
        promised(epoch, phase);
    }

    /** A heartbeat about to be sent. While it is not known which promise stands, the sooner one is held to. */
    private synchronized String promise(long epoch, String phase) {
        every = Math.min(every, nextEvery);
        return head(epoch, phase);
    }

    private synchronized void promised(long epoch, String phase) {
        every = nextEvery;
        said = saying(epoch, phase);
    }

    /** What is said anew as soon as it changed. The rest waits for the next heartbeat. */
    private synchronized String saying(long epoch, String phase) {
        return epoch + " " + phase + " " + probe;
    }

    /** Strict: what it does not know is never taken for something it knows. */
    private String[] parse(String text) {
        if (text == null) {
            return null;
        }
        String[] words = text.split(" ", -1);
        boolean good = words[0].equals(VERSION) && words.length == RECORD.length + 1;
        String[] values = new String[RECORD.length];
        for (int i = 0; good && i < RECORD.length; i++) {
            good = words[i + 1].startsWith(RECORD[i] + "=");
            values[i] = good ? words[i + 1].substring(RECORD[i].length() + 1) : null;
        }
        if (!good || !values[1].matches("observe|dual|sealed|modern|clean")) {
            synchronized (this) {
                why = "the record " + recordKey() + " has a form that this class does not know; it may be of another version";
            }
            return null;
        }
        return values;
    }

    /**
     * Takes this service out of the registry after waiting for its leases to end. If some are left, or the server is away,
     * it stays registered and closes every gate until a human names it (--forget).
     */
    public void goodbye(long waitMillis) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMillis);
        synchronized (this) {
            for (long left = waitMillis; !leases.isEmpty(); left = TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime())) {
                if (left <= 0) {
                    throw new IllegalStateException("member " + id + " still has leases: release them before goodbye");
                }
                wait(left);
            }
        }
        close();
        try (Jedis jedis = pool.getResource()) {
            jedis.del(memberKey());
        }
    }

    /** Ends the heartbeats and says nothing, as a killed service does. */
    @Override
    public void close() {
        beats.shutdownNow();
        try {
            beats.awaitTermination(10, TimeUnit.SECONDS); // no heartbeat may follow a goodbye
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** The namespace as it stands in the names of the registry's keys. */
    private String inName() {
        return namespace.replace("%", "%25").replace(":", "%3A").replace("{", "%7B").replace("}", "%7D");
    }

    private String recordKey() {
        return "gsl:phase:" + inName();
    }

    private String memberKey() {
        return "gsl:member:" + inName() + ":" + id;
    }

    private String livedKey() {
        return "gsl:lived:" + inName();
    }

    private String get(String key) {
        try (Jedis jedis = pool.getResource()) {
            return jedis.get(key);
        }
    }

    /** By digest, and whole where the server does not know the script, which is nothing to remember. */
    static Object eval(JedisPool pool, Scripts script, List<String> keys, List<String> args) {
        try (Jedis jedis = pool.getResource()) {
            try {
                return jedis.evalsha(script.sha, keys, args);
            } catch (JedisNoScriptException unknown) {
                return jedis.eval(script.source, keys, args);
            }
        }
    }

    /** Text as one word, as Go's url.QueryEscape writes it. */
    private static String word(String text) {
        try {
            return URLEncoder.encode(text, "UTF-8").replace("*", "%2A").replace("%7E", "~");
        } catch (UnsupportedEncodingException never) {
            throw new AssertionError(never);
        }
    }

    static String random(int bytes) {
        byte[] raw = new byte[bytes];
        RANDOM.nextBytes(raw);
        return Base64.getUrlEncoder().withoutPadding().encodeToString(raw);
    }
}
