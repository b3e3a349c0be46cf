// SPDX-License-Identifier: Apache-2.0
package getsetlock.zookeeper;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/** Reads orders and answers each. */
public final class Main {
    private final Map<String, InterProcessMutex> locks = new HashMap<>();
    private CuratorFramework client;

    private Main() {}

    public static void main(String[] args) throws IOException {
        PrintStream out = System.out;
        // If a library prints, its output must not look like an answer.
        System.setOut(System.err);
        Main main = new Main();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.print(main.answer(line.split(" ")) + "\n");
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private String answer(String[] order) {
        try {
            return "ok " + run(order);
        } catch (Exception e) {
            return ("err " + e).replace('\n', ' ');
        }
    }

    private String run(String[] order) throws Exception {
        switch (order[0]) {
            case "open":
                int timeout = Integer.parseInt(order[2]);
                client = CuratorFrameworkFactory.newClient(order[1], timeout, 15000, new RetryOneTime(100));
                client.start();
                return Boolean.toString(client.blockUntilConnected(30, TimeUnit.SECONDS));
            case "acquire":
                return Boolean.toString(lock(order[1]).acquire(Long.parseLong(order[2]), TimeUnit.MILLISECONDS));
            case "release":
                lock(order[1]).release();
                return "";
            case "count":
                count(order[1], Path.of(order[2]), Integer.parseInt(order[3]));
                return "";
            case "spin":
                return Long.toString(spin(order[1], Long.parseLong(order[2])));
            default:
                throw new IllegalArgumentException("no such order: " + order[0]);
        }
    }

    private InterProcessMutex lock(String path) {
        return locks.computeIfAbsent(path, p -> new InterProcessMutex(client, p));
    }

    private long spin(String path, long millis) throws Exception {
        long times = 0;
        for (long end = System.nanoTime() + millis * 1_000_000; System.nanoTime() < end; times++) {
            lock(path).acquire();
            lock(path).release();
        }
        return times;
    }

    private void count(String path, Path file, int times) throws Exception {
        for (int i = 0; i < times; i++) {
            lock(path).acquire();
            try {
                int before = Integer.parseInt(Files.readString(file).trim());
                Files.writeString(file, Integer.toString(before + 1));
            } finally {
                lock(path).release();
            }
        }
    }
}
