package modern

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// The methods of this file make an engine a voter of package quorum. Its Config
// can have Fence, and neither Fair nor Replicas; Note and Token are the
// quorum's business.

// Ready returns the run id and the version of the server, and whether it may
// vote: the error says why not. Once a connection it asks for INFO and TIME.
//
// A server that restarted may have forgotten votes that still count. So it
// votes when it has been up for age and two seconds more. Its uptime is a
// difference of its wall clock: what that clock was seen to gain on elapsed
// time is subtracted.
func (b *engine) Ready(ctx context.Context, age time.Duration) (server, version string, err error) {
	s, err := b.seat(ctx)
	if err != nil {
		return "", "", fmt.Errorf("modern: could not ask the server who it is: %w", wire.Judged(err))
	}
	if s.refusal != nil {
		return s.server, s.version, s.refusal
	}
	up := s.up + backend.ReadClock(ctx).Elapsed - s.read
	if least := age + coarse; up < least {
		return s.server, s.version, &youngError{up: up, least: least, gained: s.gained}
	}
	return s.server, s.version, nil
}

// coarse is how far an uptime in whole seconds may be from the true one.
const coarse = 2 * time.Second

// youngError says that a server may have forgotten votes.
type youngError struct{ up, least, gained time.Duration }

func (e *youngError) Error() string {
	s := fmt.Sprintf("the server votes in %v, since it may have forgotten votes: it has been up for %v, and the greatest TTL and 2s are %v",
		max(e.VotesIn().Round(time.Second), time.Second), max(e.up, 0).Round(time.Second), e.least)
	if e.gained > time.Second {
		s += fmt.Sprintf("; its clock was set forward by %v, which is not counted",
			e.gained.Round(time.Second))
	}
	return s
}

// VotesIn returns how long it takes until the server votes.
func (e *youngError) VotesIn() time.Duration { return e.least - e.up }

// Passing is true: it is a matter of time.
func (e *youngError) Passing() bool { return true }

// unfitError says why a server can be no member of a quorum.
type unfitError struct{ why string }

func (e *unfitError) Error() string { return e.why }

// Passing is false: the server must be changed, or another one named.
func (e *unfitError) Passing() bool { return false }

// seat is what a server said on one connection. Votes go over that connection
// only: a restart ends it.
type seat struct {
	pin             wire.Pin
	server, version string
	up              time.Duration // least uptime, when it was read
	gained          time.Duration // what the server's clock was seen to gain; up is without it
	read            time.Duration // elapsed time when it was read
	refusal         error
}

// seats is the present seat, and what was seen of the server's clock.
type seats struct {
	turn  chan struct{} // has one token; its owner uses the fields below
	now   *seat
	clock sighting
}

func (s *seats) init() {
	s.turn = make(chan struct{}, 1)
	s.turn <- struct{}{}
}

// seat returns the seat of the present connection. It asks the server if
// nobody has on that connection.
func (b *engine) seat(ctx context.Context) (*seat, error) {
	pin, err := b.user.Pin(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-b.seats.turn:
	case <-ctx.Done():
		return nil, notTaken(context.Cause(ctx))
	}
	defer func() { b.seats.turn <- struct{}{} }()
	s := b.seats.now
	if s != nil && s.pin == pin && backend.ReadClock(ctx).Elapsed >= s.read {
		return s, nil
	}
	s, err = b.ask(ctx, pin)
	if err == nil {
		b.seats.now = s
	}
	return s, err
}

// ask asks who the server is. The error is that of a server that did not
// answer, or that may answer later; a server that can be no member has a
// refusal.
func (b *engine) ask(ctx context.Context, pin wire.Pin) (*seat, error) {
	sent := backend.ReadClock(ctx).Elapsed
	rs := pin.Batch(ctx, []wire.Command{wire.Cmd("INFO", "server"), wire.Cmd("TIME"),
		wire.Cmd("INFO", "replication"), wire.Cmd("INFO", "memory")})
	s := &seat{pin: pin, read: backend.ReadClock(ctx).Elapsed}
	said := map[string]string{}
	for i, r := range rs {
		switch {
		case unasked(r.Err), r.Err != nil && wire.IsTransient(r.Err):
			return nil, r.Err
		case r.Err != nil:
			s.refusal = &unfitError{fmt.Sprintf("the server refuses INFO or TIME, without which nobody knows whether it forgot votes: %v; allow them (ACL: +info +time), and use no proxy", r.Err)}
			return s, nil
		}
		if text, ok := r.Value.([]byte); ok && i != 1 {
			readInfo(said, string(text))
		}
	}
	sec, usec, err := wire.Clock(rs[1].Value, nil)
	if err != nil {
		s.refusal = &unfitError{err.Error()}
		return s, nil
	}
	s.server, s.version = said["run_id"], version(said)
	if err := b.eviction(ctx, pin, said); err != nil {
		return nil, err
	}
	up, refusal := fit(said)
	at := time.Duration(sec)*time.Second + time.Duration(usec)*time.Microsecond
	s.gained = b.seats.clock.gained(s.server, at, sent, s.read)
	s.up, s.refusal = up-s.gained, refusal
	return s, nil
}

// unasked reports that a command was not sent, or brought no reply.
func unasked(err error) bool {
	var unsent *wire.NotSentError
	var unknown *wire.UnknownError
	return errors.As(err, &unsent) || errors.As(err, &unknown)
}

