// Package interop drives the original Java lock, jedis-lock 1.0.0 in a JVM of its own, so that tests can set it beside
// ours on one server: contended, step by step, killed, and under a pinned clock.
//
// It does not promise anything about the lock itself; what the jar does is for the tests to find out. Only tests import
// it, and nothing that ships may.
//
// It assumes that `make prepare` has built java/interop/target/interop.jar (see package getsetlock.interop there for the lines
// that travel) and that a java of 17 or newer is installed; where one is missing, starting fails with a sentence that
// says so. Instants that the JVM reports are of the machine's wall clock, the one that the jar stamps by, and a pinned
// JVM (see [Options.Prefix]) has a wall clock of its own.
package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// JarEnv names the environment variable that says where interop.jar is, when it is not where Maven leaves it.
const JarEnv = "GETSETLOCK_INTEROP_JAR"

const protocolVersion = "3"

// Options say how a JVM is started. The zero value is right for a test that needs nothing special.
type Options struct {
	// Jar is the path of interop.jar. Defaults to $GETSETLOCK_INTEROP_JAR, else to java/interop/target/interop.jar
	// below the module's root.
	Jar string
	// Java is the program to run. Defaults to java in the PATH.
	Java string
	// Prefix is put before the java command, to give the JVM another clock; see [Pinned].
	Prefix []string
	// Env is added to our own environment.
	Env []string
	// Timeout bounds every call whose context has no deadline, beyond the time that the call itself is known to take.
	// Defaults to two minutes.
	Timeout time.Duration
}

// Pinned gives the JVM a wall clock that stands still at now, through Debian's faketime; sleeps and every other wait pass
// in real time.
func Pinned(now time.Time) Options {
	return Options{
		Prefix: []string{"faketime", "--exclude-monotonic", "-f", now.UTC().Format("2006-01-02 15:04:05.000")},
		// Without the last, faketime shortens waits on the monotonic clock too, although told to leave it alone: a JVM then
		// turns in circles, and now and then stands still for good.
		Env: []string{"TZ=UTC", "FAKETIME_FORCE_MONOTONIC_FIX=0"},
	}
}

// JVM is one running Java process that serves any number of clients. Its methods may be called from any goroutine.
type JVM struct {
	// Version is the Java version that answered.
	Version string

	cmd     *exec.Cmd
	java    *os.Process // the JVM itself, which under a prefix is not the process that we started
	stdin   io.WriteCloser
	stderr  *tail
	timeout time.Duration
	ended   chan struct{} // closed when the process has been waited for; endErr is set before

	mu     sync.Mutex
	nextID int
	calls  map[string]chan answer // nil once the process has ended
	endErr error
}

// Start runs a JVM and waits for its greeting. The JVM ends with [JVM.Close], with [JVM.Kill], and whenever our own
// process does, since its stdin ends then.
func Start(ctx context.Context, o Options) (*JVM, error) {
	for tries := 1; ; tries++ {
		j, err := start(ctx, o)
		if err == nil || !strings.Contains(err.Error(), faketimeWasHere) || tries == mostTries {
			return j, err
		}
	}
}

// mostTries is beyond all chance.
const mostTries = 5

// faketimeWasHere is what faketime says where another of its processes, which was killed, had the same pid: that has
// left a semaphore with its number behind. The next start has another pid.
const faketimeWasHere = "sem_open: File exists"

func start(ctx context.Context, o Options) (*JVM, error) {
	jar, err := findJar(o.Jar)
	if err != nil {
		return nil, err
	}
	java := o.Java
	if java == "" {
		java = "java"
	}
	line := append(append([]string(nil), o.Prefix...), java, "-XX:+UseSerialGC", "-Xmx256m", "-jar", jar)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), o.Env...)
	j := &JVM{cmd: cmd, stderr: &tail{}, timeout: o.Timeout, ended: make(chan struct{}), calls: map[string]chan answer{}}
	if j.timeout == 0 {
		j.timeout = 2 * time.Minute
	}
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
		return nil, fmt.Errorf("interop: %s does not start (`make prepare` installs what is missing): %w", line[0], err)
	}
	go j.read(stdout)
	if err := j.greet(ctx); err != nil {
		return nil, err
	}
	return j, nil
}

// greet makes sure that the jar speaks our version of the lines, since one built from an older source is easily left
// lying about.
func (j *JVM) greet(ctx context.Context) error {
	words, err := j.order(ctx, 0, "hello")
	if err == nil && (len(words) != 3 || words[0].text != protocolVersion) {
		err = errors.New("interop: interop.jar is of another version: `make prepare` builds it anew")
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

// Close ends the JVM by ending its stdin, and waits for it. A lock that is still held stays on the server, as after a
// crash.
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

// Kill ends the whole process with SIGKILL, every client of it included, and waits for it.
func (j *JVM) Kill() error {
	_ = j.stdin.Close() // ends a JVM that never told us its pid
	for _, p := range []*os.Process{j.java, j.cmd.Process} {
		select {
		case <-j.ended:
			return nil // and its pid may be somebody else's by now
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

// Clock returns the JVM's System.currentTimeMillis.
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

// read hands every answer to its caller, and at the end of the stream, which is the end of the process, fails the rest.
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
			ch <- a // buffered: the caller may have given up
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

// findJar looks where the environment says, else where Maven puts it in the module that the tests run in.
func findJar(path string) (string, error) {
	if path == "" {
		path = os.Getenv(JarEnv)
	}
	if path == "" {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		path = filepath.Join(root, "java", "interop", "target", "interop.jar")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("interop: the Java peer is not built (`make prepare` builds it): %w", err)
	}
	return path, nil
}

// moduleRoot is the nearest folder above the working directory, which go test sets to the package's, with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("interop: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("interop: no go.mod above the working directory; set %s", JarEnv)
		}
		dir = parent
	}
}
