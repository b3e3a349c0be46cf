// Package release tests what is handed on: the container image, the module as
// go install sees it, the releaser's configuration and the forms of a public
// host.
package release

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// step is one instruction of a Dockerfile: its word, its flags and the rest.
type step struct {
	word  string
	flags []string
	rest  string
}

// stage is a stage of a Dockerfile, with what it is built from.
type stage struct {
	name, from string
	steps      []step
}

// stages reads a Dockerfile. It understands comments, continued lines, flags
// and names of stages, and no heredocs.
func stages(text string) ([]stage, error) {
	var all []stage
	for _, line := range lines(text) {
		words := strings.Fields(line)
		s := step{word: words[0]}
		rest := words[1:]
		for len(rest) > 0 && strings.HasPrefix(rest[0], "--") {
			s.flags, rest = append(s.flags, rest[0]), rest[1:]
		}
		s.rest = strings.Join(rest, " ")
		switch {
		case s.word == "FROM" && len(rest) > 0:
			st := stage{from: rest[0]}
			if len(rest) == 3 {
				st.name = rest[2]
			}
			all = append(all, st)
		case len(all) == 0:
			return nil, fmt.Errorf("%q comes before FROM", line)
		default:
			last := &all[len(all)-1]
			last.steps = append(last.steps, s)
		}
	}
	return all, nil
}

// lines are a Dockerfile's instructions, without comments and each on one line.
func lines(text string) []string {
	var all []string
	open := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if part, ok := strings.CutSuffix(line, `\`); ok {
			open += part + " "
			continue
		}
		all = append(all, open+line)
		open = ""
	}
	return all
}

// setting is the last value of an instruction in a stage and in those that it
// is built from.
func setting(all []stage, name, word string) string {
	i := slices.IndexFunc(all, func(s stage) bool { return s.name == name })
	if i < 0 {
		return ""
	}
	for _, s := range slices.Backward(all[i].steps) {
		if s.word == word {
			return s.rest
		}
	}
	return setting(all, all[i].from, word)
}

// list reads the exec form of ENTRYPOINT and CMD.
func list(text string) ([]string, error) {
	var words []string
	err := json.Unmarshal([]byte(text), &words)
	return words, err
}

// ignored tells whether a .dockerignore without exceptions leaves a file out.
func ignored(patterns []string, name string) bool {
	for _, p := range patterns {
		if p, ok := strings.CutPrefix(p, "**/"); ok {
			for part := range strings.SplitSeq(name, "/") {
				if m, _ := path.Match(p, part); m {
					return true
				}
			}
		}
		first, _, _ := strings.Cut(name, "/")
		if m, _ := path.Match(p, first); m {
			return true
		}
	}
	return false
}

func image(t *testing.T) []stage {
	t.Helper()
	all, err := stages(read(t, root+"/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImageStartsTheCommandAsOrdinaryUser(t *testing.T) {
	all := image(t)
	for _, name := range []string{"released", ""} {
		entry, err := list(setting(all, name, "ENTRYPOINT"))
		if err != nil || !slices.Equal(entry, []string{"/usr/local/bin/getsetlock"}) {
			t.Errorf("stage %q: entry point %q, %v", name, entry, err)
		}
		// Kubernetes checks runAsNonRoot by number.
		if user := setting(all, name, "USER"); user != "65532:65532" {
			t.Errorf("stage %q: user %q", name, user)
		}
	}
	if last := all[len(all)-1]; last.name != "" {
		t.Errorf("the stage that is built by default is %q", last.name)
	}
}

func TestImageIsBuiltByTheModulesGo(t *testing.T) {
	var version string
	for line := range strings.Lines(read(t, root+"/go.mod")) {
		if v, ok := strings.CutPrefix(line, "go "); ok {
			version = strings.Join(strings.SplitN(strings.TrimSpace(v), ".", 3)[:2], ".")
		}
	}
	if from := image(t)[0].from; from != "golang:"+version+"-bookworm" {
		t.Errorf("the image is built by %q, and go.mod asks for Go %s", from, version)
	}
}

func TestDockerignorePatternsMatchLikeDockers(t *testing.T) {
	patterns := []string{".*", "docs", "**/*_test.go", "**/testdata"}
	for name, want := range map[string]bool{
		".git/config": true, "docs/a.md": true, "lock/a_test.go": true, "a_test.go": true,
		"modern/testdata/vectors/wire.txt": true, "lock/docs/a.go": false, "lock/lock.go": false,
	} {
		if got := ignored(patterns, name); got != want {
			t.Errorf("%s: ignored %t, want %t", name, got, want)
		}
	}
}
