package audit

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/skew"
)

// look asks for all keys in one message and sends what came back.
func (p *poller) look(ctx context.Context, keys []string) {
	sent := p.w.elapsed()
	var seen []skew.Observed
	var firstErr error
	if p.plain {
		seen, firstErr = p.lookPlain(ctx, keys)
	} else {
		seen, firstErr = p.lookScript(ctx, keys)
		if p.failed(ctx, firstErr); p.plain {
			seen, firstErr = p.lookPlain(ctx, keys)
		}
	}
	p.w.spent(int64(len(keys)), 0)
	p.works = p.works || len(seen) > 0
	if p.plain {
		p.failed(ctx, firstErr)
	}
	if len(seen) == 0 {
		return
	}
	p.heard(seen[len(seen)-1].At, sent, false)
	kept := seen[:0]
	for _, o := range seen {
		if p.follow[o.Key] == nil && !(o.Exists && p.w.census.isLock(o) && p.add(o.Key)) {
			continue
		}
		if f := p.follow[o.Key]; o.Exists {
			f.free = 0
		} else if f.free == 0 {
			f.free = max(1, p.w.elapsed())
		}
		kept = append(kept, o)
	}
	p.w.send(kept...)
}

func (p *poller) lookScript(ctx context.Context, keys []string) (seen []skew.Observed, err error) {
	var commands []wire.Command
	var groups [][]string
	for len(keys) > 0 {
		n := 1
		if !p.single {
			n = min(looksTogether, len(keys))
		}
		commands, groups, keys = append(commands, p.lookAll(ctx, keys[:n])), append(groups, keys[:n]), keys[n:]
	}
	// One TIME behind them says how long they took the server.
	replies := p.w.mux.Batch(ctx, append(commands, wire.Cmd("TIME")))
	asked := 0
	for i, group := range groups {
		asked += len(group)
		os, e := looked(group, replies[i])
		seen = append(seen, os...)
		if e == nil && commands[i].Track {
			p.tracked(group)
		}
		if e != nil && err == nil {
			err = e
		}
	}
	if wire.IsCluster(err) || wire.IsNoPerm(err) && !p.single {
		p.single = true
	}
	if end, e := timeOf(replies[len(groups)].Value, replies[len(groups)].Err); e == nil && err == nil && len(seen) > 0 {
		p.w.took(end.Sub(seen[0].At), asked)
	}
	return seen, err
}

// lookAll is the command that looks at keys. It asks to be told of changes where the server was not asked of all of
// them lately: asking costs it more than looking.
func (p *poller) lookAll(ctx context.Context, keys []string) wire.Command {
	command := wire.Command{Script: lookScripts[len(keys)-1], Args: make([]any, 0, len(keys))}
	armed, told, now := true, true, p.w.elapsed()
	for _, k := range keys {
		command.Args = append(command.Args, k)
		f := p.follow[k]
		armed = f != nil && p.arm(ctx, k, f) && armed
		told = armed && told && now-f.told < trackAgain
	}
	command.Track = armed && !told
	return command
}

// tracked notes that the server will tell of the next change of each. One that it told of meanwhile is hot, and is
// asked for anew.
func (p *poller) tracked(keys []string) {
	now := p.w.elapsed()
	for _, k := range keys {
		p.follow[k].told = now
	}
}

// looked reads the script's reply. Keys of other types are left out.
func looked(keys []string, reply wire.Reply) (seen []skew.Observed, err error) {
	parts, err := redis.Values(reply.Value, reply.Err)
	if err != nil {
		return nil, err
	}
	if len(parts) < 2+2*len(keys) {
		return nil, errors.New("look returned " + strconv.Itoa(len(parts)) + " parts")
	}
	at, err := timeOf(parts[:2], nil)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		left, err := redis.Int64(parts[2+2*i], nil)
		if err != nil {
			return seen, err
		}
		if parts[3+2*i] == nil {
			continue
		}
		value, err := redis.String(parts[3+2*i], nil)
		if err != nil {
			return seen, err
		}
		seen = append(seen, lookAt(key, at, left, value))
	}
	return seen, nil
}

func lookAt(key string, at time.Time, left int64, value string) skew.Observed {
	o := skew.Observed{At: at, Kind: skew.ObservedLook, Key: key}
	if left == -2 {
		return o
	}
	o.Exists, o.Value = true, value
	if left >= 0 {
		o.HasTTL, o.TTL = true, time.Duration(left)*time.Millisecond
	}
	return o
}

// lookPlain does without EVAL. TIME is asked last, so that no value is older than it: lower bounds of
// clocks stay right, and are looser by a message.
func (p *poller) lookPlain(ctx context.Context, keys []string) (seen []skew.Observed, err error) {
	var commands []wire.Command
	for _, k := range keys {
		commands = append(commands, wire.Cmd("PTTL", k), wire.Cmd("GETRANGE", k, 0, 1023))
	}
	commands = append(commands, wire.Cmd("TIME"))
	replies := p.w.mux.Batch(ctx, commands)
	last := replies[len(replies)-1]
	at, err := timeOf(last.Value, last.Err)
	if err != nil {
		return nil, err
	}
	for i, k := range keys {
		left, e1 := redis.Int64(replies[2*i].Value, replies[2*i].Err)
		value, e2 := redis.String(replies[2*i+1].Value, replies[2*i+1].Err)
		if wire.IsWrongType(e2) {
			continue
		}
		if e := errors.Join(e1, e2); e != nil {
			err = e
			continue
		}
		seen = append(seen, lookAt(k, at, left, value))
	}
	return seen, err
}
