// SPDX-License-Identifier: Apache-2.0

// Package interop drives the original Java lock, jedis-lock 1.0.0, in a JVM.
// Tests use it together with getsetlock clients on one server: contended, step
// by step, killed, and under a pinned clock.
//
// It promises nothing about the lock itself; the tests find out what the jar
// does. Only tests may import it.
//
// It assumes that `make prepare` has built java/interop/target/interop.jar and
// that Java 17 or newer is installed; otherwise Start returns an error that
// says so. Package getsetlock.interop in java/interop describes the line
// protocol. Instants that the JVM reports are of the machine's wall clock, by
// which the jar stamps. A pinned JVM (see [Options.Prefix]) has its own wall
// clock.
package interop

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const protocolVersion = "3"

// Options says how a JVM is started. The zero value is right for most tests.
type Options struct {
	// Jar is the path of interop.jar. Defaults to where Maven puts it.
	Jar string
	// Prefix is put before the java command, for instance to give the JVM
	// another clock; see [Pinned].
	Prefix []string
	// Env is added to this process's environment.
	Env []string
	// Timeout bounds every call whose context has no deadline, in addition to
	// the time that the call itself is known to take. Defaults to two minutes.
	Timeout time.Duration
}

// Pinned returns the options of a JVM whose wall clock stands still at now,
// through Debian's faketime. Sleeps and all other waits pass in real time.
func Pinned(now time.Time) Options {
	return Options{
		Prefix: []string{"faketime", "--exclude-monotonic", "-f",
			now.UTC().Format("2006-01-02 15:04:05.000")},
		// Without the last variable, faketime also shortens waits on the
		// monotonic clock, in spite of --exclude-monotonic: the JVM then spins,
		// and sometimes hangs forever.
		Env: []string{"TZ=UTC", "FAKETIME_FORCE_MONOTONIC_FIX=0"},
	}
}

// JVM is a running Java process that serves any number of clients. Its methods
// may be called from any goroutine.
type JVM struct {
	// Version is the Java version that the process reported.
	Version string

	cmd     *exec.Cmd
	java    *os.Process // the JVM itself; with a prefix, cmd is another process
	stdin   io.WriteCloser
	stderr  *tail
	timeout time.Duration
	ended   chan struct{} // closed when the process has ended; endErr is set before

	mu     sync.Mutex
	nextID int
	calls  map[string]chan answer // nil once the process has ended
	endErr error
}

// Start starts a JVM and waits for its greeting. The JVM ends with [JVM.Close],
// with [JVM.Kill], and whenever this process ends, since its stdin ends then.
func Start(ctx context.Context, o Options) (*JVM, error) {
	for tries := 1; ; tries++ {
		j, err := start(ctx, o)
		if err == nil || !strings.Contains(err.Error(), faketimeWasHere) || tries == mostTries {
			return j, err
		}
	}
}

// mostTries makes a failure by chance practically impossible.
const mostTries = 5

// faketimeWasHere is what faketime prints if another faketime process with the
// same pid was killed: that process left a semaphore with its pid in the name.
// The next start has another pid.
const faketimeWasHere = "sem_open: File exists"

func start(ctx context.Context, o Options) (*JVM, error) {
	_, here, _, _ := runtime.Caller(0)
	jar := cmp.Or(o.Jar, filepath.Join(filepath.Dir(here), "../../../java/interop/target/interop.jar"))
	if _, err := os.Stat(jar); err != nil {
		return nil, fmt.Errorf("interop: the Java peer is not built (`make prepare` builds it): %w", err)
	}
	line := append(slices.Clone(o.Prefix), "java", "-XX:+UseSerialGC", "-Xmx256m", "-jar", jar)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), o.Env...)
	j := &JVM{cmd: cmd, stderr: &tail{}, timeout: cmp.Or(o.Timeout, 2*time.Minute),
		ended: make(chan struct{}), calls: map[string]chan answer{}}
	cmd.Stderr = j.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("interop: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("interop: %w", err)
	}
	j.stdin = stdin
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("interop: %s does not start (`make prepare` installs what is missing): %w",
			line[0], err)
	}
	go j.read(stdout)
	if err := j.greet(ctx); err != nil {
		return nil, err
	}
	return j, nil
}

// greet makes sure that the jar speaks this version of the line protocol: a jar
// built from older source may still be there.
func (j *JVM) greet(ctx context.Context) error {
	words, err := j.order(ctx, 0, "hello")
	if err == nil && (len(words) != 3 || words[0].text != protocolVersion) {
		err = errors.New("interop: interop.jar is of another version: rebuild it with `make prepare`")
	}
	if err == nil {
		var pid int
		if pid, err = strconv.Atoi(words[2].text); err == nil {
			j.Version = words[1].text
			j.java, err = os.FindProcess(pid)
		}
	}
	if err != nil {
		return errors.Join(err, j.Kill())
	}
	return nil
}

// Close ends the JVM by closing its stdin, and waits for it. A lock that is
// still held stays on the server, as after a crash.
func (j *JVM) Close() error {
	if err := j.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return errors.Join(fmt.Errorf("interop: %w", err), j.Kill())
	}
	select {
	case <-j.ended:
		return nil
	case <-time.After(j.timeout):
		return errors.Join(errors.New("interop: the JVM did not end with its stdin"), j.Kill())
	}
}

// Kill ends the whole process, with all its clients, by SIGKILL, and waits for
// it.
func (j *JVM) Kill() error {
	_ = j.stdin.Close() // ends a JVM that never reported its pid
	for _, p := range []*os.Process{j.java, j.cmd.Process} {
		select {
		case <-j.ended:
			return nil // its pid may belong to another process by now
		default:
		}
		if p == nil {
			continue
		}
		if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("interop: killing the JVM: %w", err)
		}
	}
	select {
	case <-j.ended:
		return nil
	case <-time.After(j.timeout):
		return errors.New("interop: the JVM was killed and did not end")
	}
}

// Clock returns the JVM's System.currentTimeMillis, in ms since 1970.
func (j *JVM) Clock(ctx context.Context) (millis int64, err error) {
	words, err := j.order(ctx, 0, "clock")
	if err != nil {
		return 0, err
	}
	if len(words) != 1 {
		return 0, badAnswer("clock", words)
	}
	return strconv.ParseInt(words[0].text, 10, 64)
}

// read passes every answer to its caller. At the end of the stream, which is
// the end of the process, it fails the remaining calls.
func (j *JVM) read(stdout io.Reader) {
	in := bufio.NewReaderSize(stdout, 1<<16)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		id, a, err := parseAnswer(line)
		if err != nil {
			j.stderr.note(err.Error())
			continue
		}
		j.mu.Lock()
		if ch := j.calls[id]; ch != nil {
			delete(j.calls, id)
			ch <- a // buffered, since the caller may have given up
		}
		j.mu.Unlock()
	}
	err := j.cmd.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.endErr = fmt.Errorf("%w (%v)%s", ErrEnded, err, j.stderr.text())
	j.calls = nil
	close(j.ended)
}
