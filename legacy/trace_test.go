// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

const traceHeader = `# What the verbatim client of each dialect sends, and what comes of it: compared line by line with the sources
# named in package dialect, and kept by "go test ./legacy -run Traces -update".
#
#   DIALECT SCENE: COMMAND[ options]=REPLY … OUTCOME left=STATE
#
# Its clock shows NOW, its lease is 10 s. OWN is what it writes at NOW, NEW what it writes 3 s later. LIVE is
# another's value that lasts 5 s, WORN one that lasts 1 s, DEAD one that ended 5 s ago, OLD one that ended 7 s ago; in
# dialects without times all are others' values. In braces stands what another does, or that 3 s pass.
`

// scene is one situation that a verbatim client meets.
type scene struct {
	name    string
	before  string
	act     string // by another client, right before the command at
	at      string
	release bool
}

var scenes = []scene{
	{name: "free"},
	{name: "held", before: "LIVE"},
	{name: "expired", before: "DEAD"},
	{name: "gone", before: "LIVE", act: "DEL", at: "GET"},
	{name: "paused", before: "WORN", act: "3s", at: "GET"},
	{name: "empty", before: "EMPTY"},
	{name: "unreadable", before: "abc"},
	{name: "clobber", before: "DEAD", act: "LIVE", at: "GETSET"},
	{name: "ghost", before: "DEAD", act: "DEL", at: "GETSET"},
	{name: "beaten", before: "DEAD", act: "OLD", at: "GETSET"},
	{name: "released", release: true},
	{name: "released, overwritten", act: "LIVE", release: true},
	{name: "released, gone", act: "DEL", release: true},
	{name: "released late", act: "11s", release: true},
}

// play lets a verbatim client of the dialect meet the scene, and returns the
// trace.
func play(t *testing.T, d dialect.Dialect, s scene) string {
	now := time.UnixMilli(1_600_000_000_000)
	w := redistest.New(t)
	clock := &pinned{now}
	p := newTap(w)
	b, err := legacy.New(p.pool(t), legacy.Config{Mode: legacy.Verbatim, Dialect: d, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	values := map[string]string{"abc": "abc", "EMPTY": ""}
	for name, at := range map[string]time.Duration{
		"LIVE": 5 * time.Second, "WORN": time.Second, "DEAD": -5 * time.Second, "OLD": -7 * time.Second} {
		id := d.NewID([16]byte{1, 2, 3})
		values[name], err = d.Stamp(now.Add(at-d.Slack-10*time.Second), 10*time.Second, id)
		if err != nil {
			t.Fatal(err)
		}
		if !d.HasStamp() {
			values[name] = "other-" + name
		}
	}
	other := func() {
		switch {
		case s.act == "DEL":
			w.Mini.Del("k")
		case strings.HasSuffix(s.act, "s"):
			pause, _ := time.ParseDuration(s.act)
			clock.at = clock.at.Add(pause)
		case s.act != "":
			w.Mini.Set("k", values[s.act])
		}
	}
	if s.before != "" {
		w.Mini.Set("k", values[s.before])
	}
	if s.act != "" && !s.release {
		p.act(s.at, other)
	}
	g, err := b.Contract().Try(bg, "k", 10*time.Second)
	words := append(p.take(), ending(err))
	var own string
	if g != nil {
		own = g.Token()
	}
	if s.release && g != nil {
		other()
		err := g.Release(bg)
		words = []string{}
		if s.act != "" {
			words = append(words, "{"+s.act+"}")
		}
		words = append(append(words, p.take()...), ending(err))
	}
	words = append(words, "left="+state(w, "k"))
	return named(strings.Join(words, " "), d, now, own, values, s)
}

func ending(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, lock.ErrLost):
		return "lost"
	case errors.Is(err, backend.ErrNoRetry) && errors.Is(err, lock.ErrHeld):
		return "gives up"
	case errors.Is(err, backend.ErrNoRetry):
		return "throws"
	case errors.Is(err, lock.ErrHeld):
		return "held"
	}
	return err.Error()
}

// named replaces values by their names.
func named(text string, d dialect.Dialect, now time.Time, own string, values map[string]string,
	s scene) string {
	text = strings.ReplaceAll(text+" ", "=hex: ", "=EMPTY ")
	text = strings.TrimSuffix(text, " ")
	if s.at != "" {
		text = strings.Replace(text, " "+s.at+"=", " {"+s.act+"} "+s.at+"=", 1)
	}
	names := map[string]string{}
	for name, value := range values {
		if value != "" {
			names[value] = name
		}
	}
	names[own] = "OWN"
	if d.HasStamp() && !d.OrMine {
		for name, at := range map[string]time.Time{"OWN": now, "NEW": now.Add(3 * time.Second)} {
			stamp, _ := d.Stamp(at, 10*time.Second, "")
			names[stamp] = name
		}
	}
	return hexed.ReplaceAllStringFunc(text, func(word string) string {
		value, _ := hex.DecodeString(strings.TrimPrefix(word, "hex:"))
		// What has no name was drawn at random by a client that did not get
		// the lock.
		return cmp.Or(names[string(value)], "OWN")
	})
}

// hexed finds whole values: one that was drawn at random may begin with
// another.
var hexed = regexp.MustCompile("hex:[0-9a-f]+")

func TestVerbatimTraces(t *testing.T) {
	var b strings.Builder
	b.WriteString(traceHeader)
	for _, d := range dialect.Presets() {
		b.WriteString("\n")
		for _, s := range scenes {
			if (s.at == "GETSET" || s.at == "GET") && !d.HasTakeover() {
				continue // none is sent
			}
			fmt.Fprintf(&b, "%s %s: %s\n", d.Name, s.name, play(t, d, s))
		}
	}
	golden.Check(t, "testdata/traces.txt", b.String())
}
