package lock

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ring is a timer of the kernel's, for the last moments before an instant that counts. Go's own are up to
// a millisecond late in a process that sleeps: epoll takes nothing shorter. One among the descriptors
// that the process waits for wakes it within some microseconds, and no thread is held for it.
type ring struct {
	timer *os.File
	rings chan time.Time // closed by its goroutine, when the time has come or stop was called
}

// mostRings is how many there may be at once in a process: each has a descriptor for as long as it runs.
const mostRings = 16

var rings atomic.Int32

// newRing rings in d, which is positive. It returns nil where there is nothing better than [Clock.After].
func newRing(d time.Duration) *ring {
	if rings.Add(1) > mostRings {
		rings.Add(-1)
		return nil
	}
	timer := kernelTimer(d)
	if timer == nil {
		rings.Add(-1)
		return nil
	}
	r := &ring{timer: timer, rings: make(chan time.Time)}
	go func() {
		defer close(r.rings)
		var times [8]byte
		_, _ = r.timer.Read(times[:]) // an error is the end too: who waits looks at the clock
	}()
	return r
}

func kernelTimer(d time.Duration) *os.File {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(fd, 0, &at, nil); err != nil {
		_ = unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "timer")
}

// stop ends it, and waits for its goroutine.
func (r *ring) stop() {
	_ = r.timer.Close()
	<-r.rings
	rings.Add(-1)
}
