// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// doc: wrap
// Job is what a scheduler or a handler runs.
type Job func(context.Context) error

// Locked is job under the lock key. Like SimpleLock.wrap it looks like what it
// wraps.
func Locked(client *lock.Client, key string, job Job) Job {
	return func(ctx context.Context) error { return client.Do(ctx, key, job) }
}

// doc: end

// LockedHandler is next under a lock: one request at a time for each key.
func LockedHandler(client *lock.Client, key func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered := false
		err := client.Do(r.Context(), key(r), func(ctx context.Context) error { // 1
			entered = true
			next.ServeHTTP(w, r.WithContext(ctx)) // 2: ends when the lock is lost
			return nil
		})
		switch {
		case err == nil:
		case entered:
			log.Print("the answer was sent already: ", err) // 3
		case errors.Is(err, lock.ErrHeld):
			w.Header().Set("Retry-After", "1")
			http.Error(w, "another request is at work on this", http.StatusConflict) // 4
		default:
			http.Error(w, "the lock's server is in trouble", http.StatusServiceUnavailable) // 5
		}
	})
}

// routes sells one order of each product at a time.
func routes(client *lock.Client, sell http.Handler) http.Handler {
	mux := http.NewServeMux()
	product := func(r *http.Request) string { return "stock:" + r.PathValue("sku") }
	mux.Handle("POST /orders/{sku}", LockedHandler(client, product, sell))
	return mux
}

func post(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	return w
}

// The handler holds the key of its product while it runs, and gives it back
// after.
func TestLockedHandlerHoldsTheKeyOfTheProduct(t *testing.T) {
	w := newWorld()
	defer w.close()
	client, err := newTokenClient(w.pool())
	must(err)
	defer client.Close(t.Context())
	var h http.Handler
	inner := 0
	h = routes(client, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.server.Exists("stock:" + r.PathValue("sku")) {
			t.Error("the key is not held")
		}
		if inner++; inner == 1 {
			if got := post(h, "/orders/42"); got.Code != http.StatusConflict ||
				got.Header().Get("Retry-After") == "" {
				t.Errorf("a second order of the product: %d", got.Code)
			}
			if got := post(h, "/orders/43"); got.Code != http.StatusOK {
				t.Errorf("an order of another product: %d", got.Code)
			}
		}
		fmt.Fprint(rw, "sold")
	}))
	got := post(h, "/orders/42")
	if got.Code != http.StatusOK || got.Body.String() != "sold" || inner != 2 {
		t.Errorf("%d %q, %d entered", got.Code, got.Body, inner)
	}
	if w.server.Exists("stock:42") || w.server.Exists("stock:43") {
		t.Error("a key is left")
	}
}

// A panic of the handler passes on, and the key is given back.
func TestLockedHandlerGivesTheKeyBackAfterAPanic(t *testing.T) {
	w := newWorld()
	defer w.close()
	client, err := newTokenClient(w.pool())
	must(err)
	defer client.Close(t.Context())
	h := routes(client, http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		post(h, "/orders/42")
	}()
	if w.server.Exists("stock:42") {
		t.Error("the key is left")
	}
}

// The loss of the lock ends the request's context, and the answer stays as it
// was sent.
func TestLockedHandlerEndsItsContextWhenTheLockIsLost(t *testing.T) {
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	w := newWorld()
	defer w.close()
	clock := w.clock(0)
	backend, err := modern.New(w.pool(), modern.Config{})
	must(err)
	client, err := lock.New(backend, lock.Config{Clock: clock})
	must(err)
	defer client.Close(t.Context())
	var cause error
	h := routes(client, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, "sold")
		for r.Context().Err() == nil { // this machine was suspended
			clock.Add(time.Hour)
		}
		cause = context.Cause(r.Context())
	}))
	if got := post(h, "/orders/42"); got.Code != http.StatusOK || got.Body.String() != "sold" {
		t.Errorf("%d %q", got.Code, got.Body)
	}
	if !errors.Is(cause, lock.ErrLost) {
		t.Error(cause)
	}
}

// A wrapped job in a wrapped job of the same key joins its lease.
func TestLockedJobInALockedJobJoins(t *testing.T) {
	w := newWorld()
	defer w.close()
	client, err := newTokenClient(w.pool())
	must(err)
	defer client.Close(t.Context())
	inner := Locked(client, "nightly", func(ctx context.Context) error { return ctx.Err() })
	outer := Locked(client, "nightly", func(ctx context.Context) error {
		if err := inner(context.WithoutCancel(t.Context())); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("without the context: %v", err)
		}
		return inner(ctx)
	})
	if err := outer(t.Context()); err != nil {
		t.Error(err)
	}
}
