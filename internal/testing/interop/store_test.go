// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// store is the tests' own connection to the server: it does what other clients
// do to a key, and reads the key's state.
type store struct{ conn redis.Conn }

func openStore(tb testing.TB, s *redistest.Server) store {
	tb.Helper()
	conn := s.Pool().Get()
	tb.Cleanup(func() { conn.Close() })
	return store{conn}
}

// put brings the key into the state that a word of the vectors names: missing,
// list, or hex:BYTES.
func (s store) put(key, state string) error {
	if _, err := s.conn.Do("DEL", key); err != nil {
		return err
	}
	switch {
	case state == "missing":
		return nil
	case state == "list":
		_, err := s.conn.Do("RPUSH", key, "x")
		return err
	}
	value, err := unhex(state)
	if err != nil {
		return err
	}
	_, err = s.conn.Do("SET", key, value)
	return err
}

// state returns the word by which put brings the key to its present state.
func (s store) state(key string) (string, error) {
	kind, err := redis.String(s.conn.Do("TYPE", key))
	if err != nil {
		return "", err
	}
	switch kind {
	case "none":
		return "missing", nil
	case "list":
		return "list", nil
	case "string":
		value, err := redis.Bytes(s.conn.Do("GET", key))
		return hexWord(value), err
	}
	return "", fmt.Errorf("%s is a %s", key, kind)
}

// testContext returns a context that ends after redistest.Patience, whatever
// hangs.
func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	tb.Cleanup(cancel)
	return ctx
}

// patientContext is for tests in which clients contend. A jar that has just
// released is the first to ask again, so how long the last client starves is a
// matter of luck.
func patientContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Minute)
	tb.Cleanup(cancel)
	return ctx
}
