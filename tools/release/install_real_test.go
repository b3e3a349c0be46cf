//go:build real && linux

package release

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/getsetlock/getsetlock"

// proxy writes a module proxy as a folder, with this checkout as the version
// testVersion of each published module. The go command checks the archives'
// form when it unpacks them.
func proxy(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	mods := published(t)
	for below, mod := range mods {
		publish(t, folder, below, mod)
	}
	return folder
}

// published returns the go.mod of each module of a release, by the module's
// folder, as scripts/release.sh edits them.
func published(t *testing.T) map[string]string {
	t.Helper()
	mods := map[string]string{"": read(t, root+"/go.mod")}
	c := newClone(t, changelog)
	nested := []string{"etcd", "zookeeper", "cmd/getsetlock/full"}
	for _, below := range nested {
		c.write(below+"/go.mod", read(t, filepath.Join(root, below, "go.mod")))
	}
	const tag = "v0.0.1-rc.1" // testVersion has no form of a release
	tags, err := c.run("scripts/release.sh", "require", tag)
	if want := strings.Join(nested, "/"+tag+"\n") + "/" + tag + "\n"; err != nil || tags != want {
		t.Fatalf("tags %q, %v", tags, err)
	}
	for _, below := range nested {
		mods[below] = strings.ReplaceAll(read(t, filepath.Join(c.folder, below, "go.mod")), tag, testVersion)
	}
	return mods
}

// publish adds one module to the folder of a proxy. below is its folder in the
// repository, and empty for the root.
func publish(t *testing.T, folder, below, mod string) {
	t.Helper()
	name := path.Join(module, below)
	at := filepath.Join(folder, name, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list":                testVersion + "\n",
		testVersion + ".info": `{"Version":"` + testVersion + `","Time":"2026-01-02T03:04:05Z"}`,
		testVersion + ".mod":  mod,
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(at, testVersion+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := pack(f, filepath.Join(root, below), name, mod); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// pack writes the archive of a module: its files without those of nested
// modules, of hidden folders and of folders that a build makes. mod is its
// go.mod.
func pack(w io.Writer, root, name, mod string) error {
	z := zip.NewWriter(w)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, file)
		if err != nil || below == "." {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(file, "go.mod"))
			if nested == nil || strings.HasPrefix(below, ".") || d.Name() == "target" ||
				slices.Contains([]string{"bin", "dist"}, below) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || below == ".git" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if below == "go.mod" {
			text = []byte(mod)
		}
		entry, err := z.Create(name + "@" + testVersion + "/" + filepath.ToSlash(below))
		if err == nil {
			_, err = entry.Write(text)
		}
		return err
	})
	if err != nil {
		return err
	}
	return z.Close()
}

// user is a person who has Go, and nothing of this module: the module cache is
// empty. Other modules come from what this machine has downloaded, and from its
// usual proxy if something is missing there.
type user struct {
	t           *testing.T
	home, cache string
	env         []string
}

func newUser(t *testing.T) *user {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	here := strings.Fields(string(out))
	u := &user{t: t, home: t.TempDir(), cache: t.TempDir()}
	// What was downloaded was checked against go.sum then, and the module under
	// test is in no database of sums.
	u.env = append(os.Environ(), "GOFLAGS=-mod=mod -modcacherw", "GOSUMDB=off", "GOTOOLCHAIN=local",
		"GOWORK=off", "CGO_ENABLED=0", "GOMODCACHE="+u.cache, "GOBIN="+u.home,
		fmt.Sprintf("GOPROXY=file://%s,file://%s/cache/download,%s", proxy(t), here[0], here[1]))
	return u
}

func (u *user) do(words ...string) string {
	u.t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = u.home, u.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// TestGoInstallFetchesAndBuildsTheCommand installs the command as a published
// module, by the line that the README shows.
func TestGoInstallFetchesAndBuildsTheCommand(t *testing.T) {
	u := newUser(t)
	u.do("go", "install", "-trimpath", module+"/cmd/getsetlock@latest")
	if out := u.do(filepath.Join(u.home, "getsetlock"), "version"); !strings.HasPrefix(out,
		"getsetlock "+testVersion+",") {
		t.Errorf("the installed command says %q", out)
	}
}

// installFull is what the small command names, see package backing of the
// command.
const installFull = "go install " + module + "/cmd/getsetlock/full/getsetlock@latest"

// TestGoInstallTakesTheFullCommand resolves the line that the small command
// names, without building it: go install refuses a module that replaces others.
func TestGoInstallTakesTheFullCommand(t *testing.T) {
	u := newUser(t)
	if !strings.Contains(read(t, root+"/cmd/getsetlock/internal/backing/address.go"), `"`+installFull+`"`) {
		t.Errorf("the command names another line than %s", installFull)
	}
	words := strings.Fields(installFull)
	u.do(append([]string{"go", "install", "-n"}, words[2:]...)...)
}

// forImporters are the modules that an importer of the locks links.
var forImporters = []string{"example.org/shop", module, "github.com/gomodule/redigo", "golang.org/x/sys"}

// TestImportersDoNotGetTheCommandsModules makes a module that imports the
// locks. What only the command needs is neither built nor downloaded for it,
// and its go.mod and go.sum do not name it. What the locks' tests need is in
// go.sum alone, since go mod tidy counts the tests of what is imported.
func TestImportersDoNotGetTheCommandsModules(t *testing.T) {
	u := newUser(t)
	const source = `package main

import (
	_ "` + module + `/legacy"
	_ "` + module + `/lock"
	_ "` + module + `/migrate"
	_ "` + module + `/modern"
	_ "` + module + `/redisconn"
)

func main() {}
`
	for name, text := range map[string]string{
		"main.go": source, "go.mod": "module example.org/shop\n\ngo 1.26\n",
	} {
		if err := os.WriteFile(filepath.Join(u.home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	u.do("go", "get", module+"@"+testVersion)
	u.do("go", "list", "-deps", "./...") // its first run prints what it downloads
	built := strings.Fields(u.do("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./..."))
	slices.Sort(built)
	if built = slices.Compact(built); !slices.Equal(built, forImporters) {
		t.Errorf("an importer builds %q, want %q", built, forImporters)
	}
	zips, err := filepath.Glob(filepath.Join(u.cache, "cache/download/*/*/*/@v/*.zip"))
	if err != nil || len(zips) != len(forImporters)-1 {
		t.Errorf("an importer downloads %q, %v", zips, err)
	}
	u.do("go", "mod", "tidy")
	for _, name := range []string{"go.mod", "go.sum"} {
		text := read(t, filepath.Join(u.home, name))
		for _, other := range []string{"cobra", "pflag", "progressbar", "go-pretty", "x/term"} {
			if strings.Contains(text, other) {
				t.Errorf("an importer's %s names %s, which only the command needs:\n%s", name, other, text)
			}
		}
	}
}
