package getsetlock.interop;

/** Grants always. A test of mutual exclusion that passes with this one in the jar's place proves nothing. */
final class NoLock implements Mutex {
    private volatile boolean held;

    @Override
    public boolean acquire() {
        held = true;
        return true;
    }

    @Override
    public void release() {
        held = false;
    }

    @Override
    public boolean held() {
        return held;
    }
}
