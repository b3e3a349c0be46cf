package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// Adapters of the scenarios with three servers.
const (
	bareMajority = "bare, 3 servers"
	redsyncThree = "redsync, 3 servers"
	ownThree     = "quorum"
	ownFenced    = "quorum, fenced"
	oneServer    = "modern, 1 server"
)

const (
	memberCount = 3
	memberTTL   = 2 * time.Second
	memberAway  = time.Millisecond // round trip to every server
)

// quorumAdapters only name what [members] opens.
func quorumAdapters() (all []Adapter) {
	for _, name := range []string{bareMajority, redsyncThree, ownThree, ownFenced, oneServer} {
		all = append(all, Adapter{Name: name})
	}
	return all
}

// quorumScenarios returns the scenarios with three servers, each a millisecond
// away. bare is the least that any of the libraries can do: the same SET to all
// servers at once, until the second one has answered.
func quorumScenarios(m *members) []Scenario {
	base := map[string]string{redsyncThree: bareMajority, ownThree: bareMajority, ownFenced: bareMajority}
	return []Scenario{
		{
			Name: "quorum/alone", Title: "one goroutine, 3 servers, each 1 ms away", Rounds: 5,
			Adapters: []string{bareMajority, redsyncThree, ownThree, ownFenced}, Bases: base,
			Metrics: []Metric{{Name: "acquire_us_p50", Head: "acquire µs p50", Ratio: true},
				{Name: "release_us_p50", Head: "release µs p50", Ratio: true},
				{Name: "messages", Head: "messages a server"}},
			Measure: m.alone,
		},
		{
			Name: "quorum/64", Title: "64 clients, one key on 3 servers, each 1 ms away",
			Rounds: 2, Adapters: []string{redsyncThree, ownThree, ownFenced},
			Metrics: []Metric{{Name: "per_s", Head: "acquisitions/s"},
				{Name: "wait_ms_p50", Head: "wait ms p50"},
				{Name: "wait_ms_max", Head: "longest ms"}, {Name: "longest", Head: "longest / p50"},
				{Name: "starved", Head: "starved"}, {Name: "overlaps", Head: "overlaps"},
				{Name: "messages", Head: "messages a server"}},
			Measure: m.contended,
		},
		{
			Name: "quorum/leases", Title: "1,000 leases of 2 s held in one process, servers 1 ms away",
			Rounds: 1, Adapters: []string{oneServer, ownThree, ownFenced},
			Metrics: []Metric{{Name: "messages_per_s", Head: "messages/s and server"},
				{Name: "lost", Head: "lost"}},
			Measure: m.held,
		},
	}
}

// members are the servers of the scenarios, started with the first of them.
type members struct {
	mu      sync.Mutex
	servers []*server
	seated  bool
	made    int
}

func (m *members) start(ctx context.Context) (addrs []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.servers) < memberCount {
		s, err := startServer(ctx)
		if err != nil {
			return nil, err
		}
		m.servers = append(m.servers, s)
	}
	for _, s := range m.servers {
		addrs = append(addrs, s.addr)
	}
	if m.seated {
		return addrs, nil
	}
	m.seated = true
	for _, s := range m.servers {
		if err := s.seat(addrs); err != nil {
			return nil, err
		}
	}
	return addrs, nil
}

// seat writes the record with which a server of a quorum votes at once. Clients
// would write it when they have watched a new server for two minutes.
func (s *server) seat(addrs []string) error {
	conn, err := redis.Dial("tcp", s.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	text, err := redis.String(conn.Do("INFO", "server"))
	if err != nil {
		return err
	}
	_, run, _ := strings.Cut(text, "run_id:")
	run, _, _ = strings.Cut(run, "\r")
	_, err = conn.Do("HMSET", "gsl:quorum", "name", s.addr, "members",
		strings.Join(slices.Sorted(slices.Values(addrs)), " "), "ttl", memberTTL.Milliseconds(), "epoch", 0,
		"run", run)
	return err
}

func (m *members) stop() {
	for _, s := range m.servers {
		s.stop()
	}
}

// opened is a locker on all servers, or on one.
type opened struct {
	Locker
	servers int
}

// open returns a locker of that name, as another process would have it, and a
// key that no measurement used before.
func (m *members) open(ctx context.Context, name string) (*opened, error) {
	addrs, err := m.start(ctx)
	if err != nil {
		return nil, err
	}
	if name == oneServer {
		addrs = addrs[:1]
	}
	var pools []*redis.Pool
	for _, addr := range addrs {
		pools = append(pools, poolOf(addr, Distant(memberAway), 8))
	}
	o := &opened{servers: len(addrs)}
	switch name {
	case bareMajority:
		o.Locker, err = newBareLocker(ctx, pools)
	case redsyncThree:
		o.Locker = newRedsyncLocker(pools)
	default:
		o.Locker, err = newOwnLocker(pools, addrs, name)
	}
	return o, err
}

// key returns a name that no measurement used before.
func (m *members) key() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made++
	return fmt.Sprint("quorum:", m.made)
}

