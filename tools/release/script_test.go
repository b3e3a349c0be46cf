// SPDX-License-Identifier: Apache-2.0

//go:build real && linux

package release

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// TestScripts runs the scripts in testdata/script. ROOT is this checkout, REDIS
// a server, and M2 Maven's local repository. The image is built by docker only
// where docker works.
func TestScripts(t *testing.T) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	here := strings.Fields(string(out))
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Real(t, redistest.Options{})
	setup := func(e *testscript.Env) error {
		e.Setenv("ROOT", checkout)
		e.Setenv("REDIS", server.URL())
		e.Setenv("M2", filepath.Join(home, ".m2/repository"))
		e.Setenv("HOME", e.WorkDir)
		e.Setenv("PATH", filepath.Join(e.WorkDir, "bin")+":"+e.Getenv("PATH"))
		e.Setenv("GOPROXY", fmt.Sprintf("file://%s/cache/download,%s", here[0], here[1]))
		e.Setenv("GOMODCACHE", here[0])
		e.Setenv("GOCACHE", here[2])
		for _, who := range []string{"AUTHOR", "COMMITTER"} {
			e.Setenv("GIT_"+who+"_NAME", "a")
			e.Setenv("GIT_"+who+"_EMAIL", "a@example.org")
		}
		e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
		return nil
	}
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: setup,
		Condition: func(name string) (bool, error) {
			return name == "docker" && exec.Command("docker", "info").Run() == nil, nil
		}})
}
