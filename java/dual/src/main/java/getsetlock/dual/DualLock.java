// SPDX-License-Identifier: Apache-2.0
package getsetlock.dual;

import java.security.SecureRandom;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import redis.clients.jedis.JedisPool;

/**
 * The lock of a service that stays Java while its fleet moves. The old key L holds a guard, which old clients take for a
 * stamp far in the future. A second key M holds a token, which excludes getsetlock clients from each other. The scripts of
 * the Go bridge take, renew and release both keys.
 *
 * <p>What it guarantees, as the Go bridge does: two leases of getsetlock clients, Java or Go, never run together. No old
 * client holds alongside one, as long as the old clients keep to their terms. A lease that another client took is reported
 * lost at its next renewal; an old client may have entered by then. It has no fencing numbers, and stops no job itself.
 *
 * <p>Trust in a lease is counted by {@link System#nanoTime} from before a command is sent. This JVM's wall clock is never
 * read.
 */
public final class DualLock implements AutoCloseable {
    /** What is known of the old clients, in milliseconds. The defaults are for jedis-lock's lease of 60 s. */
    public static final class Terms {
        public long leaseMillis = 60_000;    // E: smallest lease of the old clients
        public long greatestMillis;          // greatest lease of the old clients; 0: as the fleet's record claims it
        public long spreadMillis = 1_000;    // S: how far their clocks are apart at most
        public long gapMillis = 1_000;       // g: longest time from a clock reading to the GETSET, pauses included
        /**
         * B: how far the slowest old client's clock is behind the server's at most, for every server that may be promoted.
         * null is unknown, and so is less than a watcher saw (migrate status --watch): then a lock that a crashed old client
         * left is taken over only after this service has seen its bytes for longer than the greatest lease, or never where nobody
         * stated that either.
         */
        public Long behindMillis;
        public long ttlMillis = 30_000;      // lease of this service
        public long pollMillis = 100;
        /**
         * How long a release in phase dual leaves the key free for old clients, which poll: five quarters of their poll and
         * 20 ms. It does so once this service has held the key for a second (or seven times this time, if that is longer), and
         * at each release within an old client's greatest lease after it saw an old client. 0: never.
         */
        public long politeMillis = 145;

        private void check() {
            // Rule 4, with the millisecond that the dialect adds to its lease.
            long longest = leaseMillis + 1 - spreadMillis - gapMillis;
            if (ttlMillis > longest) {
                throw new IllegalArgumentException("ttlMillis " + ttlMillis + " exceeds " + longest
                        + ", which leaseMillis, spreadMillis and gapMillis allow");
            }
            long need = settleMillis() + marginMillis() + ttlMillis / 3;
            if (ttlMillis <= need) {
                throw new IllegalArgumentException("ttlMillis " + ttlMillis + " must be longer than " + need
                        + ": settle, margin and one renewal");
            }
        }

        /** The longest lease of the old clients that is known of. */
        private long longestMillis() {
            return Math.max(greatestMillis, leaseMillis);
        }

        private long settleMillis() {
            return gapMillis + 100;
        }

        private long marginMillis() {
            return ttlMillis / 10;
        }
    }

    private static final String TOMBSTONE = "9223372036854775807";
    private static final long TOMBSTONE_MILLIS = 30L * 24 * 3600 * 1000;
    private static final long LEAST_GUARD = 4_000_000_000_000_000_000L;
    private static final int MOST_LOOKS = 10_000;
    private static final Pattern LEFT = Pattern.compile("left [A-Za-z0-9_-]{22}");
    private static final long YEAR_MILLIS = 365L * 24 * 3600 * 1000;
    private static final SecureRandom RANDOM = new SecureRandom();

    private final JedisPool pool;
    private final DualMember member;
    private final Terms terms;
    private final ScheduledThreadPoolExecutor renewals; // waits for the server, so runs nothing that must be in time
    private final ScheduledThreadPoolExecutor ends; // ends trust in leases; never waits for the server or a callback
    private final ExecutorService tellings = Executors.newCachedThreadPool(daemons("lock-lost")); // one thread for each callback
    private final Map<String, Turns> turns = new ConcurrentHashMap<>(); // turns of old clients, by key
    private volatile boolean placed; // the member's field was found through the pool
    private final Map<String, Look> looks = new ConcurrentHashMap<>(); // first looks at past stamps, by key