// alone acquires and releases with nobody else about.
func (m *members) alone(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
	l, err := m.open(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	turns := 300
	if r.Quick {
		turns = 3
	}
	key := m.key()
	var acquire, release []float64
	var sent int64
	for i := range turns + 3 {
		if i == 3 { // by then every connection is open and every script is loaded
			sent = messages.Load()
			acquire, release = nil, nil
		}
		begun := time.Now()
		held, err := l.Lock(ctx, key)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		got := time.Now()
		if err := held.Release(); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		acquire = append(acquire, float64(got.Sub(begun).Microseconds()))
		release = append(release, float64(time.Since(got).Microseconds()))
	}
	sent = messages.Load() - sent
	return Figures{
		"acquire_us_p50": median(acquire), "release_us_p50": median(release),
		"messages": float64(sent) / float64(turns*l.servers),
	}, l.Close()
}

// held holds a thousand leases and counts the messages of their renewals. It
// takes them over one TTL: leases that were taken at once travel together for
// many periods, and a lock that is taken faster would need fewer messages.
func (m *members) held(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
	l, err := m.open(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	leases, window := 1000, 3*memberTTL
	if r.Quick {
		leases, window = 20, memberTTL
	}
	prefix := m.key()
	all := make([]Held, leases)
	errs := make([]error, leases)
	each := func(do func(i int)) {
		var work sync.WaitGroup
		for t := range 50 {
			work.Go(func() {
				for i := t; i < leases; i += 50 {
					do(i)
				}
			})
		}
		work.Wait()
	}
	each(func(i int) {
		pause(ctx, memberTTL/20)
		all[i], errs[i] = l.Lock(ctx, fmt.Sprint(prefix, ":", i))
	})
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	pause(ctx, memberTTL) // by then renewals have reached their usual rhythm
	sent := messages.Load()
	pause(ctx, window)
	sent = messages.Load() - sent
	lost := 0.0
	for _, h := range all {
		if w, ok := h.(Watched); ok && w.Err() != nil {
			lost++
		}
	}
	each(func(i int) { _ = all[i].Release() })
	rate := float64(sent) / window.Seconds() / float64(l.servers)
	return Figures{"messages_per_s": rate, "lost": lost}, l.Close()
}

// contended lets clients take one key in turns.
func (m *members) contended(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
	clients, window := 64, 5*time.Second
	if r.Quick {
		clients, window = 4, 200*time.Millisecond
	}
	key := m.key()
	var all []*contending
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	for range clients {
		l, err := m.open(ctx, a.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, &contending{opened: l})
		if err := all[len(all)-1].turn(ctx, m.key()); err != nil { // connects
			return nil, err
		}
	}
	open, shut := context.WithTimeout(ctx, window)
	defer shut()
	sent := messages.Load()
	var work sync.WaitGroup
	for _, c := range all {
		c.waits, c.spans = nil, nil
		work.Go(func() { c.run(open, ctx, key) })
	}
	work.Wait()
	sent = messages.Load() - sent
	f := Figures{}
	var waits []float64
	var spans [][2]time.Time
	var errs []error
	for _, c := range all {
		if len(c.spans) == 0 {
			f["starved"]++
		}
		waits, spans, errs = append(waits, c.waits...), append(spans, c.spans...), append(errs, c.err)
	}
	slices.SortFunc(spans, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	for i := 1; i < len(spans); i++ {
		if spans[i][0].Before(spans[i-1][1]) {
			f["overlaps"]++
		}
	}
	f["starved"] += 0
	f["overlaps"] += 0
	f["per_s"] = float64(len(spans)) / window.Seconds()
	f["wait_ms_p50"], f["wait_ms_max"] = median(waits), slices.Max(append(waits, 0))
	f["longest"] = f["wait_ms_max"] / f["wait_ms_p50"]
	f["messages"] = float64(sent) / float64(len(spans)*memberCount)
	return f, errors.Join(errs...)
}

type contending struct {
	*opened
	waits []float64 // in ms, the last one in vain
	spans [][2]time.Time
	err   error
}

// run takes turns until open ends. ctx outlives it, so that the end does not
// cancel an attempt.
func (c *contending) run(open, ctx context.Context, key string) {
	for open.Err() == nil && c.err == nil {
		c.err = c.turn(ctx, key)
	}
}

func (c *contending) turn(ctx context.Context, key string) error {
	begun := time.Now()
	held, err := c.Lock(ctx, key)
	got := time.Now()
	c.waits = append(c.waits, float64(got.Sub(begun).Microseconds())/1000)
	if err != nil {
		return err
	}
	c.spans = append(c.spans, [2]time.Time{got, time.Now()})
	return held.Release()
}

// ownLocker is a client of getsetlock.
type ownLocker struct {
	*lock.Client
	members *quorum.Backend // nil: one server
}

func newOwnLocker(pools []*redis.Pool, names []string, form string) (Locker, error) {
	fences := form == ownFenced
	var members []quorum.Member
	for i, p := range pools {
		m, err := modern.New(p, modern.Config{Name: names[i], Fence: fences})
		if err != nil {
			return nil, err
		}
		if form == oneServer {
			c, err := lock.New(m, lock.Config{TTL: memberTTL})
			return ownLocker{c, nil}, err
		}
		members = append(members, m)
	}
	b, err := quorum.New(members, quorum.Config{GreatestTTL: memberTTL, Fences: fences})
	if err != nil {
		return nil, err
	}
	c, err := lock.New(b, lock.Config{TTL: memberTTL})
	return ownLocker{c, b}, err
}

func (l ownLocker) Lock(ctx context.Context, key string) (Held, error) {
	return l.Acquire(ctx, key)
}

func (l ownLocker) Close() error {
	err := l.Client.Close(context.Background())
	if l.members != nil {
		err = errors.Join(err, l.members.Close())
	}
	return err
}

func newRedsyncLocker(pools []*redis.Pool) Locker {
	var all []redsyncredis.Pool
	for _, p := range pools {
		all = append(all, redsyncredigo.NewPool(p))
	}
	return &redsyncLocker{redsync.New(all...), []redsync.Option{redsync.WithExpiry(memberTTL)}, func() error {
		var errs []error
		for _, p := range pools {
			errs = append(errs, p.Close())
		}
		return errors.Join(errs...)
	}}
}

// bareLocker sends the same command to every server at once, each on a
// connection of its own, and waits for the majority.
type bareLocker struct {
	ask  []chan bareCommand
	conn []redis.Conn
}

type bareCommand struct {
	name    string
	args    []any
	replied chan<- error
}

func newBareLocker(ctx context.Context, pools []*redis.Pool) (*bareLocker, error) {
	l := &bareLocker{}
	for _, p := range pools {
		c, err := p.DialContext(ctx)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		if err := bareRelease.Load(c); err != nil {
			return nil, errors.Join(err, c.Close(), l.Close())
		}
		ask := make(chan bareCommand, 4)
		l.ask, l.conn = append(l.ask, ask), append(l.conn, c)
		go func() {
			for q := range ask {
				v, err := c.Do(q.name, q.args...)
				if err == nil && v == nil {
					err = errors.New("bare: the key is held")
				}
				q.replied <- err
			}
		}()
	}
	return l, nil
}

func (l *bareLocker) majority(name string, args ...any) error {
	replied := make(chan error, len(l.ask))
	for _, ask := range l.ask {
		ask <- bareCommand{name, args, replied}
	}
	for range len(l.ask)/2 + 1 {
		if err := <-replied; err != nil {
			return err
		}
	}
	return nil
}

func (l *bareLocker) Lock(_ context.Context, key string) (Held, error) {
	if err := l.majority("SET", key, "bare", "NX", "PX", memberTTL.Milliseconds()); err != nil {
		return nil, err
	}
	return heldByMost{l, key}, nil
}

func (l *bareLocker) Close() error {
	for _, ask := range l.ask {
		close(ask)
	}
	for _, c := range l.conn {
		_ = c.Close()
	}
	return nil
}

type heldByMost struct {
	l   *bareLocker
	key string
}

func (h heldByMost) Release() error {
	return h.l.majority("EVALSHA", bareRelease.Hash(), 1, h.key, "bare")
}
