// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
)

// Keep writes a sighting that was made by other means than [WatchClients]. It
// replaces what is stored. Keep fills in Format; the gates believe the rest for
// as long as it is fresh.
func (s Sighting) Keep(ctx context.Context, pool *redis.Pool, namespace string) error {
	s.Format = sightingFormat
	s.bound()
	text, err := s.text()
	if err != nil {
		return err
	}
	c, err := pool.GetContext(ctx)
	if err != nil {
		return fmt.Errorf("migrate: writing %s: %w", record.SeenKey(namespace), err)
	}
	defer c.Close()
	if _, err := redis.DoContext(c, ctx, "SET", record.SeenKey(namespace), text, "PX",
		int64(sightingTTL/time.Millisecond)); err != nil {
		return fmt.Errorf("migrate: writing %s: %w", record.SeenKey(namespace), err)
	}
	return nil
}
