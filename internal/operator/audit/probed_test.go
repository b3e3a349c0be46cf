// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/probe"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// crowded fills the server with keys for every line of a recorded probe.
func crowded(t *testing.T, w *redistest.World) {
	t.Helper()
	now := w.Now()
	w.Mini.Set("lock:a", stampOf(t, dialect.Jedis(), now, time.Minute))
	w.Mini.Set("lock:b", stampOf(t, dialect.Page(), now, time.Minute))
	w.Mini.Set("lock:c", stampOf(t, dialect.Jedis(), now.Add(-time.Hour), time.Minute))
	w.Mini.Set("lock:d", stampOf(t, dialect.Jedis(), now.Add(48*time.Hour), time.Minute))
	w.Mini.Set("lock:private", "a private text")
	w.Mini.HSet("lock:hash", "f", "v")
	w.Mini.Set("lock:large", strings.Repeat("x", 2000))
	owned, err := dialect.JedisUUID().Stamp(now, time.Minute, "01234567-89ab-4def-8123-456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	w.Mini.Set("uuid:1", owned)
	w.Mini.Set("uuid:2", owned)
	w.Mini.Set(`"lock:a"`, stampOf(t, dialect.Jedis(), now, time.Minute))
}

func probed(t *testing.T, w *redistest.World, cfg probe.Config) *probe.Result {
	t.Helper()
	cfg.Hurry = true
	got, err := probe.Run(t.Context(), w.Pool(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func findingOf(all []census.Finding, kind string) (census.Finding, bool) {
	i := slices.IndexFunc(all, func(f census.Finding) bool { return f.Kind == kind })
	if i < 0 {
		return census.Finding{}, false
	}
	return all[i], true
}

// recordOf returns the lines that a watch's record begins with for a probe.
func recordOf(t *testing.T, w *redistest.World, p *probe.Result, hash []byte) string {
	t.Helper()
	var out bytes.Buffer
	r := newRecorder(Config{Record: &out, Hash: hash})
	for _, o := range p.Observed() {
		r.event(o)
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	return out.String()
}

func TestReplayFindsWhatTheProbeFound(t *testing.T) {
	for name, cfg := range map[string]probe.Config{
		"a pattern":  {Match: "*:*", Dialects: []dialect.Dialect{dialect.Jedis()}, Lease: time.Minute},
		"no dialect": {Match: "*:*"},
		"all keys":   {},
	} {
		t.Run(name, func(t *testing.T) {
			w := redistest.New(t)
			crowded(t, w)
			live := probed(t, w, cfg)
			r, err := Replay(strings.NewReader(recordOf(t, w, live, nil)),
				Config{Config: census.Config{Dialects: cfg.Dialects, Lease: cfg.Lease}})
			if err != nil {
				t.Fatal(err)
			}
			again := r.Probe
			if !reflect.DeepEqual(again.Findings, live.Findings) ||
				!reflect.DeepEqual(again.Prefixes, live.Prefixes) || again.Keys != live.Keys {
				t.Errorf("live\n%+v\nagain\n%+v", live, again)
			}
			if !r.Evidence.From.IsZero() {
				t.Errorf("a probe is taken for a watch: %v", r.Evidence.From)
			}
			if cfg.Match == "" {
				return
			}
			for _, kind := range []string{
				"mixture", "unreadable", "type", "large", "shared_owner", "far", "two_names"} {
				if _, ok := findingOf(again.Findings, kind); !ok {
					t.Errorf("no finding %s among %+v", kind, again.Findings)
				}
			}
		})
	}
}

func TestHashedProbeHidesNamesAndFindsTheSame(t *testing.T) {
	w := redistest.New(t)
	crowded(t, w)
	live := probed(t, w, probe.Config{Match: "*:*"})
	text := recordOf(t, w, live, []byte("of the caller"))
	for _, secret := range []string{"lock:", "uuid:", "private", "01234567"} {
		if strings.Contains(text, secret) {
			t.Errorf("the record says %q:\n%s", secret, text)
		}
	}
	r, err := Replay(strings.NewReader(text), Config{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := func(all []census.Finding) map[string]int {
		out := map[string]int{}
		for _, f := range all {
			out[f.Kind]++
		}
		return out
	}
	if a, b := kinds(live.Findings), kinds(r.Probe.Findings); !reflect.DeepEqual(a, b) {
		t.Errorf("live %v, again %v", a, b)
	}
}

// The user may not list the keys, or the server's error quotes the command.
func TestReplayReportsARefusedProbe(t *testing.T) {
	for _, answer := range []string{
		"NOPERM this user has no permissions to run the 'scan' command",
		"ERR unknown command 'SCAN', with args beginning with: '0' 'MATCH' 'lock:*' "} {
		w := redistest.New(t)
		pool := w.FaultyPool(redistest.Rule{Command: "SCAN", Times: -1, Do: redistest.Answer(answer)})
		live, err := probe.Run(t.Context(), pool, probe.Config{Match: "lock:*"})
		if err == nil || !strings.Contains(live.Refused, answer[:20]) {
			t.Fatalf("%+v, %v", live, err)
		}
		for _, hash := range [][]byte{nil, []byte("of the caller")} {
			text := recordOf(t, w, live, hash)
			r, err := Replay(strings.NewReader(text), Config{})
			if err != nil {
				t.Fatal(err)
			}
			f, ok := findingOf(r.Probe.Findings, "right")
			if !ok || f.Severity != census.SeverityWarning || !strings.Contains(f.What, answer[:20]) {
				t.Errorf("%+v of\n%s", r.Probe, text)
			}
			if hash == nil && !reflect.DeepEqual(r.Probe.Findings, live.Findings) {
				t.Errorf("live %+v, again %+v", live.Findings, r.Probe.Findings)
			}
			if hash != nil && strings.Contains(text, "lock:") {
				t.Errorf("the record says the pattern:\n%s", text)
			}
		}
	}
}

func TestReplayNamesTheBrokenLineOfAProbe(t *testing.T) {
	keys := `keys {"keys":3,"denied":0,"lost":0,"replica":false,"all":false,"refused":"","twice":null}`
	prefix := `prefix {"prefix":"lock:","forms":[{"look":"stamp","unit":"ms","UUID":false,"encoding":"plain",` +
		`"dialects":["Jedis"],"also":null,"keys":2,"no_ttl":2,"expired":0,"far":0,"examples":["lock:a"],` +
		`"Value":"1770000060000"}],"types":{"hash":{"keys":1,"example":"lock:h"}},"large":null,"huge":0,"longest":0}`
	owner := `owner {"owner":"x","keys":["a","b"]}`
	replay := func(lines ...string) error {
		var text bytes.Buffer
		w, err := offset.NewObservedWriter(&text)
		for _, line := range lines {
			event, document, _ := strings.Cut(line, " ")
			err = errors.Join(err, w.Write(offset.Observed{At: time.Unix(1_770_000_000, 0).UTC(),
				Kind: offset.ObservedProbe, Event: event, Args: strings.Split(document, "|")}))
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = Replay(&text, Config{})
		return err
	}
	if err := replay(keys, prefix, owner); err != nil {
		t.Fatal(err)
	}
	other := func(line, from, to string) string {
		if !strings.Contains(line, from) {
			t.Fatalf("no %s in %s", from, line)
		}
		return strings.Replace(line, from, to, 1)
	}
	for _, bad := range [][]string{
		{prefix}, {keys, keys}, {keys, prefix, prefix}, {keys, owner, owner}, {keys, "more {}"},
		{keys, owner + "|{}"}, {other(keys, "3", "-3")}, {other(keys, "3", "03")},
		{other(keys, "lost", "Lost")},
		{keys, other(prefix, `"keys":2`, `"keys":0`)}, {keys, other(prefix, `["lock:a"]`, "[]")},
		{keys, other(prefix, `"keys":1`, `"keys":0`)}, {keys, other(prefix, `"huge":0`, `"huge":-1`)},
		{keys, other(owner, `,"b"`, "")}, {keys, owner + " "},
	} {
		var broken *offset.ObservedError
		if err := replay(bad...); !errors.As(err, &broken) || broken.Line != len(bad)+1 {
			t.Errorf("%s: %v", bad[len(bad)-1], err)
		}
	}
}
