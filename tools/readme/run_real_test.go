// SPDX-License-Identifier: Apache-2.0

//go:build real

package readme

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// place is where commands run: a directory with the programs that the README's
// examples call, the command itself, and a server on which an old client holds
// a lock.
type place struct {
	folder, command string
	server          *redistest.Server
}

func newPlace(t *testing.T, text string) *place {
	t.Helper()
	p := &place{folder: t.TempDir(), command: built(t), server: redistest.Real(t, redistest.Options{})}
	for _, step := range Steps(text) {
		for _, word := range strings.Fields(step.Command) {
			if name, ok := strings.CutPrefix(word, "./"); ok &&
				strings.HasPrefix(step.Command, "getsetlock ") {
				p.script(t, name)
			}
		}
	}
	stamp := time.Now().Add(time.Minute).UnixMilli()
	p.server.Do("SET", "stock:43", strconv.FormatInt(stamp, 10))
	return p
}

func (p *place) script(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.folder, name), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// words returns what to execute for a command of the README, and where. It
// returns nil for what other tests run: the program, the installation, the
// image, the variables of a server, and what needs no server.
func (p *place) words(command string) (words []string, folder string) {
	command, _, _ = strings.Cut(command, "  #")
	words = strings.Fields(command)
	switch {
	case needsNoServer(command):
		return nil, ""
	case words[0] == "getsetlock":
		return append([]string{p.command}, words[1:]...), p.folder
	case words[0] == "make":
		return append([]string{"make", "-n"}, words[1:]...), root
	}
	return nil, ""
}

func TestReadmeCommandsDoWhatItSays(t *testing.T) {
	for _, page := range pages(t) {
		p := newPlace(t, page.text)
		for _, step := range Steps(page.text) {
			words, folder := p.words(step.Command)
			if words == nil {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			cmd := exec.CommandContext(ctx, words[0], words[1:]...)
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "GETSETLOCK_REDIS="+p.server.URL(), "NO_COLOR=1")
			out, err := cmd.CombinedOutput()
			cancel()
			var failed *exec.ExitError
			if err != nil && !errors.As(err, &failed) || cmd.ProcessState.ExitCode() != step.Status() {
				t.Errorf("%s:%d: %s: %v, and it says %d\n%s", page.name, step.Line, step.Command, err,
					step.Status(), out)
				continue
			}
			page.compare(t, step, string(out))
		}
	}
}