// eviction adds what INFO of servers before 3.2 leaves out.
func (b *engine) eviction(ctx context.Context, pin wire.Pin, said map[string]string) error {
	if said["maxmemory_policy"] != "" {
		return nil
	}
	for _, name := range []string{"maxmemory", "maxmemory-policy"} {
		reply, err := pin.Do(ctx, "CONFIG", "GET", name)
		if unasked(err) {
			return err
		}
		if pair, ok := reply.([]any); ok && len(pair) == 2 {
			value, _ := pair[1].([]byte)
			said[strings.ReplaceAll(name, "-", "_")] = string(value)
		}
	}
	return nil
}

// readInfo adds the fields of an INFO to said.
func readInfo(said map[string]string, text string) {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			said[name] = value
		}
	}
}

func version(said map[string]string) string {
	if v := said["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	return said["redis_version"]
}

// fit returns the uptime of a server, and why it can be no member.
func fit(said map[string]string) (up time.Duration, refusal error) {
	up, err := time.ParseDuration(said["uptime_in_seconds"] + "s")
	why := ""
	switch {
	case said["redis_mode"] == "sentinel":
		why = "it is a sentinel; name the server itself"
	case said["redis_mode"] == "cluster":
		why = "it is a node of a cluster; a member stands alone"
	case said["run_id"] == "" || err != nil:
		why = "it does not say its run id and uptime: a proxy; name the server itself"
	case said["role"] != "master":
		why = "it is a replica; a member stands alone"
	case said["connected_slaves"] != "0":
		why = "it has replicas, and one that is promoted may lack votes; a member stands alone"
	case said["second_repl_offset"] != "" && said["second_repl_offset"] != "-1":
		why = "it was a replica and may lack votes; restart it without a replica's configuration"
	case said["maxmemory_policy"] == "":
		why = "it does not say whether it evicts keys; allow CONFIG GET"
	case said["maxmemory"] != "0" && said["maxmemory_policy"] != "noeviction":
		why = "it may evict keys, and so votes; set maxmemory-policy noeviction"
	default:
		return up, nil
	}
	return 0, &unfitError{"the server can be no member of a quorum: " + why}
}

// sighting is the server's clock at one moment, and what it had gained on
// elapsed time by then.
type sighting struct {
	server string
	at     time.Duration // TIME
	read   time.Duration // elapsed time when the reply had come
	before time.Duration // what it had gained by then
}

// gained returns what the clock of the server's present run has gained on
// elapsed time since it was first seen, at most. Under another run id, what was
// gained in between counts too: the clock may have been set after the restart.
func (s *sighting) gained(server string, at, sent, read time.Duration) time.Duration {
	if s.server == "" || read < s.read {
		*s = sighting{server, at, read, 0}
		return 0
	}
	total := (at - s.at) - (sent - s.read)
	if server == s.server {
		total += s.before
	}
	total = max(total, 0)
	if server != s.server {
		*s = sighting{server, at, read, total}
	}
	return total
}

// TryAs is Try with this token, which becomes the key's whole value, over the
// connection on which Ready got this server id. A server that answers on
// another connection gets nothing.
func (b *engine) TryAs(ctx context.Context, server, key, token string, ttl time.Duration) (backend.Grant,
	error) {
	if err := b.validAs(key, token, ttl); err != nil {
		return nil, err
	}
	s, err := b.seat(ctx)
	switch {
	case err != nil:
		return nil, trouble("take", key, err)
	case s.server != server || server == "":
		return nil, trouble("take", key, notTaken(errRestarted))
	}
	g := &grant{b: b, key: key, token: token}
	g.written(backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl})
	taken, err := b.takeAs(ctx, s.pin, g, ttl)
	switch {
	case err != nil:
		return nil, b.attempted(g, err)
	case !taken:
		return nil, b.held(ctx, key)
	}
	return g, nil
}

var errRestarted = errors.New("the server restarted, or another one answers at its address")

var errNoMember = &unfitError{
	"modern: a member of a quorum must have neither Config.Fair nor Config.Replicas"}

func (b *engine) validAs(key, token string, ttl time.Duration) error {
	if b.cfg.Fair || b.cfg.Replicas > 0 {
		return errNoMember
	}
	own, note, _ := strings.Cut(token, " ")
	if len(own) < shortestToken {
		return fmt.Errorf("modern: token %q has less than %d bytes", own, shortestToken)
	}
	if err := validNote(note); err != nil {
		return err
	}
	return valid(key, ttl)
}

// takeAs sends the command that takes the key over one connection. It draws one
// number: leases of a quorum are not shared with numbers.
func (b *engine) takeAs(ctx context.Context, pin wire.Pin, g *grant, ttl time.Duration) (bool, error) {
	if !b.cfg.Fence {
		reply, err := pin.Do(ctx, "SET", g.key, g.token, "NX", "PX", millis(ttl))
		return reply != nil, err
	}
	reply, err := b.drawnOn(ctx, pin, acquireScript, g.key, b.fence, g.token, millis(ttl), 1)
	first, _ := reply.(int64)
	g.fence = first
	return first > 0, err
}

// Raise makes the next number of the namespace greater than number, if the key
// of the grant still carries its token.
func (b *engine) Raise(ctx context.Context, granted backend.Grant, number int64) error {
	g, ok := granted.(*grant)
	if !ok {
		return errForeignGrant
	}
	reply, err := b.user.Eval(ctx, raiseScript, g.key, b.fence, g.token, number)
	if err != nil {
		return trouble("write the number of", g.key, err)
	}
	if done, _ := reply.(int64); done == notOurs {
		return g.gone(ctx)
	}
	return nil
}
