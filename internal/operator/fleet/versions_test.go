// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/migrate"
)

// reread reads a text of the registry and writes it anew, by the heading under
// which the vectors have it.
var reread = map[string]func(string) (string, error){
	"records": func(text string) (string, error) {
		r, err := migrate.ParseRecord(text)
		return r.String(), err
	},
	"members": func(text string) (string, error) {
		m, err := migrate.ParseMember(text)
		return m.String(), err
	},
	"the long gone": func(text string) (string, error) {
		g, err := record.ParseGone(text)
		return g.String(), err
	},
}

// TestRegistryOfOtherVersionsIsReadOrRefused reads the vectors of this version,
// and those that each release has put into proof/testdata/released, as texts
// that another program left. A text of this wire version is read without loss.
// One of another version is refused by name, so that nothing acts on half of
// it. So is a sighting.
func TestRegistryOfOtherVersionsIsReadOrRefused(t *testing.T) {
	released, err := filepath.Glob("../../../proof/testdata/released/*/registry.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(released, registryVectors) {
		pinned, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n, heading := 0, ""
		for line := range strings.Lines(string(pinned)) {
			line = strings.TrimSuffix(line, "\n")
			if words, ok := strings.CutPrefix(line, "# "); ok {
				heading = words
			} else if read := reread[heading]; read != nil && line != "" {
				n++
				rereadOrRefused(t, line, read)
			}
		}
		if n < 9 {
			t.Errorf("%s has only %d texts", name, n)
		}
	}
	for text, want := range map[string]error{`{"format":"gsl-seen/1"}`: record.ErrOlder,
		`{"format":"gsl-seen/3","later":1}`: record.ErrNewer, `{}`: record.ErrNewer, `x`: record.ErrForm,
		`{"format":"gsl-seen/2","later":1}`: record.ErrForm, `{"format":"gsl-seen/2"}}`: record.ErrForm} {
		if _, err := parseSighting(text); !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func rereadOrRefused(t *testing.T, text string, read func(string) (string, error)) {
	t.Helper()
	version, rest, _ := strings.Cut(text, " ")
	if version == record.Version {
		if got, err := read(text); err != nil || got != text {
			t.Errorf("%q was read as %q, %v", text, got, err)
		}
	} else if _, err := read(text); !errors.Is(err, record.ErrOlder) {
		t.Errorf("%q: %v", text, err)
	}
	for changed, want := range map[string]error{
		"gsl/2 " + rest: record.ErrOlder, "gsl/4 " + rest: record.ErrNewer,
		record.Version + " " + rest + " later=1": record.ErrForm,
	} {
		if got, err := read(changed); !errors.Is(err, want) {
			t.Errorf("%q was read as %q, %v; want %v", changed, got, err, want)
		}
	}
}
