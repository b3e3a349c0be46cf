// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/keys"
)

// inDatabase returns cfg with DB set to the database that the pool's
// connections use, as the server reports it. known is false if the server did
// not say. It returns an error if cfg names another database: the looks of that
// watch would go to the wrong database, and a busy lock would seem quiet.
func inDatabase(ctx context.Context, pool *redis.Pool, cfg Config) (_ Config, known bool, err error) {
	database, known := databaseOf(ctx, pool, cfg.Timeout)
	switch {
	case !known:
		return cfg, false, nil
	case cfg.DB != 0 && cfg.DB != database:
		return cfg, true, fmt.Errorf(
			"audit: DB is %d, and the server says that the pool's connections are in database %d", cfg.DB,
			database)
	}
	cfg.DB = database
	return cfg, true, nil
}

// databaseOf asks the server which database the pool's connections use. It
// opens a connection, gives it a unique name and finds that name in CLIENT
// LIST, which servers of every version support.
func databaseOf(ctx context.Context, pool *redis.Pool, timeout time.Duration) (database int, known bool) {
	c, err := keys.Dial(ctx, pool)
	if err != nil {
		return 0, false
	}
	defer c.Close()
	name := keys.ConnectionName + "-" + rand.Text()
	if _, err := redis.DoWithTimeout(c, timeout, "CLIENT", "SETNAME", name); err != nil {
		return 0, false
	}
	list, err := redis.String(redis.DoWithTimeout(c, timeout, "CLIENT", "LIST"))
	if err != nil {
		return 0, false
	}
	for row := range strings.SplitSeq(list, "\n") {
		if !strings.Contains(row, " name="+name+" ") {
			continue
		}
		_, field, found := strings.Cut(row, " db=")
		field, _, _ = strings.Cut(field, " ")
		database, err := strconv.Atoi(field)
		return database, found && err == nil
	}
	return 0, false
}
