package getsetlock.interop;

/** What the orders need of a lock, whichever rules it follows. */
interface Mutex {
    boolean acquire() throws InterruptedException;

    void release();

    /** The lock's own flag, which is all that it knows about holding. */
    boolean held();

    /** As a crash would: nothing is sent any more. */
    default void end() {}

    /** The lock object is not used any more. */
    default void goodbye() throws InterruptedException {}
}
