package fleet

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// counted is what the server's counts were when a watch saw them last. The
// server counts on while nobody watches. Where a later watch finds the same
// counts under the same run id, no client tried meanwhile, and the window goes
// on.
//
// HAZARD: CONFIG RESETSTAT begins the counts anew. A reset while nobody watches
// is noticed by the count of resets (Redis 7 and Valkey), and by a smaller
// count of all commands.
type counted struct {
	Run       string        `json:"run_id"`
	Setnx     int64         `json:"setnx"`
	Getset    int64         `json:"getset"`
	Processed int64         `json:"commands"`
	Resets    int64         `json:"resets"`
	Quiet     time.Duration `json:"quiet_ns"` // window that was proved by then
	Server    time.Duration `json:"time_ns"`  // TIME since 1970, when the watch wrote this
	Boot      string        `json:"boot_id"`  // boot id of the watcher's machine
	Up        time.Duration `json:"up_ns"`    // its uptime
}

// doubted is taken off a time that only the server's clock measured, besides a
// tenth of that time.
const doubted = 5 * time.Second

// reading asks the server and the machine for the time, and the server for the
// counts that show a reset. It returns false where the server does not say
// them.
func (o *observer) reading(ctx context.Context) (c counted, ok bool) {
	// Both clocks are read a round trip apart; look.Reading tolerates a second.
	c.Boot, c.Up = o.machine()
	replies := o.mux.Batch(ctx, []wire.Command{
		wire.Cmd("TIME"), wire.Cmd("INFO", "server"), wire.Cmd("INFO", "stats"),
		wire.Cmd("INFO", "commandstats")})
	sec, usec, err := wire.Clock(replies[0].Value, replies[0].Err)
	if err != nil {
		return c, false
	}
	c.Server = time.Duration(sec)*time.Second + time.Duration(usec)*time.Microsecond
	var texts [3]string
	for i := range texts {
		if texts[i], err = redis.String(replies[i+1].Value, replies[i+1].Err); err != nil {
			return c, false
		}
	}
	c.Run = infoWord(texts[0], "run_id")
	c.Processed, err = strconv.ParseInt(infoWord(texts[1], "total_commands_processed"), 10, 64)
	c.Resets = infoCalls(texts[2], "config|resetstat")
	return c, err == nil && c.Run != ""
}

// remember notes where the window by counts ends now.
func (o *observer) remember(ctx context.Context, s *Sighting, e *census.Evidence) {
	quiet := s.Quiet[WatchStats]
	if quiet == 0 || e.Stats == nil {
		return
	}
	now, ok := o.reading(ctx)
	if !ok || now.Run != e.Run {
		return
	}
	now.Setnx, now.Getset, now.Quiet = e.Stats.LastSetnx, e.Stats.LastGetset, quiet
	s.Counted = &now
}

// goesOn adds to the window by counts what was proved before this watch began,
// and the time between, if the counts did not move meanwhile.
func (o *observer) goesOn(s *Sighting, e *census.Evidence) {
	was, began := o.counted, o.began
	from, quiet := e.Quiet(census.SourceStats)
	if was == nil || began.Run == "" || quiet == 0 || from.After(e.Covered(census.SourceStats).From) ||
		e.Stats == nil {
		return
	}
	switch {
	case was.Run != began.Run || was.Run != e.Run,
		was.Setnx != e.Stats.FirstSetnx || was.Getset != e.Stats.FirstGetset,
		was.Resets != began.Resets || was.Processed > began.Processed:
		return
	}
	if away, ok := was.moment().Age(began.moment(), doubted); ok {
		s.Quiet[WatchStats] += was.Quiet + away
	}
}

func (c counted) moment() look.Reading {
	return look.Reading{Server: c.Server, Run: c.Run, Boot: c.Boot, Up: c.Up}
}

// infoWord reads "NAME:WORD" in a reply to INFO; empty where there is none.
func infoWord(text, name string) string {
	_, word, _ := strings.Cut("\n"+text, "\n"+name+":")
	word, _, _ = strings.Cut(word, "\n")
	return strings.TrimSpace(word)
}

// infoCalls reads how often a command was called; 0 where it is not listed.
func infoCalls(text, name string) int64 {
	calls, _, _ := strings.Cut(strings.TrimPrefix(infoWord(text, "cmdstat_"+name), "calls="), ",")
	n, _ := strconv.ParseInt(calls, 10, 64)
	return n
}
