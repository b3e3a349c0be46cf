// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/** Reads orders, finds the client of each, and answers. */
public final class Main {
    private static final String PROTOCOL = "3";

    private final Map<String, Peer> peers = new ConcurrentHashMap<>();
    private final PrintStream out;

    private Main(PrintStream out) {
        this.out = out;
    }

    /**
     * Serves until stdin ends. Then every thread dies with the process, also
     * while it holds a lock, as in a crash.
     */
    public static void main(String[] args) throws IOException {
        Main main = new Main(new PrintStream(System.out, false, StandardCharsets.UTF_8));
        // If a library prints, its output must not look like an answer.
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            main.start(Words.split(line));
        }
        Runtime.getRuntime().halt(0);
    }

    /**
     * Gives the order to its client's thread if the client must execute it,
     * otherwise to a new thread.
     */
    private void start(List<String> order) {
        Supplier<Runnable> work = () -> carryOut(order);
        Peer peer = order.size() > 2 ? peers.get(order.get(2)) : null;
        switch (order.get(1)) {
            case "lock", "acquire", "release", "goodbye" -> {
                if (peer == null || !peer.submit(work)) {
                    answer(order.get(0), "err", List.of(IllegalArgumentException.class.getName(), "no such client"));
                }
            }
            // Most of these wait for a client, and a pool's idle timeouts
            // misbehave under a frozen clock: so each gets a thread.
            default -> {
                Thread t = new Thread(() -> work.get().run(), "order-" + order.get(0));
                t.setDaemon(true);
                t.start();
            }
        }
    }

    /**
     * Executes the order. Returns what sends the answer, which must come after
     * the client has been marked idle.
     */
    private Runnable carryOut(List<String> order) {
        try {
            List<String> words = run(order.get(1), order.subList(2, order.size()));
            return () -> answer(order.get(0), "ok", words);
        } catch (Throwable e) {
            List<String> words = Arrays.asList(e.getClass().getName(), e.getMessage());
            return () -> answer(order.get(0), "err", words);
        }
    }

    private List<String> run(String verb, List<String> a) throws Exception {
        switch (verb) {
            case "hello":
                return List.of(PROTOCOL, System.getProperty("java.version"), Long.toString(ProcessHandle.current().pid()));
            case "clock":
                return List.of(Long.toString(System.currentTimeMillis()));
            case "open":
                return open(a.get(0), a.get(1), Integer.parseInt(a.get(2)));
            case "die":
                Peer dying = peer(a);
                peers.remove(a.get(0));
                dying.die();
                return List.of();
            default:
                return peer(a).run(verb, a.subList(1, a.size()));
        }
    }

    private List<String> open(String name, String host, int port) throws InterruptedException {
        Peer peer = new Peer(name, host, port);
        if (peers.putIfAbsent(name, peer) != null) {
            peer.die();
            throw new IllegalArgumentException("client " + name + " exists");
        }
        return List.of();
    }

    private Peer peer(List<String> args) {
        Peer peer = args.isEmpty() ? null : peers.get(args.get(0));
        if (peer == null) {
            throw new IllegalArgumentException("no such client");
        }
        return peer;
    }

    private void answer(String id, String kind, List<String> words) {
        List<String> line = new ArrayList<>(List.of(id, kind));
        words.forEach(w -> line.add(Words.encode(w)));
        synchronized (out) {
            out.print(String.join(" ", line) + "\n");
            out.flush();
        }
    }
}
