//go:build real && unix

package migrateverb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

// The program is killed within a verb, at each of its messages, and the verb is
// run again.
//
// The server has seen the commands of a dead process up to some one of them. So
// the verb is killed while its first, second … message is held in front of the
// server, until the verb ends by itself. With --wait 0s the verb looks once at
// what a step still waits for. The later looks of a verb that waits are those
// of the rows "unfinished".

// slaying is a row: where a fleet is, and the verb that is killed on the way
// from there.
type slaying struct {
	args          []string
	from, to      migrate.Phase
	pending       migrate.Phase // of the record before
	lost          bool          // there is no record, and members are left
	forgets       bool
	leavesPending migrate.Phase // left by the step, until it is complete
	epochs        int64         // number of times that the record is written until all is complete
}

var slayings = map[string]slaying{
	"init": {args: []string{"init"}, to: migrate.Observe, epochs: 1},
	"init after a loss": {args: []string{"init"}, from: migrate.Sealed, to: migrate.Sealed, lost: true,
		epochs: 1},
	"init after clean": {args: []string{"init"}, from: migrate.Clean, to: migrate.Observe,
		leavesPending: migrate.Clean, epochs: 2},
	"init, unfinished": {args: []string{"init"}, from: migrate.Observe, pending: migrate.Clean,
		to: migrate.Observe, epochs: 1},
	"advance to dual": {args: []string{"advance", "--to", "dual"}, from: migrate.Observe, to: migrate.Dual,
		epochs: 1},
	"advance to sealed": {args: []string{"advance", "--to", "sealed"}, from: migrate.Dual,
		to: migrate.Sealed, epochs: 1},
	"advance to modern": {args: []string{"advance", "--to", "modern"}, from: migrate.Sealed,
		to: migrate.Modern, epochs: 1},
	"advance and forget": {args: []string{"advance", "--to", "sealed"}, from: migrate.Dual,
		to: migrate.Sealed, forgets: true, epochs: 1},
	"back to sealed": {args: []string{"back", "--to", "sealed"}, from: migrate.Modern, to: migrate.Sealed,
		epochs: 1},
	"back to dual": {args: []string{"back", "--to", "dual"}, from: migrate.Sealed, to: migrate.Dual,
		leavesPending: migrate.Sealed, epochs: 2},
	"back, unfinished": {args: []string{"back", "--to", "dual"}, from: migrate.Dual,
		pending: migrate.Sealed, to: migrate.Dual, epochs: 1},
	"back to observe": {args: []string{"back", "--to", "observe"}, from: migrate.Dual, to: migrate.Observe,
		epochs: 1},
	"clean": {args: []string{"clean"}, from: migrate.Modern, to: migrate.Clean,
		leavesPending: migrate.Modern, epochs: 2},
	"clean, unfinished": {args: []string{"clean"}, from: migrate.Clean, pending: migrate.Modern,
		to: migrate.Clean, epochs: 1},
}

// deaths are ways to die: at which messages, and what becomes of the message at
// which the verb dies.
var deaths = map[string]struct {
	writes bool // only at writes
	do     func(*redistest.Gate) redistest.Action
	late   bool // the message arrives nevertheless, after the verb was run again
}{
	"before a message":      {do: redistest.HoldRequest},
	"before a reply":        {writes: true, do: redistest.HoldReply},
	"and a message is late": {writes: true, do: redistest.HoldRequest, late: true},
}

func TestVerbCanRunAgainAfterAKillAtAnyMessage(t *testing.T) {
	program := clitest.Built(t)
	server := redistest.Real(t, redistest.Options{
		Args: []string{"--databases", fmt.Sprint(len(slayings) + 1)}})
	for n, name := range slices.Sorted(maps.Keys(slayings)) {
		row, database := slayings[name], n+1
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &slain{slaying: row, program: program, server: server, database: database}
			s.pool = server.Pool(redis.DialDatabase(database))
			for how := range deaths {
				ended := false
				for nth := 1; !ended && !t.Failed(); nth++ {
					t.Run(fmt.Sprintf("%s, %d", how, nth), func(t *testing.T) {
						s.t = t
						ended = s.killedAt(how, nth)
					})
				}
			}
			if s.killed == 0 {
				t.Error("it always ended by itself")
			}
		})
	}
}

// slain is the fleet of a row, in a database of its own.
type slain struct {
	slaying
	t        *testing.T
	program  string
	server   *redistest.Server
	database int
	pool     *redis.Pool
	killed   int

	members []*migrate.Member
	bridges []*migrate.Bridge
	// The record, and all keys, which belong to the registry, as the members
	// left them.
	before   string
	registry []string
}

