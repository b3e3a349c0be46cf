// SPDX-License-Identifier: Apache-2.0
package getsetlock.etcd;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.KV;
import io.etcd.jetcd.Lease;
import io.etcd.jetcd.Lock;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.etcd.jetcd.support.CloseableClient;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/**
 * A process with one jetcd client and one lease. It reads one order a line and
 * answers each with one line: "ok ..." or "err ...". The orders are:
 *
 * <pre>
 * lock NAME              waits for the lock; the answer has the key
 * unlock KEY
 * count NAME COUNTER N   locks, adds one to a counter by a read and a write, unlocks; N times
 * renewals               from now on there is one more line after each renewal of the lease
 * </pre>
 *
 * The process dies when its input ends, also while it holds a lock.
 */
public final class Main {
    private static final long TTL_SECONDS =
            Long.parseLong(System.getenv().getOrDefault("JETCD_TTL_SECONDS", "3"));

    private final PrintStream out;
    private final Lock lock;
    private final KV kv;
    private final long lease;
    private volatile boolean renewals;

    private Main(Client client, PrintStream out) throws Exception {
        this.out = out;
        lock = client.getLockClient();
        kv = client.getKVClient();
        Lease leases = client.getLeaseClient();
        lease = leases.grant(TTL_SECONDS).get(30, TimeUnit.SECONDS).getID();
        CloseableClient unused = leases.keepAlive(lease, new StreamObserver<LeaseKeepAliveResponse>() {
            @Override
            public void onNext(LeaseKeepAliveResponse response) {
                if (renewals) {
                    answer(out, "ok renewed");
                }
            }

            @Override
            public void onError(Throwable t) {
                System.err.println("keepalive: " + t);
            }

            @Override
            public void onCompleted() {}
        });
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Main main = new Main(Client.builder().endpoints(args[0]).build(), out);
        answer(out, "ok ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                answer(out, "ok " + main.carryOut(line.split(" ")));
            } catch (Exception e) {
                answer(out, "err " + e);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void answer(PrintStream out, String line) {
        synchronized (out) {
            out.print(line + "\n");
            out.flush();
        }
    }

    private static ByteSequence bytes(String s) {
        return ByteSequence.from(s, StandardCharsets.UTF_8);
    }

    private String carryOut(String[] order) throws Exception {
        switch (order[0]) {
            case "lock":
                return acquire(order[1]).toString(StandardCharsets.UTF_8);
            case "unlock":
                release(bytes(order[1]));
                return "";
            case "count":
                for (int i = 0; i < Integer.parseInt(order[3]); i++) {
                    ByteSequence key = acquire(order[1]);
                    addOne(bytes(order[2]));
                    release(key);
                }
                return "";
            case "renewals":
                renewals = true;
                return "";
            default:
                throw new IllegalArgumentException("no such order: " + order[0]);
        }
    }

    private ByteSequence acquire(String name) throws Exception {
        return lock.lock(bytes(name), lease).get(120, TimeUnit.SECONDS).getKey();
    }

    private void release(ByteSequence key) throws Exception {
        lock.unlock(key).get(30, TimeUnit.SECONDS);
    }

    /** Only the lock keeps two of these apart. */
    private void addOne(ByteSequence counter) throws Exception {
        GetResponse got = kv.get(counter).get(30, TimeUnit.SECONDS);
        long n = got.getKvs().isEmpty() ? 0 : Long.parseLong(got.getKvs().get(0).getValue().toString());
        kv.put(counter, bytes(Long.toString(n + 1))).get(30, TimeUnit.SECONDS);
    }
}
