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

// movingKeeper keeps the lock of run in a fleet that migrates. It uses the
// bridge, either in the fixed phase dual or as a member that follows the
// migration.
type movingKeeper struct {
	*clientKeeper
	bridge *migrate.Bridge
	member *migrate.Member // nil with --protocol dual
	seen   *looks
	keeps  time.Duration // longest time for which the server keeps a lock that run does not release
}

// openMoving returns the keeper for a command line. With auto it reads the
// migration's record from the server and registers a new member.
func openMoving(e *out.Env, ctx context.Context, f *runFlags, command []string) (keeper, error) {
	pool, address, err := f.server.Open(e)
	if err != nil {
		return nil, err
	}
	k := &movingKeeper{seen: &looks{clock: e.Clock}}
	cfg := migrate.Config{Phases: migrate.Fixed(migrate.Dual), Terms: f.terms, Fence: true,
		Namespace: f.namespace, Timeout: e.Timeout, Clock: e.Clock}
	if f.protocol == protocolAuto {
		err = joinFleet(e, ctx, k, f, pool, address, command, &cfg)
	} else {
		cfg.Dialect, err = f.dialect.Pick()
	}
	if err != nil {
		return nil, err
	}
	if err := k.open(ctx, e, f, pool, address, cfg); err != nil {
		k.goodbye(0)
		return nil, err
	}
	return k, nil
}

func (k *movingKeeper) open(ctx context.Context, e *out.Env, f *runFlags, pool *redis.Pool, address string,
	cfg migrate.Config) (err error) {
	if k.bridge, err = migrate.New(pool, cfg); err != nil {
		return out.WrongUse("%w", f.words(err))
	}
	if k.clientKeeper, err = newKeeper(e, f, k.bridge, address,
		func(err error) error { return err }); err != nil {
		return err
	}
	k.keeps = max(k.times.TTL, f.keep)
	if k.member != nil && k.member.State().Phase == migrate.Observe {
		// The gate to dual asks whether the member's user may run the scripts.
		// A short run would otherwise leave before its first heartbeat, and
		// would close the gate while it is registered. Refresh publishes a
		// failure and tries again later.
		_ = k.member.Refresh(ctx)
	}
	longest, bound := k.bridge.Dialect().LongestLease(k.bridge.Terms())
	if f.keep > 0 && bound && f.keep > longest {
		_ = k.bridge.Close()
		return out.WrongUse("--keep %v is longer than %v: an old client that lost a race may end a longer one early; if the old clients' smallest lease is longer than %v, give it by --lease",
			f.keep, longest, k.bridge.Terms().Lease)
	}
	return nil
}

// joinFleet reads the record, registers this run as a member, and takes from
// the record what the command line does not say of the old clients.
func joinFleet(e *out.Env, ctx context.Context, k *movingKeeper, f *runFlags, pool *redis.Pool,
	address string, command []string, cfg *migrate.Config) error {
	tried := fmt.Sprintf("joining the migration of namespace %q on %s", f.namespace, address)
	record, err := fleet.ReadRecord(ctx, pool, f.namespace)
	if err != nil {
		return out.CouldNot(err, "%s", tried)
	}
	if cfg.Dialect, err = f.recordedDialect(record); err != nil {
		return err
	}
	cfg.Terms = filled(f.terms, record.Fleet.Terms())
	if !f.namesDialect() && record.Fleet.Behind.Source != migrate.Claimed {
		cfg.Terms.Behind = 0 // what init wrote without --dialect states nothing
	}
	host, err := e.Hostname()
	if err != nil || host == "" {
		host = "unknown-host"
	}
	name := strings.TrimPrefix("run "+filepath.Base(command[0]), "run getsetlock-") + " on " + host
	k.member, err = migrate.Join(ctx, pool, migrate.MemberConfig{
		Namespace: f.namespace,
		Name:      strings.ToValidUTF8(name[:min(len(name), longestNote)], ""), Dialect: cfg.Dialect.Name,
		Timeout: e.Timeout, Clock: e.Clock,
	})
	if err != nil {
		return out.CouldNot(err, "%s", tried)
	}
	cfg.Phases = k.member
	return nil
}

// recordedDialect returns the dialect of the command line, else that of the
// record.
func (f *runFlags) recordedDialect(record migrate.Record) (dialect.Dialect, error) {
	if f.namesDialect() {
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

func (k *movingKeeper) acquire(ctx context.Context, key string) (held, error) {
	lease, err := k.clientKeeper.acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return &tokenHeld{lease}, nil
}

// holds asks the server whether the value on key M begins with the token.
func (k *movingKeeper) holds(ctx context.Context, key, token string) (bool, error) {
	o, err := k.bridge.Inspect(ctx, key)
	if err != nil {
		return false, err
	}
	on, _, _ := strings.Cut(o.MarkValue, " ")
	return o.MarkExists && on == token, nil
}

// look reads both keys of the lock.
func (k *movingKeeper) look(ctx context.Context, key string) (sight, error) {
	o, err := k.bridge.Inspect(ctx, key)
	if err != nil {
		return sight{}, err
	}
	return k.seen.sight(key, o, k.bridge.Terms()), nil
}

// stored asks for a plain name. Where the dialect spells names differently, the
// bridge cannot ask for one.
func (k *movingKeeper) stored(ctx context.Context, raw string) (bool, error) {
	if k.encoding() != dialect.Plain {
		return false, errNoLook
	}
	o, err := k.bridge.Inspect(ctx, raw)
	return o.Exists, err
}

func (k *movingKeeper) encoding() dialect.Encoding { return k.bridge.Dialect().KeyEncoding }

func (k *movingKeeper) warnings(context.Context) []string { return nil }

func (k *movingKeeper) close(wait time.Duration) {
	k.clientKeeper.close(wait)
	k.goodbye(wait)
}

// goodbye leaves the registry: at once if no lease is left, else after the
// server has let the leases expire.
func (k *movingKeeper) goodbye(wait time.Duration) {
	if k.member == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(wait, goodbyeWait))
	defer cancel()
	if len(k.member.State().Leases) > 0 {
		_ = k.member.GoodbyeAfter(ctx, k.keeps)
		return
	}
	_ = k.member.Goodbye(ctx)
}

// goodbyeWait is how long a run waits for its removal from the registry. A run
// that could not remove itself counts as a vanished member.
const goodbyeWait = 2 * time.Second

var (
	_ keeper = (*movingKeeper)(nil)
)
