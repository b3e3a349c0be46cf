// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestCallsOfAKilledJVMFailAtOnce(t *testing.T) {
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	check(t, openStore(t, s).put(key, text("9223372036854775807")))
	j := must[*JVM](t)(Start(ctx, Options{}))
	c := NewClient(t, j, s.Addr())
	check(t, c.Lock(ctx, Jar, key, time.Hour, time.Minute))
	p := must[*Acquiring](t)(c.BeginAcquire())
	check(t, j.Kill())
	if _, err := p.Wait(ctx); !errors.Is(err, ErrEnded) {
		t.Errorf("what was under way: %v", err)
	}
	if _, err := c.Acquire(ctx); !errors.Is(err, ErrEnded) {
		t.Errorf("what came later: %v", err)
	}
}

func TestCallEndsWithItsContextWhileJavaStillWaits(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	check(t, openStore(t, s).put(key, text("9223372036854775807")))
	c := SharedClient(t, s.Addr())
	check(t, c.Lock(testContext(t), Jar, key, time.Hour, time.Minute))
	p := must[*Acquiring](t)(c.BeginAcquire())
	over, cancel := context.WithCancelCause(context.Background())
	mine := errors.New("enough")
	cancel(mine)
	if _, err := p.Wait(over); !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
	if held, err := c.Held(testContext(t)); err != nil || held {
		t.Errorf("other orders are not served meanwhile: %v, %v", held, err)
	}
}

// java reports that the file is no jar and ends; the error must quote that.
func TestJVMThatDoesNotStartIsQuoted(t *testing.T) {
	jar := filepath.Join(t.TempDir(), "interop.jar")
	check(t, os.WriteFile(jar, []byte("no jar"), 0o600))
	_, err := Start(testContext(t), Options{Jar: jar})
	if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "jar") {
		t.Errorf("%v", err)
	}
}

// A killed faketime leaves a semaphore named after its pid, and one day another
// process has that pid.
func TestStartSurvivesAKilledFaketimesSemaphore(t *testing.T) {
	for times, starts := range map[string]bool{"1": true, "4": true, "5": false} {
		const script = `n=$(cat "$0" 2>/dev/null || echo 0); echo $((n+1)) >"$0"; [ $n -lt $1 ] || { shift; exec "$@"; }; echo "faketime: sem_open: File exists" >&2; exit 1`
		j, err := Start(t.Context(),
			Options{Prefix: []string{"sh", "-c", script, filepath.Join(t.TempDir(), "starts"), times}})
		if (err == nil) != starts {
			t.Errorf("after %s refusals: %v", times, err)
		}
		if err == nil {
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
