package release

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// releaser is what .goreleaser.yaml may contain: the fields of schema version 2
// that this project uses. goreleaser itself takes minutes to build, so this
// test reads the file instead. A field that is not here is an error; look it up
// in goreleaser's schema before you add it.
type releaser struct {
	Version     int
	ProjectName string `yaml:"project_name"`
	Before      struct{ Hooks []string }
	Builds      []struct {
		ID, Main, Binary                  string
		Env, Flags, Ldflags, Goos, Goarch []string
		ModTimestamp                      string `yaml:"mod_timestamp"`
	}
	Archives []struct {
		IDs, Formats    []string
		FormatOverrides []struct {
			Goos    string
			Formats []string
		} `yaml:"format_overrides"`
		NameTemplate string `yaml:"name_template"`
		Files        []struct {
			Src, Dst    string
			StripParent bool `yaml:"strip_parent"`
		}
	}
	Checksum struct {
		NameTemplate string `yaml:"name_template"`
		Algorithm    string
	}
	Dockers []struct {
		ID, Dockerfile                      string
		IDs, Flags, Images, Tags, Platforms []string
		Labels                              map[string]string
	} `yaml:"dockers_v2"`
	Changelog struct{ Disable bool }
	Release   struct {
		GitHub     struct{ Owner, Name string } `yaml:"github"`
		Draft      bool
		Prerelease string
	}
	Snapshot struct {
		VersionTemplate string `yaml:"version_template"`
	}
}

// parse reads YAML into a form and fails the test for a field that the form
// lacks.
func parse(t *testing.T, name string, form any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(read(t, root+"/"+name)))
	d.KnownFields(true)
	if err := d.Decode(form); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// linker is the flag that gives the command its version.
const linker = "-X github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/smallverbs.linked="

// compiled are the systems for which the stage `other` of scripts/test.sh
// compiles, and Linux.
func compiled(t *testing.T) []string {
	t.Helper()
	m := regexp.MustCompile(`(?s)stage_other\(\) \{.*?for system in ([\w ]+);`).FindStringSubmatch(
		read(t, root+"/scripts/test.sh"))
	if m == nil {
		t.Fatal("scripts/test.sh has no stage other")
	}
	return append([]string{"linux"}, strings.Fields(m[1])...)
}

func TestReleaserBuildsForTheSystemsThatCICompiles(t *testing.T) {
	var r releaser
	parse(t, ".goreleaser.yaml", &r)
	if r.Version != 2 || len(r.Builds) != 1 || len(r.Archives) != 1 || len(r.Dockers) != 1 {
		t.Fatalf("%+v", r)
	}
	b := r.Builds[0]
	if want := compiled(t); !slices.Equal(b.Goos, want) {
		t.Errorf("goreleaser builds for %q, and CI compiles for %q", b.Goos, want)
	}
	if !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) ||
		!slices.Equal(b.Env, []string{"CGO_ENABLED=0"}) {
		t.Errorf("%+v", b)
	}
	info, err := os.Stat(filepath.Join(root, b.Main))
	if err != nil || !info.IsDir() || path.Base(b.Main) != b.Binary {
		t.Errorf("it builds %s as %s: %v", b.Main, b.Binary, err)
	}
	// A name that the linker does not find is no error to it.
	if flags := strings.Join(b.Ldflags, " "); !strings.Contains(flags, linker+"{{ .Tag }}") {
		t.Errorf("the linker is told %q, not the version", flags)
	}
	if !strings.Contains(read(t, root+"/Dockerfile"), linker+"$VERSION") {
		t.Error("the Dockerfile tells the linker no version")
	}
	source := read(t, root+"/cmd/getsetlock/internal/verbs/smallverbs/version.go")
	if !strings.Contains(source, "\nvar linked string\n") {
		t.Error("package smallverbs has no variable linked")
	}
}

func TestReleaserBuildsTheImagesReleasedStage(t *testing.T) {
	var r releaser
	parse(t, ".goreleaser.yaml", &r)
	d := r.Dockers[0]
	if !slices.Equal(d.Flags, []string{"--target=released"}) || setting(image(t), "released", "USER") == "" {
		t.Errorf("it builds %q by %q", d.Dockerfile, d.Flags)
	}
	if want := []string{"ghcr.io/getsetlock/getsetlock"}; !slices.Equal(d.Images, want) {
		t.Errorf("images %q, and the documents copy from %q", d.Images, want)
	}
	for _, p := range d.Platforms {
		if arch, ok := strings.CutPrefix(p, "linux/"); !ok || !slices.Contains(r.Builds[0].Goarch, arch) {
			t.Errorf("no build for the image's platform %s", p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Labels)) {
		if !strings.HasPrefix(name, "org.opencontainers.image.") {
			t.Errorf("label %s", name)
		}
	}
}
