package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// inDatabase returns cfg with the database that the pool's connections are in,
// by the server's word. known says whether the server told. It fails where cfg
// names another one: a watch of a database to which its own looks do not go
// would call a busy lock quiet.
func inDatabase(ctx context.Context, pool *redis.Pool, cfg Config) (_ Config, known bool, err error) {
	database, known := databaseOf(ctx, pool, cfg.Timeout)
	switch {
	case !known:
		return cfg, false, nil
	case cfg.DB != 0 && cfg.DB != database:
		return cfg, true, fmt.Errorf("audit: DB is %d, and the server says that the pool's connections are in database %d", cfg.DB, database)
	}
	cfg.DB = database
	return cfg, true, nil
}

// databaseOf asks the server which database the pool's connections select. A
// connection of its own takes a name that no other has, and is looked up in
// CLIENT LIST: servers of all ages answer that.
func databaseOf(ctx context.Context, pool *redis.Pool, timeout time.Duration) (database int, known bool) {
	c, err := dialed(ctx, pool)
	if err != nil {
		return 0, false
	}
	defer c.Close()
	name := connectionName + "-" + rand.Text()
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

// dialed opens a connection that the caller owns: what it becomes must not
// return to the pool.
func dialed(ctx context.Context, pool *redis.Pool) (redis.Conn, error) {
	switch {
	case pool.DialContext != nil:
		return pool.DialContext(ctx)
	case pool.Dial != nil:
		return pool.Dial()
	}
	return nil, errors.New("the pool has no dial hook")
}
