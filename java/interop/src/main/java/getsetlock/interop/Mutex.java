// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

/** What the orders need of a lock, whatever its rules. */
interface Mutex {
    boolean acquire() throws InterruptedException;

    void release();

    /** Returns the lock's own flag, which is all that it knows about holding. */
    boolean held();

    /** Ends as in a crash: nothing more is sent. */
    default void end() {}

    /** Says that the lock object is no longer used. */
    default void goodbye() throws InterruptedException {}
}
