// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

// Configure asks the real rules about a scenario's times. It configures a
// getsetlock client with them, together with the scenario's old clients, as a
// user would, and returns why that is refused.
func Configure(sc model.Scenario) error {
	p := &Play{sc: sc, dialect: scaled(sc.Dialect), tick: tick}
	nobody := &redis.Pool{Dial: func() (redis.Conn, error) {
		return nil, errors.New("replay: nothing is sent")
	}}
	terms := dialect.Terms{Lease: p.ticks(sc.Lease), Spread: dialect.Claim(p.ticks(sc.Behind + sc.Ahead)),
		Gap: dialect.Claim(p.ticks(sc.Gap))}
	cfg := lock.Config{TTL: p.ticks(sc.Ours.TTL), Margin: p.ticks(sc.Ours.Margin), RenewEvery: tick / 10}
	var b backend.Store
	var err error
	if phased(p.first()) == migrate.Observe {
		b, err = legacy.New(nobody, legacy.Config{Mode: legacy.Hardened, Dialect: p.dialect, Terms: terms})
	} else {
		b, err = migrate.New(nobody,
			migrate.Config{Phases: migrate.Fixed(phased(p.first())), Dialect: p.dialect, Terms: terms})
	}
	if err != nil {
		return err
	}
	c, err := lock.New(b, cfg)
	if err != nil {
		return err
	}
	return c.Close(context.Background())
}
