package audit

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// The pace of the small sources.
const (
	statsEvery   = time.Second
	clientsEvery = 5 * time.Second
)

// small asks for what costs little: how often SETNX and GETSET were called, and whose connections
// there are.
func (w *watcher) small(ctx context.Context) {
	stats, clients := !w.cfg.NoStats, !w.cfg.NoClients
	last := lastStats{elapsed: w.elapsed()}
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

// restSmall waits for statsEvery, and then a little for a look to travel with: to be woken for itself costs a message more
// than all that is in it.
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

// lastStats is the reading before: what was called between two that are far apart, or that two servers
// answered, may be in neither.
type lastStats struct {
	at      time.Time
	elapsed time.Duration
	server  string // its run_id
	named   string // the run_id that was sent last
}

// hole is what the new reading says was not seen since the last, if anything. A
// replica counts nothing of what its master does, so no source proves anything
// while one answers.
func (l *lastStats) hole(at time.Time, elapsed time.Duration, server, role string) []offset.Observed {
	was := *l
	l.at, l.elapsed, l.server = at, elapsed, server
	of := func(from time.Time, why string) (holes []offset.Observed) {
		for _, s := range []census.Source{census.SourceStats, census.SourceMonitor} {
			holes = append(holes, reading.GapOf(s, from, at.Sub(from), census.HoleReset, why))
		}
		return holes
	}
	switch {
	case role != "" && role != "master":
		if was.at.IsZero() {
			was.at = at.Add(-statsEvery)
		}
		return of(was.at, "the server is a "+role+"; old clients write to its master, so watch that one")
	case was.at.IsZero():
	case server != was.server:
		return of(was.at, "another server answers, or it was started anew")
	case elapsed-was.elapsed > mostAbsent+statsEvery:
		return []offset.Observed{reading.GapOf(census.SourceStats, was.at, at.Sub(was.at), census.HoleAbsent, "no reading for "+(elapsed-was.elapsed).Round(time.Millisecond).String())}
	}
	return nil
}

// stats sends what the server counted, and says false where it will never tell.
func (w *watcher) stats(ctx context.Context, last *lastStats) bool {
	replies := w.mux.Batch(ctx, []wire.Command{wire.Cmd("TIME"), wire.Cmd("INFO", "commandstats"), wire.Cmd("INFO", "server"), wire.Cmd("INFO", "replication")})
	at, err := timeOf(replies[0].Value, replies[0].Err)
	text, err2 := redis.String(replies[1].Value, replies[1].Err)
	if err2 != nil && err == nil {
		if wire.IsNoPerm(err2) || wire.IsUnknownCommand(err2) {
			w.gone(census.SourceStats, refused(err2, "INFO", "failed attempts are seen only by MONITOR; give the user +info"))
			return false
		}
	}
	if err != nil || err2 != nil {
		return true
	}
	if !strings.Contains(text, "cmdstat_") {
		w.gone(census.SourceStats, "INFO commandstats is empty on this server; failed attempts are seen only by MONITOR")
		return false
	}
	about, err := redis.String(replies[2].Value, replies[2].Err)
	if err != nil {
		return true
	}
	replication, err := redis.String(replies[3].Value, replies[3].Err)
	if err != nil {
		return true
	}
	server := wordIn(about, "run_id")
	w.send(last.hole(at, w.elapsed(), server, wordIn(replication, "role"))...)
	if server != "" && server != last.named {
		last.named = server
		w.send(offset.Observed{At: at, Kind: offset.ObservedGap, Reason: reading.OfRun + " " + server})
	}
	setnx, _ := callsIn(text, "setnx")
	getset, _ := callsIn(text, "getset")
	w.send(
		offset.Observed{At: at, Kind: offset.ObservedStats, Event: "setnx", Count: setnx},
		offset.Observed{At: at, Kind: offset.ObservedStats, Event: "getset", Count: getset})
	return true
}

// wordIn reads "NAME:WORD" out of INFO; empty where there is none.
func wordIn(text, name string) string {
	_, word, _ := strings.Cut("\n"+text, "\n"+name+":")
	word, _, _ = strings.Cut(word, "\n")
	return strings.TrimSpace(word)
}

// callsIn reads "cmdstat_NAME:calls=N,usec=M,…"; a command that was never called is not listed. Refused
// calls count as calls: they were attempts.
func callsIn(text, name string) (calls int64, used time.Duration) {
	_, line, ok := strings.Cut(text, "cmdstat_"+name+":")
	if !ok {
		return 0, 0
	}
	line, _, _ = strings.Cut(line, "\n")
	for _, field := range strings.Split(strings.TrimSpace(line), ",") {
		key, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			continue
		}
		switch key {
		case "calls", "rejected_calls":
			calls += n
		case "usec":
			used = time.Duration(n) * time.Microsecond
		}
	}
	return calls, used
}

// clients sends the names of connections that are new or have changed, and says false where the server
// will never tell.
func (w *watcher) clients(ctx context.Context, known map[string]offset.Observed) bool {
	replies := w.mux.Batch(ctx, []wire.Command{wire.Cmd("TIME"), wire.Cmd("CLIENT", "LIST")})
	at, err := timeOf(replies[0].Value, replies[0].Err)
	text, err2 := redis.String(replies[1].Value, replies[1].Err)
	if err2 != nil && (wire.IsNoPerm(err2) || wire.IsUnknownCommand(err2)) {
		w.gone(census.SourceClients, refused(err2, "CLIENT LIST", "writers are told by their addresses alone; give the user +client|list"))
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
		if !ok || o.Name == connectionName {
			continue
		}
		if before, ok := known[o.Addr]; ok && same(before, o) {
			continue
		}
		known[o.Addr] = o
		o.At = at
		news = append(news, o)
	}
	w.send(news...)
	return true
}

func same(a, b offset.Observed) bool {
	return a.Addr == b.Addr && a.Name == b.Name && a.Library == b.Library && a.User == b.User
}

// clientIn reads one row of CLIENT LIST. Fields are told by their names; servers differ in which they have.
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
