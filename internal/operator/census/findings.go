// SPDX-License-Identifier: Apache-2.0

package census

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// findings returns what is wrong, in sentences, and sets each writer's own
// findings.
func (c *Census) findings(e *Evidence) []Finding {
	var all []Finding
	for i := range e.Writers {
		w := &e.Writers[i]
		w.Findings = writerDeeds(w)
		if w.Addr != "" || !e.explained(w.Offset) {
			w.Findings = append(w.Findings, c.writerClock(w)...)
		}
		slices.SortStableFunc(w.Findings, Finding.Compare)
		all = append(all, w.Findings...)
	}
	for _, s := range e.ServerSteps {
		all = append(all, Finding{Severity: SeverityWarning, Kind: "server_step", What: s.Detail,
			Advice: "TTLs moved with the clock, and windows began anew; let NTP slew the server's clock, not step it"})
	}
	for _, k := range e.mixed() {
		all = append(all, Finding{Severity: SeverityError, Kind: "mixture", DB: k.DB, Key: k.Key,
			What:   "written by clients of several dialects: " + strings.Join(k.Dialects, ", "),
			Advice: "clients of two dialects do not exclude each other as clients of one dialect do: find out which program uses which, and give each dialect its own key"})
	}
	all = append(all, c.perhapsOurs()...)
	all = append(all, c.claimsRefuted(e)...)
	all = append(all, fleetFindings(e)...)
	slices.SortStableFunc(all, Finding.Compare)
	return all
}

// who names a writer in a sentence.
func (w *Writer) who() string {
	switch {
	case w.Addr == "":
		return "an unknown client that writes " + w.Dialect
	case w.Name != "":
		return w.Addr + " (" + w.Name + ")"
	}
	return w.Addr
}

func (c *Census) writerClock(w *Writer) []Finding {
	var out []Finding
	if n := len(w.Steps); n > 0 {
		what := fmt.Sprintf("%s: its %s (if no attempt takes longer than %v)", w.who(), w.Steps[n-1],
			c.gapForPeople())
		if n > 1 {
			what += fmt.Sprintf("; that was step %d of those remembered", n)
		}
		out = append(out, Finding{Severity: SeverityWarning, Kind: "step", Writer: w.Addr, What: what,
			Advice: "a waiting client whose clock steps forwards takes over every lock at once: let NTP slew its clock, not step it; if the clock is right, several clients or several leases are behind this address"})
	}
	out = append(out, sharing(w)...)
	if w.Starts {
		return append(out, Finding{Severity: SeverityWarning, Kind: "start_time", Writer: w.Addr,
			What:   w.StartsWhat(),
			Advice: "read in its source what the time means: locks of such clients are judged neither by the server's clock nor by --behind; a dialect file with \"start_time\": true describes values that are the start of a lease"})
	}
	if ahead := w.Offset.provedOff(); ahead.Abs() >= time.Second {
		side := "ahead of"
		if ahead < 0 {
			side = "behind"
		}
		whose := "its clock is"
		if w.Shared != "" && w.Addr != "" {
			whose = "one of the clocks that share this address is"
		}
		off := ahead.Round(time.Millisecond)
		what := fmt.Sprintf("%s: %s at least %v %s the server's", w.who(), whose, off.Abs(), side)
		if w.Offset.LeaseGuessed {
			what += fmt.Sprintf(", if its lease is %v (guessed)", w.Lease.Value)
		}
		out = append(out, Finding{
			Severity: SeverityWarning, Kind: "clock_off", Writer: w.Addr, What: what, Off: off,
			Advice: "synchronize its clock by NTP; while it is off, every lease is shorter by the spread of all clocks"})
	}
	return out
}

// sharing returns a finding about an address from which several clients write.
func sharing(w *Writer) []Finding {
	o := w.Offset
	if w.Shared == "" || w.Addr == "" {
		return nil
	}
	f := Finding{
		Severity: SeverityNote, Kind: "shared_address", Writer: w.Addr,
		What:   w.who() + ": several clients, or threads of one, write from this address: " + w.Shared,
		Advice: "this offset covers all their clocks; to see each clock, watch at a place where each client has its own address",
	}
	if apart := o.atLeast - o.atMost - unseenStep; o.Writes > 0 && apart > 0 {
		f.Severity = SeverityWarning
		f.What += fmt.Sprintf("; their clocks differ by at least %v, or one of them stepped",
			apart.Round(time.Millisecond))
	}
	return []Finding{f}
}

// provedOff returns how far the clock was off at least, by a single write;
// negative: behind.
func (o Offset) provedOff() time.Duration {
	switch {
	case o.Writes == 0:
		return 0
	case o.atLeast > 0 && o.atLeast >= -o.atMost:
		return o.atLeast
	}
	return min(0, o.atMost)
}

