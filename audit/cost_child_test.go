package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit/census"
)

// watchOf names the variable that makes this program a watch of the server at that address, in a process of its own, so
// that what a Go program costs by being awake counts as its price too. It says "ready" when it follows all keys, goes on
// at a '+' of its standard input, stands still at a '-', and prints its Cost at the end of it.
const watchOf = "GETSETLOCK_TEST_WATCH"

// watchedKeys are what it looks at once a second each.
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
