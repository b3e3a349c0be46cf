// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

func TestCommandDiesWhenItsParentIsKilled(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	args := helper("run", helper("stubborn")...)
	parent := exec.Command(args[0], args[1:]...)
	parent.Stdout = w
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() && lines.Text() != "listening" {
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	// The output ends when the command ends, which would otherwise hold the
	// pipe open for ever.
	for lines.Scan() {
		t.Logf("more output: %s", lines.Text())
	}
}
