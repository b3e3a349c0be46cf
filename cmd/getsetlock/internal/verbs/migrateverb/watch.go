// SPDX-License-Identifier: Apache-2.0

package migrateverb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
)

// migrateWatch gathers what the gates need to know of the old clients. It
// prints a line whenever something changes that a gate would report. It ends
// with ^C.
func migrateWatch(e *out.Env, ctx context.Context, pool *redis.Pool, f *migrateFlags, o fleet.Options,
	tried string) error {
	last, alarmed := "", map[string]bool{}
	said := func(s fleet.Sighting, r *audit.Result) {
		for _, alarm := range clockAlarms(r, alarmed) {
			fmt.Fprintln(e.Stdout, clockTime(s.Until), out.OneLine(alarm))
		}
		if line := sightingLine(s); line != last {
			last = line
			fmt.Fprintln(e.Stdout, clockTime(s.Until), out.OneLine(line))
		}
	}
	e.Say(f.server.Quiet, "watching the old clients; what is seen is recorded for advance; ^C ends the watch, and the next one starts a new window")
	err := fleet.WatchClients(ctx, pool, fleet.ObserverConfig{
		Namespace: f.namespace, DB: f.server.Database(e), Name: "status --watch on " + e.Host(),
		Dialect: o.Dialect, Monitor: f.monitor,
		Lease: o.Claims.Lease, Greatest: o.Claims.Greatest, Gap: o.Claims.Gap,
		LeaseChecked: o.Claims.LeaseChecked,
		Clock:        e.Clock, Seen: said,
	})
	switch {
	case err != nil:
		return out.CouldNot(err, "watching for %s", tried)
	case ctx.Err() != nil:
		return out.CouldNot(context.Cause(ctx), "watching for %s", tried)
	}
	return nil
}

// clockAlarms returns what a watch finds wrong with clocks, each finding once
// for each client.
func clockAlarms(r *audit.Result, said map[string]bool) []string {
	var out []string
	for _, f := range r.Findings {
		switch f.Kind {
		case "step", "shared_address", "clock_off", "lease_doubted", "claim_refuted":
		default:
			continue
		}
		name := f.Kind + " " + f.Writer
		if f.Severity == census.SeverityNote || said[name] || len(said) >= mostAlarms {
			continue
		}
		said[name] = true
		out = append(out, fmt.Sprintf("%s: %s; %s", f.Severity, f.What, f.Advice))
	}
	return out
}

// mostAlarms bounds the alarms printed for a fleet that opens a connection for
// each lock.
const mostAlarms = 200

// sightingLine returns what was seen, in one line. It rounds the window down to
// 10 s, so that not every look makes a new line.
func sightingLine(s fleet.Sighting) string {
	var parts []string
	if a := s.Alarm; a != nil {
		parts = append(parts, fmt.Sprintf("ALARM: an old client acts in clean: %s on %q by %s", a.What,
			out.Escaped(a.Key), out.Dashed(a.Who)))
	}
	switch {
	case s.Missing == "not asked for":
		parts = append(parts, "without --monitor no window is proved")
	case s.Missing != "":
		parts = append(parts, "MONITOR proves no window: "+s.Missing)
	case !s.QuietUntil.IsZero():
		parts = append(parts, fmt.Sprintf("MONITOR shows no attempt of an old client for %v",
			s.Quiet.Truncate(10*time.Second)))
	case s.Hole != nil:
		parts = append(parts, "MONITOR proves no window: "+s.Hole.Why)
	}
	if s.Missing != "" && !s.LastCalled.IsZero() {
		parts = append(parts,
			"the server counts SETNX or GETSET: an old client tries, or another program sends it")
	}
	for _, t := range []struct {
		what  string
		touch *fleet.Touch
	}{{"last write", s.LastWrite}, {"last failed attempt", s.LastFailed}} {
		if t.touch != nil {
			parts = append(parts, fmt.Sprintf("%s %s on %q by %s", t.what, clockTime(t.touch.At),
				out.Escaped(t.touch.Key), out.Dashed(t.touch.Who)))
		}
	}
	for _, k := range []struct {
		what string
		fact fleet.Fact
	}{{"lease", s.Lease}, {"greatest", s.Greatest}, {"spread", s.Proved}, {"gap", s.Gap}, {"job", s.Job},
		{"pause", s.Pause}, {"behind", s.BehindProved}, {"ahead", s.AheadProved}} {
		if k.fact.Known() {
			parts = append(parts, fmt.Sprintf("%s %v %s", k.what, k.fact.Time.Round(time.Millisecond),
				k.fact.Basis))
		}
	}
	if len(parts) == 0 {
		return "nothing seen yet"
	}
	return strings.Join(parts, "; ")
}
