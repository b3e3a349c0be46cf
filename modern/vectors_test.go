// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"crypto/sha1"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

var update = flag.Bool("update", false, "write the vectors anew")

const vectors = "testdata/vectors/wire.txt"

// TestWireIsAsPinned compares names and bytes on the wire with a file that
// other languages can read. The file names scripts, and replaces random names
// of processes by PROCESS.
func TestWireIsAsPinned(t *testing.T) {
	pinned, err := os.ReadFile(vectors)
	if err != nil && !*update {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(pinned), "\n\n")
	got := head + "\n"
	for _, form := range []string{"plain", "note", "fence", "fair", "fair fence"} {
		cfg := forms[form]
		if form == "note" {
			cfg.Note = "host 7"
		}
		bubble(t, func(t *testing.T, w *redistest.World) { got += "\n" + life(t, w, form, cfg) })
	}
	for _, form := range []string{"member", "member fence"} {
		cfg := modern.Config{Fence: form == "member fence"}
		bubble(t, func(t *testing.T, w *redistest.World) { got += "\n" + voting(t, w, form, cfg) })
	}
	if *update {
		if err := os.WriteFile(vectors, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != string(pinned) {
		t.Errorf("the wire differs from %s (-update writes it, which changes the protocol):\n%s", vectors,
			got)
	}
}

// scribe writes down what was sent over a wire.
type scribe struct {
	strings.Builder
	wire *redistest.Wire
	form string
	shas map[string]string // scripts by their digests
}

// said writes what was sent since the last call.
func (out *scribe) said(what string) {
	fmt.Fprintf(out, "# %s: %s\n", out.form, what)
	// It is no part of the protocol when a connection asks for its server's run
	// id.
	sent := slices.DeleteFunc(out.wire.Sent(), func(c redistest.Command) bool { return c.Is("INFO") })
	for i, c := range sent {
		if c.Is("EVAL") {
			out.shas[fmt.Sprintf("%x", sha1.Sum([]byte(c[1])))] = c[1]
		}
		unknown := i+1 < len(sent) && c.Is("EVALSHA") && sent[i+1].Is("EVAL") // the whole script follows
		if line := readable(c, out.shas); line != "" && !unknown {
			out.WriteString(line + "\n")
		}
	}
	out.wire.Forget()
}

// voting runs every operation of a member of a quorum once and returns what was
// sent. The tokens are the quorum's.
func voting(t *testing.T, w *redistest.World, form string, cfg modern.Config) string {
	cfg.Namespace, cfg.Token = "ns", func() string { return "token-000000000000000003" }
	b, wire := on(t, w, cfg)
	out := &scribe{wire: wire, form: form, shas: map[string]string{}}
	const first, second = "token-000000000000000001 host 7", "token-000000000000000002 host 8"
	g, err := voter(b).TryAs(bg, "k", first, ttl)
	if err != nil {
		t.Fatal(err)
	}
	out.said("vote")
	if _, err := voter(b).TryAs(bg, "k", second, ttl); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	out.said("refused")
	if cfg.Fence {
		if err := voter(b).Raise(bg, g, 1<<50); err != nil {
			t.Error(err)
		}
		out.said("raise")
	}
	if _, err := g.Extend(bg, ttl); err != nil {
		t.Error(err)
	}
	out.said("renew")
	free(t, g)
	out.said("give back")
	w.Mini.Del("gsl:fence:ns:{m5p}")
	return out.String()
}

// life runs every operation once and returns what was sent.
func life(t *testing.T, w *redistest.World, form string, cfg modern.Config) string {
	serial := 0
	cfg.Namespace = "ns"
	cfg.Token = func() string { serial++; return fmt.Sprintf("token-%018d", serial) }
	b, wire := on(t, w, cfg)
	out := &scribe{wire: wire, form: form, shas: map[string]string{}}
	said := out.said
	g := try(t, b, "k")
	said("acquire")
	if _, err := b.Contract().Try(bg, "k", ttl); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	said("refused")
	place := stand(t, b, "k")
	said("wait")
	if _, errs := b.Contract().(backend.BatchExtender).ExtendAll(bg, []backend.Grant{g, g},
		ttl); errors.Join(errs...) != nil {
		t.Error(errs)
	}
	said("renew two")
	free(t, g)
	synctest.Wait() // the message has come
	said("give")
	granted(t, place)
	said("release what was given")
	if err := stand2(t, b).Leave(bg); err != nil {
		t.Error(err)
	}
	said("leave the line")
	w.Pass(ttl + time.Second)
	w.Mini.Del("gsl:fence:ns:{m5p}")
	return out.String()
}

// stand2 takes a place in the queue of a foreign value, which is then removed.
func stand2(t *testing.T, b *modern.Backend) backend.Place {
	t.Helper()
	g := try(t, b, "k")
	p := stand(t, b, "k")
	free(t, g)
	synctest.Wait() // the message has come
	return p
}

var processName = regexp.MustCompile(`^(gsl:turn:)?[\w-]{22}( \d+ \d+ token-|$)`)

// readable returns a command with its script by name; empty for commands that
// watch keys.
func readable(c redistest.Command, shas map[string]string) string {
	c = slices.Clone(c)
	switch {
	case c.Is("CLIENT"):
		return ""
	case c.Is("EVALSHA"):
		c[1] = shas[c[1]]
		fallthrough
	case c.Is("EVAL"):
		c[0] = "EVALSHA"
		c[1], _, _ = strings.Cut(strings.TrimPrefix(c[1], "-- "), ":")
	}
	for i := range c {
		c[i] = processName.ReplaceAllString(c[i], "${1}PROCESS$2")
	}
	return c.String()
}
