package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// legacyPairs returns adapters of the legacy lock's two modes, and for each
// mode the same commands sent by bare redigo on one connection.
func legacyPairs() []Adapter {
	return []Adapter{
		{Name: "bare SETNX, DEL", Open: openOldCommands},
		{Name: "legacy, verbatim", Open: openLegacy(legacy.Verbatim, lock.Config{})},
		{Name: "bare, the hardened scripts", Open: openReplay},
	}
}

// oldCommands sends SETNX with a stamp, and DEL, as an old client does on a
// free key.
type oldCommands struct{ conn redis.Conn }

func openOldCommands(ctx context.Context, s Server) (Locker, error) {
	conn, err := dialOne(ctx, s)
	return oldCommands{conn}, err
}

// dialOne opens a single connection, which the caller closes.
func dialOne(ctx context.Context, s Server) (redis.Conn, error) {
	return s.Pool().DialContext(ctx)
}

func (o oldCommands) Close() error { return o.conn.Close() }

func (o oldCommands) Lock(_ context.Context, key string) (Held, error) {
	stamp := strconv.FormatInt(time.Now().UnixMilli()+60001, 10)
	n, err := redis.Int(o.conn.Do("SETNX", key, stamp))
	if err == nil && n == 0 {
		err = errNotOurs
	}
	return oldHeld{o.conn, key}, err
}

type oldHeld struct {
	conn redis.Conn
	key  string
}

func (h oldHeld) Release() error {
	_, err := h.conn.Do("DEL", h.key)
	return err
}

// replay sends again, by redigo, what the hardened lock sent: the same scripts
// with the same arguments. It records them while a getsetlock client takes a
// lock of each name.
type replay struct {
	server Server
	conn   redis.Conn

	mu   sync.Mutex
	keys map[string]*replayed
}

// replayed are the two EVALSHA commands of one key.
type replayed struct {
	conn             redis.Conn
	acquire, release []any
}

func openReplay(ctx context.Context, s Server) (Locker, error) {
	conn, err := dialOne(ctx, s)
	return &replay{server: s, conn: conn, keys: map[string]*replayed{}}, err
}

func (r *replay) Close() error { return r.conn.Close() }

func (r *replay) Lock(ctx context.Context, key string) (Held, error) {
	r.mu.Lock()
	h := r.keys[key]
	r.mu.Unlock()
	if h == nil {
		var err error
		if h, err = r.record(ctx, key); err != nil {
			return nil, err
		}
	}
	reply, err := redis.Values(r.conn.Do("EVALSHA", h.acquire...))
	if err != nil {
		return nil, err
	}
	if took, _ := redis.Int(reply[0], nil); took == 0 {
		return nil, errNotOurs
	}
	return h, nil
}

func (h *replayed) Release() error {
	if reply, err := h.conn.Do("EVALSHA", h.release...); err != nil || reply == any(int64(1)) {
		return err
	}
	return errNotOurs
}

// record lets a getsetlock client take and release key twice, since the first
// time a script is sent in full.
func (r *replay) record(ctx context.Context, key string) (*replayed, error) {
	pool := r.server.Pool()
	var heard recorder
	dial := pool.DialContext
	pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
		conn, err := dial(ctx)
		return recording{conn, &heard}, err
	}
	b, err := legacy.New(pool, legacy.Config{Mode: legacy.Hardened})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	for range 2 {
		g, err := b.Contract().Try(ctx, key, 20*time.Second)
		if err != nil {
			return nil, err
		}
		if err := g.Release(ctx); err != nil {
			return nil, err
		}
	}
	sent := heard.ending("EVALSHA", 2)
	if sent == nil {
		return nil, fmt.Errorf("bench: the hardened lock sent other commands than two scripts: %v",
			heard.names())
	}
	h := &replayed{conn: r.conn, acquire: sent[0], release: sent[1]}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key] = h
	return h, nil
}

// recorder keeps the commands that were sent.
type recorder struct {
	mu   sync.Mutex
	sent []sentCommand
}

type sentCommand struct {
	name string
	args []any
}

func (r *recorder) add(name string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := make([]any, len(args))
	for i, arg := range args {
		kept[i] = arg
		if b, ok := arg.([]byte); ok {
			kept[i] = string(b)
		}
	}
	r.sent = append(r.sent, sentCommand{name, kept})
}

// ending returns the arguments of the last n commands if all of them have that
// name.
func (r *recorder) ending(name string, n int) [][]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sent) < n {
		return nil
	}
	var found [][]any
	for _, c := range r.sent[len(r.sent)-n:] {
		if !strings.EqualFold(c.name, name) {
			return nil
		}
		found = append(found, c.args)
	}
	return found
}

func (r *recorder) names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.sent {
		names = append(names, c.name)
	}
	return names
}

type recording struct {
	redis.Conn
	heard *recorder
}

func (c recording) Send(name string, args ...any) error {
	c.heard.add(name, args)
	return c.Conn.Send(name, args...)
}
