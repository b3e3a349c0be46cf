// The argument of 2016 about Redlock, each scenario as a test. docs/quorum.md
// tells it in words.
//
// All time here is mocked: each of the five members and each client has a
// benbjohnson clock of its own. Only the test moves time: Pass moves all clocks
// together, Jump the clock of one member. A line such as two.Try() is one whole
// attempt of client two, and all its messages are answered when it returns.
// Nothing renews by itself. The members are A to E, leases are of 10 s, and a
// holder stops trusting its lease after 9 s. The drawing above a test shows
// true time from left to right.
package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/quorum"
)

// argument is five members, their clocks, and the resource that the lock
// protects.
type argument struct {
	*testing.T
	servers  []*server
	clocks   []*clock.Mock // of the members, then of the clients
	writes   []string      // what a resource that checks nothing has accepted
	refused  []string      // whose writes a resource that checks fences refuses
	greatest int64         // greatest fence that it has seen
	noFences bool          // clients draw no fences
}

const (
	argued = 10 * time.Second // TTL of every lease
	stock  = "stock"
)

// argue plays a scenario in virtual time.
func argue(t *testing.T, scenario func(f *argument)) {
	synctest.Test(t, func(t *testing.T) {
		f := &argument{T: t}
		for _, name := range []string{"A", "B", "C", "D", "E"} {
			c := f.clock()
			f.servers = append(f.servers, newServers(c, name)...)
		}
		scenario(f)
	})
}

func (f *argument) clock() *clock.Mock {
	c := clock.NewMock()
	c.Set(time.Date(2016, time.February, 8, 12, 0, 0, 0, time.UTC))
	f.clocks = append(f.clocks, c)
	return c
}

// Pass moves all clocks.
func (f *argument) Pass(d time.Duration) {
	for _, c := range f.clocks {
		c.Add(d)
	}
	synctest.Wait()
}

// Jump sets the clock of one member forwards.
func (f *argument) Jump(member int, d time.Duration) { f.clocks[member].Add(d) }

// Away cuts members off from everybody. Back ends that.
func (f *argument) Away(members ...int) {
	for _, i := range members {
		f.servers[i].fail("ready", away{"no route"}, false)
	}
}

func (f *argument) Back(members ...int) {
	for _, i := range members {
		f.servers[i].fail("ready", nil, false)
	}
}

// writer is one client and its job.
type writer struct {
	f      *argument
	name   string
	slow   chan struct{}    // not nil: replies to its attempts wait until it is closed
	late   [5]chan struct{} // of each member; not nil: requests for its vote wait until it is closed
	client *lock.Client
	lease  *lock.Lease
}

// Join adds a client.
func (f *argument) Join(name string) *writer {
	f.Helper()
	w := &writer{f: f, name: name}
	var members []quorum.Member
	for i, m := range join(f.servers) {
		members = append(members, &delayed{m, m.Contract().(quorum.Voter), w, i})
	}
	b, err := quorum.New(members, quorum.Config{GreatestTTL: argued, Fences: !f.noFences})
	if err == nil {
		w.client, err = lock.New(b,
			lock.Config{Clock: f.clock(), TTL: argued, RenewEvery: -1, Politeness: -1})
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.client.Close(ctx) // writers that crashed still hold their leases
		_ = b.Close()
	})
	return w
}

// delayed is a member to which requests for votes, or from which their replies,
// may be late.
type delayed struct {
	quorum.Member
	quorum.Voter
	w *writer
	i int
}

func (d *delayed) Contract() backend.Backend { return d }

func (d *delayed) TryAs(ctx context.Context, server, key, token string, ttl time.Duration) (backend.Grant,
	error) {
	if late := d.w.late[d.i]; late != nil {
		<-late
	}
	g, err := d.Voter.TryAs(ctx, server, key, token, ttl)
	if slow := d.w.slow; slow != nil {
		<-slow
	}
	return g, err
}

// Late keeps the client's requests for the votes of these members under way
// until the returned func is called.
func (w *writer) Late(members ...int) (arrive func()) {
	late := make(chan struct{})
	for _, i := range members {
		w.late[i] = late
	}
	return func() {
		w.late = [5]chan struct{}{}
		close(late)
		synctest.Wait()
	}
}

// Try is one attempt. It reports whether the client holds.
func (w *writer) Try() bool { return w.Asks()() }

// Must is Try, and fails the test if the client does not hold.
func (w *writer) Must() {
	w.f.Helper()
	if !w.Try() {
		w.f.Fatalf("%s does not hold", w.name)
	}
}

