// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

import java.io.IOException;
import redis.clients.jedis.Client;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisConnectionException;

/**
 * A Jedis whose commands that locks use pass a gate. The bytes on the wire are
 * those of its superclass.
 */
final class GatedJedis extends Jedis {
    private static final int TIMEOUT_MILLIS = 30_000;

    private final Gate gate;
    private final Line line;

    GatedJedis(String host, int port, Gate gate) {
        super(host, port, TIMEOUT_MILLIS);
        this.gate = gate;
        this.line = new Line(host, port);
        this.line.setConnectionTimeout(TIMEOUT_MILLIS);
        this.line.setSoTimeout(TIMEOUT_MILLIS);
        this.client = line;
    }

    /** Cuts the connection as a crash would. Nothing is sent any more. */
    void cut() {
        line.cut();
    }

    /**
     * The connection. Two things that Jedis does are no crash. Its disconnect
     * flushes the output first: while the client's thread does so too, the
     * command is sent twice. And a command that finds the connection closed
     * opens another.
     */
    private static final class Line extends Client {
        private boolean cut;

        Line(String host, int port) {
            super(host, port);
        }

        @Override
        public synchronized void connect() {
            if (cut) {
                throw new JedisConnectionException("the client was told to die");
            }
            super.connect();
        }

        synchronized void cut() {
            cut = true;
            if (getSocket() == null) {
                return;
            }
            try {
                getSocket().close();
            } catch (IOException alreadyBroken) {
                // nothing is left to close
            }
        }
    }

    @Override
    public Long setnx(String key, String value) {
        return gate.pass(new Call("setnx", key, value), () -> super.setnx(key, value));
    }

    @Override
    public String get(String key) {
        return gate.pass(new Call("get", key, null), () -> super.get(key));
    }

    @Override
    public String getSet(String key, String value) {
        return gate.pass(new Call("getset", key, value), () -> super.getSet(key, value));
    }

    @Override
    public Long del(String... keys) {
        return gate.pass(new Call("del", keys[0], null), () -> super.del(keys));
    }

    @Override
    public Long del(String key) {
        return gate.pass(new Call("del", key, null), () -> super.del(key));
    }
}
