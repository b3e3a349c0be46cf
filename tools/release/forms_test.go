package release

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// form is an issue form of a public host.
type form struct {
	Name, Description string
	Labels            []string
	Body              []struct {
		Type, ID   string
		Attributes struct {
			Label, Description, Render, Value string
			Options                           []string
		}
		Validations struct{ Required bool }
	}
}

func TestIssueFormsAskForTheVersion(t *testing.T) {
	for _, name := range []string{"bug.yml", "lost-lock.yml", "feature.yml"} {
		var f form
		parse(t, ".github/ISSUE_TEMPLATE/"+name, &f)
		if f.Name == "" || f.Description == "" || len(f.Labels) == 0 {
			t.Errorf("%s: %+v", name, f)
		}
		var ids, required []string
		for _, q := range f.Body {
			switch {
			case q.Type == "markdown" && q.Attributes.Value != "":
				continue
			case !slices.Contains([]string{"textarea", "dropdown", "input"}, q.Type):
				t.Errorf("%s: a question of type %q", name, q.Type)
			case (q.Type == "dropdown") != (len(q.Attributes.Options) > 0):
				t.Errorf("%s, %s: options %q", name, q.ID, q.Attributes.Options)
			}
			if q.ID == "" || q.Attributes.Label == "" || slices.Contains(ids, q.ID) {
				t.Errorf("%s: a question lacks its id or label, or shares it: %+v", name, q)
			}
			if ids = append(ids, q.ID); q.Validations.Required {
				required = append(required, q.ID)
			}
		}
		if len(required) == 0 || name != "feature.yml" && !slices.Contains(required, "version") {
			t.Errorf("%s requires %q", name, required)
		}
	}
	var config struct {
		Blank bool                                `yaml:"blank_issues_enabled"`
		Links []struct{ Name, URL, About string } `yaml:"contact_links"`
	}
	parse(t, ".github/ISSUE_TEMPLATE/config.yml", &config)
	if len(config.Links) == 0 {
		t.Error("config.yml has no links")
	}
}

// command is a command in a form or page: getsetlock and its verb.
var command = regexp.MustCompile("`getsetlock ([a-z]+)((?: --[a-z-]+(?: [\\w.]+)?)*)`")

// TestFormsNameVerbsAndFlagsThatExist looks for each verb and flag in
// docs/command.md, which tests compare with the command.
func TestFormsNameVerbsAndFlagsThatExist(t *testing.T) {
	page := read(t, root+"/docs/command.md")
	n := 0
	for _, name := range pagesHere(t) {
		for _, m := range command.FindAllStringSubmatch(read(t, name), -1) {
			n++
			if !strings.Contains(page, "\n## "+m[1]+"\n") {
				t.Errorf("%s names the verb %s, which docs/command.md lacks", name, m[1])
			}
			for word := range strings.FieldsSeq(m[2]) {
				if strings.HasPrefix(word, "--") && !strings.Contains(page, "`"+word) {
					t.Errorf("%s names the flag %s, which docs/command.md lacks", name, word)
				}
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d commands in the forms", n)
	}
}

// pagesHere are the pages and forms of which these tests take care.
func pagesHere(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(root + "/.github/ISSUE_TEMPLATE/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	return append(names, root+"/SECURITY.md", root+"/.github/PULL_REQUEST_TEMPLATE.md",
		root+"/docs/release.md", root+"/docs/stability.md")
}

// link is a relative link of a page.
var link = regexp.MustCompile(`\]\(([^):#]*)(#[^)]+)?\)`)

func TestLinksOfHandedOnPagesLeadSomewhere(t *testing.T) {
	for _, name := range pagesHere(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			target := name
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(name), m[1])
			}
			text, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr == nil && info.IsDir() {
				continue
			}
			if err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if m[2] != "" && !slices.Contains(anchors(string(text)), m[2]) {
				t.Errorf("%s links to %s%s, and the page has no such heading", name, m[1], m[2])
			}
		}
	}
}

// anchors are the links to a page's headings, as code hosts make them.
func anchors(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		words = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(words, "")
		all = append(all, "#"+strings.ReplaceAll(words, " ", "-"))
	}
	return all
}

// TestCIRunsWhatAMergeNeeds checks what actionlint does not: that nothing but
// .ci/run decides, that the job may only read, ends by itself, and takes every
// action by a commit.
func TestCIRunsWhatAMergeNeeds(t *testing.T) {
	text := read(t, root+"/.github/workflows/ci.yml")
	var w struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Timeout int `yaml:"timeout-minutes"`
			Steps   []struct{ Uses, Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
		t.Errorf("permissions %v", w.Permissions)
	}
	pinned := regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`)
	job := w.Jobs["check"]
	ran := false
	for _, s := range job.Steps {
		if s.Uses != "" && !pinned.MatchString(s.Uses) {
			t.Errorf("%s isn't pinned to a commit", s.Uses)
		}
		ran = ran || strings.TrimSpace(s.Run) == ".ci/run"
	}
	if !ran || job.Timeout == 0 {
		t.Errorf(".ci/run %t, timeout %d min", ran, job.Timeout)
	}
}
