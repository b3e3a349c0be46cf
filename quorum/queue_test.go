package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/quorum"
)

// lining is a member with a queue on its server. A place takes the key when it
// is free: who comes when is the member's business.
type lining struct {
	*client
	places []*standing
}

func (l *lining) Contract() backend.Backend { return l }

func (l *lining) EnterAs(_ context.Context, key, note string) (backend.Place, error) {
	token := strings.TrimSpace(fmt.Sprintf("place-%s-%d %s", l.name, len(l.places), note))
	p := &standing{m: l, key: key, token: token}
	l.places = append(l.places, p)
	return p, nil
}

type standing struct {
	m          *lining
	key, token string
	left       bool
	before     func() // called before the next try is sent
}

func (p *standing) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	if p.before != nil {
		p.before()
	}
	return p.m.TryAs(ctx, p.m.runID(), p.key, p.token, ttl)
}

func (p *standing) Await(ctx context.Context, wake func()) (cancel func(), free bool, err error) {
	return p.m.Await(ctx, p.key, wake)
}

func (p *standing) Leave(context.Context) error {
	p.left = true
	return nil
}

// queue is a Backend whose members have queues, and one of its places.
type queue struct {
	*world
	b       *quorum.Backend
	members []*lining
	place   backend.Place
}

// enter opens a backend and tries a place once, while holder has k.
func (w *world) enter(cfg quorum.Config, holder backend.Grant) *queue {
	w.Helper()
	q := &queue{world: w}
	var all []quorum.Member
	for _, m := range join(w.servers) {
		l := &lining{client: m.(*client)}
		q.members, all = append(q.members, l), append(all, l)
	}
	var err error
	if q.b, err = quorum.New(all, cfg); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := q.b.Close(); err != nil {
			w.Errorf("Close: %v", err)
		}
	})
	w.refused(q.b) // now the servers are known
	if q.place, err = q.b.Contract().(backend.Queuer).Enter(bg, "k"); err != nil {
		w.Fatal(err)
	}
	q.mustWait()
	return q
}

// mustWait tries the place, whose turn has not come.
func (q *queue) mustWait() *lock.HeldError {
	q.Helper()
	g, err := q.place.Try(bg, ttl)
	var held *lock.HeldError
	if !errors.As(err, &held) {
		q.Fatalf("Try from a place: %v, %v; another client holds", g, err)
	}
	synctest.Wait()
	return held
}

// line returns the member in whose queue the place is, and its place there.
func (q *queue) line() (m *lining, s *standing) {
	q.Helper()
	for _, l := range q.members {
		if n := len(l.places); n > 0 && !l.places[n-1].left {
			if m != nil {
				q.Errorf("the place is in the queues of %s and %s", m.name, l.name)
			}
			m, s = l, l.places[n-1]
		}
	}
	if m == nil {
		q.Fatal("the place is in no queue")
	}
	return m, s
}

// others are the servers without the queue.
func (q *queue) others() (some []*server) {
	m, _ := q.line()
	for _, s := range q.servers {
		if s != m.server {
			some = append(some, s)
		}
	}
	return some
}

func TestWaiterAsksOthersWhenItsTurnHasCome(t *testing.T) {
	for _, cfg := range []quorum.Config{{}, {Note: "host 7"}, {Fences: true}} {
		bubble(t, "a b c", func(w *world) {
			holder := w.take(w.open(cfg))
			q := w.enter(cfg, holder)
			m, s := q.line()
			for _, o := range q.others() {
				o.forgetCalls()
			}
			held := q.mustWait()
			for _, o := range q.others() {
				if o.asked("try") > 0 {
					w.Errorf("%s was asked while %s has the key for another client", o.name, m.name)
				}
			}
			if held.Again <= 0 || held.Again > 2*time.Second {
				w.Errorf("the next try is due in %v; its member may be away without a sign", held.Again)
			}
			w.free(holder)
			g, err := q.place.Try(bg, ttl)
			if err != nil {
				w.Fatal(err)
			}
			if g.Token() != s.token || !strings.HasSuffix(s.token, cfg.Note) {
				w.Errorf("token %q of a place with %q and note %q", g.Token(), s.token, cfg.Note)
			}
			w.want("taken", "xxx", s.token)
			if f, _ := g.(backend.Fenced); cfg.Fences && f.Fence() <= holder.(backend.Fenced).Fence() {
				w.Errorf("number %d after %d", f.Fence(), holder.(backend.Fenced).Fence())
			}
			w.free(g)
			w.want("released", "---", "")
		})
	}
}

