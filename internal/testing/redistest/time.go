// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"slices"
	"sync"
	"time"

	"github.com/benbjohnson/clock"
)

// timeline is the true time of a world; each Clock shows it with a skew.
type timeline interface {
	now() time.Time
	// afterFunc calls f once, after d of true time, unless the returned
	// function is called first. It never calls f before it has returned.
	afterFunc(d time.Duration, f func()) (stop func())
}

// machineTime is the time of the process: the machine's, or the bubble's inside
// a bubble.
type machineTime struct{}

func (machineTime) now() time.Time { return time.Now() }

func (machineTime) afterFunc(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// mockTime is time that moves only in pass.
//
// The Mock stores the instant and nothing else. Its own timers can deadlock if
// a timer is armed while Add runs, and each timer that fires costs a
// millisecond of real sleep. So the alarms are kept here, and a thousand of
// them cost as much as one.
type mockTime struct {
	mock *clock.Mock

	mu     sync.Mutex
	alarms []*alarm // in the order in which they were set
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

// next returns the earliest alarm due at or before limit, the first set among
// equals; nil: none.
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

// earliest returns the instant of the next alarm, and false if there is none.
func (m *mockTime) earliest() (time.Time, bool) {
	a := m.next(time.Unix(1<<40, 0))
	if a == nil {
		return time.Time{}, false
	}
	return a.at, true
}

// pass moves time to now+d and rings each alarm on the way at its own instant.
// It calls advance before each move, so a goroutine that an alarm wakes finds
// the server at the same instant.
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
