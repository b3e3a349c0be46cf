// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
)

func TestVersionNamesTheSourceOfTheBinary(t *testing.T) {
	v := versionOf(&debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123"},
			{Key: "vcs.time", Value: "2026-11-20T12:00:00Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	}, nil)
	if v.Version != "v1.2.3" || v.source() != " (0123456789ab, modified)" ||
		*v.Time != "2026-11-20T12:00:00Z" {
		t.Errorf("%+v%s", v, v.source())
	}
	var printed strings.Builder
	v.Go, v.Platform = "go1.26.0", "linux/amd64"
	if err := (&out.Env{Stdout: &printed}).PrintJSON(v); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/version.json", printed.String())
	if v := versionOf(nil, nil); v.Version != "unknown" || v.source() != "" || v.Revision != nil {
		t.Errorf("without build information: %+v", v)
	}
}

// TestVersionIsTheLinkedOneIfThereIsOne checks what images are built with:
// -ldflags "-X …smallverbs.linked=VERSION".
func TestVersionIsTheLinkedOneIfThereIsOne(t *testing.T) {
	linked = "v1.2.4"
	defer func() { linked = "" }()
	for _, info := range []*debug.BuildInfo{nil, {Main: debug.Module{Version: "(devel)"}}} {
		if v := versionOf(info, nil); v.Version != "v1.2.4" {
			t.Errorf("%+v: version %q", info, v.Version)
		}
	}
}

func TestVersionIsPrintedForPeopleAndPrograms(t *testing.T) {
	s := clitest.NewStage(t)
	if got := s.Run("version"); got.Code != 0 || !strings.HasPrefix(got.Out, "getsetlock ") ||
		strings.Count(got.Out, "\n") != 1 {
		t.Errorf("%+v", got)
	}
	var v Version
	if err := json.Unmarshal([]byte(s.Run("version", "--json").Out), &v); err != nil ||
		v.Schema != "getsetlock.version/1" {
		t.Errorf("%v %+v", err, v)
	}
}

// The full command and the small one have the same name.
func TestVersionSaysWhichStoresTheProgramHas(t *testing.T) {
	s := clitest.NewStage(t)
	for _, c := range []struct{ end, stores string }{
		{", locks in Redis\n", `"stores": ["redis"]`},
		{", locks in Redis, Memory\n", `"stores": ["mem", "redis"]`},
	} {
		for _, verb := range []string{"version", "--version"} {
			if got := s.Run(verb); got.Code != 0 || !strings.HasSuffix(got.Out, c.end) {
				t.Errorf("%s: %+v, want it to end with %q", verb, got, c.end)
			}
		}
		said := strings.Join(strings.Fields(s.Run("version", "--json").Out), " ")
		said = strings.NewReplacer("[ ", "[", " ]", "]").Replace(said)
		if !strings.Contains(said, c.stores) {
			t.Errorf("%s, want %s in it", said, c.stores)
		}
		clitest.WithMemory(s)
	}
}
