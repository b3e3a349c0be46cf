// SPDX-License-Identifier: Apache-2.0

package census

import (
	"slices"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/testing/reel"
)

const anna, bert, cleo = reel.Anna, reel.Bert, reel.Cleo

var (
	at, stamp, stampOf         = reel.At, reel.Stamp, reel.StampOf
	spelling, spellings, keyOf = reel.Spelling, reel.Spellings, reel.KeyOf
)

// film is a reel that a census counts.
type film struct {
	*reel.Reel
	t      *testing.T
	census *Census
}

// newFilm begins with MONITOR on.
func newFilm(t *testing.T, cfg Config) *film {
	t.Helper()
	if len(cfg.Dialects) == 0 {
		cfg.Dialects = []dialect.Dialect{dialect.Jedis()}
	}
	f := polledFilm(t, cfg)
	f.Begin()
	return f
}

func polledFilm(t *testing.T, cfg Config) *film {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &film{t: t, census: c, Reel: reel.New(func(o offset.Observed) { c.Add(o) })}
}

// on starts a film on a server that reports its run id.
func on(t *testing.T, cfg Config, run string) *film {
	f := newFilm(t, cfg)
	f.ServerIs(-99_000, run)
	return f
}

// found is the result of a census.
type found struct {
	Evidence Evidence
	Findings []Finding
}

func (f *film) result() *found {
	e, findings := f.census.Evidence()
	return &found{e, findings}
}

func (f *film) wants(want Counts) *found {
	f.t.Helper()
	r := f.result()
	if got := r.Evidence.Counts; got != want {
		f.t.Errorf("counted %+v\n   wanted %+v", got, want)
	}
	return r
}

// writerOf returns what the evidence says of the writer at an address.
func writerOf(t *testing.T, e Evidence, addr string) Writer {
	t.Helper()
	i := slices.IndexFunc(e.Writers, func(w Writer) bool { return w.Addr == addr })
	if i < 0 {
		t.Fatalf("no writer at %s", addr)
	}
	return e.Writers[i]
}
