// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.Supplier;
import redis.clients.jedis.exceptions.JedisConnectionException;

/**
 * Precedes every command of one client. An open gate only records. A closed
 * gate holds each command until it is told to go, so that a test can order the
 * commands of several clients as it likes. No wait here has a timeout: under a
 * frozen clock timed waits cannot be trusted, and the Go side has its own
 * deadlines.
 */
final class Gate {
    private static final int TRACE_LIMIT = 4_096;

    private final Deque<Call> trace = new ArrayDeque<>();
    private boolean stepping;
    private boolean recording = true;
    private boolean dead;
    private int orders; // orders given to the client and not yet done
    private int permits;
    private Call standing; // the call held at the gate
    private Call last; // the call sent last, with or without its reply
    private long waits; // the thread's sleeps here, to subtract from all its sleeps

    /**
     * Sends the command and returns its reply; the client's thread calls it in
     * place of the command.
     */
    <T> T pass(Call call, Supplier<T> command) {
        enter(call);
        call.sent();
        try {
            T reply = command.get();
            call.replied(reply);
            return reply;
        } catch (RuntimeException e) {
            call.failed(e);
            throw e;
        } finally {
            leave();
        }
    }

    private synchronized void enter(Call call) {
        if (recording) {
            if (trace.size() == TRACE_LIMIT) {
                trace.removeFirst();
            }
            trace.addLast(call);
        }
        standing = call;
        notifyAll();
        while (stepping && permits == 0 && !dead) {
            waits++;
            pause();
        }
        if (dead) {
            standing = null;
            throw new JedisConnectionException("the client was told to die");
        }
        if (stepping) {
            permits--;
        }
        standing = null;
        last = call;
    }

    private synchronized void leave() {
        last = null;
        notifyAll();
    }

    /**
     * Waits for a change. An interrupt means that the client dies: it sets
     * dead, which the caller checks.
     */
    private void pause() {
        try {
            wait();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            dead = true;
        }
    }

    synchronized void step(boolean on) {
        stepping = on;
        permits = 0;
        notifyAll();
    }

    /**
     * Waits until a call is held at the gate (and returns it) or the client has
     * nothing to do (null).
     */
    synchronized Call next() throws InterruptedException {
        while (!dead && (standing == null || !stepping) && orders > 0) {
            wait();
        }
        return stepping ? standing : null;
    }

    /** Sends the held call and waits for its reply. */
    synchronized Call go() throws InterruptedException {
        Call call = standing;
        if (call == null || !stepping) {
            throw new IllegalStateException("no call is held at the gate");
        }
        permits = 1;
        notifyAll();
        while (!dead && (standing == call || last == call)) {
            wait();
        }
        return call;
    }

    synchronized List<String> takeTrace() {
        List<String> words = new ArrayList<>();
        trace.forEach(c -> words.add(c.word()));
        trace.clear();
        return words;
    }

    /** Turns recording on or off: a loop makes many calls that no test reads. */
    synchronized void record(boolean on) {
        recording = on;
    }

    synchronized void busy(int change) {
        orders += change;
        notifyAll();
    }

    synchronized void die() {
        dead = true;
        notifyAll();
    }

    synchronized long waits() {
        return waits;
    }

    synchronized String state() {
        if (stepping && standing != null) {
            return "gate";
        }
        return orders > 0 ? "busy" : "idle";
    }
}
