// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
	"github.com/getsetlock/getsetlock/redisconn"
)

// doc: open
func openQuorum(addresses ...string) (*lock.Client, error) {
	var members []quorum.Member
	for _, text := range addresses {
		address, err := redisconn.Parse(text)
		if err != nil {
			return nil, err
		}
		pool, err := address.Pool(redisconn.Options{})
		if err != nil {
			return nil, err
		}
		member, err := modern.New(pool, modern.Config{Name: address.String(), Fence: true})
		if err != nil {
			return nil, err
		}
		members = append(members, member)
	}
	backend, err := quorum.New(members, quorum.Config{Fences: true})
	if err != nil {
		return nil, err
	}
	return lock.New(backend, lock.Config{TTL: 10 * time.Second, Wait: 3 * time.Minute})
}

// doc: end

// alone lets INFO show what it shows of a server that stands alone. The
// embedded server has no such INFO.
func (w *world) alone(id int) {
	text := fmt.Sprintf("run_id:%d\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"+
		"role:master\r\nconnected_slaves:0\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n", id)
	w.server.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command == "INFO" {
			c.WriteBulk(text)
		}
		return command == "INFO"
	})
}

func Example_quorum() {
	var addresses []string
	var worlds []*world
	for i := range 3 {
		w := newWorld()
		defer w.close()
		w.alone(i)
		addresses, worlds = append(addresses, "redis://"+w.server.Addr()), append(worlds, w)
	}
	for _, name := range addresses {
		address, err := redisconn.Parse(name)
		must(err)
		pool, err := address.Pool(redisconn.Options{})
		must(err)
		c := pool.Get()
		must(redistest.Seat(c.Do, name, addresses, 30*time.Second)) // clients have watched it for long
		must(c.Close())
	}
	holding := func() (votes int) {
		for _, w := range worlds {
			if w.server.Exists("stock:42") {
				votes++
			}
		}
		return votes
	}
	ctx := context.Background()
	client, err := openQuorum(addresses...)
	must(err)
	must(client.Do(ctx, "stock:42", func(context.Context) error {
		fmt.Println("a majority holds:", holding() >= 2) // the third vote may be on its way
		return nil
	}))
	must(client.Close(ctx))
	fmt.Println("votes left:", holding())
	// Output:
	// a majority holds: true
	// votes left: 0
}
