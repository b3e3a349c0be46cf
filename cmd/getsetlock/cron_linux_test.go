// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	yaml "go.yaml.in/yaml/v3"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// block is a fenced block of the pages for cron and Kubernetes.
type block struct{ kind, name, text string }

var fence = regexp.MustCompile("(?ms)^```([a-z]+) ?([a-z.]*)\n(.*?)^```$")

func blocksOf(t *testing.T, kind string) []block {
	t.Helper()
	var found []block
	for _, name := range []string{"start/cron.md", "guide/kubernetes.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllStringSubmatch(string(page), -1) {
			if m[1] == kind {
				found = append(found, block{m[1], m[2], m[3]})
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("no page has a block of %s", kind)
	}
	return found
}

// desk is a folder with the commands of the page: getsetlock itself, and jobs
// that print their name and arguments.
type desk struct {
	t    *testing.T
	path string
	env  []string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, path: t.TempDir()}
	if err := os.Symlink(program, filepath.Join(d.path, "getsetlock")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report", "importer"} {
		text := "#!/bin/sh\necho " + name + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(d.path, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.env = environment("PATH="+d.path+":"+os.Getenv("PATH"), "GETSETLOCK_REDIS="+redistest.New(t).URL())
	return d
}

// does runs a command line and expects it to end well with that output.
func (d *desk) does(out string, args ...string) {
	d.t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	if args[0] == "getsetlock" {
		cmd.Path, cmd.Err = program, nil
	}
	cmd.Env, cmd.Stderr = d.env, &errs
	got, err := cmd.Output()
	if err != nil || string(got) != out || errs.Len() > 0 {
		d.t.Errorf("%q: %v, printed %q, want %q\n%s", args, err, got, out, &errs)
	}
}

func TestCrontabOfTheCronPageRuns(t *testing.T) {
	jobs := 0
	for _, line := range strings.Split(strings.TrimSpace(blocksOf(t, "crontab")[0].text), "\n") {
		if regexp.MustCompile(`^[A-Z_]+=\S+$`).MatchString(line) {
			continue
		}
		m := regexp.MustCompile(`^([-0-9*/,]+ ){5}(\S.*)$`).FindStringSubmatch(line)
		if m == nil || strings.Contains(line, "%") { // cron turns % into a new line
			t.Fatalf("no line of a crontab: %q", line)
		}
		d := newDesk(t)
		d.does("report --daily\n", "sh", "-c", m[2])
		d.does("", "sh", "-c", m[2]) // a host that comes late
		jobs++
	}
	if jobs != 1 {
		t.Errorf("%d jobs", jobs)
	}
}

// The page keeps passwords off command lines and out of crontabs.
func TestPasswordFileOfTheCronPageWorks(t *testing.T) {
	page, err := os.ReadFile("../../docs/start/cron.md")
	if err != nil {
		t.Fatal(err)
	}
	server := miniredis.RunT(t)
	server.RequireAuth("s3cret")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, with := range map[string]struct {
		env  string
		args []string
	}{
		"`--password-file /etc/getsetlock/password`": {"", []string{"--password-file", file}},
		"`GETSETLOCK_PASSWORD_FILE`":                 {"GETSETLOCK_PASSWORD_FILE=" + file, nil},
	} {
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/start/cron.md does not name %s", text)
		}
		d := newDesk(t)
		d.env = append(d.env, "GETSETLOCK_REDIS=redis://"+server.Addr(), with.env)
		d.does("report\n", slices.Concat([]string{"getsetlock", "run", "--wait", "0"}, with.args,
			[]string{"report", "--", filepath.Join(d.path, "report")})...)
	}
}

// A job's image takes the command from the released one, by one line that is on
// both pages.
func TestKubernetesPageCopiesTheCommandAsReleased(t *testing.T) {
	line := regexp.MustCompile(`(?m)^ *(COPY --from=.* /usr/local/bin/getsetlock .*)$`)
	var lines []string
	for _, name := range []string{"guide/kubernetes.md", "internals/release.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		m := line.FindSubmatch(page)
		if m == nil {
			t.Fatalf("docs/%s copies no command", name)
		}
		lines = append(lines, string(m[1]))
	}
	if lines[0] != lines[1] {
		t.Errorf("docs/guide/kubernetes.md has %q, docs/internals/release.md %q", lines[0], lines[1])
	}
}

func TestShellLinesOfTheCronPageRun(t *testing.T) {
	for _, b := range blocksOf(t, "sh") {
		d := newDesk(t)
		want := "report --daily\n"
		if strings.Contains(b.text, "VmHWM") {
			cmd := exec.Command("sh", "-c", b.text)
			cmd.Env = d.env
			out, err := cmd.Output()
			m := regexp.MustCompile(`^VmHWM:\s+([0-9]+) kB\n$`).FindSubmatch(out)
			if err != nil || m == nil {
				t.Fatalf("%v: %q", err, out)
			}
			kb, _ := strconv.Atoi(string(m[1]))
			if t.Logf("%d kB", kb); kb > 32<<10 {
				t.Errorf("%d kB, and the manifests ask for 32Mi", kb)
			}
			continue
		}
		d.does(want, "sh", "-ec", b.text)
	}
}

// The command of each container runs as it stands.
func TestManifestsOfTheKubernetesPageRun(t *testing.T) {
	type container struct {
		Command []string
		Env     []struct{ Name, Value string }
	}
	type pod struct {
		RestartPolicy string `yaml:"restartPolicy"`
		Containers    []container
	}
	type template struct{ Spec pod }
	type manifest struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Spec       struct {
			Schedule    string
			Policy      string `yaml:"concurrencyPolicy"`
			JobTemplate struct {
				Spec struct{ Template template }
			} `yaml:"jobTemplate"`
			Template template
		}
	}
	for i, b := range blocksOf(t, "yaml") {
		var m manifest
		dec := yaml.NewDecoder(strings.NewReader(b.text))
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		if err := dec.Decode(new(any)); err != io.EOF {
			t.Errorf("more than one document: %v", err)
		}
		kind, of, out := "CronJob", m.Spec.JobTemplate.Spec.Template.Spec, "report --daily\n"
		if i == 1 {
			kind, of, out = "Deployment", m.Spec.Template.Spec, "importer\n"
		}
		if m.Kind != kind || len(of.Containers) != 1 || i == 0 && (of.RestartPolicy != "Never" ||
			len(strings.Fields(m.Spec.Schedule)) != 5 || m.Spec.Policy != "Forbid") {
			t.Fatalf("%+v", m)
		}
		if !slices.ContainsFunc(of.Containers[0].Env, func(v struct{ Name, Value string }) bool {
			return v.Name == "GETSETLOCK_REDIS" && strings.HasPrefix(v.Value, "redis://")
		}) {
			t.Error("the manifest names no server")
		}
		newDesk(t).does(out, of.Containers[0].Command...)
	}
}