// Another client, which does not use the queue, has a majority of the votes.
func TestWaiterGivesItsVoteBackToAMajority(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		holder := w.take(w.open(quorum.Config{}))
		q := w.enter(quorum.Config{}, holder)
		others := q.others()
		w.free(holder)
		for _, o := range others {
			o.set("k", "another client's token", ttl)
		}
		q.mustWait()
		m := q.members[0]
		for _, l := range q.members {
			if l.server != others[0] && l.server != others[1] {
				m = l
			}
		}
		if v := m.value("k"); v != "" {
			w.Errorf("%s has the vote %q", m.name, v)
		}
		// It waits for that client, and not for the free key of its own queue.
		woken := false
		cancel, free, err := q.place.Await(bg, func() { woken = true })
		if err != nil || free {
			w.Fatalf("Await: %v, free: %v", err, free)
		}
		defer cancel()
		m.set("k", "a passer-by", time.Second)
		synctest.Wait()
		if woken {
			w.Error("the waiter was woken by its own queue's member")
		}
		m.drop("k")
		for _, o := range others {
			o.drop("k")
		}
		synctest.Wait()
		if !woken {
			w.Error("the waiter was not woken when the other client had released")
		}
		g, err := q.place.Try(bg, ttl)
		if err != nil {
			w.Fatal(err)
		}
		w.free(g)
	})
}

// The queue's member restarts between its readiness and the vote.
func TestWaitersVoteOfAnotherRunDoesNotCount(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		holder := w.take(w.open(quorum.Config{}))
		q := w.enter(quorum.Config{}, holder)
		m, s := q.line()
		w.free(holder)
		s.before = func() { m.restart(true) }
		g, err := q.place.Try(bg, ttl)
		if err != nil {
			w.Fatalf("two members have not restarted: %v", err)
		}
		if synctest.Wait(); g.Token() == s.token || m.value("k") != "" {
			w.Errorf("the vote of a server that restarted counts: %q", m.value("k"))
		}
		w.free(g)
		w.want("released", "---", "")
	})
}

func TestWaiterAsksOthersWhenQueueMemberIsAway(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		holder := w.take(w.open(quorum.Config{}))
		q := w.enter(quorum.Config{}, holder)
		m, s := q.line()
		w.free(holder)
		// The vote is carried out, and the reply is lost.
		m.fail("try", errAway, true)
		g, err := q.place.Try(bg, ttl)
		if err != nil {
			w.Fatal(err)
		}
		if g.Token() == s.token {
			w.Error("the token of a doubtful vote was used again")
		}
		m.fail("try", nil, false)
		if synctest.Wait(); m.value("k") == s.token {
			w.Errorf("%s keeps the doubtful vote", m.name)
		}
		w.free(g)
		w.want("released", "---", "")
	})
}

// The queue's member was ready, and its server does not vote any more.
func TestWaiterChangesQueueWhenMemberStopsVoting(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		holder := w.take(w.open(quorum.Config{}))
		q := w.enter(quorum.Config{}, holder)
		m, s := q.line()
		m.restart(false)
		q.mustWait()
		if now, _ := q.line(); now == m || !s.left {
			w.Errorf("the place is in the queue of %s, which does not vote; left: %v", now.name, s.left)
		}
		if err := q.place.Leave(bg); err != nil {
			w.Error(err)
		}
		for _, l := range q.members {
			for _, p := range l.places {
				if !p.left {
					w.Errorf("a place in the queue of %s is left behind", l.name)
				}
			}
		}
		w.free(holder)
	})
}

// A client died with the vote of the queue's member only.
func TestWaiterFindsThatAnOwnerHasOneVote(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		holder := w.take(w.open(quorum.Config{}))
		q := w.enter(quorum.Config{}, holder)
		m, s := q.line()
		w.free(holder)
		m.set("k", "a dead client's token", ttl)
		q.mustWait()
		time.Sleep(200 * time.Millisecond)
		g, err := q.place.Try(bg, ttl)
		if err != nil {
			w.Fatalf("two members are free: %v", err)
		}
		if synctest.Wait(); !s.left {
			w.Error("the place is still in the queue")
		}
		m.drop("k")
		w.free(g)
		w.want("released", "---", "")
	})
}
