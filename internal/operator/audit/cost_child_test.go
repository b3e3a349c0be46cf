// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// watchOf is the environment variable that turns the test binary into a watch
// of the server at that address. The watch runs in a separate process, so its
// cost includes what a Go program costs by being awake. It prints "ready" when
// it follows all keys, ends when its standard input ends, and then prints its
// Cost as JSON.
const watchOf = "GETSETLOCK_TEST_WATCH"

// watchedKeys is the number of keys that it looks at, each once a second.
const watchedKeys = 1000

func watchInChild(addr string, keys int) error {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	defer pool.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	ready := false
	r, err := Watch(ctx, pool, Config{
		Config: census.Config{Match: "lock:*"},
		Seen: func(r *Result) {
			if !ready && len(r.Evidence.Keys) == keys {
				ready = true
				fmt.Println("ready")
			}
		},
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r.Cost)
}
