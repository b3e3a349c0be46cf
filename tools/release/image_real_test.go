//go:build real && linux

package release

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

const (
	testVersion = "v0.0.0-test"
	// mostBytes is how large an image may be.
	mostBytes = 20_000_000
)

// box is a stage that was built: a folder that stands for its root, and what
// its instructions have set.
type box struct {
	root, dir string
	args      []string // as NAME=VALUE
	machine   bool     // the base image is Go's, for which this machine stands
}

// builder executes the instructions of a Dockerfile in folders.
type builder struct {
	t       *testing.T
	context string // the folder that COPY reads without --from
	ignore  []string
	built   map[string]*box
}

func (b *builder) stage(s stage) *box {
	b.t.Helper()
	x := &box{root: b.t.TempDir(), dir: "/"}
	switch base := b.built[s.from]; {
	case base != nil:
		x.machine, x.dir = base.machine, base.dir
		b.copyTree(base.root, x.root, nil)
	case s.from != "scratch":
		x.machine = true
	}
	for _, step := range s.steps {
		b.step(x, step)
	}
	b.built[s.name] = x
	return x
}

// given are the arguments of a build for this machine.
var given = map[string]string{
	"TARGETOS": "linux", "TARGETARCH": runtime.GOARCH,
	"TARGETPLATFORM": "linux/" + runtime.GOARCH, "VERSION": testVersion,
}

func (b *builder) step(x *box, s step) {
	b.t.Helper()
	switch s.word {
	case "ARG":
		name, value, _ := strings.Cut(s.rest, "=")
		if v, ok := given[name]; ok {
			value = v
		}
		x.args = append(x.args, name+"="+value)
	case "WORKDIR":
		x.dir = s.rest
	case "COPY":
		b.copy(x, s)
	case "RUN":
		if !x.machine {
			b.t.Fatalf("an image without a shell can't run %q", s.rest)
		}
		cmd := exec.Command("sh", "-ec", s.rest)
		cmd.Dir = filepath.Join(x.root, x.dir)
		cmd.Env = append(os.Environ(), append(x.args, "GOFLAGS=")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.t.Fatalf("RUN %s: %v\n%s", s.rest, err, out)
		}
	case "USER", "ENTRYPOINT":
	default:
		b.t.Fatalf("this test doesn't know %s", s.word)
	}
}

// copy executes COPY. A folder's contents are copied, as Docker does.
func (b *builder) copy(x *box, s step) {
	b.t.Helper()
	words := strings.Fields(os.Expand(s.rest, func(name string) string {
		for _, a := range x.args {
			if v, ok := strings.CutPrefix(a, name+"="); ok {
				return v
			}
		}
		b.t.Errorf("COPY %s: no ARG %s", s.rest, name)
		return ""
	}))
	to := words[len(words)-1]
	if !strings.HasPrefix(to, "/") {
		to = filepath.Join(x.dir, to) + strings.TrimPrefix(to, ".")
	}
	for _, from := range words[:len(words)-1] {
		source, ignore := filepath.Join(b.context, from), b.ignore
		for _, f := range s.flags {
			name, ok := strings.CutPrefix(f, "--from=")
			if !ok || b.built[name] == nil {
				b.t.Fatalf("COPY %s: there is no stage %s before it", s.rest, f)
			}
			source, ignore = filepath.Join(b.built[name].root, from), nil
			if _, err := os.Stat(source); err != nil && b.built[name].machine {
				source = from
			}
		}
		info, err := os.Stat(source)
		if err != nil {
			b.t.Fatalf("COPY %s: %v", s.rest, err)
		}
		target := filepath.Join(x.root, to)
		switch {
		case info.IsDir():
			b.copyTree(source, target, ignore)
			continue
		case strings.HasSuffix(to, "/"):
			target = filepath.Join(target, filepath.Base(from))
		}
		b.copyFile(source, target, info.Mode())
	}
}

