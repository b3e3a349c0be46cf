// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

var shared struct {
	sync.Mutex
	jvm     *JVM
	err     error
	clients int
}

// Ending runs a package's tests and then ends the shared JVM, so that its
// goroutines are not reported as leaks:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(interop.Ending(m)) }
func Ending(m *testing.M) interface{ Run() int } { return ending{m} }

type ending struct{ m *testing.M }

// Run runs the tests; goleak calls it.
func (e ending) Run() int {
	code := e.m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.jvm != nil {
		if err := shared.jvm.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// Shared returns the test binary's one JVM, which the first call starts; it
// fails the test if the JVM does not start. The JVM ends with the binary, or
// earlier with [Ending]. A test that kills a JVM must [Start] its own.
func Shared(tb testing.TB) *JVM {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.jvm == nil && shared.err == nil {
		shared.jvm, shared.err = Start(context.Background(), Options{})
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.jvm
}

// SharedClient returns a new client of the shared JVM with a unique name; it
// dies with the test.
func SharedClient(tb testing.TB, addr string) *Client {
	tb.Helper()
	return NewClient(tb, Shared(tb), addr)
}

// NewClient returns a new client of the given JVM with a unique name; it dies
// with the test.
func NewClient(tb testing.TB, j *JVM, addr string) *Client {
	tb.Helper()
	shared.Lock()
	shared.clients++
	name := fmt.Sprintf("%s-%d", tb.Name(), shared.clients)
	shared.Unlock()
	c, err := j.Client(context.Background(), name, addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Die(context.Background()) }) // a test may have killed it, or its JVM, before
	return c
}
