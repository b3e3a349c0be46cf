// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"crypto/sha1"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
)

const vectorsHeader = `# What a hardened backend sends, by the name of the script, and what both keys then hold, with their TTLs.
# TOKEN, ID and OTHER stand in place of what is random. The server's clock stands at 2000-01-01 00:00:00 UTC.
# Kept by "go test ./legacy -run Vectors -update".
`

// The bytes of the commands and of both keys are pinned: getsetlock clients of
// other versions and languages take the same locks.
func TestHardenedVectorsArePinned(t *testing.T) {
	out := vectorsHeader
	for _, d := range []dialect.Dialect{dialect.Jedis(), dialect.JedisUUID(), dialect.RedisPy(),
		dialect.Kdyby(), dialect.Machinery(), dialect.Gorlock(), dialect.SetDel()} {
		d.KeyEncoding, d.ValueEncoding = dialect.Plain, dialect.Plain
		out += vectorsOf(t, d)
		if d.Name == dialect.Jedis().Name {
			d.ValueEncoding = dialect.JDK
			out += vectorsOf(t, d)
			d.ValueEncoding = dialect.JSON
			out += vectorsOf(t, d)
		}
	}
	golden.Check(t, "testdata/vectors.txt", out) // what -update changes there is the protocol
}

// What an attempt that took nothing has drawn.
var (
	otherToken = regexp.MustCompile(`(["' ])[\w-]{22}(["' ])`)
	otherID    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
)

// pen writes down the commands of one backend in a bubble.
type pen struct {
	*testing.T
	w       *redistest.World
	wire    *redistest.Wire
	b       *legacy.Backend
	random  []string // pairs of random text and its name
	scripts map[string]string
	out     string
}

// vectorsOf writes down all that a hardened backend of the dialect does to a
// key.
func vectorsOf(t *testing.T, d dialect.Dialect) (out string) {
	scenes := []struct {
		name string
		play func(*pen)
	}{
		{"life", (*pen).life}, {"polite release", (*pen).polite}, {"takeover", (*pen).takeover},
		{"loss", (*pen).loss}, {"forced by the bytes", (*pen).forced},
		{"forced by the token", (*pen).forcedToken},
	}
	scripts := map[string]string{}
	for _, s := range scenes {
		synctest.Test(t, func(t *testing.T) {
			w := redistest.Bubble(t)
			p := &pen{T: t, w: w, wire: w.Wire(), scripts: scripts}
			b, err := legacy.New(p.wire.Pool(), legacy.Config{Dialect: d, Clock: w.Clock(redistest.Skew{}),
				Terms: dialect.Terms{Lease: lease, Behind: time.Second}})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			p.b = b
			p.out = fmt.Sprintf("\n%s, %v values: %s\n", d.Name, d.ValueEncoding, s.name)
			s.play(p)
			out += p.out
		})
	}
	return out
}

func (p *pen) take() backend.Grant {
	p.Helper()
	g, err := p.b.Contract().Try(bg, "k", ttl)
	if err != nil {
		p.Fatal(err)
	}
	p.random = append(p.random, g.Token(), "TOKEN")
	if id, _, ok := strings.Cut(p.get("k"), ":"); ok {
		p.random = append(p.random, id, "ID")
	}
	return g
}

func (p *pen) get(key string) string { p.w.ServerNow(); v, _ := p.w.Mini.Get(key); return v }

// said writes down what was sent and what both keys hold.
func (p *pen) said(what string, err error) {
	named := strings.NewReplacer(p.random...)
	plain := func(text string) string {
		text = otherID.ReplaceAllString(named.Replace(text), "OTHER ID")
		return otherToken.ReplaceAllString(text, "${1}OTHER$2")
	}
	for _, c := range p.wire.Sent() {
		if c.Is("EVAL") {
			name, _, _ := strings.Cut(strings.TrimPrefix(c[1], "-- "), ":")
			p.scripts[fmt.Sprintf("%x", sha1.Sum([]byte(c[1])))] = name
		}
	}
	for _, c := range p.wire.Sent() {
		if c.Is("EVALSHA") {
			p.out += plain(fmt.Sprintf("%s: %s %q\n", what, p.scripts[c[1]], []string(c[2:])))
		}
	}
	if err != nil {
		p.out += fmt.Sprintf("  %v\n", plain(err.Error()))
	}
	p.out += plain(fmt.Sprintf("  L %q %v, M %q %v\n", p.get("k"), p.w.Mini.TTL("k"), p.get(keyM),
		p.w.Mini.TTL(keyM)))
	p.wire.Forget()
}

func (p *pen) life() {
	g := p.take()
	p.said("acquire", nil)
	p.w.Pass(time.Second)
	_, err := g.Extend(bg, ttl)
	p.said("renew", err)
	p.said("release", g.Release(bg))
}

func (p *pen) polite() {
	if p.b.Dialect().NeverReleases() {
		return
	}
	g := p.take()
	p.wire.Forget()
	p.said("polite release", g.(backend.Yielder).ReleaseTo(bg, 145*time.Millisecond))
	_, err := p.b.Contract().Try(bg, "k", ttl)
	p.said("acquire", err)
}

func (p *pen) takeover() {
	d := p.b.Dialect()
	if !d.HasTakeover() {
		return
	}
	id := d.NewID([16]byte{1})
	old, err := d.Stamp(p.w.ServerNow().Add(-2*lease), lease, id)
	if err == nil {
		old, err = d.EncodeValue(old)
	}
	if err != nil {
		p.Fatal(err)
	}
	p.w.Mini.Set("k", old)
	p.take()
	p.said("acquire", nil)
}

func (p *pen) loss() {
	g := p.take()
	p.wire.Forget()
	p.w.Mini.Set("k", "1")
	_, err := g.Extend(bg, ttl)
	p.said("renew", err)
	p.said("release", g.Release(bg))
}

func (p *pen) forced() {
	p.take()
	p.wire.Forget()
	_, err := p.b.CompareAndDelete(bg, "k", p.get("k"))
	p.said("delete", err)
}

func (p *pen) forcedToken() {
	g := p.take()
	p.wire.Forget()
	_, err := p.b.CompareAndDelete(bg, "k", g.Token())
	p.said("delete", err)
}
