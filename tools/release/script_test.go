//go:build real && linux

package release

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts in testdata/script. ROOT is this checkout.
func TestScripts(t *testing.T) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	here := strings.Fields(string(out))
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: func(e *testscript.Env) error {
		e.Setenv("ROOT", checkout)
		e.Setenv("HOME", e.WorkDir)
		e.Setenv("PATH", filepath.Join(e.WorkDir, "bin")+":"+e.Getenv("PATH"))
		e.Setenv("GOPROXY", fmt.Sprintf("file://%s/cache/download,%s", here[0], here[1]))
		e.Setenv("GOCACHE", here[2])
		for _, who := range []string{"AUTHOR", "COMMITTER"} {
			e.Setenv("GIT_"+who+"_NAME", "a")
			e.Setenv("GIT_"+who+"_EMAIL", "a@example.org")
		}
		e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
		return nil
	}})
}
