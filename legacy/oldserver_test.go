// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Before Redis 3.2, a script that has called TIME must not write.

const refusal = "ERR Error running script (call to f_0): @user_script:33: Write commands not allowed after non deterministic commands"

// oldServer refuses scripts that would call TIME and write.
func oldServer(when func(redistest.Command) bool) []redistest.Rule {
	stamps := func(c redistest.Command) bool {
		n := len(c)
		return (n == 16 || n == 17) && c[n-3] == "" && when(c)
	}
	return []redistest.Rule{
		{Command: "EVALSHA", When: stamps, Times: -1, Do: redistest.Answer(refusal)},
		{Command: "EVAL", When: stamps, Times: -1, Do: redistest.Answer(refusal)},
	}
}

func always(redistest.Command) bool { return true }

func TestScriptOnOldServerGetsTIMEAsArgument(t *testing.T) {
	r := newRig(t, hardened(dialect.Jedis()))
	r.wire.Fault(oldServer(always)...)
	r.wire.Forget()
	g := r.take("k")
	if want := r.stamp(ttl + day + time.Millisecond); r.get("k") != want {
		t.Errorf("L %q, want %q", r.get("k"), want)
	}
	if n := r.wire.Count("TIME"); n != 1 {
		t.Errorf("TIME asked %d times", n)
	}
	r.wire.Forget()
	r.w.Pass(time.Second)
	if _, err := g.Extend(bg, ttl); err != nil {
		t.Fatal(err)
	}
	if want := r.stamp(ttl + day + time.Millisecond); r.get("k") != want {
		t.Errorf("after the renewal L %q, want %q", r.get("k"), want)
	}
	if sent := r.wire.Count(""); sent != 2 {
		t.Errorf("%d commands for a renewal: %v", sent, r.wire.Sent())
	}
	if err := g.Release(bg); err != nil {
		t.Error(err)
	}
	r.wantLeft("")
}

func TestRenewalDetectsOldServer(t *testing.T) {
	r := newRig(t, hardened(dialect.Jedis()))
	g := r.take("k")
	r.wire.Fault(oldServer(always)...)
	r.w.Pass(time.Second)
	if term, err := g.Extend(bg, ttl); err != nil || term.TTL != ttl {
		t.Error(term, err)
	}
}

func TestNewConnectionForgetsOldServer(t *testing.T) {
	r := newRig(t, hardened(dialect.Jedis()))
	r.wire.Fault(oldServer(always)...)
	g := r.take("k")
	r.wire.Calm()
	r.wire.Cut()
	for range 50 { // until the client notices the cut
		if _, err := g.Extend(bg, ttl); err == nil {
			break
		}
	}
	r.wire.Forget()
	if _, err := g.Extend(bg, ttl); err != nil {
		t.Fatal(err)
	}
	if n := r.wire.Count("TIME"); n != 0 {
		t.Errorf("TIME asked %d times", n)
	}
}

func TestLostTIMEReplyIsNoUnsureError(t *testing.T) {
	r := newRig(t, hardened(dialect.Jedis()))
	r.wire.Fault(oldServer(always)...)
	r.wire.Fault(redistest.Rule{Command: "TIME", Do: redistest.CutAfter})
	_, err := r.b.Contract().Try(bg, "k", ttl)
	var unsure *backend.UnsureError
	if err == nil || errors.As(err, &unsure) {
		t.Errorf("%v", err)
	}
	r.wantLeft("")
}

func TestOldServerFinishesKeyThatMeansDone(t *testing.T) {
	r := newRig(t, hardened(dialect.Machinery()))
	g := r.take("k")
	r.wire.Fault(redistest.Rule{Command: "EVALSHA",
		When: func(c redistest.Command) bool { return len(c) == 12 && c[10] == "" },
		Do:   redistest.Answer(refusal)})
	if err := g.Release(bg); err != nil {
		t.Fatal(err)
	}
	if r.exists(keyM) || !r.exists("k") || r.wire.Count("TIME") != 1 {
		t.Errorf("M %v, L %v, TIME %d", r.exists(keyM), r.exists("k"), r.wire.Count("TIME"))
	}
}