    // Guarded by this: bounds of the server's clock less this JVM's nanoTime, in microseconds, and the end of a time without
    // takeovers after a step.
    private long lowest = Long.MIN_VALUE / 2; // halved, so that a drift can be added and taken away
    private long highest = Long.MAX_VALUE / 2;
    private long suspendedTill = System.nanoTime();
    private long gainedMillis; // what the server's clock gained by steps forwards; old clients are that much further behind

    /**
     * @param pool   a pool of its own, so that renewals do not wait for connections that other work uses
     * @param member joined for the dialect of jedis-lock 1.0.0. Other dialects are refused: their clients may take a bare
     *               number for no stamp, and the lock for free
     */
    public DualLock(JedisPool pool, DualMember member, Terms terms) {
        terms.check();
        if (!member.dialect().equals(DualMember.DIALECT)) {
            throw new IllegalArgumentException("DualLock writes guards for the dialect " + DualMember.DIALECT + " only, and the member "
                    + "has joined for " + member.dialect() + ", whose clients would not read them: use the Go bridge for that fleet");
        }
        this.pool = pool;
        this.member = member;
        this.terms = terms;
        this.renewals = new ScheduledThreadPoolExecutor(2, daemons("lock-renewals"));
        renewals.setRemoveOnCancelPolicy(true);
        this.ends = new ScheduledThreadPoolExecutor(1, daemons("lock-ends"));
        ends.setRemoveOnCancelPolicy(true);
        // It outlives close, since leases that are held then still end. Its thread ends when no lease is left.
        ends.setKeepAliveTime(10, TimeUnit.SECONDS);
        ends.allowCoreThreadTimeOut(true);
        member.actsBy(this::behind);
        member.attach(this::probe);
        member.asks(terms.ttlMillis);
        member.refresh();
    }

    private static ThreadFactory daemons(String name) {
        return r -> {
            Thread t = new Thread(r, name);
            t.setDaemon(true);
            return t;
        };
    }

    /** The name of M, in L's slot of a cluster: L is its hash tag, or M has the hash tag that L has. */
    static String markKey(String key) {
        int open = key.indexOf('{');
        boolean tagged = open >= 0 && key.indexOf('}', open + 1) > open + 1;
        return tagged ? key + ":gsl" : "{" + key + "}:gsl";
    }

