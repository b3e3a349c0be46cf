// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

// openDual opens a server whose fleet migrates, by the bridge: in the fixed
// phase dual, or with --protocol auto as a new member that follows the
// migration.
func (f *runFlags) openDual(e *out.Env, ctx context.Context, command []string) (*opening, error) {
	pool, address, err := f.server.Open(e)
	if err != nil {
		return nil, err
	}
	cfg := migrate.Config{Phases: migrate.Fixed(migrate.Dual), Terms: f.terms, Fence: true,
		Namespace: f.namespace, Timeout: e.Timeout, Clock: e.Clock}
	var m *migrate.Member // nil with --protocol dual
	if f.protocol == protocolAuto {
		m, err = f.joinFleet(e, ctx, pool, address, command, &cfg)
	} else {
		cfg.Dialect, err = f.dialect.Pick()
	}
	if err != nil {
		return nil, err
	}
	o, err := f.onBridge(e, pool, cfg)
	if err != nil {
		f.goodbye(m, 0, 0)
		return nil, err
	}
	o.where, o.refuse = address, refuseNode(pool, address)
	if m == nil {
		return o, nil
	}
	o.leave = func(wait, ttl time.Duration) { f.goodbye(m, wait, ttl) }
	if m.State().Phase == migrate.Observe {
		// The gate to dual asks whether the member's user may run the scripts.
		// A short run would otherwise leave before its first heartbeat, and
		// would close the gate while it is registered. Refresh publishes a
		// failure and tries again later.
		_ = m.Refresh(ctx)
	}
	return o, nil
}

// onBridge opens a bridge. Nothing is sent.
func (f *runFlags) onBridge(e *out.Env, pool *redis.Pool, cfg migrate.Config) (*opening, error) {
	b, err := migrate.New(pool, cfg)
	if err != nil {
		return nil, out.WrongUse("%w", f.words(err))
	}
	if err := f.fitKeep(b.Dialect(), b.Terms()); err != nil {
		_ = b.Close()
		return nil, err
	}
	seen := &looks{clock: e.Clock}
	o := &opening{store: b, encoding: b.Dialect().KeyEncoding}
	o.look = func(ctx context.Context, key string) (sight, error) {
		o, err := b.Inspect(ctx, key)
		if err != nil {
			return sight{}, err
		}
		s := seen.sight(key, o, b.Terms())
		s.token, _, _ = strings.Cut(o.MarkValue, " ")
		return s, nil
	}
	if o.encoding == dialect.Plain { // else the bridge cannot ask for a plain name
		o.stored = func(ctx context.Context, raw string) (bool, error) {
			o, err := b.Inspect(ctx, raw)
			return o.Exists, err
		}
	}
	return o, nil
}

// joinFleet reads the record, registers this run as a member, and takes from
// the record what the command line does not say of the old clients.
func (f *runFlags) joinFleet(e *out.Env, ctx context.Context, pool *redis.Pool, address string,
	command []string, cfg *migrate.Config) (*migrate.Member, error) {
	tried := fmt.Sprintf("joining the migration of namespace %q on %s", f.namespace, address)
	record, err := fleet.ReadRecord(ctx, pool, f.namespace)
	if err != nil {
		return nil, out.CouldNot(err, "%s", tried)
	}
	if cfg.Dialect, err = f.recordedDialect(record); err != nil {
		return nil, err
	}
	cfg.Terms = filled(f.terms, record.Fleet.Terms())
	if !f.dialect.Given() && record.Fleet.Behind.Source != migrate.Claimed {
		cfg.Terms.Behind = 0 // what init wrote without --dialect states nothing
	}
	name := strings.TrimPrefix("run "+filepath.Base(command[0]), "run getsetlock-") + " on " + e.Host()
	m, err := migrate.Join(ctx, pool, migrate.MemberConfig{
		Namespace: f.namespace, Name: cutNote(name), Dialect: cfg.Dialect.Name, Timeout: e.Timeout,
		Clock: e.Clock,
	})
	if err != nil {
		return nil, out.CouldNot(err, "%s", tried)
	}
	cfg.Phases = m
	return m, nil
}

// goodbye leaves the registry: at once if no lease is left, else after the
// server has let the leases expire. ttl is the lock's.
func (f *runFlags) goodbye(m *migrate.Member, wait, ttl time.Duration) {
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(wait, goodbyeWait))
	defer cancel()
	if len(m.State().Leases) > 0 {
		_ = m.GoodbyeAfter(ctx, max(ttl, f.keep))
		return
	}
	_ = m.Goodbye(ctx)
}

// goodbyeWait is how long a run waits for its removal from the registry. A run
// that could not remove itself counts as a vanished member.
const goodbyeWait = 2 * time.Second

// recordedDialect returns the dialect of the command line, else that of the
// record.
func (f *runFlags) recordedDialect(record migrate.Record) (dialect.Dialect, error) {
	if f.dialect.Given() {
		return f.dialect.Pick()
	}
	d, err := dialect.Lookup(record.Dialect)
	if err != nil {
		return d, out.WrongUse("the record of namespace %q names the dialect %s, which is not built in: give its file by --dialect-file", f.namespace, record.Dialect)
	}
	return d, nil
}

// filled returns the given terms, and the recorded ones where none are given.
func filled(given, recorded dialect.Terms) dialect.Terms {
	for _, t := range [][2]*time.Duration{
		{&given.Lease, &recorded.Lease}, {&given.Greatest, &recorded.Greatest},
		{&given.Spread, &recorded.Spread},
		{&given.Behind, &recorded.Behind}, {&given.Ahead, &recorded.Ahead}, {&given.Gap, &recorded.Gap},
	} {
		if *t[0] == 0 {
			*t[0] = *t[1]
		}
	}
	given.Greatest = max(given.Greatest, given.Lease)
	return given
}