func (b *builder) copyFile(from, to string, mode fs.FileMode) {
	b.t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, text, mode.Perm())
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *builder) copyTree(from, to string, ignore []string) {
	b.t.Helper()
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		switch {
		case err != nil || below == ".":
			return err
		case ignored(ignore, filepath.ToSlash(below)) && d.IsDir():
			return fs.SkipDir
		case ignored(ignore, filepath.ToSlash(below)) || d.IsDir():
			return nil
		}
		info, err := d.Info()
		if err == nil {
			b.copyFile(name, filepath.Join(to, below), info.Mode())
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// container runs the image's entry point with arguments, and returns what it
// printed. The container shares the machine's network.
type container func(args ...string) (string, error)

// engine returns docker or podman if one of them works here and has Go's image
// or can fetch it, and why not otherwise.
func engine(base string) (program, why string) {
	for _, name := range []string{"docker", "podman"} {
		if out, err := exec.Command(name, "info").CombinedOutput(); err != nil {
			why += fmt.Sprintf("%s info: %v %s; ", name, err, lastLine(out))
			continue
		}
		if exec.Command(name, "image", "inspect", base).Run() == nil {
			return name, ""
		}
		out, err := exec.Command(name, "pull", base).CombinedOutput()
		if err == nil {
			return name, ""
		}
		why += fmt.Sprintf("%s pull %s: %v %s; ", name, base, err, lastLine(out))
	}
	return "", strings.TrimSuffix(why, "; ")
}

func lastLine(out []byte) string {
	all := strings.Split(strings.TrimSpace(string(out)), "\n")
	return all[len(all)-1]
}

// byEngine builds the image with docker or podman, and copies its files into a
// folder.
func byEngine(t *testing.T, program string) (files string, start container) {
	t.Helper()
	const name = "getsetlock-image-test"
	do := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(program, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(lastLine(out))
	}
	do("build", "--build-arg", "VERSION="+testVersion, "-t", name, root)
	t.Cleanup(func() { _ = exec.Command(program, "rmi", "-f", name).Run() })
	id := do("create", name)
	t.Cleanup(func() { _ = exec.Command(program, "rm", "-f", id).Run() })
	files = t.TempDir()
	if err := os.Mkdir(filepath.Join(files, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	do("cp", id+":/usr/.", filepath.Join(files, "usr"))
	do("cp", id+":/etc/ssl/.", filepath.Join(files, "etc", "ssl"))
	return files, func(args ...string) (string, error) {
		return outputOf(exec.Command(program,
			append([]string{"run", "--rm", "--network", "host", name}, args...)...))
	}
}

func outputOf(cmd *exec.Cmd) (string, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs.String())
	}
	return out.String(), err
}

// byHand executes the Dockerfile's instructions in folders. Its containers run
// in a root folder and a namespace of processes of their own, as PID 1 and as
// the image's user.
func byHand(t *testing.T, all []stage) (files string, start container) {
	t.Helper()
	b := &builder{t: t, context: root, built: map[string]*box{}}
	b.ignore = lines(read(t, root+"/.dockerignore"))
	var final *box
	for _, s := range all {
		if s.name != "released" {
			final = b.stage(s)
		}
	}
	// goreleaser's context holds nothing but programs. Its image has the same
	// files.
	b.context, b.ignore = t.TempDir(), nil
	program, err := os.Stat(filepath.Join(final.root, "usr/local/bin/getsetlock"))
	if err != nil {
		t.Fatal(err)
	}
	b.copyFile(filepath.Join(final.root, "usr/local/bin/getsetlock"),
		filepath.Join(b.context, "linux", runtime.GOARCH, "getsetlock"), program.Mode())
	for _, s := range all {
		if s.name == "released" {
			if got, want := listing(t, b.stage(s).root), listing(t, final.root); !slices.Equal(got, want) {
				t.Errorf("the released image has %q, the built one %q", got, want)
			}
		}
	}
	if err := os.Chmod(final.root, 0o755); err != nil {
		t.Fatal(err)
	}
	entry, err := list(setting(all, "", "ENTRYPOINT"))
	if err != nil {
		t.Fatal(err)
	}
	return final.root, func(args ...string) (string, error) {
		return confined(t, final.root, append(slices.Clone(entry), args...))
	}
}

func listing(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(name, folder))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// confined runs a command that sees only the folder, as user 65532 and PID 1,
// and returns what it printed. Root takes that user's number. Any other user
// keeps their number outside of a namespace of users, in which it is 65532. In
// a container, even root may not make a namespace of processes.
func confined(t *testing.T, folder string, words []string) (string, error) {
	t.Helper()
	ways := []*syscall.SysProcAttr{{
		Chroot: folder, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 65532, HostID: os.Getgid(), Size: 1}},
	}}
	if os.Getuid() == 0 {
		user := &syscall.Credential{Uid: 65532, Gid: 65532}
		ways = []*syscall.SysProcAttr{
			{Chroot: folder, Cloneflags: syscall.CLONE_NEWPID, Credential: user},
			{Chroot: folder, Credential: user},
		}
	}
	for _, way := range ways {
		out, err := run(words, "/", way)
		if !errors.Is(err, syscall.EPERM) {
			return out, err
		}
		t.Logf("this machine refuses %q as %+v", words, *way)
	}
	if os.Getuid() == 0 {
		t.Fatal("root may not leave its own rights")
	}
	words[0] = filepath.Join(folder, words[0])
	return run(words, folder, nil)
}

