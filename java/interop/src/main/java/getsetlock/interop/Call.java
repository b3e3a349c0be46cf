// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

import java.time.Instant;

/**
 * One command of a lock: what it sent, when by which clock, and the reply. Only
 * the client's thread writes it.
 */
final class Call {
    private final long clockMillis = System.currentTimeMillis();
    private final String verb;
    private final String key;
    private final String value;
    private volatile String reply = "?";
    private volatile long sentMicros;
    private volatile long repliedMicros;

    Call(String verb, String key, String value) {
        this.verb = verb;
        this.key = key;
        this.value = value;
    }

    void sent() {
        sentMicros = nowMicros();
    }

    void replied(Object reply) {
        this.repliedMicros = nowMicros();
        this.reply = reply == null ? null : reply.toString();
    }

    void failed(RuntimeException e) {
        this.repliedMicros = nowMicros();
        this.reply = "!" + e.getClass().getName();
    }

    /**
     * Returns the call as one word of the protocol. Its fields are encoded
     * first, so that data cannot contain a comma.
     */
    String word() {
        return String.join(",", Long.toString(clockMillis), verb, Words.encode(key), Words.encode(value),
                Words.encode(reply), Long.toString(sentMicros), Long.toString(repliedMicros));
    }

    static long nowMicros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
    }
}