func writerDeeds(w *Writer) []Finding {
	var out []Finding
	say := func(n int64, s Severity, kind, once, often, what, advice string) {
		if n > 1 {
			once = fmt.Sprintf(often, n)
		}
		if n > 0 {
			out = append(out, Finding{
				Severity: s, Kind: kind, Writer: w.Addr, What: fmt.Sprintf("%s: %s %s", w.who(), once, what),
				Advice: advice})
		}
	}
	n := w.Counts
	why, cure := "its jobs outlive the lease",
		"its jobs outlive the lease: lengthen the lease of all clients, or shorten its jobs"
	if w.Lease.Known() && w.Holds.Count > 0 && w.Holds.Longest <= w.Lease.Value {
		why = "its jobs are shorter than its lease, but other clients take the lock too early"
		cure = why + ": their clocks are ahead, or they use another dialect; find the clients that took over"
	}
	say(n.Overlaps, SeverityError, "overlap", "once", "%d times",
		"it was still at work after another client had won the lock", cure)
	say(n.Overruns, SeverityError, "overrun", "one release", "%d releases",
		"deleted a lock after its own stamp was past, or deleted another client's lock",
		why+", and each such release lets a third client in")
	say(n.DoubleGrants, SeverityError, "double_grant", "once", "%d times",
		"it read its own uuid and took the lock for its own, while another client held it",
		"clients of this dialect do not exclude each other: move off it")
	say(n.GetsetFirst, SeverityError, "getset_first", "one GETSET", "%d GETSETs", "with no SETNX before",
		"such a client destroys every lock at each poll; no migration can begin while it runs")
	say(n.Clobbers, SeverityWarning, "clobber", "one lost takeover", "%d lost takeovers",
		"overwrote a live holder's stamp",
		"the holder's lease now ends with the loser's stamp; this is how the old protocol works")
	say(n.Ghosts, SeverityWarning, "ghost", "one lost takeover", "%d lost takeovers",
		"left a lock that nobody holds",
		"all clients wait for one lease each time; this is how the old protocol works")
	say(n.ForeignExpires, SeverityWarning, "foreign_expire", "one TTL", "%d TTLs",
		"set on a lock that it does not hold", "it shortens or prolongs other clients' locks")
	return out
}

// claimsRefuted compares what was claimed with what was seen.
func (c *Census) claimsRefuted(e *Evidence) []Finding {
	var out []Finding
	refute := func(what string, claim, seen time.Duration, unless string) {
		if claim, ok := dialect.Claimed(claim); ok && seen > claim {
			what = fmt.Sprintf("the claim of %v for the %s is refuted: %v was seen", claim, what,
				seen.Round(time.Microsecond))
			if unless != "" {
				what += ", " + unless
			}
			out = append(out, Finding{Severity: SeverityError, Kind: "claim_refuted", What: what,
				Advice: "claim more, and check the leases of getsetlock clients against it"})
		}
	}
	if g := e.Gaps; g != nil {
		refute("longest time from a clock reading to its GETSET", c.cfg.Gap, g.AtLeast, "")
	}
	if c.jobs.longest != nil {
		refute("longest job", c.cfg.Job, c.jobs.longest.For, "")
	}
	refute("spread of the clocks", c.cfg.Spread, e.Spread.Proved, "")
	refute("distance of the slowest clock behind the server's", c.cfg.Behind, e.Behind.Proved(),
		e.Behind.Unless)
	refute("distance of the fastest clock ahead of the server's", c.cfg.Ahead, e.Ahead.Proved(), "")
	if s := e.LeaseLooks; s.Known() {
		out = append(out, Finding{
			Severity: SeverityWarning, Kind: "lease_doubted", Writer: s.Addr,
			What: fmt.Sprintf("the lease is given as %v, and what %s writes looks like a lease of %v; %s",
				c.cfg.Lease, nameless(s.Addr), s.Value, s.Note),
			Advice: "nothing is guaranteed while either may be true: check the lease where it is configured, then give the smaller one, or confirm this one by --lease-checked",
		})
	}
	return out
}

func nameless(addr string) string {
	if addr == "" {
		return "an unknown client"
	}
	return addr
}

func fleetFindings(e *Evidence) []Finding {
	var out []Finding
	if j, h := e.LongestSafeJob, e.LongestHold; j.Known() && h.Known() && h.Value > j.Value &&
		h.Source != SourcePoll {
		out = append(out, Finding{Severity: SeverityError, Kind: "job_too_long", Key: h.Key, Writer: h.Addr,
			What: fmt.Sprintf("held for %v, and no job longer than %v is safe with these clocks and leases",
				h.Value.Round(time.Millisecond), j.Value.Round(time.Millisecond)),
			Advice: "lengthen the lease of all clients, shorten the jobs, or synchronize the clocks"})
	}
	for _, s := range []struct {
		span Span
		what string
	}{{e.SmallestLease, "smallest"}, {e.GreatestLease, "greatest"}} {
		if s.span.Basis == Inferred {
			out = append(out, Finding{
				Severity: SeverityNote, Kind: "lease_guessed",
				What:   fmt.Sprintf("the %s lease, %v, is a guess: %s", s.what, s.span.Value, s.span.Note),
				Advice: "give it with --lease"})
		}
		if e.SmallestLease.Value == e.GreatestLease.Value {
			break
		}
	}
	if e.ForgottenWriters > 0 {
		out = append(out, Finding{Severity: SeverityNote, Kind: "forgotten",
			What: fmt.Sprintf(
				"%d more writers wrote than are remembered; their bounds are included, their names are not", e.ForgottenWriters),
			Advice: "a client that connects anew for each lock looks like many: watch for less time, or fewer keys"})
	}
	return out
}
