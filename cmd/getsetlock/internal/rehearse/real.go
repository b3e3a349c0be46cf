// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/drift"
)

// Server is a real server to rehearse on.
type Server struct {
	Name string // printable name, without user and password
	Dial func(ctx context.Context) (redis.Conn, error)
}

// realPrefix begins the name of every lock and product that a rehearsal has on
// a real server. A random word follows. It is also in the names of key M and of
// the migration's keys, so a rehearsal meets no key but its own.
const realPrefix = "getsetlock:rehearsal:"

// cleanUpWithin bounds the deletion of the keys, also after an interrupted run.
const cleanUpWithin = 5 * time.Second

// OnServer rehearses p on a real server, in real time. It writes only its own
// keys, and deletes them at the end, however the run ends. It calls progress
// now and then, on the caller's goroutine.
func OnServer(ctx context.Context, p Plan, s Server, progress func(Progress)) (res *Result, err error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	c, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c.Close()
	dial := func(ctx context.Context, _ identity, _ int) (redis.Conn, error) { return s.Dial(ctx) }
	word := strings.ToLower(rand.Text()[:12])
	f, err := newFleet(p, realPrefix+word+":", dial)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := sweep(s, "*"+word+"*"); e != nil {
			res, err = nil, errors.Join(err, e)
		}
	}()
	done := make(chan error, 1)
	go func() { done <- f.work(ctx) }()
	err = attend(context.Background(), p, done, func() *book { return f.book }, drift.Never, progress)
	if err != nil {
		return nil, err
	}
	if res, err = f.report(ctx); err != nil {
		return nil, err
	}
	res.Server, res.WallMS = s.Name, millis(time.Since(began))
	return res, nil
}

// sweep deletes the keys of a rehearsal. It has its own context, since the
// caller's may have ended.
func sweep(s Server, pattern string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpWithin)
	defer cancel()
	c, err := s.Dial(ctx)
	if err == nil {
		err = errors.Join(deleteAll(ctx, c, pattern), c.Close())
	}
	if err != nil {
		return fmt.Errorf("the rehearsal's keys (%s) are still there: %w", pattern, err)
	}
	return nil
}

// deleteAll lists keys in slices, so that a large server serves other clients
// meanwhile, and deletes them.
func deleteAll(ctx context.Context, c redis.Conn, pattern string) error {
	var all []any
	for cursor, more := "0", true; more; more = cursor != "0" {
		reply, err := redis.Values(redis.DoContext(c, ctx, "SCAN", cursor, "MATCH", pattern, "COUNT", 1000))
		if err != nil {
			return err
		}
		var slice []any
		if _, err := redis.Scan(reply, &cursor, &slice); err != nil {
			return err
		}
		all = append(all, slice...)
	}
	for _, key := range all {
		if _, err := redis.DoContext(c, ctx, "DEL", key); err != nil {
			return err
		}
	}
	return nil
}
