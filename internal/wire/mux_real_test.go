// SPDX-License-Identifier: Apache-2.0

//go:build real

package wire

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// Scripts, batches and many goroutines at once work alike on every server.
func TestEveryServerAnswersEveryGoroutine(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) { hammer(t, b.Start(t, redistest.Options{})) })
	}
}

func TestTLSAndUnixSocketsCarryEveryGoroutine(t *testing.T) {
	t.Run("tls", func(t *testing.T) { hammer(t, redistest.Real(t, redistest.Options{TLS: true})) })
	t.Run("unix", func(t *testing.T) { hammer(t, redistest.Real(t, redistest.Options{Unix: true})) })
}

func hammer(t *testing.T, s *redistest.Server) {
	m := open(t, s.Pool(), Options{Timeout: redistest.Patience})
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() { strike(t, m, g) })
	}
	wg.Wait()
}

func strike(t *testing.T, m *Mux, g int) {
	long := strings.Repeat("x", 100*g)
	for i := range 20 {
		word := fmt.Sprint(g, ".", i, long)
		if got, err := redis.String(m.Eval(bg, echo, "k", word)); got != word || err != nil {
			t.Errorf("script: %v", err)
			return
		}
		r := m.Batch(bg, []Command{Cmd("INCR", g), Cmd("ECHO", word), echo.Cmd("k", word)})
		n, err := redis.Int(r[0].Value, r[0].Err)
		if n != i+1 || err != nil {
			t.Errorf("count is %d, %v, want %d", n, err, i+1)
			return
		}
		for _, r := range r[1:] {
			if got, err := redis.String(r.Value, r.Err); got != word || err != nil {
				t.Errorf("batch: %v", err)
				return
			}
		}
	}
}
