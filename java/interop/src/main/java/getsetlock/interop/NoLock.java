// SPDX-License-Identifier: Apache-2.0
package getsetlock.interop;

/**
 * Always grants. A test of mutual exclusion that passes with this lock in place
 * of the jar proves nothing.
 */
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