const (
	slainRecord = "gsl:phase:stock"
	slainMember = "AAAAAAAAAAAA"
	slainEpoch  = 5 // of the record before
	slainTTL    = 20 * time.Second
)

var background = context.Background()

// killedAt reports whether the verb ended before its nth message.
func (s *slain) killedAt(how string, nth int) (ended bool) {
	s.begin()
	death, gate := deaths[how], redistest.NewGate()
	wire := s.server.Wire(redistest.Rule{Nth: nth, Do: death.do(gate), When: func(c redistest.Command) bool {
		return !death.writes || c.Is("EVALSHA") || c.Is("EVAL")
	}})
	s.holding("stock:3", func() {
		ended = s.dies(s.verb(wire.Listen()), gate)
		if !death.late {
			wire.Cut() // the message that was held is lost
		}
		s.neverHalf()
	})
	s.again()
	s.stands()
	if death.late {
		s.holding("stock:2", gate.Open)
		s.stands()
	}
	return ended
}

func (s *slain) do(command string, args ...any) any {
	s.t.Helper()
	c := s.pool.Get()
	defer c.Close()
	v, err := c.Do(command, args...)
	if err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	return v
}

// begin lets two members act by the row's first phase. Its tombstones exist.
func (s *slain) begin() {
	s.t.Helper()
	s.do("FLUSHDB")
	s.members, s.bridges, s.before = nil, nil, ""
	if s.from != migrate.NoPhase {
		claimed := func(d time.Duration) migrate.Known {
			return migrate.Known{Time: d, Source: migrate.Claimed}
		}
		s.before = migrate.Record{
			Epoch: slainEpoch, Phase: s.from, Pending: s.pending, Since: time.Now(), Dialect: "Jedis",
			Roster: "nonce",
			Fleet: migrate.Fleet{
				Lease: claimed(time.Minute), Greatest: claimed(time.Minute), Spread: claimed(time.Second),
				Gap: claimed(time.Second), Job: claimed(30 * time.Second),
			},
		}.String()
		s.do("HSET", "gsl:roster:stock", "nonce", "nonce")
		s.do("SET", slainRecord, s.before)
		s.join()
		s.join()
	}
	s.registry = s.keys()
	if slices.Contains([]migrate.Phase{s.from, s.pending}, migrate.Sealed) ||
		slices.Contains([]migrate.Phase{s.from, s.pending}, migrate.Modern) {
		for _, key := range []string{"stock:1", "stock:2"} {
			s.do("SET", key, dialect.Jedis().Tombstone(), "PX", time.Hour.Milliseconds())
		}
	}
	if s.forgets {
		dead := migrate.MemberState{
			ID: slainMember, Dialect: "Jedis", Epoch: slainEpoch, Phase: s.from, Every: time.Second,
			Probe: "ok",
			Seen:  time.Now().Add(-time.Hour),
		}
		s.do("HSET", "gsl:roster:stock", slainMember, dead.String())
	}
	if s.lost {
		s.do("DEL", slainRecord)
		s.before = ""
	}
}

func (s *slain) join() {
	s.t.Helper()
	m, err := migrate.Join(background, s.pool, migrate.MemberConfig{Namespace: "stock", Every: time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := migrate.New(s.pool, migrate.Config{Phases: m})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = b.Close(); _ = m.Leave() })
	s.members, s.bridges = append(s.members, m), append(s.bridges, b)
	s.beat()
}

// beat lets every member read the record and acknowledge it.
func (s *slain) beat() {
	s.t.Helper()
	for _, m := range s.members {
		if err := m.Refresh(background); err != nil {
			s.t.Fatal(err)
		}
	}
}

// holding calls f while a member, where there is one, holds a lock, which it
// must not lose.
func (s *slain) holding(key string, f func()) {
	s.t.Helper()
	if len(s.bridges) == 0 {
		f()
		return
	}
	g := s.takes(s.bridges[0], key)
	f()
	if _, err := g.Extend(background, slainTTL); err != nil {
		s.t.Errorf("the lock that was held meanwhile: %v", err)
	}
	s.frees(g)
}

func (s *slain) takes(b *migrate.Bridge, key string) backend.Grant {
	s.t.Helper()
	g, err := b.Contract().Try(background, key, slainTTL)
	if err != nil {
		s.t.Fatalf("%s: %v", key, err)
	}
	return g
}