func run(words []string, dir string, way *syscall.SysProcAttr) (string, error) {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.SysProcAttr = dir, way
	cmd.Env = []string{"PATH=/usr/local/bin", "HOME=/"}
	return outputOf(cmd)
}

// TestImageIsSmallAndStaticAndTakesALock builds the Dockerfile by an engine
// where one works, and executes its lines where none does.
func TestImageIsSmallAndStaticAndTakesALock(t *testing.T) {
	all := image(t)
	var files string
	var start container
	if program, why := engine(all[0].from); program != "" {
		t.Log("built by", program)
		files, start = byEngine(t, program)
	} else {
		t.Log("the lines of the Dockerfile were executed in a folder, because no engine works:", why)
		files, start = byHand(t, all)
	}
	want := []string{"/etc/ssl/certs/ca-certificates.crt", "/usr/local/bin/getsetlock"}
	if got := listing(t, files); !slices.Equal(got, want) {
		t.Errorf("the image has %q, want %q", got, want)
	}
	size := int64(0)
	for _, name := range want {
		info, err := os.Stat(filepath.Join(files, name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size >= mostBytes {
		t.Errorf("the image has %d bytes, and may have %d", size, mostBytes)
	}
	static(t, filepath.Join(files, want[1]))
	if out, err := start("version"); err != nil || !strings.HasPrefix(out, "getsetlock "+testVersion+",") {
		t.Errorf("version: %q, %v", out, err)
	}
	s := redistest.Real(t, redistest.Options{})
	out, err := start("run", "--redis", s.URL(), "nightly", "--", "/usr/local/bin/getsetlock", "ls",
		"--redis", s.URL())
	if err != nil || !strings.Contains(out, "nightly") || !strings.Contains(out, "held") {
		t.Errorf("the job of run lists no held lock: %q, %v", out, err)
	}
	if n := s.Do("EXISTS", "nightly"); n != int64(0) {
		t.Errorf("the lock is left: %v", n)
	}
	jobImage(t, s.URL(), filepath.Join(files, "usr/local/bin"))
}

// static fails the test if a program needs a file of its image to start.
func static(t *testing.T, name string) {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program needs an interpreter, so it isn't static")
		}
	}
	if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("the program needs libraries: %q, %v", libs, err)
	}
}

// jobImage follows the Dockerfile of a job's image that the documents show. It
// runs the entry point with the copied command and a job of one line.
func jobImage(t *testing.T, url, bin string) {
	t.Helper()
	text := read(t, root+"/Dockerfile")
	_, page, ok := strings.Cut(read(t, root+"/docs/release.md"), "```dockerfile\n")
	page, _, closed := strings.Cut(page, "```")
	if !ok || !closed {
		t.Fatal("docs/release.md shows no Dockerfile")
	}
	for _, line := range lines(page) {
		if !strings.Contains(text, "#   "+line+"\n") {
			t.Errorf("the comment of the Dockerfile lacks what docs/release.md shows: %s", line)
		}
	}
	job, err := stages(page)
	if err != nil {
		t.Fatal(err)
	}
	copied := job[0].steps[0]
	if copied.word != "COPY" || copied.rest != "/usr/local/bin/getsetlock /usr/local/bin/" ||
		!strings.HasPrefix(strings.Join(copied.flags, ""), "--from=ghcr.io/getsetlock/getsetlock:v") {
		t.Errorf("a job's image copies by %+v", copied)
	}
	words := make([]string, 0, 8)
	for _, word := range []string{"ENTRYPOINT", "CMD"} {
		more, err := list(setting(job, "", word))
		if err != nil || len(more) == 0 {
			t.Fatalf("a job's %s: %v", word, err)
		}
		words = append(words, more...)
	}
	jobs := t.TempDir()
	script := "#!/bin/sh\necho \"$GETSETLOCK_KEY is mine\"\n"
	if err := os.WriteFile(filepath.Join(jobs, words[len(words)-1]), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, words[0]), words[1:]...)
	cmd.Env = []string{"PATH=" + jobs + ":" + bin + ":/usr/bin:/bin", "GETSETLOCK_REDIS=" + url, "HOME=/"}
	if out, err := outputOf(cmd); err != nil || out != "nightly is mine\n" {
		t.Errorf("a job's image: %q, %v", out, err)
	}
}
