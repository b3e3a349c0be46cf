package child

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

func TestTheCommandDiesWhenItsParentIsKilled(t *testing.T) {
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
	// The end of its output is the end of the command: it would hold the pipe open for ever.
	for lines.Scan() {
		t.Logf("more output: %s", lines.Text())
	}
}
