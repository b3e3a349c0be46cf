// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// errElsewhere says that a bridge and its member are not in one place.
var errElsewhere = errors.New("open both on one server and in one database")

// placed says why the bridge may not take its first lock: through its own
// connection the member's field is not found. A bridge in another database, or
// on another server, would take locks that no gate sees. A missing field is
// written once more, since the server may have been restarted.
func (b *bridgeEngine) placed(ctx context.Context) error {
	if b.member == nil || b.isPlaced.Load() {
		return nil
	}
	err := b.member.foundBy(ctx, b.Mux)
	if errors.Is(err, errElsewhere) {
		if err = b.member.Refresh(ctx); err == nil {
			err = b.member.foundBy(ctx, b.Mux)
		}
	}
	b.isPlaced.Store(err == nil)
	return err
}

// foundBy returns nil if the server of mux has the member's field, and
// errElsewhere if it has not.
func (m *Member) foundBy(ctx context.Context, mux *wire.Mux) error {
	roster := record.RosterKey(m.cfg.Namespace)
	found, err := record.TextOf(mux.Do(ctx, "HGET", roster, m.id))
	switch {
	case err != nil:
		return fmt.Errorf("migrate: %w", m.refused("look for the member in", roster, err))
	case found == "":
		return fmt.Errorf("migrate: member %s is registered on %s, and the bridge takes its locks on %s, where %s does not have it: %w",
			m.id, placeOf(ctx, m.mux), placeOf(ctx, mux), roster, errElsewhere)
	}
	return nil
}

// placeOf names the server and the database of a connection, as far as the
// server says them.
func placeOf(ctx context.Context, mux *wire.Mux) string {
	address, database := "a server that does not say its address", "unknown"
	info, _ := redis.String(mux.Do(ctx, "CLIENT", "INFO"))
	for _, word := range strings.Fields(info) {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "laddr":
			address = value
		case "db":
			database = value
		}
	}
	return address + " (database " + database + ")"
}
