// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alicebob/miniredis/v2"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

// A password in a file may be replaced while the program runs.
func ExampleOpen() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	server.RequireUserAuth("app", "secret")
	address := "redis://app@" + server.Addr() // rediss://app@cache.internal in earnest
	dir, err := os.MkdirTemp("", "getsetlock")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		panic(err)
	}

	open := func() error {
		ctx := context.Background()
		// doc: open
		client, err := modern.Open(ctx, address, modern.Options{
			Redis:   redisconn.Options{PasswordFile: file},
			Backend: modern.Config{Fence: true},
		})
		if err != nil {
			return err // says what was missing
		}
		defer client.Close(ctx)

		lease, err := client.Acquire(ctx, "stock:42")
		if err != nil {
			return err
		}
		defer lease.Release()
		// doc: end
		fmt.Println("held:", lease.Err() == nil)
		return seize(ctx, client)
	}
	if err := open(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// held: true
	// freed: true
}

// seize is what an operator may do.
func seize(ctx context.Context, client *lock.Client) error {
	// doc: inspect
	info, err := client.Inspect(ctx, "stock:42")
	if err != nil {
		return err
	}
	if info.Held != nil { // says who has it, and until when
		freed, err := client.ForceRelease(ctx, "stock:42", info.Value)
		fmt.Println("freed:", freed)
		return err
	}
	// doc: end
	return nil
}
