// SPDX-License-Identifier: Apache-2.0
/**
 * Drives the original Java lock by orders: clients around the real
 * {@code com.github.jedis.lock.JedisLock} of jedis-lock 1.0.0, to which the Go
 * tests send orders over stdin, line by line.
 *
 * <p>It changes nothing of what the jar does: the class runs as published, on a
 * Jedis whose only addition is a gate before its commands. It does not promise
 * to be safe, fast or polite; the tests examine that. It assumes that one
 * process drives it, and it ends when its stdin ends, so that no JVM outlives a
 * killed test.
 *
 * <h2>Lines</h2>
 *
 * <p>An order is {@code ID VERB WORDS…}. Its answer is {@code ID ok WORDS…} or
 * {@code ID err CLASS MESSAGE}. Answers come in the order of completion, so
 * that a client may wait while others work. A word is form-encoded UTF-8 (a
 * blank is {@code +}); {@code ()} is the empty text, {@code (nil)} is null.
 * Times are whole milliseconds of {@code System.currentTimeMillis}; where the
 * text says us, microseconds of the same clock.
 *
 * <table><caption>orders; {@code C} is a client's name</caption>
 * <tr><td>{@code hello}</td><td>protocol version, Java version, pid</td></tr>
 * <tr><td>{@code clock}</td><td>now by this JVM's clock</td></tr>
 * <tr><td>{@code open C HOST PORT}</td><td>a client: one connection and one thread of its own</td></tr>
 * <tr><td>{@code lock C KIND KEY WAIT LEASE [NAMESPACE]}</td><td>gives it a new lock
 * object in place of the last one. KIND is {@code jar}, {@code token} (SET
 * with NX and PX, released by a script that compares), {@code dual} (the lock of
 * docs/guide/java-dual.md, which needs its namespace) or {@code none} (always
 * grants, to show that a test sees lost updates). WAIT and LEASE are in ms or
 * {@code default}</td></tr>
 * <tr><td>{@code acquire C}</td><td>{@code true|false} and how often the thread slept meanwhile</td></tr>
 * <tr><td>{@code release C}</td><td></td></tr>
 * <tr><td>{@code goodbye C}</td><td>the lock object is no longer used: a {@code
 * dual} one leaves the registry</td></tr>
 * <tr><td>{@code die C}</td><td>cuts the connection without a release and forgets the client; what it was doing
 * answers {@code err}</td></tr>
 * <tr><td>{@code state C}</td><td>{@code held|free} by the lock's own flag, and {@code idle}, {@code busy} or
 * {@code gate}</td></tr>
 * <tr><td>{@code step C on|off}</td><td>with {@code on}, every command of the lock stops at the gate before it is
 * sent</td></tr>
 * <tr><td>{@code next C}</td><td>waits for the client: {@code gate} and the
 * call that is held there, or {@code idle}</td></tr>
 * <tr><td>{@code go C}</td><td>sends that one call; answers the call with its
 * reply</td></tr>
 * <tr><td>{@code trace C}</td><td>the lock's calls since the last {@code trace}, at most 4,096, and forgets
 * them</td></tr>
 * <tr><td>{@code loop C COUNTER HOLD COUNT}</td><td>begins a loop, COUNT times (0: until {@code stop}): acquire, GET the
 * counter, stay HOLD ms, SET it one higher, release</td></tr>
 * <tr><td>{@code finish C}</td><td>waits for the loop's end: acquisitions, refusals, milliseconds</td></tr>
 * <tr><td>{@code reach C N}</td><td>waits until the loop has made N
 * acquisitions or has ended; answers how many it has made</td></tr>
 * <tr><td>{@code refused C N}</td><td>the same for acquires that returned
 * false</td></tr>
 * <tr><td>{@code stop C}</td><td>ends the loop after its present round</td></tr>
 * <tr><td>{@code spans C}</td><td>of the last loop: {@code asked,held,released} in us for every acquisition: before
 * acquire was called, after it returned, before release was called</td></tr>
 * <tr><td>{@code refusals C}</td><td>of the last loop: {@code asked,gaveup} in
 * us for every acquire that returned false: before it was called, after it
 * returned</td></tr>
 * </table>
 *
 * <p>A call is one word with fields separated by commas: the clock when it
 * reached the gate, verb ({@code setnx}, {@code get}, {@code getset}, {@code
 * del}), key, value sent or {@code (nil)}, reply or {@code !CLASS} or, before
 * the reply, {@code ?}, and when it was sent and when its reply came, in us (0:
 * not yet).
 */
package getsetlock.interop;
