// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// A window of MONITOR counts only while it is conserved: between two INFO of
// this watch, the server counted as many calls of each command below, in all
// databases and from scripts too, as MONITOR showed lines of it. The watch's
// INFO is a line of the stream itself, so both counts are taken at one point of
// the server's order and must be equal, however busy the server is.
//
// What was tried on Redis 2.8.19, 6.2.11 and 7.0.15, and on Valkey 9.1.2:
//
//   - Counted and shown, once each: every command that runs, whether it wins,
//     loses or fails while it runs (WRONGTYPE, a wrong option or TTL, no such
//     key, a broken payload of RESTORE), from scripts and functions, from
//     EXEC, inline, in any database and any case of letters, after CLIENT
//     PAUSE, and from a client that is gone before its reply.
//   - Neither counted nor shown: what the server refuses before it runs it. It
//     is a wrong number of arguments, ACL, OOM, READONLY, NOREPLICAS, each also
//     inside a script, and what an EXEC or DISCARD drops. From 6.2 on the
//     server keeps such calls in rejected_calls.
//   - Counted and not shown: a command under the name that rename-command gave
//     it. 2.8 counts INCRBYFLOAT as SET (it rewrites the command before it
//     counts). A module's calls may be shown and not counted. Each of them ends
//     the window, which is doubt, never a false proof.
//
// INFO is one of the commands. CONFIG RESETSTAT, a restart and another server
// take counts back, and the watch's INFO at the earlier point, of which MONITOR
// showed the line, is always among the calls that are then missing.
var countedCommands = [...]string{"", "SETNX", "GETSET", "SET", "MSETNX", "MSET", "SETEX", "PSETEX", "GETDEL",
	"RENAME", "RENAMENX", "RESTORE", "COPY", "INFO"}

// infoAt is the place of INFO in countedCommands.
const infoAt = len(countedCommands) - 1

// calls has a number for each of countedCommands. The first is not used.
type calls [len(countedCommands)]int64

// countsIn reads the calls in a reply of INFO commandstats, which lists no
// command that was never called.
func countsIn(text string) (c calls) {
	for i, name := range countedCommands {
		if i > 0 {
			c[i], _, _ = callsIn(text, strings.ToLower(name))
		}
	}
	return c
}

// point is one INFO of this watch, as a point of the server's order.
type point struct {
	at             time.Time // by the server's clock
	shown, counted calls     // up to here: lines of MONITOR, and calls by the server's counts
	run            string    // run id; empty where the server tells none
}

// since returns an event: all calls after the point before were shown, or a
// hole.
func (p *point) since(before *point) offset.Observed {
	length := p.at.Sub(before.at)
	reason, why := census.HoleCounts, ""
	for i := 1; i < len(countedCommands); i++ {
		counted, shown := p.counted[i]-before.counted[i], p.shown[i]-before.shown[i]
		switch {
		case counted == shown:
		case counted < 0, i == infoAt && counted < shown:
			reason = census.HoleReset
		default:
			why += fmt.Sprintf(", %d calls of %s, MONITOR showed %d", counted, countedCommands[i], shown)
		}
	}
	const clock = "15:04:05.000"
	span := before.at.Format(clock) + " and " + p.at.Format(clock)
	switch {
	case p.run != before.run:
		reason, why = census.HoleReset, "another server answers, or the server was restarted"
	case reason == census.HoleReset:
		why = "the server's counts of calls began anew between " + span +
			" (CONFIG RESETSTAT), so nothing tells what MONITOR missed"
	case why == "":
		return offset.Observed{At: p.at, Kind: offset.ObservedGap, For: max(0, length),
			Reason: string(census.SourceMonitor) + " " + reading.Proved}
	default:
		why = "between " + span + " the server counted" + why[1:]
	}
	return reading.GapOf(census.SourceMonitor, before.at, length, reason, why)
}

// ownRound follows one round of this watch in the stream: its markers, its INFO
// and the first marker again, next to each other and from one address. A proxy
// that mixes other commands in, or sends a part elsewhere, breaks the round,
// and a broken round proves nothing.
type ownRound struct {
	addr, nonce string
	step        int // markers and INFO that came; 0: no round is under way
	at          int64
	shown       calls // lines before the INFO
}

// follow reports whether the line is a marker of this watch, and notes a round
// that is whole. It is called before the line is counted.
func (f *filter) follow(l line, name string) (marker bool) {
	if f.sights == nil {
		return false
	}
	r := &f.round
	if name == "GET" && len(l.args) == 2 {
		nonce, spelling, ok := scope.Sighted(l.args[1])
		if ok && f.covers(l.db, l.args[1]) && f.sights.mine(nonce) {
			f.marker(l, nonce, spelling)
			return true
		}
	}
	if r.step == 0 || r.addr != l.addr {
		return false
	}
	if name == "INFO" && r.step == len(f.sights.spellings) && len(l.args) == 2 &&
		strings.EqualFold(l.args[1], "commandstats") {
		r.step, r.at, r.shown = r.step+1, l.micros, f.calls
		return false
	}
	f.broken()
	return false
}

func (f *filter) marker(l line, nonce string, spelling dialect.Encoding) {
	r, all := &f.round, f.sights.spellings
	switch {
	case r.step > 0 && (r.addr != l.addr || r.nonce != nonce):
		f.broken()
	case r.step == len(all)+1 && spelling == all[0]:
		f.sights.passed(nonce, point{at: time.UnixMicro(r.at).UTC(), shown: r.shown})
		*r = ownRound{}
		return
	}
	if r.step < len(all) && spelling == all[r.step] {
		if r.step == 0 {
			r.addr, r.nonce = strings.Clone(l.addr), nonce
		}
		r.step++
		return
	}
	f.broken()
}

func (f *filter) broken() {
	f.round = ownRound{}
	f.sights.broken()
}

// compare takes the points whose lines and replies are both here. Calls before
// them were passed on: the last marker of a round comes after its INFO.
func (f *filter) compare(out []offset.Observed) []offset.Observed {
	for _, p := range f.sights.take() {
		if f.before != nil {
			out = append(out, p.since(f.before))
		}
		f.before = &p
	}
	return out
}

// countedIn reads the replies of one round: INFO server, the markers, INFO
// commandstats. It returns why they tell nothing, or an empty string.
func countedIn(server, commandstats wire.Reply) (run string, c calls, why string) {
	about, err := wire.Info(server.Value, server.Err)
	text, err2 := redis.String(commandstats.Value, commandstats.Err)
	if err == nil {
		err = err2
	}
	switch {
	case wire.IsNoPerm(err) || wire.IsUnknownCommand(err):
		return "", c, refused(err, "INFO",
			"nothing tells what MONITOR missed, so it proves no window; give the user +info")
	case err != nil:
		return "", c, "" // the next round goes on
	case !strings.Contains(text, "cmdstat_"):
		return "", c, "INFO commandstats is empty on this server, so nothing tells what MONITOR missed, and MONITOR proves no window"
	}
	if c = countsIn(text); c[infoAt] == 0 {
		why = "INFO commandstats does not count INFO on this server, so a reset of its counts would go unnoticed, and MONITOR proves no window"
	}
	return about["run_id"], c, why
}
