// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Supplier;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisConnectionException;

/** One client: a connection, a thread, and at most one lock object at a time. */
final class Peer {
    private final String host;
    private final int port;
    private final Gate gate = new Gate();
    private final GatedJedis jedis;
    private final BlockingQueue<Runnable> work = new LinkedBlockingQueue<>();
    private final Thread thread;
    private volatile Jedis counter;
    private volatile Mutex lock;
    private volatile Loop loop;
    private volatile boolean dead;

    /**
     * Connects at once, so that the answer to open reports a missing server,
     * not the first acquire.
     */
    Peer(String name, String host, int port) {
        this.host = host;
        this.port = port;
        this.jedis = new GatedJedis(host, port, gate);
        this.jedis.connect();
        this.thread = new Thread(this::serve, "client-" + name);
        this.thread.setDaemon(true);
        this.thread.start();
    }

    private void serve() {
        try {
            while (!dead) {
                work.take().run();
            }
        } catch (InterruptedException died) {
            // Only die() interrupts. The orders still queued fail at the gate,
            // so that each gets its answer.
        }
        for (Runnable r = work.poll(); r != null; r = work.poll()) {
            r.run();
        }
    }

    /**
     * Queues the order; returns false if the client is dead. The client counts
     * as busy from now on, not only from when it begins.
     */
    boolean submit(Supplier<Runnable> order) {
        if (dead) {
            return false;
        }
        gate.busy(1);
        work.add(() -> {
            Runnable answer = order.get();
            gate.busy(-1);
            answer.run();
        });
        return true;
    }

    List<String> run(String verb, List<String> a) throws Exception {
        switch (verb) {
            case "lock":
                return newLock(a);
            case "acquire":
                return acquire();
            case "release":
                lock().release();
                return List.of();
            case "goodbye":
                lock().goodbye();
                return List.of();
            case "state":
                return List.of(lock != null && lock.held() ? "held" : "free", gate.state());
            case "step":
                gate.step(a.get(0).equals("on"));
                return List.of();
            case "next":
                Call at = gate.next();
                return at == null ? List.of("idle") : List.of("gate", at.word());
            case "go":
                return List.of(gate.go().word());
            case "trace":
                return gate.takeTrace();
            case "loop":
                startLoop(a.get(0), Long.parseLong(a.get(1)), Integer.parseInt(a.get(2)));
                return List.of();
            case "finish":
                return running().report();
            case "reach":
                return List.of(Integer.toString(running().reach(Integer.parseInt(a.get(0)))));
            case "refused":
                return List.of(Integer.toString(running().refused(Integer.parseInt(a.get(0)))));
            case "stop":
                running().stop();
                return List.of();
            case "spans":
                return running().spans();
            case "refusals":
                return running().refusals();
            default:
                throw new IllegalArgumentException("no such order: " + verb);
        }
    }

    private List<String> newLock(List<String> a) {
        String key = a.get(1);
        Integer wait = millis(a.get(2));
        Integer lease = millis(a.get(3));
        switch (a.get(0)) {
            case "jar":
                lock = new JarLock(jedis, key, wait, lease);
                break;
            case "token":
                lock = new TokenLock(jedis, key, wait, lease);
                break;
            case "dual":
                lock = new DualMutex(host, port, key, wait, lease, a.size() > 4 ? a.get(4) : "");
                break;
            case "none":
                lock = new NoLock();
                break;
            default:
                throw new IllegalArgumentException("no such kind of lock: " + a.get(0));
        }
        return List.of();
    }

    private static Integer millis(String word) {
        return word.equals("default") ? null : Integer.valueOf(word);
    }

    /**
     * Acquires, and counts the jar's sleeps. They cannot be seen from outside,
     * so this takes the JVM's count for this thread minus the sleeps at the
     * gate.
     */
    private List<String> acquire() throws InterruptedException {
        Mutex mutex = lock();
        long before = slept();
        boolean won = mutex.acquire();
        return List.of(Boolean.toString(won), Long.toString(slept() - before));
    }

    private long slept() {
        long id = thread.getId();
        return ManagementFactory.getThreadMXBean().getThreadInfo(id).getWaitedCount() - gate.waits();
    }

    /** Starts a loop. stop and reach find the loop before its thread begins it. */
    private synchronized void startLoop(String key, long holdMillis, int count) {
        if (counter == null) {
            counter = new Jedis(host, port, 30_000);
        }
        Loop next = new Loop(lock(), counter, key, holdMillis, count);
        loop = next;
        submit(() -> {
            gate.record(false);
            next.run();
            gate.record(true);
            return () -> { };
        });
    }

    private Mutex lock() {
        if (lock == null) {
            throw new IllegalStateException("this client has no lock object yet");
        }
        return lock;
    }

    private Loop running() {
        if (loop == null) {
            throw new IllegalStateException("this client has no loop");
        }
        return loop;
    }

    /**
     * Ends the client as in a crash: it closes the sockets and sends no
     * command. The interrupt ends a poll's sleep or a wait at the gate. After
     * the join, the job has written its last.
     */
    void die() throws InterruptedException {
        dead = true;
        gate.die();
        if (loop != null) {
            loop.stop();
        }
        if (lock != null) {
            lock.end();
        }
        thread.interrupt();
        jedis.cut();
        thread.join();
        disconnect(jedis);
        if (counter != null) {
            disconnect(counter);
        }
    }

    /** Frees what is left of a connection that no thread uses any more. */
    private static void disconnect(Jedis of) {
        try {
            of.disconnect();
        } catch (JedisConnectionException cutBefore) {
            // what was not sent before the cut is lost, as in a crash
        }
    }
}