// Asks sends an attempt. The members answer; the returned func lets the client
// read what they said, and reports whether it holds.
func (w *writer) Asks() (read func() bool) {
	got := make(chan *lock.Lease, 1)
	go func() {
		lease, err := w.client.TryAcquire(context.Background(), stock)
		if err == nil {
			got <- lease
			return
		}
		w.f.Logf("%s: %v", w.name, err)
		got <- nil
	}()
	synctest.Wait()
	return func() bool {
		if w.slow != nil {
			close(w.slow)
			w.slow = nil
		}
		w.lease = <-got
		synctest.Wait() // the rest of the votes
		return w.AtWork()
	}
}

// AtWork reports whether the client takes itself for the holder.
func (w *writer) AtWork() bool { return w.lease != nil && w.lease.Err() == nil }

// Writes lets the client write without another look at its lease, as a job does
// that was stopped in the middle.
func (w *writer) Writes() {
	fence, _ := w.lease.Fence()
	w.f.writes = append(w.f.writes, w.name)
	if fence < w.f.greatest {
		w.f.refused = append(w.f.refused, w.name)
		return
	}
	w.f.greatest = fence
}

// ends checks what both resources made of the writes.
func (f *argument) ends(last, refused string) {
	f.Helper()
	if got := f.writes[len(f.writes)-1]; got != last {
		f.Errorf("the last write is that of %s, want %s", got, last)
	}
	if len(f.refused) != 1 || f.refused[0] != refused {
		f.Errorf("the fence refuses %v, want %s", f.refused, refused)
	}
}

// one   0 s ├─ holds, and stands still ─────────────────── 12 s: writes
// two                              10 s ├─ holds, writes
//
// Kleppmann is right: no lock prevents this. A fence does.
func TestArgumentPausedHolderWrites(t *testing.T) {
	argue(t, func(f *argument) {
		one, two := f.Join("one"), f.Join("two")
		one.Must()
		f.Pass(10 * time.Second)
		two.Must()
		two.Writes()
		f.Pass(2 * time.Second)
		one.Writes() // it has not looked at its lease, which would have told it
		if one.AtWork() || !two.AtWork() {
			t.Error("the lease tells the wrong client that it holds")
		}
		f.ends("one", "one")
	})
}

// one   0 s ├─ holds A B C; D and E are away ──────────────── writes
// C               1 s: its clock jumps, and it frees the key
// two                    4 s ├─ holds C D E, writes
//
// Kleppmann is right: a bare majority depends on every clock. The fence tells
// the two apart, since both have asked C for a number.
func TestArgumentJumpBreaksBareMajority(t *testing.T) {
	argue(t, func(f *argument) {
		one, two := f.Join("one"), f.Join("two")
		f.Away(3, 4)
		one.Must()
		f.Back(3, 4)
		f.Pass(time.Second)
		if two.Try() {
			t.Fatal("two clients hold before anything went wrong")
		}
		f.Jump(2, time.Minute)
		f.Pass(3 * time.Second) // a client refused just now asks one member first
		two.Must()
		if !one.AtWork() || !two.AtWork() {
			t.Error("the clock of C jumped, and not both clients hold")
		}
		two.Writes()
		one.Writes()
		f.ends("one", "one")
		// The next renewal finds two votes of three.
		if err := one.lease.Renew(context.Background()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("the renewal says %v", err)
		}
	})
}

// one   0 s ├─ holds A B C D E ──────────
// A B             1 s: their clocks jump, and they free the key
// two                    2 s: does not hold
// C                         2 s: jumps too
// two                                5 s ├─ holds A B C
//
// The law: all votes of five members survive two jumps, not three.
func TestArgumentJumpSparesFullVotes(t *testing.T) {
	argue(t, func(f *argument) {
		one, two := f.Join("one"), f.Join("two")
		one.Must()
		f.Pass(time.Second)
		f.Jump(0, time.Minute)
		f.Jump(1, time.Minute)
		f.Pass(time.Second)
		if two.Try() || !one.AtWork() {
			t.Fatal("two jumps broke five votes")
		}
		f.Jump(2, time.Minute)
		f.Pass(3 * time.Second)
		two.Must()
		if !one.AtWork() {
			t.Error("one has stopped before it could know")
		}
		two.Writes()
		one.Writes()
		f.ends("one", "one")
	})
}

// one   0 s ├─ holds A B C ──────────────── 9 s ┤ stops
// C               1 s: its clock jumps by 900 ms
// two                                   8.999 s: does not hold
// three                                   9.1 s ├─ holds
//
// A jump within the margin, a tenth of the lease, ends no vote before its
// holder has stopped.
func TestArgumentJumpWithinMarginIsHarmless(t *testing.T) {
	argue(t, func(f *argument) {
		one, two, three := f.Join("one"), f.Join("two"), f.Join("three")
		f.Away(3, 4)
		one.Must()
		f.Back(3, 4)
		f.Pass(time.Second)
		f.Jump(2, 900*time.Millisecond)
		f.Pass(7999 * time.Millisecond)
		if two.Try() || !one.AtWork() {
			t.Error("at 8.999 s the first client does not hold alone")
		}
		f.Pass(101 * time.Millisecond)
		three.Must()
		if one.AtWork() {
			t.Error("at 9.1 s both clients hold")
		}
	})
}