    /** Waits for the lock at most so long; null if the key was held all the time. An interrupted wait leaves no lock. */
    public Lease acquire(String key, long waitMillis) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMillis);
        for (;;) {
            Lease lease = tryAcquire(key);
            long left = until - System.nanoTime();
            if (lease != null || left <= 0) {
                return lease;
            }
            long pause = terms.pollMillis / 2 + ThreadLocalRandom.current().nextLong(terms.pollMillis);
            TimeUnit.NANOSECONDS.sleep(Math.min(left, TimeUnit.MILLISECONDS.toNanos(pause)));
        }
    }

    /**
     * What this service knows of one key that old clients poll for. Each service begins at a random point of the first
     * second, so that all of them together leave one gap in each second in which the key is held.
     */
    private static final class Turns {
        private long held;     // nanoseconds that this service held the key since it last left it
        private long since;    // when it took the key, by nanoTime
        private long given;    // when it released the key, or the end of a gap that it left, by nanoTime
        private boolean met;   // an old client was seen
        private long seen;     // when the last one was seen, by nanoTime

        private Turns(long span) {
            held = ThreadLocalRandom.current().nextLong(span);
        }
    }

    private long politeNanos() {
        return TimeUnit.MILLISECONDS.toNanos(terms.politeMillis);
    }

    private long span() {
        return Math.max(TimeUnit.SECONDS.toNanos(1), 7 * politeNanos());
    }

    private Turns turns(String key) {
        if (turns.size() >= MOST_LOOKS) {
            turns.clear(); // each forgotten key costs one gap
        }
        return turns.computeIfAbsent(key, k -> new Turns(span()));
    }

    /** Notes that this service took the key, by an attempt sent then. After a pause of a gap's length nothing is owed. */
    private void took(String key, long sent) {
        Turns t = turns(key);
        synchronized (t) {
            if (t.given != 0 && sent - t.given >= politeNanos()) {
                t.held = ThreadLocalRandom.current().nextLong(span());
            }
            t.since = sent;
        }
    }

    /** Whether a release now leaves the key free for old clients. */
    private boolean owes(String key) {
        Turns t = turns(key);
        synchronized (t) {
            long now = System.nanoTime();
            boolean met = t.met && now - t.seen <= TimeUnit.MILLISECONDS.toNanos(terms.longestMillis());
            return terms.politeMillis > 0 && (met || t.held + now - t.since >= span());
        }
    }

    private void gave(String key, boolean left) {
        Turns t = turns(key);
        synchronized (t) {
            t.given = System.nanoTime();
            t.held = left ? 0 : t.held + t.given - t.since;
            t.given += left ? politeNanos() : 0;
        }
    }

    private void saw(String key) {
        Turns t = turns(key);
        synchronized (t) {
            t.met = true;
            t.seen = System.nanoTime();
        }
    }

    /** How many more milliseconds the key is left to old clients; -1 if M does not say that it is left. */
    private static long left(List<?> look) {
        Object m = look.get(4);
        return m instanceof String && LEFT.matcher((String) m).matches() ? Math.max(0, number(look.get(5))) : -1;
    }

    /** Notes an old client. Its stamp has no TTL, unlike a getsetlock client's guard. */
    private void meets(String key, List<?> look) {
        if ("string".equals(look.get(0)) && number(look.get(3)) == -1 && ((String) look.get(1)).matches("[1-9][0-9]{0,17}")) {
            saw(key);
        }
    }

    /**
     * One attempt; null if the key is held, or was won too late to be trusted. Where a release left the key to old clients,
     * it waits for the end of that and tries once more. After a takeover it waits for the settle and looks again (rule 5).
     */
    public Lease tryAcquire(String key) throws InterruptedException {
        place();
        long[] life = new long[1];
        Lease lease = new Lease(key, member.begin(key, terms.ttlMillis, life));
        try {
            Object reply = lease.take("");
            long left = refused(reply) ? left(look(reply)) : -1;
            if (left >= 0) { // nobody holds it
                TimeUnit.MILLISECONDS.sleep(left + 1);
                reply = lease.take("");
            }
            if (refused(reply)) {
                meets(key, look(reply));
                String expired = expired(key, look(reply), lease.sent);
                reply = expired == null ? reply : lease.take(expired);
            }
            if (refused(reply)) {
                lease.ended();
                return null;
            }
            looks.remove(key);
            took(key, lease.sent);
            boolean stands = true;
            if (reply instanceof List) { // taken over
                TimeUnit.MILLISECONDS.sleep(terms.settleMillis());
                stands = lease.check();
            }
            if (!stands || !member.counts(life[0]) || !lease.inTime()) {
                lease.undo();
                return null;
            }
            lease.start();
            return lease;
        } catch (InterruptedException | RuntimeException unknown) {
            lease.undo(); // the attempt may have won, or may still win
            throw unknown;
        }
    }

    /** Finds the member's field once, before the first lease. It is written again where the server was restarted meanwhile. */
    private void place() {
        if (placed) {
            return;
        }
        try {
            member.foundBy(pool);
        } catch (IllegalStateException missing) {
            member.refresh();
            member.foundBy(pool);
        }
        placed = true;
    }

    /**
     * The value that may be replaced, else null (rule 3). It is a stamp of the dialect that the server's clock is past by more
     * than the greater of the spread and behindMillis. While behindMillis is unknown, it was also seen long enough ago.
     */
    private String expired(String key, Object look, long sent) {
        List<?> at = (List<?>) look;
        long micros = number(at.get(6)) * 1_000_000 + number(at.get(7));
        boolean suspended = stepped(micros, sent);
        if (suspended || at.get(4) != null || !"string".equals(at.get(0))) {
            return null;
        }
        String value = (String) at.get(1);
        if (value == null || !value.matches("[1-9][0-9]{0,17}")) {
            return null;
        }
        long now = micros / 1000;
        long stamp = Long.parseLong(value);
        boolean plausible = stamp >= now - YEAR_MILLIS && stamp <= now + 10 * YEAR_MILLIS;
        Long behind = behind();
        boolean past = now > stamp + Math.max(terms.spreadMillis, behind == null ? 0 : behind);
        return plausible && past && (behind != null || stoodLong(key, value, sent)) ? value : null;
    }

    /** behindMillis and what the server's clock gained since, in milliseconds; null while unknown, or less than was seen. */
    private synchronized Long behind() {
        boolean claimed = terms.behindMillis != null && terms.behindMillis + gainedMillis >= member.sawBehind();
        return claimed ? terms.behindMillis + gainedMillis : null;
    }

    /** A look at a past stamp. The stamp was there before the reply came. */
    private static final class Look {
        private final String value;
        private final long nanos = System.nanoTime();

        private Look(String value) {
            this.value = value;
        }
    }

    /**
     * Whether the same bytes were seen so long ago that the lease of the client that wrote them has ended, whatever its clock
     * says: that client had read its clock by then. One millisecond for the dialect and one for its unit are added to the lease.
     */
    private boolean stoodLong(String key, String value, long sent) {
        Look first = looks.get(key);
        if (first != null && first.value.equals(value)) {
            long greatest = terms.greatestMillis > 0 ? terms.greatestMillis : member.greatest();
            return greatest > 0 && sent - first.nanos > TimeUnit.MILLISECONDS.toNanos(greatest + 2);
        }
        if (looks.size() >= MOST_LOOKS) {
            looks.clear(); // each forgotten key costs one lease
        }
        looks.put(key, new Look(value));
        return false;
    }

    /** Whether the server's clock stepped against nanoTime, since the last look or less than a greatest lease ago. */
    private synchronized boolean stepped(long serverMicros, long sentNanos) {
        long low = serverMicros - System.nanoTime() / 1000;
        long high = serverMicros - sentNanos / 1000;
        long drift = 10_000;
        if (low > highest + drift || high < lowest - drift) {
            suspendedTill = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(terms.longestMillis() + 1);
            gainedMillis += Math.max(0, high - lowest) / 1000; // a step back subtracts nothing, since it may be one of many
        }
        lowest = low;
        highest = high;
        return suspendedTill - System.nanoTime() > 0;
    }

    /** Runs the scripts of phases dual, sealed and clean on a key that nobody else uses, and leaves nothing there. */
    private void probe() {
        member.foundBy(pool);
        String key = member.probeKey();
        for (DualMember.Phase p : Arrays.asList(DualMember.Phase.DUAL, DualMember.Phase.SEALED, DualMember.Phase.SEALED, DualMember.Phase.CLEAN)) {
            Lease lease = new Lease(key, p);
            if (refused(lease.take("")) || !lease.check() || !lease.extend() || !done(lease.giveBack())) {
                throw new IllegalStateException("phase " + p.word() + ": the probe key " + key + " is in use");
            }
        }
        DualMember.eval(pool, Scripts.SWEEP, Arrays.asList(key, markKey(key)), Arrays.asList(TOMBSTONE, "1"));
    }

    /** Stops renewing. Leases that are held end by themselves, and their onLost runs. */
    @Override
    public void close() {
        renewals.shutdownNow();
    }

    /** Whether a script succeeded: it replies with a number then, and otherwise mostly with a list that says why not. */
    private static boolean done(Object reply) {
        return reply instanceof Long;
    }

    private static boolean refused(Object reply) {
        return !done(reply) && number(((List<?>) reply).get(0)) == 0;
    }

    /** What both keys held, in a reply that is a list. */
    private static List<?> look(Object reply) {
        return (List<?>) ((List<?>) reply).get(1);
    }

    private static long number(Object o) {
        return o instanceof Long ? (Long) o : Long.parseLong((String) o);
    }

    /** A held lock. */
    public final class Lease implements AutoCloseable {
        private final String key;
        private final DualMember.Phase phase;
        private final String token = DualMember.random(16); // never used again
        private final String guard;

        // Guarded by this.
        private String on; // its bytes on L
        private long sent;
        private long until;
        private boolean running;
        private boolean lost;
        private boolean over;
        private boolean counted = true; // the member counts it as a lease
        private Runnable onLost;
        private ScheduledFuture<?> renewal;
        private ScheduledFuture<?> end;

        private Lease(String key, DualMember.Phase phase) {
            this.key = key;
            this.phase = phase;
            long n = 0;
            while (n < LEAST_GUARD || n == Long.MAX_VALUE) {
                n = RANDOM.nextLong() & Long.MAX_VALUE;
            }
            this.guard = phase == DualMember.Phase.CLEAN ? "" : Long.toString(n);
            this.on = guard;
        }

        public String key() {
            return key;
        }

        /** Whether the lease can be trusted now. It needs no answer of the server. */
        public synchronized boolean isHeld() {
            return running && !lost && !over && until - System.nanoTime() > 0;
        }

        /**
         * Runs the action once, on a thread of its own, when the lease is lost: the job must stop then. Neither a server that does
         * not answer nor another lease's action delays it.
         */
        public synchronized void onLost(Runnable action) {
            onLost = action;
            if (lost) {
                tell();
            }
        }

        private boolean sealed() {
            return phase.compareTo(DualMember.Phase.SEALED) >= 0 && phase != DualMember.Phase.CLEAN;
        }

        /** The value of M: the token, and the bytes on L that belong to it. */
        private String value(String on) {
            return phase == DualMember.Phase.CLEAN ? token : token + " " + on + " " + member.id();
        }

        private synchronized String on() {
            return on;
        }

        private Object take(String seen) {
            synchronized (this) {
                sent = System.nanoTime();
                until = trust(sent, terms.ttlMillis);
            }
            String ttl = Long.toString(terms.ttlMillis);
            String numbers = ""; // none
            String tombstone = sealed() ? Long.toString(TOMBSTONE_MILLIS) : "";
            Object reply = DualMember.eval(pool, Scripts.ACQUIRE, Arrays.asList(key, markKey(key), markKey(key) + ":look"),
                    Arrays.asList(value(guard), ttl, guard, TOMBSTONE, numbers, tombstone, seen));
            if (done(reply) && (Long) reply < 0) {
                synchronized (this) {
                    on = TOMBSTONE;
                }
            }
            return reply;
        }

        /** Whether both keys are still this lease's. Trust then ends no later than the TTLs that were read (rule 9). */
        private boolean check() {
            long asked = System.nanoTime();
            List<?> reply = (List<?>) run(Scripts.CHECK, token);
            if (number(reply.get(0)) != 1) {
                return false;
            }
            long read = trust(asked, lesser(reply.get(1), reply.get(2)));
            synchronized (this) {
                if (read - until < 0) {
                    until = read;
                }
            }
            return true;
        }

        /** The lesser of the two TTLs in milliseconds; without a guard, M's. */
        private long lesser(Object l, Object m) {
            return Math.max(0, guard.isEmpty() ? number(m) : Math.min(number(l), number(m)));
        }

        /** The end of trust, by nanoTime, in keys that the server keeps for leftMillis, counted from before it was asked. */
        private long trust(long asked, long leftMillis) {
            return asked + TimeUnit.MILLISECONDS.toNanos(Math.min(terms.ttlMillis, leftMillis) - terms.marginMillis());
        }

        /** Whether the lease can be trusted when it begins. */
        private synchronized boolean inTime() {
            return until - System.nanoTime() > 0;
        }

        private synchronized void start() {
            running = true;
            long every = terms.ttlMillis / 3;
            // Sooner where the server keeps the keys for less than was asked for.
            long first = Math.min(every, TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime()) / 2);
            renewal = renewals.scheduleWithFixedDelay(this::renew, first, every, TimeUnit.MILLISECONDS);
            watch();
        }

        private void renew() {
            try {
                if (!member.renews()) {
                    return; // the server has not answered this service for long; trust runs out
                }
                if (!extend()) {
                    lose();
                }
            } catch (RuntimeException away) {
                // Whatever was thrown, the next renewal tries again while trust runs out.
            }
        }

        /** Renews both keys. Trust never exceeds what the server keeps (rule 9), and counts from before sending. */
        private boolean extend() {
            long asked = System.nanoTime();
            List<?> reply = (List<?>) run(Scripts.RENEW, token, Long.toString(terms.ttlMillis), TOMBSTONE, Long.toString(TOMBSTONE_MILLIS));
            if (number(reply.get(0)) != 1) {
                return false;
            }
            long left = lesser(reply.get(3), reply.get(4));
            synchronized (this) {
                until = trust(asked, left);
                if (running && !over && !lost) {
                    watch();
                }
            }
            return true;
        }

        /** Schedules the end of trust. Called with this locked. */
        private void watch() {
            if (end != null) {
                end.cancel(false);
            }
            end = ends.schedule(this::ends, until - System.nanoTime(), TimeUnit.NANOSECONDS);
        }

        private synchronized void ends() {
            if (until - System.nanoTime() <= 0) {
                lose();
            }
        }

        /** Notes the loss. M stays, unrenewed, so that no other client starts while the job is being stopped (rule 8). */
        private synchronized void lose() {
            if (lost || over) {
                return;
            }
            lost = true;
            stop();
            tell();
            // By then its TTL has ended even without a release, and no gate has to wait for it any more.
            ends.schedule(this::uncount, 2 * terms.ttlMillis, TimeUnit.MILLISECONDS);
        }

        /** Lowers the member's count of leases, once. */
        private void uncount() {
            synchronized (this) {
                if (!counted) {
                    return;
                }
                counted = false;
            }
            member.end(phase);
        }

        private void tell() {
            if (onLost != null) {
                tellings.execute(onLost);
                onLost = null;
            }
        }

        private void stop() {
            if (renewal != null) {
                renewal.cancel(false);
                end.cancel(false);
            }
        }

        /**
         * Releases the lock if it is still this lease's, and says whether it was so all the time. If the server does not answer,
         * it throws, and goes on trying in the background until the lease has ended.
         */
        public boolean release() {
            synchronized (this) {
                if (over) {
                    return false;
                }
                over = true;
                stop();
            }
            try {
                boolean leave = phase == DualMember.Phase.DUAL && !isLost() && owes(key);
                Object reply = leave ? leave() : giveBack();
                uncount();
                gave(key, leave);
                if (!done(reply)) {
                    saw(key);
                }
                return done(reply);
            } catch (RuntimeException away) {
                retry(System.nanoTime());
                throw away;
            }
        }

        @Override
        public void close() {
            release();
        }

        private Object giveBack() {
            String on = on();
            // A fleet on its way back deletes tombstones, so this release writes none.
            if (!sealed() || member.below(DualMember.Phase.SEALED)) {
                return run(Scripts.RELEASE, value(on), on, TOMBSTONE);
            }
            return run(Scripts.RELEASE, value(on), on, TOMBSTONE, TOMBSTONE, Long.toString(TOMBSTONE_MILLIS));
        }

        /** Releases both keys, and leaves L to old clients for a while, in which no getsetlock client takes it. */
        private Object leave() {
            String on = on();
            return run(Scripts.LEAVE, value(on), on, TOMBSTONE, Long.toString(terms.politeMillis));
        }

        private synchronized boolean isLost() {
            return lost;
        }

        /** Notes that certainly nothing was taken. */
        private void ended() {
            synchronized (this) {
                over = true;
            }
            uncount();
        }

        /** Releases what an attempt may have taken, again and again until that is certain or its TTL has ended. */
        private void undo() {
            synchronized (this) {
                over = true;
            }
            attemptUndo(System.nanoTime());
        }

        private void retry(long since) {
            try {
                renewals.schedule(() -> attemptUndo(since), Math.max(1, terms.ttlMillis / 30), TimeUnit.MILLISECONDS);
            } catch (java.util.concurrent.RejectedExecutionException closed) {
                // The service ends; the lease ends by its TTL.
            }
        }

        private void attemptUndo(long since) {
            boolean certain = false;
            try {
                // A missing token may still come: the attempt's command may be on its way to the server.
                certain = !refused(giveBack());
            } catch (RuntimeException away) {
                // A closed or wrapped pool may throw other exceptions than Jedis does. Each is tried again below.
            }
            if (certain || System.nanoTime() - since > TimeUnit.MILLISECONDS.toNanos(terms.ttlMillis)) {
                uncount();
            } else {
                retry(since);
            }
        }

        private Object run(Scripts script, String... args) {
            return DualMember.eval(pool, script, Arrays.asList(key, markKey(key)), Arrays.asList(args));
        }
    }
}
