// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/drift"
	"github.com/getsetlock/getsetlock/legacy"
)

// Server is a real server to rehearse on.
type Server struct {
	Name string // printable name, without user and password
	Dial func(ctx context.Context) (redis.Conn, error)
}

// realPrefix begins the names of all keys that a rehearsal writes to a real
// server. The names of key M follow from it.
const realPrefix = "getsetlock:rehearsal:"

// cleanUpWithin bounds the deletion of the keys, also after an interrupted run.
const cleanUpWithin = 5 * time.Second

// inUse says that a key with one of the rehearsal's names exists already.
func inUse(key string) error {
	return fmt.Errorf("the key %q exists: another rehearsal runs on this server, or was killed; if it was killed, delete the keys that begin with %q or %q",
		key, realPrefix, "{"+realPrefix)
}

// OnServer rehearses p on a real server, in real time. It writes only its own
// keys, refuses to begin if any of them exists, and deletes them at the end,
// however the run ends. It calls progress now and then, on the caller's
// goroutine.
func OnServer(ctx context.Context, p Plan, s Server, progress func(Progress)) (res *Result, err error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	own, err := p.keys()
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _ identity, _ int) (redis.Conn, error) { return s.Dial(ctx) }
	if err := claim(ctx, s, own); err != nil {
		return nil, err
	}
	defer func() {
		if e := sweep(s, own); e != nil {
			res, err = nil, errors.Join(err, e)
		}
	}()
	f, err := newFleet(p, realPrefix, dial)
	if err != nil {
		return nil, err
	}
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

// keys returns all keys that a rehearsal of p may write to a server. The first
// one claims the others.
func (p Plan) keys() ([]string, error) {
	products, err := p.products(realPrefix)
	if err != nil {
		return nil, err
	}
	all := []string{realPrefix + "claim"}
	for _, sku := range slices.Sorted(maps.Keys(products)) {
		one := products[sku]
		all = append(all, one.shelf, one.key, one.mark)
	}
	if p.Protocol == movingFleet {
		all = append(all, "gsl:phase:"+realNamespace, "gsl:seen:"+realNamespace, "gsl:lived:"+realNamespace)
	}
	return all, nil
}

// realNamespace is the namespace of a migration on a real server: the part of
// realPrefix that a namespace may have.
var realNamespace, _, _ = strings.Cut(realPrefix, ":")

// strays are patterns of keys whose names are made during a rehearsal: those of
// members and of waiters. A member that dies during its probe leaves both keys
// of the probe.
var strays = []string{
	"gsl:roster:" + realNamespace, "gsl:log:" + realNamespace, "gsl:probe:" + realNamespace + ":*",
	legacy.MarkKey("gsl:probe:" + realNamespace + ":*"),
	"gsl:*:" + realPrefix + "*",
}

// claim makes sure that nothing else uses the keys. The claim outlives any
// rehearsal.
func claim(ctx context.Context, s Server, own []string) error {
	c, err := s.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	reply, err := redis.DoContext(c, ctx, "SET", own[0], rand.Text(), "NX", "EX",
		int(24*time.Hour/time.Second))
	if err != nil {
		return fmt.Errorf("claiming the rehearsal's keys: %w", err)
	}
	if reply == nil {
		return inUse(own[0])
	}
	for _, key := range own[1:] {
		n, err := redis.Int(redis.DoContext(c, ctx, "EXISTS", key))
		switch {
		case err != nil:
			err = fmt.Errorf("checking that the rehearsal's keys do not exist: %w", err)
		case n != 0:
			err = inUse(key)
		}
		if err != nil {
			c.Do("DEL", own[0])
			return err
		}
	}
	return nil
}

// scan lists keys in slices, so that a large server serves other clients
// meanwhile.
func scan(ctx context.Context, c redis.Conn, pattern string) (all []string, err error) {
	for cursor := "0"; ; {
		reply, err := redis.Values(redis.DoContext(c, ctx, "SCAN", cursor, "MATCH", pattern, "COUNT", 1000))
		if err != nil || len(reply) != 2 {
			return nil, errors.Join(err)
		}
		found, err := redis.Strings(reply[1], nil)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if cursor, err = redis.String(reply[0], nil); err != nil || cursor == "0" {
			return all, err
		}
	}
}

// sweep deletes the keys, the claim last. It has its own context, since the
// caller's may have ended.
func sweep(s Server, own []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpWithin)
	defer cancel()
	c, err := s.Dial(ctx)
	if err != nil {
		return fmt.Errorf("the rehearsal's keys (%s…) are still there: %w", realPrefix, err)
	}
	defer c.Close()
	for _, pattern := range strays {
		found, err := scan(ctx, c, pattern)
		if err != nil {
			return fmt.Errorf("looking for the rehearsal's keys (%s): %w", pattern, err)
		}
		own = append(own[:1:1], append(found, own[1:]...)...)
	}
	for _, key := range slices.Backward(own) {
		if _, err := redis.DoContext(c, ctx, "DEL", key); err != nil {
			return fmt.Errorf("the rehearsal's keys (%s…) are still there: %w", realPrefix, err)
		}
	}
	return nil
}
