// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
)

//go:embed look.lua
var lookLua string

var rememberScript = wire.NewScript(3, lookLua)

// lookTTL is the TTL of a remembered look.
const lookTTL = 30 * 24 * time.Hour

// pastStamp is a stamp that the server's clock has passed. It is kept until it
// is known whether its holder may live.
type pastStamp struct {
	value string
	now   time.Time // the server's TIME, asked before the value was read
	boot  string    // this machine's boot id, and its uptime
	up    time.Duration
	ago   time.Duration // how long TIME is past the stamp
	age   time.Duration // the age that a look at the same bytes needs; 0: the lease is unknown
	// useless is the "sec" field of a look whose clocks disagree with the
	// clocks of this one; empty if there is none.
	useless string
	// denied: this user may not read M, which shows whether a getsetlock client
	// holds the lock.
	denied bool
}

// foundLive returns, by key, the values that old clients read during the watch
// and did not take over.
func foundLive(e *census.Evidence) map[string]census.Found {
	out := map[string]census.Found{}
	if e == nil {
		return out
	}
	for _, k := range e.Keys {
		if k.FoundLive.Times > 0 {
			out[k.Key] = k.FoundLive
		}
	}
	return out
}

// lookAtPast examines a stamp that TIME has passed. If it is past by less than
// the margin, a client whose clock is right still finds it live, and there is
// no complaint. judgePast decides later, for all such stamps together, whether
// the holder may live.
func (x *examiner) lookAtPast(p *keys.Key, ago time.Duration, fits []*dialect.Dialect) {
	behind, _ := x.behindOf()
	margin := max(x.cfg.Spread, behind)
	if len(fits) == 0 {
		return
	}
	past := pastStamp{value: p.Value, now: p.Now, ago: ago}
	past.boot, past.up = x.clock.Boot()
	for _, d := range fits {
		stamp, err := d.Decode(p.Value, p.Now)
		if err != nil || !d.PastBy(stamp, p.Now, margin) {
			return
		}
		if greatest := x.cfg.greatest(); greatest > 0 {
			age, _ := dialect.Terms{Greatest: greatest + x.longer()}.LookAge(*d)
			past.age = max(past.age, age)
		}
	}
	if len(p.Name) <= longestComplaint {
		x.complain(p, census.SeverityWarning, "past", "", "", nil)
		x.past[p.Name] = past
	}
}

