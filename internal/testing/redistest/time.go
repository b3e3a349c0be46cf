package redistest

import (
	"slices"
	"sync"
	"time"

	"github.com/benbjohnson/clock"
)

// timeline is the true time that every Clock of a world looks at through its own glass.
type timeline interface {
	now() time.Time
	// afterFunc calls f once, d of true time from now, unless the returned func is called first. f
	// is never called before afterFunc has returned.
	afterFunc(d time.Duration, f func()) (stop func())
}

// machineTime is the time of the process: the machine's, or a bubble's when called inside one.
type machineTime struct{}

func (machineTime) now() time.Time { return time.Now() }

func (machineTime) afterFunc(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// mockTime is time that moves only in pass.
//
// The Mock carries the instant and nothing else: its own timers can deadlock when one is asked for
// while Add runs, and each that fires costs a millisecond of real sleep. So alarms are kept here, and
// a thousand timers cost as much as one.
type mockTime struct {
	mock *clock.Mock

	mu     sync.Mutex
	alarms []*alarm // in the order they were set
}

type alarm struct {
	at   time.Time
	ring func()
}

func (m *mockTime) now() time.Time { return m.mock.Now() }

func (m *mockTime) afterFunc(d time.Duration, f func()) func() {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := &alarm{at: m.mock.Now().Add(d), ring: f}
	m.alarms = append(m.alarms, a)
	return func() { m.drop(a) }
}

func (m *mockTime) drop(a *alarm) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alarms = slices.DeleteFunc(m.alarms, func(b *alarm) bool { return a == b })
}

// next is the earliest alarm due at or before the instant, the first set among equals.
func (m *mockTime) next(limit time.Time) *alarm {
	m.mu.Lock()
	defer m.mu.Unlock()
	var first *alarm
	for _, a := range m.alarms {
		if !a.at.After(limit) && (first == nil || a.at.Before(first.at)) {
			first = a
		}
	}
	return first
}

// earliest is the instant of the next alarm, and whether there is one.
func (m *mockTime) earliest() (time.Time, bool) {
	a := m.next(time.Unix(1<<40, 0))
	if a == nil {
		return time.Time{}, false
	}
	return a.at, true
}

// pass moves time to now+d and rings what falls due on the way, each at its own instant: advance
// is told of every move before the alarms of its end ring, so that whoever wakes finds a server that
// is as late as it is.
func (m *mockTime) pass(d time.Duration, advance func(time.Duration)) {
	end := m.mock.Now().Add(d)
	for {
		a := m.next(end)
		if a == nil {
			break
		}
		m.moveTo(a.at, advance)
		m.drop(a)
		a.ring()
	}
	m.moveTo(end, advance)
}

func (m *mockTime) moveTo(at time.Time, advance func(time.Duration)) {
	step := at.Sub(m.mock.Now())
	if step <= 0 {
		return
	}
	advance(step)
	m.mock.Add(step)
}
