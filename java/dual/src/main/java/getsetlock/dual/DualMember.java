// SPDX-License-Identifier: Apache-2.0
package getsetlock.dual;

import java.io.UnsupportedEncodingException;
import java.net.InetAddress;
import java.net.URLEncoder;
import java.net.UnknownHostException;
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
 * This service in the registry of a migration. It reads the phase of its namespace and sends heartbeats. It counts the
 * leases that run under each phase, so that no gate opens while a lease of an older phase runs.
 *
 * <p>It does what the Go registry requires of its members, and no more. The server dates the heartbeats; this JVM's wall
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

    private static final String VERSION = "gsl/3";
    private static final String[] RECORD = {
        "epoch", "phase", "pending", "since", "dialect", "lease", "greatest", "spread", "gap", "job", "idle",
        "behind", "ahead", "sawbehind", "sawahead", "roster", "run", "every", "ttl", "lost", "evidence"
    };
    private static final int RECORD_GREATEST = 6;   // greatest lease of the old clients
    private static final int RECORD_SAW_BEHIND = 13; // how far some old client's clock was seen behind the server's
    private static final int RECORD_EVERY = 17; // greatest time between heartbeats of any member, and below the greatest TTL
    private static final int RECORD_TTL = 18;
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final String HOST = host();

    // Time between heartbeats where the service does not set it: MEMBER_EVERY for each member, within bounds.
    private static final long LEAST_EVERY = 5_000;
    private static final long MEMBER_EVERY = 50;
    private static final long GREATEST_EVERY = 60_000;
    private static final long BEATS_COUNTED = 4;
    private static final long LIVED_FOR = 3_600_000;
    private static final int BEATS_MISSED = 3;
    private static final long LEAST_RENEWALS = 60_000;

    private final JedisPool pool;
    private final String namespace;
    private final String name;
    private final String dialect;
    private final boolean fixed; // the service set the time between heartbeats
    private final String id;
    private final ScheduledExecutorService beats;
    private final Object round = new Object(); // one refresh at a time

    // Guarded by round.
    private String said;      // what this round has said: epoch, phase, probe, behind
    private long nextEvery;   // milliseconds to the heartbeat after the next, which the next one will promise
    private long paidNanos;   // nanoTime up to which the sum that members share has this member's time
    private long summedNanos; // nanoTime of the reading of that sum that growth is measured from
    private long sum = -1;
    private String since = "-"; // when this service joined, by the server's clock

    // Guarded by this.
    private long every; // milliseconds to the next heartbeat, as the last one promised
    private final Map<Phase, Integer> leases = new EnumMap<>(Phase.class);
    private Phase phase = Phase.NONE;
    private long epoch;
    private long longestTtl;
    private long told;        // longest lease that the server knows of, in milliseconds
    private boolean ended;    // goodbye was called
    private long heardNanos;  // nanoTime of the beginning of the last round in which the server answered everything
    private long freshNanos;
    private long lives;       // rounds after a silence in which this service may have been forgotten
    private boolean lapsed;   // it was silent for so long, and has followed no record since
    private String probe = "";
    private long probed = -1;
    private String why;
    private Runnable probing;
    private volatile long greatest;  // claimed in that record, in ms; 0: unknown
    private volatile long sawBehind; // by the record that the phase is from, in ms
    private Supplier<Long> behind = () -> null; // bound that the lock acts by, in ms; null: unknown

    /** Joins with the dialect of jedis-lock 1.0.0. */
    public DualMember(JedisPool pool, String namespace, String name) {
        this(pool, namespace, name, DIALECT, 0);
    }

    /**
     * Joins. The server must answer. Where there is no record yet, the member is registered nevertheless and takes no lock
     * until there is one.
     *
     * @param pool        at least two connections that other work does not use up
     * @param namespace   what the service's keys begin with; empty for all keys
     * @param name        the service's name for people: host and program
     * @param dialect     the dialect in the record: another one gives no phase, and a lock can only be made for {@code "Jedis"}
     * @param everyMillis time between heartbeats; 0 for five seconds, or in a fleet of more than 100 members 50 ms for each
     *                    member, up to a minute
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
        this.heardNanos = paidNanos;
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

    /** The phase that this service acts by. */
    public synchronized Phase phase() {
        return phase;
    }

    /**
     * The phase for an attempt, which counts as a lease until {@link #end}. It tells the server before the first lease and
     * before a longer one. life is set to what {@link #counts} asks for after the attempt. It refuses after goodbye, and while three or more heartbeats in a row are unanswered, since a gate
     * may then take this service for dead.
     */
    Phase begin(String key, long ttlMillis, long[] life) {
        if (!key.startsWith(namespace)) {
            throw new IllegalArgumentException("the namespace " + namespace + " does not own the key " + key);
        }
        asks(ttlMillis);
        RuntimeException late = catchUp();
        synchronized (this) {
            if (ended) {
                throw new IllegalStateException("member " + id + " has said goodbye; join again to take locks");
            }
            if (phase == Phase.NONE) {
                throw new IllegalStateException("no phase, no lock: " + why);
            }
            if (lapsed) {
                throw new IllegalStateException("the server answered no heartbeat for so long that the operator may have forgotten member "
                        + id + ": no lock is taken before it has read a record " + recordKey(), late);
            }
            if (phase == Phase.OBSERVE) {
                throw new IllegalStateException("the fleet is in phase observe, in which this service must still take its"
                        + " old lock: put this class to work from phase dual on");
            }
            if (silentMillis() > BEATS_MISSED * every || ttlMillis > told) {
                throw new IllegalStateException("the server answered no heartbeat for " + silentMillis() + " ms: no lock is taken", late);
            }
            life[0] = lives;
            leases.merge(phase, 1, Integer::sum);
            return phase;
        }
    }

    /** Notes that leases of that length will be asked for, which the next round tells the server. */
    synchronized void asks(long ttlMillis) {
        longestTtl = Math.max(longestTtl, ttlMillis);
    }

    /** Makes a round if one is due before a lease may be taken. It returns the error of that; what was known still holds. */
    private RuntimeException catchUp() {
        synchronized (round) {
            synchronized (this) {
                if (ended || !overdue() && longestTtl <= told) {
                    return null;
                }
            }
            try {
                refresh();
                return null;
            } catch (JedisException away) {
                return away;
            }
        }
    }

    /** Whether leases may still be renewed: for three periods or a minute after the last answered heartbeat. */
    boolean renews() {
        synchronized (this) {
            if (silentMillis() <= renewals(every)) {
                return true;
            }
        }
        catchUp();
        synchronized (this) {
            return silentMillis() <= renewals(every);
        }
    }

    /** Whether an attempt may keep what it took: no silence since it began was so long that this service may be forgotten. */
    boolean counts(long life) {
        boolean heard = renews();
        synchronized (this) {
            return heard && lives == life;
        }
    }

    /** The greatest lease of the old clients as the record claims it, in milliseconds; 0 if it does not. */
    long greatest() {
        return greatest;
    }

    /** How far some old client's clock was seen behind the server's, in milliseconds; 0 if nothing was seen. */
    long sawBehind() {
        return sawBehind;
    }

    /** Refuses a pool that does not find this member: it leads to another server or database, where no gate sees a lock. */
    void foundBy(JedisPool other) {
        try (Jedis there = other.getResource()) {
            if (there.hget(rosterKey(), id) != null) {
                return;
            }
            try (Jedis here = pool.getResource()) {
                throw new IllegalStateException("member " + id + " is registered on " + place(here) + ", and the lock is taken on "
                        + place(there) + ", where " + rosterKey() + " does not have it: open both on one server and in one database");
            }
        }
    }

    private static String place(Jedis jedis) {
        return jedis.getClient().getHost() + ":" + jedis.getClient().getPort() + " (database " + jedis.getDB() + ")";
    }

    private static long renewals(long every) {
        return Math.max(BEATS_MISSED * every, LEAST_RENEWALS);
    }

    /** How long the server has answered no round. Called with this locked. */
    private long silentMillis() {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - heardNanos);
    }

    /** Whether the phase that was read last lies before limit. */
    synchronized boolean below(Phase limit) {
        return phase.compareTo(limit) < 0;
    }

    /** Notes that certainly nothing is held any more under that attempt. */
    synchronized void end(Phase under) {
        leases.computeIfPresent(under, (p, n) -> n > 1 ? n - 1 : null);
        notifyAll();
    }

    /** Sets what runs with the next heartbeat, and again after each step. Its exception is published. */
    synchronized void attach(Runnable probing) {
        this.probing = probing;
        this.probed = -1;
    }

    /** Sets what says how far behind the server's clock the lock takes old clients' clocks to be, in ms; null: unknown. */
    synchronized void actsBy(Supplier<Long> behind) {
        this.behind = behind;
    }

    String probeKey() {
        return "gsl:probe:" + inName() + ":" + id;
    }

    private synchronized boolean overdue() {
        return phase == Phase.NONE || lapsed || System.nanoTime() - freshNanos > TimeUnit.MILLISECONDS.toNanos(3 * every);
    }

    private synchronized long every() {
        return every;
    }

    private void beat(long before) {
        try {
            refresh();
        } catch (RuntimeException missed) {
            // The next heartbeat tries again. A gate sees that one is missing.
        }
        long now = every();
        // The members of a fleet that was started at once learn its size at the same time. They should not go on sending together.
        long pause = now < 2 * before ? now : ThreadLocalRandom.current().nextLong(now);
        if (!beats.isShutdown()) {
            beats.schedule(() -> beat(now), pause, TimeUnit.MILLISECONDS);
        }
    }

    /**
     * One round: it sends a heartbeat, reads the record, follows its phase, runs the scripts where that is due, and says what
     * changed. It writes its field of the roster before it reads the record, and acts by the phase only afterwards. A verb
     * reads the two in the other order, so it sees this service or finds the record changed.
     */
    public void refresh() {
        synchronized (round) {
            synchronized (this) {
                if (ended) {
                    throw new IllegalStateException("member " + id + " has said goodbye; join again to take locks");
                }
            }
            said = null;
            long asked = System.nanoTime();
            boolean enters;
            synchronized (this) {
                if (silentMillis() > renewals(every)) {
                    lives++;
                    lapsed = phase != Phase.NONE;
                }
                enters = overdue();
            }
            long lived = enters ? enter(asked) : read(asked);
            tryProbe();
            if (!saying(epoch(), says().word()).equals(said)) {
                publish(false);
            }
            synchronized (this) {
                heardNanos = asked;
            }
            if (lived >= 0) {
                pace(asked, lived);
            }
        }
    }

    /** Writes the field, whether or not it is there, and then reads the record. */
    private long enter(long asked) {
        long ttl = publish(true);
        takeUp(get(recordKey()), ttl, asked);
        return -1;
    }

    /** Sends a heartbeat and follows the record. Returns the sum of all members' time, or -1 if it may not be read. */
    private long read(long asked) {
        long ttl = publish(false);
        if (ttl < 0) {
            return enter(asked); // the roster was lost, or the operator forgot this service
        }
        Response<String> record;
        Response<Long> lived;
        try (Jedis jedis = pool.getResource()) {
            Pipeline message = jedis.pipelined();
            record = message.get(recordKey());
            lived = message.hincrBy(livedKey(), "ms", owes(asked));
            message.pexpire(livedKey(), LIVED_FOR);
            message.sync();
        }
        takeUp(record.get(), ttl, asked);
        try {
            return lived.get();
        } catch (JedisDataException refused) {
            return -1;
        }
    }

    /** Raises the record's greatest TTL and period where this member says more, and then follows the record. */
    private void takeUp(String text, long ttl, long asked) {
        String[] found = parse(text);
        while (found != null && (Long.parseLong(found[RECORD_TTL]) < ttl || Long.parseLong(found[RECORD_EVERY]) < nextEvery)) {
            String[] raised = found.clone();
            raised[RECORD_TTL] = Long.toString(Math.max(Long.parseLong(found[RECORD_TTL]), ttl));
            raised[RECORD_EVERY] = Long.toString(Math.max(Long.parseLong(found[RECORD_EVERY]), nextEvery));
            StringBuilder line = new StringBuilder(VERSION);
            for (int i = 0; i < RECORD.length; i++) {
                line.append(' ').append(RECORD[i]).append('=').append(raised[i]);
            }
            Object done = eval(pool, Scripts.STEP, Collections.singletonList(recordKey()), Arrays.asList(text, line.toString()));
            if (((Long) done) == 1) {
                found = raised;
                break;
            }
            text = get(recordKey());
            found = parse(text);
        }
        if (found == null && text != null && text.contains(" target=")) {
            apart();
        }
        take(found, asked);
        synchronized (this) {
            told = ttl;
        }
    }

    /** Takes no lock any more: such a record is of locks in another store, where this class takes none. */
    private synchronized void apart() {
        phase = Phase.NONE;
        why = "the record " + recordKey() + " names a target, another store in which the locks are taken: replace this service";
    }

    /** What this member adds to the sum that all share: the time until its next heartbeat. */
    private long owes(long now) {
        long ahead = Math.max(TimeUnit.NANOSECONDS.toMillis(paidNanos - now), 0);
        return Math.min(Math.max(nextEvery - ahead, 0), GREATEST_EVERY);
    }

    /**
     * Sets the time between heartbeats. The sum of the time that members have lived grows by a millisecond a millisecond for
     * each of them, so its growth shows how many there are.
     */
    private void pace(long now, long lived) {
        long until = now + TimeUnit.MILLISECONDS.toNanos(nextEvery);
        paidNanos = until - paidNanos > 0 ? until : paidNanos;
        long since = TimeUnit.NANOSECONDS.toMillis(now - summedNanos);
        boolean anew = sum < 0 || lived < sum;
        if (!anew && since < BEATS_COUNTED * nextEvery - nextEvery / 2) {
            return; // a single period may contain more or fewer of the others' heartbeats
        }
        if (!anew && !fixed) {
            double members = (double) (lived - sum) / since;
            long whole = Math.round(Math.min(MEMBER_EVERY * members, GREATEST_EVERY) / 1000) * 1000;
            nextEvery = Math.max(whole, LEAST_EVERY);
        }
        summedNanos = now;
        sum = lived;
    }

    /** Follows a record. A missing or an older one changes nothing: a member that has a phase keeps it. */
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
            lapsed = false;
            String lease = found[RECORD_GREATEST];
            greatest = lease.endsWith("c") ? Long.parseLong(lease.substring(0, lease.length() - 1)) : 0;
            String saw = found[RECORD_SAW_BEHIND];
            sawBehind = saw.equals("-") ? 0 : Long.parseLong(saw);
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

    /** The heartbeat's text up to the time, which the server adds. Called with this locked. */
    private String head(long epoch, String phase) {
        StringBuilder held = new StringBuilder();
        leases.forEach((p, n) -> held.append(held.length() == 0 ? "" : ",").append(p.word()).append(':').append(n));
        return VERSION + " id=" + id + " name=" + word(name) + " host=" + word(HOST) + " dialect=" + word(dialect) + " epoch=" + epoch + " phase=" + phase
                + " every=" + nextEvery + " renews=" + renewals(nextEvery) + " ttl=" + longestTtl
                + " first=" + longestTtl + " leases=" + (held.length() == 0 ? "-" : held)
                + " behind=" + (behind.get() == null ? "-" : behind.get()) + " ahead=-" // a guard needs no bound ahead
                + " probe=" + word(probe) + " sight= since=" + since + " leaving=- seen=";
    }

    /**
     * Writes the heartbeat and returns the longest lease that it says. Without enter it creates no field, and returns -1 if
     * the roster has none.
     */
    private long publish(boolean enter) {
        long[] ttl = new long[1];
        String head = promise(ttl);
        List<String> args = Arrays.asList(id, head, "", "", enter ? random(9) : "");
        Object reply = eval(pool, Scripts.BEAT, Collections.singletonList(rosterKey()), args);
        if (!(reply instanceof List)) {
            return -1;
        }
        if (since.equals("-")) {
            List<?> at = (List<?>) reply;
            since = at.get(0) + "." + String.format(Locale.ROOT, "%06d", Long.parseLong(at.get(1).toString()));
        }
        promised();
        return ttl[0];
    }

    /** The heartbeat that is about to be sent. While it is unknown which promise the server has, the sooner one holds. */
    private synchronized String promise(long[] ttl) {
        every = Math.min(every, nextEvery);
        ttl[0] = longestTtl;
        return head(epoch, says().word());
    }

    private synchronized void promised() {
        every = nextEvery;
        said = saying(epoch, says().word());
    }

    /** The phase that the field says. Nobody may take that of a member that was silent for so long for the fleet's. */
    private synchronized Phase says() {
        return lapsed ? Phase.NONE : phase;
    }

    /** What is said again as soon as it changed. All else waits for the next heartbeat. */
    private synchronized String saying(long epoch, String phase) {
        return epoch + " " + phase + " " + probe + " " + behind.get();
    }

    /** The values of a record's text. It is strict, so that it never misreads a text of another version. */
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
     * Ends this member: no lock is taken from the call on. It waits for the leases to end, and takes the member out of the
     * registry. If leases are left, or the server does not answer, the member stays registered and closes every gate until the
     * operator names it (--forget).
     */
    public void goodbye(long waitMillis) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMillis);
        synchronized (this) {
            ended = true;
            for (long left = waitMillis; !leases.isEmpty(); left = TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime())) {
                if (left <= 0) {
                    throw new IllegalStateException("member " + id + " still has leases: release them before goodbye");
                }
                wait(left);
            }
        }
        close();
        try (Jedis jedis = pool.getResource()) {
            jedis.hdel(rosterKey(), id);
        }
    }

    /** Ends the heartbeats and tells the server nothing, as a killed service does. */
    @Override
    public void close() {
        beats.shutdownNow();
        try {
            beats.awaitTermination(10, TimeUnit.SECONDS); // no heartbeat may follow a goodbye
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** The namespace, as the names of the registry's keys contain it. */
    private String inName() {
        return namespace.replace("%", "%25").replace(":", "%3A").replace("{", "%7B").replace("}", "%7D");
    }

    private String recordKey() {
        return "gsl:phase:" + inName();
    }

    private String rosterKey() {
        return "gsl:roster:" + inName();
    }

    private String livedKey() {
        return "gsl:lived:" + inName();
    }

    private String get(String key) {
        try (Jedis jedis = pool.getResource()) {
            return jedis.get(key);
        }
    }

    /** Runs a script by its digest, or by its source where the server does not know it. */
    static Object eval(JedisPool pool, Scripts script, List<String> keys, List<String> args) {
        try (Jedis jedis = pool.getResource()) {
            try {
                return jedis.evalsha(script.sha, keys, args);
            } catch (JedisNoScriptException unknown) {
                return jedis.eval(script.source, keys, args);
            }
        }
    }

    /** The machine's name, for people; empty where it has none. */
    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException unknown) {
            return "";
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
