// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import redis.clients.jedis.Jedis;

/**
 * Repeats a critical section: it reads a counter and writes it back by two
 * plain commands. So two holders at once lose an update, and only the lock
 * prevents that.
 */
final class Loop {
    private final Mutex lock;
    private final Jedis counter;
    private final String key;
    private final long holdMillis;
    private final int count;
    private final List<String> spans = new ArrayList<>();
    private final List<String> refusals = new ArrayList<>(); // guarded by spans
    private final CompletableFuture<List<String>> result = new CompletableFuture<>();
    private volatile boolean stopped;
    private volatile int acquired;

    /**
     * The counter uses its own connection: it belongs to the job, not to the
     * lock.
     */
    Loop(Mutex lock, Jedis counter, String key, long holdMillis, int count) {
        this.lock = lock;
        this.counter = counter;
        this.key = key;
        this.holdMillis = holdMillis;
        this.count = count;
    }

    /** Runs to the end and keeps the result, or the exception, for report. */
    void run() {
        long start = System.currentTimeMillis();
        try {
            while (!stopped && (count == 0 || acquired < count)) {
                round();
            }
            result.complete(List.of(Integer.toString(acquired), Integer.toString(refusals().size()),
                    Long.toString(System.currentTimeMillis() - start)));
        } catch (InterruptedException | RuntimeException e) {
            result.completeExceptionally(e);
        }
        synchronized (spans) {
            spans.notifyAll();
        }
    }

    private void round() throws InterruptedException {
        long asked = Call.nowMicros();
        if (!lock.acquire()) {
            synchronized (spans) {
                refusals.add(asked + "," + Call.nowMicros());
                spans.notifyAll();
            }
            return;
        }
        long held = Call.nowMicros();
        section();
        long released = Call.nowMicros();
        lock.release();
        synchronized (spans) {
            spans.add(asked + "," + held + "," + released);
            acquired++;
            spans.notifyAll();
        }
    }

    private void section() throws InterruptedException {
        String seen = counter.get(key);
        if (holdMillis > 0) {
            Thread.sleep(holdMillis);
        }
        counter.set(key, Long.toString((seen == null ? 0 : Long.parseLong(seen)) + 1));
    }

    void stop() {
        stopped = true;
    }

    /** Waits for the end; returns acquisitions, refusals and milliseconds. */
    List<String> report() throws Exception {
        try {
            return result.get();
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    /** Waits for that many acquisitions or the loop's end; returns how many there were. */
    int reach(int least) throws InterruptedException {
        synchronized (spans) {
            while (acquired < least && !result.isDone()) {
                spans.wait();
            }
        }
        return acquired;
    }

    /** Waits for that many refusals or the loop's end; returns how many there were. */
    int refused(int least) throws InterruptedException {
        synchronized (spans) {
            while (refusals.size() < least && !result.isDone()) {
                spans.wait();
            }
            return refusals.size();
        }
    }

    List<String> spans() {
        synchronized (spans) {
            return new ArrayList<>(spans);
        }
    }

    List<String> refusals() {
        synchronized (spans) {
            return new ArrayList<>(refusals);
        }
    }
}
