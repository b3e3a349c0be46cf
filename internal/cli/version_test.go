package cli

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionSaysWhatTheBinaryWasBuiltFrom(t *testing.T) {
	v := versionOf(&debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.time", Value: "2026-11-20T12:00:00Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	})
	if v.Version != "v1.2.3" || v.source() != " (0123456789ab, modified)" || *v.Time != "2026-11-20T12:00:00Z" {
		t.Errorf("%+v%s", v, v.source())
	}
	if v := versionOf(nil); v.Version != "unknown" || v.source() != "" || v.Revision != nil {
		t.Errorf("without build information: %+v", v)
	}
}

func TestVersionIsPrintedForPeopleAndPrograms(t *testing.T) {
	s := newStage(t)
	if got := s.run("version"); got.code != 0 || !strings.HasPrefix(got.out, "getsetlock ") || strings.Count(got.out, "\n") != 1 {
		t.Errorf("%+v", got)
	}
	var v versionAnswer
	if err := json.Unmarshal([]byte(s.run("version", "--json").out), &v); err != nil || v.Schema != "getsetlock.version/1" {
		t.Errorf("%v %+v", err, v)
	}
}