// one   0 s ├─ holds A B C; D and E are away ── 9 s ┤ stops
// C               1 s: restarts without its data
// two                    6 s: C does not vote, so it does not hold
// two                                              13 s ├─ holds
//
// antirez's delayed restart, without an administrator.
func TestArgumentRestartedMemberWaits(t *testing.T) {
	argue(t, func(f *argument) {
		one, two := f.Join("one"), f.Join("two")
		f.Away(3, 4)
		one.Must()
		f.Back(3, 4)
		f.Pass(time.Second)
		f.servers[2].restart(true)
		f.Pass(5 * time.Second)
		if two.Try() || !one.AtWork() {
			t.Error("C restarted, and its vote let two clients hold")
		}
		f.Pass(7 * time.Second)
		two.Must()
		if one.AtWork() {
			t.Error("the first client trusts a lease that C forgot")
		}
	})
}

// one   0 s: asks; all members vote for it; the replies are late ── 11 s: reads them
// two                                           10 s ├─ holds ──────────
//
// antirez is right: the client counts from before it asked, and does not hold.
// What it deletes are its own keys, not those of the second client.
func TestArgumentLateRepliesGrantNothing(t *testing.T) {
	for name, fences := range map[string]bool{"plain": false, "fences": true} {
		t.Run(name, func(t *testing.T) { argue(t, func(f *argument) { lateReplies(f, fences) }) })
	}
}

func lateReplies(f *argument, fences bool) {
	f.noFences = !fences
	one, two := f.Join("one"), f.Join("two")
	one.slow = make(chan struct{})
	read := one.Asks()
	if two.Try() {
		f.Fatal("the members did not vote for the first client")
	}
	f.Pass(10 * time.Second)
	two.Must()
	f.Pass(time.Second)
	if read() {
		f.Error("late replies made a holder")
	}
	if err := two.lease.Renew(context.Background()); err != nil || !two.AtWork() {
		f.Errorf("the second client's lease: %v", err)
	}
}

// one   0 s ├─ holds A B C; D and E are away ─ 3 s: renews; its requests to D and E are late
// C                                                4 s: its clock jumps
// two                                                 5 s ├─ holds C D E ─┤ 6 s
// D E                                                        6 s: vote for the first client
// one                                                           7 s: its renewal tells it
//
// No part of 2016. Two clients held, as the law has it for a bare majority. The
// votes of D and E must not hide that: they were under way while the second
// client held, so they do not count before a renewal has confirmed them.
func TestArgumentLateVotesHideNoHolder(t *testing.T) {
	argue(t, func(f *argument) {
		one, two := f.Join("one"), f.Join("two")
		f.Away(3, 4)
		one.Must()
		f.Back(3, 4)
		f.Pass(3 * time.Second)
		arrive := one.Late(3, 4)
		if err := one.lease.Renew(context.Background()); err != nil {
			t.Fatal(err)
		}
		f.Pass(time.Second)
		betweenLateVotes(f, two, arrive)
		if err := one.lease.Renew(context.Background()); !errors.Is(err, lock.ErrLost) || one.AtWork() {
			t.Errorf("another client held, and the renewal says %v", err)
		}
	})
}

// The same, with requests of the first attempt, and a release instead of the
// renewal.
func TestArgumentFirstVotesMayBeLateToo(t *testing.T) {
	argue(t, func(f *argument) {
		one, two := f.Join("one"), f.Join("two")
		arrive := one.Late(3, 4)
		one.Must()
		betweenLateVotes(f, two, arrive)
		if err := one.lease.Release(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("another client held, and the release says %v", err)
		}
	})
}

// betweenLateVotes lets a second client hold and release, with the help of C's
// clock, before D and E vote for the first one.
func betweenLateVotes(f *argument, two *writer, arrive func()) {
	f.Helper()
	f.Jump(2, time.Minute)
	f.Pass(time.Second)
	two.Must()
	f.Pass(time.Second)
	if err := two.lease.Release(); err != nil {
		f.Fatal(err)
	}
	arrive()
	for _, s := range f.servers[3:] {
		if s.value(stock) == "" {
			f.Fatalf("%s did not vote", s.name)
		}
	}
	f.Pass(time.Second)
}
