// SPDX-License-Identifier: Apache-2.0

// Command service is a shop whose locks move from the old clients' to token
// locks while it runs. On SIGTERM it finishes the requests under way, gives its
// locks back and leaves the migration's roster. docs/guide/migration.md shows
// it.
//
// It is an example and promises no stable API.
package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/redisconn"
)

const (
	leaseTTL = 30 * time.Second

	// Together these are shorter than the 30 s that Kubernetes gives a pod.
	finish  = 15 * time.Second // for requests under way
	giveUp  = 5 * time.Second  // for jobs whose context was cancelled, and the release of their locks
	goodbye = 5 * time.Second  // for the roster
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("REDIS_URL"), os.Getenv("LISTEN"))
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, listen string) (err error) {
	pool, err := redisconn.Open(ctx, address, redisconn.Options{}) // 1
	if err != nil {
		return err
	}
	defer pool.Close()

	member, err := migrate.Join(ctx, pool, migrate.MemberConfig{Namespace: "stock", Name: "till"}) // 2
	if err != nil {
		return err
	}
	locks, err := newLocks(pool, member)
	if err != nil {
		return errors.Join(err, member.Goodbye(ctx))
	}
	defer func() { err = errors.Join(err, leave(locks, member, giveUp)) }() // 7

	return serve(ctx, listen, locks)
}

// doc: locks
func newLocks(pool *redis.Pool, member *migrate.Member) (*lock.Client, error) {
	bridge, err := migrate.New(pool, migrate.Config{
		Phases: member,
		Terms:  dialect.Terms{Lease: time.Minute}, // 3: the old clients' smallest lease
	})
	if err != nil {
		return nil, err
	}
	locks, err := lock.New(bridge, lock.Config{
		TTL:  leaseTTL,
		Wait: 10 * time.Second,
		Hooks: lock.Hooks{
			Waiting: func(e lock.Event) { log.Printf("waiting for %s: %v", e.Key, e.Cause) },
			Lost:    func(e lock.Event) { log.Printf("ALARM: %v", e.Cause) },
		},
	})
	if err != nil {
		return nil, errors.Join(err, bridge.Close())
	}
	return locks, nil
}

// doc: end

// serve answers requests until ctx ends. Then it finishes those under way.
func serve(ctx context.Context, listen string, locks *lock.Client) error {
	jobs, cancelJobs := context.WithCancel(context.Background()) // 4: lives longer than ctx
	defer cancelJobs()
	server := &http.Server{
		Handler:     routes(locks),
		BaseContext: func(net.Listener) context.Context { return jobs },
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	log.Print("listening on ", l.Addr())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		log.Print("stopping")
	}
	end, cancel := context.WithTimeout(context.Background(), finish)
	defer cancel()
	return server.Shutdown(end) // 5; if it takes too long, cancelJobs ends the jobs
}

func routes(locks *lock.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{sku}", func(w http.ResponseWriter, r *http.Request) {
		sku := r.PathValue("sku")
		err := locks.Do(r.Context(), "stock:"+sku, func(ctx context.Context) error {
			return sell(ctx, sku) // 6: its ctx ends with the lease, the request and the jobs
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}

// leave gives the locks of this process back and takes it out of the roster.
func leave(locks *lock.Client, member *migrate.Member, patience time.Duration) error {
	end, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kept := locks.Close(end) // waits for the jobs' releases, and closes the bridge

	end, cancel = context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if kept != nil { // a job still runs, or a key could not be given back: it ends by its TTL
		return errors.Join(kept, member.GoodbyeAfter(end, leaseTTL))
	}
	return member.Goodbye(end)
}

// sell is what the service is for.
func sell(ctx context.Context, sku string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	log.Print("sold one of ", sku)
	return nil
}