func (s *slain) frees(g backend.Grant) {
	s.t.Helper()
	if err := g.Release(background); err != nil {
		s.t.Error(err)
	}
}

// verb returns the program, for the server at addr.
func (s *slain) verb(addr string) *exec.Cmd {
	args := append([]string{"migrate"}, s.args...)
	args = append(args, "--go", "--wait", "0s", "--quiet", "--namespace", "stock", "--redis",
		fmt.Sprintf("redis://%s/%d", addr, s.database),
		"--lease", "60s", "--spread", "1s", "--gap", "1s", "--job", "30s", "--gone")
	if s.forgets {
		args = append(args, "--forget", slainMember)
	}
	cmd := exec.Command(s.program, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // there are hundreds of them, and each does little
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// dies kills the program when a message is held at the gate. It reports whether
// the program ended before.
func (s *slain) dies(cmd *exec.Cmd, gate *redistest.Gate) (ended bool) {
	s.t.Helper()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	select {
	case <-gate.Reached():
		_ = cmd.Process.Kill()
		<-over
		s.killed++
		return false
	case err := <-over:
		select {
		case <-gate.Reached(): // nobody answered it until it gave up
			return false
		default:
		}
		s.code(cmd, err, 0, 1)
		return true
	}
}

func (s *slain) code(cmd *exec.Cmd, err error, may ...int) {
	s.t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); !slices.Contains(may, code) {
		s.t.Fatalf("%v ended with %d:\n%s", cmd.Args[1:], code, cmd.Stdout)
	}
}

func (s *slain) record() (r migrate.Record, text string) {
	s.t.Helper()
	text, err := redis.String(s.do("GET", slainRecord), nil)
	if errors.Is(err, redis.ErrNil) {
		return r, ""
	}
	if r, err = migrate.ParseRecord(text); err != nil {
		s.t.Fatalf("the record is %q: %v", text, err)
	}
	return r, text
}

// neverHalf checks that the record is the one before, or one that the verb
// leaves, and that the members act by it.
func (s *slain) neverHalf() {
	s.t.Helper()
	s.beat()
	r, text := s.record()
	moved := r.Phase == s.to && r.Epoch <= s.epoch() &&
		(r.Pending == s.leavesPending || r.Pending == migrate.NoPhase)
	before := r
	before.TTL, before.Every = 0, 0 // members raise them, which is no step
	if text != s.before && before.String() != s.before && !moved {
		s.t.Errorf("the record was %q and is %q", s.before, text)
	}
	for _, m := range s.members {
		if p := m.State().Phase; p != s.from && p != s.to {
			s.t.Errorf("a member acts by %v", p)
		}
	}
}

// epoch returns the record's epoch when all is complete, which shows that
// nothing was done twice.
func (s *slain) epoch() int64 {
	if s.from == migrate.NoPhase {
		return s.epochs
	}
	return slainEpoch + s.epochs
}

// again does what the operator does: it runs the same verb as often as the verb
// says that it is not complete.
func (s *slain) again() {
	s.t.Helper()
	for range 3 {
		cmd := s.verb(s.server.Addr())
		s.code(cmd, cmd.Run(), 0, 1)
		s.beat()
		if cmd.ProcessState.ExitCode() == 0 || s.over() {
			return
		}
	}
	_, text := s.record()
	s.t.Errorf("it is never over: %s", text)
}

func (s *slain) over() bool {
	r, _ := s.record()
	return r.Phase == s.to && r.Pending == migrate.NoPhase && r.Epoch == s.epoch()
}

// stands checks that the verb is complete, all members follow and take locks,
// and nothing is left that should not be.
func (s *slain) stands() {
	s.t.Helper()
	s.beat()
	if !s.over() {
		_, text := s.record()
		s.t.Errorf("it is not over: %s", text)
	}
	for i, m := range s.members {
		if state := m.State(); state.Phase != s.to || state.Epoch != s.epoch() || state.Probe != "ok" {
			s.t.Errorf("a member says %+v", state)
		}
		s.frees(s.takes(s.bridges[i], "stock:1"))
	}
	for _, key := range s.keys() {
		tombstone := strings.HasPrefix(key, "stock:") && s.to >= migrate.Sealed
		registry := slices.Contains([]string{slainRecord, "gsl:roster:stock", "gsl:log:stock"}, key) ||
			slices.Contains(s.registry, key)
		if !tombstone && !registry {
			s.t.Errorf("%s is left", key)
		}
	}
}

func (s *slain) keys() []string {
	s.t.Helper()
	all, err := redis.Strings(s.do("KEYS", "*"), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}