// judgePast completes the complaints about stamps that TIME has passed. A lock
// is dead if no living client can hold it; otherwise the complaint says what
// would prove that.
func (x *examiner) judgePast(ctx context.Context) error {
	var cmds []wire.Command
	var of []*Complaint
	for i := range x.found {
		c := &x.found[i]
		if _, ok := x.past[c.Key]; ok && c.Kind == "past" {
			cmds = append(cmds, wire.Cmd("HMGET", lookKey(c.Key), "bytes", "sec", "usec", "run", "boot",
				"up"))
			of = append(of, c)
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	var failed error
	var young []*Complaint
	for i, reply := range x.mux.Batch(ctx, cmds) {
		var refused redis.Error
		if reply.Err != nil && !errors.As(reply.Err, &refused) {
			failed = fmt.Errorf("looking for remembered looks: %w", reply.Err)
		}
		if x.judge(of[i], reply) {
			young = append(young, of[i])
		}
	}
	if failed == nil && x.cfg.Remember {
		failed = x.remember(ctx, young)
	}
	return failed
}

// judge completes one complaint with what is remembered of its key. It returns
// true if the value should be remembered from now on.
func (x *examiner) judge(c *Complaint, remembered wire.Reply) (young bool) {
	p := x.past[c.Key]
	since, looked, same := p.seen(remembered, x.run)
	x.past[c.Key] = p
	found := x.live[c.Key]
	behind, known := x.behindOf()
	c.What = fmt.Sprintf("ended %s ago by the server's clock and is still there", roughly(p.ago))
	const either = ": its holder crashed, or its clock is behind the server's and it lives"
	wait := p.age - since + time.Microsecond
	if !same && (looked || p.boot == "") {
		wait = tenNinths(p.age - since)
	}
	switch {
	case p.denied:
		c.What += either
		c.Advice = fmt.Sprintf(
			"this user may not read whether a getsetlock client holds it: give the user rights on %s",
			strconv.Quote(reading.CutKey(legacy.MarkKey(c.Key))))
	case found.Times > 0 && found.Value == p.value:
		c.What += fmt.Sprintf(": old clients read it %s during the watch and did not take it over, the last one %s; their clocks are behind the server's, and its holder's may be too", timesWord(found.Times), found.Addr)
		c.Advice = "leave it alone: its holder may live; synchronize the clocks by NTP"
	case x.forgotten(c.Key):
		c.What += either
		c.Advice =
			"more keys were used during the watch than it remembers, perhaps this one too: narrow --match"
	case known:
		x.dead(c, p, fmt.Sprintf(", and no clock is more than %s behind the server's", roughly(behind)))
	case p.age == 0:
		c.What += either
		c.Advice = "give the greatest lease (--lease or --greatest), and --fix can tell by looking twice" +
			x.orBehind()
	case x.run == "":
		c.What += either
		c.Advice = "the server does not report its run id (INFO server), so an earlier look may come from another server" + x.orBehind()
	case looked && since > p.age:
		x.dead(c, p, fmt.Sprintf(", with the same bytes as %s ago", roughly(since)))
	default:
		c.What += either
		c.Wait = wait
		c.Advice = fmt.Sprintf("wait: if the same bytes are still there in %s, --fix can delete it%s",
			roughly(c.Wait), x.orBehind())
		if !looked && !x.cfg.Remember {
			c.Wait = 0
			c.Advice = fmt.Sprintf(
				"run it with --fix, which remembers this look on the server, and again %s later%s",
				roughly(wait), x.orBehind())
		}
		return !looked
	}
	return false
}

// forgotten reports whether the watch may have seen old clients read the key
// and then dropped the key to make room for others.
func (x *examiner) forgotten(key string) bool {
	e := x.cfg.Evidence
	return e != nil && e.ForgottenKeys > 0 &&
		!slices.ContainsFunc(e.Keys, func(k census.KeyEvidence) bool { return k.Key == key })
}

// dead marks the complaint as one about a dead lock. It offers to delete the
// lock if a pattern says that the key is a lock.
func (x *examiner) dead(c *Complaint, p pastStamp, why string) {
	c.Kind = "dead"
	c.What += why + ": its holder crashed, or it is a ghost; the next old client takes it over, but a client that knows only SET NX waits forever"
	c.Advice = "nothing to do if only old clients use it; otherwise delete it by --fix"
	if !x.cfg.all() {
		c.Fix = &Fix{Do: FixDelete, Key: c.Key, Value: p.value}
	}
}

func timesWord(n int64) string {
	if n == 1 {
		return "once"
	}
	return strconv.FormatInt(n, 10) + " times"
}

// tenNinths returns how much of TIME must pass until a look that another
// machine remembered is old enough. Nine tenths of the elapsed time count, less
// a margin of a tenth of the needed age.
func tenNinths(age time.Duration) time.Duration { return (age+age/10)/9*10 + 10 }

// seen reads what was remembered of a key. By the rule of package look, it
// returns for how long the key surely held the same bytes. looked is false if
// nothing usable is remembered; same is false if another machine remembered it.
func (p *pastStamp) seen(reply wire.Reply, run string) (age time.Duration, looked, same bool) {
	fields, err := redis.Strings(reply.Value, reply.Err)
	if err != nil || len(fields) != 6 || run == "" || fields[0] != p.value {
		return 0, false, false
	}
	at, err := wire.Time([]any{[]byte(fields[1]), []byte(fields[2])}, nil)
	if err != nil {
		return 0, false, false
	}
	micros, _ := strconv.ParseInt(fields[5], 10, 64)
	before := look.Reading{Server: time.Duration(at.UnixNano()), Run: fields[3], Boot: fields[4],
		Up: time.Duration(micros) * time.Microsecond}
	now := look.Reading{Server: time.Duration(p.now.UnixNano()), Run: run, Boot: p.boot, Up: p.up}
	age, looked = before.Age(now, p.age/10)
	if !looked {
		p.useless = fields[1]
	}
	return age, looked, p.boot != "" && p.boot == before.Boot
}

// remember stores on the server that some keys hold their bytes. TIME is asked
// after the replies that showed the bytes. The script stores the look if the
// key still holds them and no getsetlock client holds the lock.
func (x *examiner) remember(ctx context.Context, young []*Complaint) error {
	if len(young) == 0 || x.run == "" {
		return nil
	}
	sec, usec, err := wire.Clock(x.mux.Do(ctx, "TIME"))
	if err != nil {
		return fmt.Errorf("asking the server for its TIME: %w", err)
	}
	boot, up := x.clock.Boot()
	for _, c := range young {
		l := c.Key
		n, err := redis.Int(x.mux.Eval(ctx, rememberScript, l, legacy.MarkKey(l), lookKey(l), x.past[l].value,
			sec, usec, x.run, boot, up.Microseconds(), lookTTL.Milliseconds(), x.past[l].useless))
		var refused redis.Error
		switch {
		case errors.As(err, &refused):
			c.Wait, c.Advice = 0, fmt.Sprintf(
				"this look could not be remembered on %s (%v): give the user rights on that key%s",
				strconv.Quote(reading.CutKey(lookKey(l))), err, x.orBehind())
		case err != nil:
			return fmt.Errorf("remembering a look at key %s: %w", strconv.Quote(reading.CutKey(l)), err)
		case n == 0:
			c.Wait, c.Advice = 0, "it changed meanwhile: look again"
		}
	}
	return nil
}
