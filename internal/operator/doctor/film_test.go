// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/testing/reel"
)

const anna, bert, cleo = reel.Anna, reel.Bert, reel.Cleo

var at, stamp, stampOf = reel.At, reel.Stamp, reel.StampOf

// film is a watch with MONITOR on, as evidence for doctor.
type film struct {
	*reel.Reel
	census *census.Census
}

func newFilm(t *testing.T, cfg census.Config) *film {
	t.Helper()
	if len(cfg.Dialects) == 0 {
		cfg.Dialects = []dialect.Dialect{dialect.Jedis()}
	}
	c, err := census.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &film{census: c, Reel: reel.New(func(o offset.Observed) { c.Add(o) })}
	f.Begin()
	return f
}

func (f *film) evidence() *census.Evidence {
	e, _ := f.census.Evidence()
	return &e
}
