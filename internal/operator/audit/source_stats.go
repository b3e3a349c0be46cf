// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// The pace of the cheap sources.
const (
	statsEvery   = time.Second
	clientsEvery = 5 * time.Second
)

// small asks the cheap questions: how often SETNX and GETSET were called, and
// which connections exist.
func (w *watcher) small(ctx context.Context) {
	stats, clients := !w.cfg.NoStats, true
	last := lastStats{}
	var asked time.Duration = -1 << 62
	known := map[string]offset.Observed{}
	for stats || clients {
		if stats {
			stats = w.stats(ctx, &last)
		}
		if now := w.elapsed(); clients && now-asked >= clientsEvery {
			asked = now
			clients = w.clients(ctx, known)
		}
		if !w.restSmall(ctx) {
			return
		}
	}
}

// restSmall waits for statsEvery, and then until a look is sent or a little
// longer. Travelling with a look is cheaper: a message of its own costs more
// than its content.
func (w *watcher) restSmall(ctx context.Context) bool {
	begun := w.elapsed()
	over := w.cfg.Clock.After(statsEvery + pollSlow)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-over:
			return true
		case <-w.looking:
			if w.elapsed()-begun >= statsEvery {
				return true
			}
		}
	}
}

// lastStats is the previous reading.
type lastStats struct {
	at     time.Time
	server string // the server's run_id
	named  string // the run_id that was last sent as an event
}

// hole stores the new reading and returns the hole of MONITOR since the
// previous one. A replica does not receive the commands of old clients, so
// MONITOR proves nothing while a replica answers.
func (l *lastStats) hole(at time.Time, server, role string) []offset.Observed {
	was := *l
	l.at, l.server = at, server
	of := func(from time.Time, why string) []offset.Observed {
		return []offset.Observed{
			reading.GapOf(census.SourceMonitor, from, at.Sub(from), census.HoleReset, why)}
	}
	switch {
	case role != "" && role != "master":
		if was.at.IsZero() {
			was.at = at.Add(-statsEvery)
		}
		return of(was.at, "the server is a "+role+"; old clients write to its primary: watch the primary")
	case was.at.IsZero():
	case server != was.server:
		return of(was.at, "another server answers, or the server was restarted")
	}
	return nil
}

// stats sends the server's counts. It returns false if the server will never
// report them.
func (w *watcher) stats(ctx context.Context, last *lastStats) bool {
	replies := w.mux.Batch(ctx, []wire.Command{
		wire.Cmd("TIME"), wire.Cmd("INFO", "commandstats"), wire.Cmd("INFO", "server"),
		wire.Cmd("INFO", "replication")})
	at, err := wire.Time(replies[0].Value, replies[0].Err)
	text, err2 := redis.String(replies[1].Value, replies[1].Err)
	if err2 != nil && err == nil {
		if wire.IsNoPerm(err2) || wire.IsUnknownCommand(err2) {
			w.gone(census.SourceStats,
				refused(err2, "INFO", "calls of SETNX and GETSET are not counted; give the user +info"))
			return false
		}
	}
	if err != nil || err2 != nil {
		return true
	}
	if !strings.Contains(text, "cmdstat_") {
		w.gone(census.SourceStats,
			"INFO commandstats is empty on this server; calls of SETNX and GETSET are not counted")
		return false
	}
	about, err := wire.Info(replies[2].Value, replies[2].Err)
	if err != nil {
		return true
	}
	replication, err := wire.Info(replies[3].Value, replies[3].Err)
	if err != nil {
		return true
	}
	server := about["run_id"]
	w.send(last.hole(at, server, replication["role"])...)
	if server != "" && server != last.named {
		last.named = server
		w.send(offset.Observed{At: at, Kind: offset.ObservedGap, Reason: reading.OfRun + " " + server})
	}
	for _, name := range []string{"setnx", "getset"} {
		// A refused call was an attempt too.
		calls, refused, _ := callsIn(text, name)
		w.send(offset.Observed{At: at, Kind: offset.ObservedStats, Event: name, Count: calls + refused})
	}
	return true
}

// callsIn finds "cmdstat_NAME:calls=N,usec=M,…"; INFO does not list a command
// that was never called. refused are calls that the server did not run.
func callsIn(text, name string) (calls, refused int64, used time.Duration) {
	_, line, ok := strings.Cut(text, "cmdstat_"+name+":")
	if !ok {
		return 0, 0, 0
	}
	line, _, _ = strings.Cut(line, "\n")
	for _, field := range strings.Split(strings.TrimSpace(line), ",") {
		key, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			continue
		}
		switch key {
		case "calls":
			calls = n
		case "rejected_calls":
			refused = n
		case "usec":
			used = time.Duration(n) * time.Microsecond
		}
	}
	return calls, refused, used
}

// clients sends the connections that are new or have changed. It returns false
// if the server will never list them.
func (w *watcher) clients(ctx context.Context, known map[string]offset.Observed) bool {
	replies := w.mux.Batch(ctx, []wire.Command{wire.Cmd("TIME"), wire.Cmd("CLIENT", "LIST")})
	at, err := wire.Time(replies[0].Value, replies[0].Err)
	text, err2 := redis.String(replies[1].Value, replies[1].Err)
	if err2 != nil && (wire.IsNoPerm(err2) || wire.IsUnknownCommand(err2)) {
		w.gone(census.SourceClients,
			refused(err2, "CLIENT LIST",
				"writers are known by their addresses only; give the user +client|list"))
		return false
	}
	if err != nil || err2 != nil {
		return true
	}
	if len(known) > 16*w.cfg.MaxWriters {
		clear(known)
	}
	var news []offset.Observed
	for row := range strings.SplitSeq(text, "\n") {
		o, ok := clientIn(row)
		if !ok || o.Name == keys.ConnectionName {
			continue
		}
		if before, ok := known[o.Addr]; ok && before.Name == o.Name && before.Library == o.Library &&
			before.User == o.User {
			continue
		}
		known[o.Addr] = o
		o.At = at
		news = append(news, o)
	}
	w.send(news...)
	return true
}

// clientIn parses one row of CLIENT LIST. Fields are found by name, since
// servers differ in which they list.
func clientIn(row string) (offset.Observed, bool) {
	o := offset.Observed{Kind: offset.ObservedClient}
	version := ""
	for field := range strings.SplitSeq(strings.TrimSpace(row), " ") {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "addr":
			o.Addr = value
		case "name":
			o.Name = value
		case "user":
			o.User = value
		case "lib-name":
			o.Library = value
		case "lib-ver":
			version = value
		}
	}
	if o.Library != "" && version != "" {
		o.Library += " " + version
	}
	return o, o.Addr != ""
}
