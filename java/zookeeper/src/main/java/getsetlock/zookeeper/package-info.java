// SPDX-License-Identifier: Apache-2.0
/**
 * Drives Curator's {@code InterProcessMutex} by orders that the Go tests send
 * over stdin, line by line. The process ends when its stdin ends, so that no
 * JVM outlives a killed test, and without closing its session, as in a crash.
 *
 * <p>An order is {@code VERB WORDS…}. Orders are carried out one after the
 * other. Each is answered by one line: {@code ok WORDS…} or
 * {@code err CLASS MESSAGE}.
 *
 * <table><caption>orders</caption>
 * <tr><td>{@code open SERVERS TIMEOUT}</td><td>connects; TIMEOUT is that of the session in ms</td></tr>
 * <tr><td>{@code acquire PATH WAIT}</td><td>waits up to WAIT ms; {@code ok true} or {@code ok false}</td></tr>
 * <tr><td>{@code release PATH}</td><td>gives the lock back</td></tr>
 * <tr><td>{@code count PATH FILE N}</td><td>N times: takes the lock, adds 1 to the number in FILE, gives it
 * back</td></tr>
 * <tr><td>{@code spin PATH MS}</td><td>takes the lock and gives it back again and again, for MS ms;
 * {@code ok TIMES}</td></tr>
 * </table>
 */
package getsetlock.zookeeper;
