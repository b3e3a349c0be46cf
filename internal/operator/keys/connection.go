// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// ConnectionName is the name of an observer's connections, on servers that
// support names.
const ConnectionName = "getsetlock-audit"

// Setup names the connection and asks the server not to count looks as uses of
// a key. Both are courtesies: a server that supports neither is watched all the
// same.
func Setup(c redis.Conn) error {
	for _, command := range [][]any{{"SETNAME", ConnectionName}, {"NO-TOUCH", "ON"}} {
		if _, err := c.Do("CLIENT", command...); err != nil && c.Err() != nil {
			return err
		}
	}
	return nil
}

// Dial opens a connection outside the pool. The caller owns it, and it never
// returns to the pool, because the caller may switch its mode.
func Dial(ctx context.Context, pool *redis.Pool) (redis.Conn, error) {
	switch {
	case pool.DialContext != nil:
		return pool.DialContext(ctx)
	case pool.Dial != nil:
		return pool.Dial()
	}
	return nil, errors.New("the pool has no dial hook")
}

// DeniedFinding returns the finding that this user may not read some of the
// keys. If that is all of them, nothing good can be said about the keys.
func DeniedFinding(denied, keys int64) census.Finding {
	f := census.Finding{
		Severity: census.SeverityNote, Kind: "denied",
		What:   Count(denied) + " may not be read by this user, and were left out",
		Advice: "let its ACL read them (GETRANGE, PTTL, TYPE, STRLEN), or narrow --match",
	}
	if denied == keys {
		f.Severity, f.What = census.SeverityWarning,
			f.What+": these are all keys that match, so nothing is known about them"
	}
	return f
}

// Count is a number of keys in words.
func Count(n int64) string {
	if n == 1 {
		return "1 key"
	}
	return fmt.Sprintf("%d keys", n)
}
