// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// longestExpected bounds the value that is sent along for comparison. Stamps
// are far shorter.
const longestExpected = reading.LongestStampText

// nothing is the expected value of a key about which nothing is known.
var nothing any = ""

// look asks for all keys in one message and sends the results as events. With
// beat, the instant of the look also serves as a heartbeat.
func (p *poller) look(ctx context.Context, keys []string, beat bool) {
	sent := p.w.elapsed()
	signal(p.w.looking)
	var seen []offset.Observed
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
		if beat {
			p.time(ctx)
		}
		return
	}
	p.heard(seen[len(seen)-1].At, sent, beat)
	kept := seen[:0]
	for i := range seen {
		o := &seen[i]
		f := p.follow[o.Key]
		if f == nil {
			if !o.Exists || !p.w.reader.IsLock(*o) || !p.add(o.Key) {
				continue
			}
			f = p.follow[o.Key]
		}
		f.showed(o, p.last)
		kept = append(kept, *o)
	}
	p.w.send(kept...)
}

// showed stores what a look found.
func (f *followed) showed(o *offset.Observed, now time.Duration) {
	switch {
	case o.Exists:
		f.free = 0
	case f.free == 0:
		f.free = max(1, now)
	}
	switch {
	case !o.Exists || o.HasTTL || len(o.Value) > longestExpected:
		f.value, f.expected = "", nothing
	case f.value != o.Value:
		f.value, f.expected = o.Value, o.Value
	}
}

func (p *poller) lookScript(ctx context.Context, keys []string) (seen []offset.Observed, err error) {
	var commands []wire.Command
	var groups [][]string
	for len(keys) > 0 {
		n := 1
		if !p.single {
			n = min(looksTogether, len(keys))
		}
		commands, groups, keys = append(commands, p.lookAll(ctx, keys[:n])), append(groups, keys[:n]),
			keys[n:]
	}
	// One TIME after the scripts shows how long the server took for them.
	replies := p.w.mux.Batch(ctx, append(commands, wire.Cmd("TIME")))
	asked := 0
	for i, group := range groups {
		asked += len(group)
		var e error
		seen, e = looked(seen, group, &commands[i], replies[i])
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
	if end, e := wire.Time(replies[len(groups)].Value, replies[len(groups)].Err); e == nil && err == nil &&
		len(seen) > 0 {
		p.w.took(end.Sub(seen[0].At), asked)
	}
	return seen, err
}

// lookAll returns the command that looks at keys. It asks the server to report
// changes of the keys, unless the server was asked about all of them lately:
// asking costs the server more than looking. In that case a value without a TTL
// is sent along as expected. A client that writes the value or gives it a TTL
// makes the server report a change.
func (p *poller) lookAll(ctx context.Context, keys []string) wire.Command {
	n := len(keys)
	args := make([]any, 2*n)
	armed, told, now := true, true, p.w.elapsed()
	for i, k := range keys {
		f := p.follow[k]
		if f == nil {
			args[i], args[n+i], armed = k, nothing, false
			continue
		}
		args[i], args[n+i] = f.name, f.expected
		armed = p.arm(ctx, k, f) && armed
		told = told && armed && now-f.told < trackAgain
	}
	if !armed || !told {
		for i := range n {
			args[n+i] = nothing
		}
	}
	return wire.Command{Script: lookScripts[n-1], Args: args, Track: armed && !told}
}

// tracked notes that the server will report the next change of each key. If the
// server has reported one since, the key is hot and the server is asked again.
func (p *poller) tracked(keys []string) {
	now := p.w.elapsed()
	for _, k := range keys {
		p.follow[k].told = now
	}
}

// looked reads the script's reply to a command and appends what it says about
// the keys. Keys that are no strings are left out.
func looked(seen []offset.Observed, keys []string, command *wire.Command,
	reply wire.Reply) ([]offset.Observed, error) {
	parts, err := redis.Values(reply.Value, reply.Err)
	if err != nil {
		return seen, err
	}
	if len(parts)%3 != 2 {
		return seen, errors.New("the look script returned " + strconv.Itoa(len(parts)) + " parts")
	}
	at, err := wire.Time(parts[:2], nil)
	if err != nil {
		return seen, err
	}
	expected := command.Args[len(keys):]
	told := parts[2:]
	for i, key := range keys {
		if len(told) == 0 || told[0] != int64(i+1) {
			value := expected[i].(string)
			if value == "" {
				return seen, errors.New("the look script returned nothing for key " + strconv.Itoa(i+1))
			}
			seen = append(seen, lookAt(key, at, -1, value))
			continue
		}
		left, err := redis.Int64(told[1], nil)
		if err != nil {
			return seen, err
		}
		if told[2] != nil {
			value, err := redis.String(told[2], nil)
			if err != nil {
				return seen, err
			}
			seen = append(seen, lookAt(key, at, left, value))
		}
		told = told[3:]
	}
	if len(told) > 0 {
		return seen, errors.New("the look script returned its keys in another order")
	}
	return seen, nil
}

func lookAt(key string, at time.Time, left int64, value string) offset.Observed {
	o := offset.Observed{At: at, Kind: offset.ObservedLook, Key: key}
	if left == -2 {
		return o
	}
	o.Exists, o.Value = true, value
	if left >= 0 {
		o.HasTTL, o.TTL = true, time.Duration(left)*time.Millisecond
	}
	return o
}

// lookPlain looks without EVAL. It asks for TIME last, so that no value is
// newer than that instant: lower bounds of clocks stay right, but are wider by
// a message's time.
func (p *poller) lookPlain(ctx context.Context, keys []string) (seen []offset.Observed, err error) {
	var commands []wire.Command
	for _, k := range keys {
		commands = append(commands, wire.Cmd("PTTL", k), wire.Cmd("GETRANGE", k, 0, 1023))
	}
	commands = append(commands, wire.Cmd("TIME"))
	replies := p.w.mux.Batch(ctx, commands)
	last := replies[len(replies)-1]
	at, err := wire.Time(last.Value, last.Err)
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
