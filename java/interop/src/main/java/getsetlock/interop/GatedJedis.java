package getsetlock.interop;

import redis.clients.jedis.Jedis;

/**
 * A Jedis whose commands that locks use pass a gate. The bytes on the wire are
 * those of its superclass.
 */
final class GatedJedis extends Jedis {
    private final Gate gate;

    GatedJedis(String host, int port, Gate gate) {
        super(host, port, 30_000);
        this.gate = gate;
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