func TestUnitsOfTheCronPageAreValid(t *testing.T) {
	d := newDesk(t)
	var files []string
	for _, b := range blocksOf(t, "ini") {
		text := strings.ReplaceAll(b.text, "/usr/local/bin/", d.path+"/")
		section := ""
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			switch {
			case strings.HasPrefix(line, "["):
				section = line
			case line != "" && (section == "" || !regexp.MustCompile(`^[A-Z][A-Za-z]+=\S`).MatchString(line)):
				t.Errorf("%s: %q", b.name, line)
			}
			if start, ok := strings.CutPrefix(line, "ExecStart="); ok {
				d.does("report --daily\n", "sh", "-c", start)
			}
		}
		file := filepath.Join(d.path, b.name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if len(files) != 2 {
		t.Fatalf("units: %q", files)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the units were checked line by line")
		return
	}
	out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, files...)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), d.path) {
		t.Errorf("%v\n%s", err, out)
	}
}

// once starts the same command three times at once, each as PID 1 where that is
// allowed, and returns the sorted exit codes and all that was printed.
func once(t *testing.T, env []string, args ...string) (codes []int, printed string) {
	t.Helper()
	var cmds []*exec.Cmd
	var outs [3]bytes.Buffer
	for i := range outs {
		var cmd *exec.Cmd
		var err error
		for _, attr := range append(slices.Clone(namespaces), nil) {
			cmd = exec.Command(program, args...)
			cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = env, &outs[i], &outs[i], attr
			if err = cmd.Start(); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for i, cmd := range cmds {
		_ = cmd.Wait()
		codes = append(codes, cmd.ProcessState.ExitCode())
		printed += outs[i].String()
	}
	slices.Sort(codes)
	return codes, printed
}

// scheduleThrice checks what the page promises on the server at url.
func scheduleThrice(t *testing.T, url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ran")
	env := environment("GETSETLOCK_REDIS=" + url)
	for round, c := range []struct {
		flags []string
		code  int
		want  []int
	}{
		{[]string{"-q", "--busy-exit", "0"}, 0, []int{0, 0, 0}},
		{[]string{"-q", "--busy-exit", "0"}, 7, []int{0, 0, 7}},
		{[]string{"-q", "--busy-exit", "75"}, 124, []int{75, 75, 124}},
	} {
		script := "echo ran >>" + file + "; exit " + strconv.Itoa(c.code)
		key := "job" + strconv.Itoa(round)
		args := append(append([]string{"run"}, c.flags...), "--wait", "0", "--keep", "1h", key, "--",
			"sh", "-c", script)
		codes, printed := once(t, env, args...)
		if !slices.Equal(codes, c.want) || printed != "" {
			t.Errorf("round %d: codes %v, want %v; printed %q", round, codes, c.want, printed)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != strings.Repeat("ran\n", round+1) {
			t.Errorf("round %d: %v, ran %q", round, err, text)
		}
	}
}

func TestOneOfThreeScheduledCommandsRuns(t *testing.T) {
	scheduleThrice(t, redistest.New(t).URL())
}

// The script of docs/reference/command.md holds the lock while its steps run.
func TestHoldScriptOfTheCommandPageRuns(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/command.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^    mkfifo (?:.+\n)+`).Find(page)
	d := newDesk(t)
	for _, step := range []string{"step1", "step2"} {
		text := "#!/bin/sh\ngetsetlock run -q --wait 0 --busy-exit 0 deploy -- echo free; echo " + step + "\n"
		if err := os.WriteFile(filepath.Join(d.path, step), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := "cd " + d.path + "\n" + string(m) + "wait\ngetsetlock run --wait 0 deploy -- echo free\n"
	d.does("step1\nstep2\nfree\n", "sh", "-c", script)
}
