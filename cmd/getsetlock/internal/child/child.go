// SPDX-License-Identifier: Apache-2.0

// Package child runs one command as a careful parent does, and ends it in time
// when it must end.
//
// The command gets its own process group, this process's standard streams, the
// signals that this process receives and, on a terminal, the foreground. Its
// exit code is what a shell would report. A [Schedule] first asks its whole
// group to end and later kills it. The package knows nothing of locks.
//
// # What is not promised
//
// A process that leaves the group (a daemon, setsid) is neither signalled nor
// ended.
//
// If this process is killed by SIGKILL, the command is killed too on Linux and
// on Windows. On Linux a set-uid program is not killed, since it clears that
// setting, nor are processes that the command started. On Windows all of them
// are killed. On other systems the command lives on.
//
// While this process is stopped by SIGSTOP, nothing watches the command.
//
// # Orphans
//
// PID 1 of a container, and on Linux a subreaper, becomes the parent of every
// process below it whose own parent ends. With [Spec.ReapOrphans] the package
// waits for such orphans, so that they do not stay zombies. It discards their
// status and never takes it for the command's.
//
// # Clocks
//
// The instants of a Schedule become durations once, when it is given; a later
// step of the clock changes nothing. The caller that keeps the lease notices
// the step and gives an earlier Schedule.
package child

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Clock is where a Proc reads time and waits.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// Spec describes a command to run.
type Spec struct {
	Args []string // the command and its arguments; the command is looked up in PATH
	Env  []string // its whole environment; nil: this process's

	// Stdin, Stdout and Stderr are passed on unchanged where they are files.
	// Nil is the null device.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Signals delivers the signals that this process receives. Each is passed
	// on to the command's process group. The caller subscribes, best to the
	// signals that [Passed] names. With nil no signal is passed on, and a
	// command stopped by ^Z is not continued.
	Signals <-chan os.Signal

	// ReapOrphans makes the Proc also wait for processes that this process
	// adopts, as PID 1 of a container does. Otherwise such an orphan stays a
	// zombie. This process must start no other child while the command runs,
	// since the Proc takes the status of every child.
	ReapOrphans bool

	// Clock decides when a Schedule is due. Defaults to the machine's.
	Clock Clock

	// Continued is called after this process was stopped and continued, and
	// before the command is continued. If a lease ended meanwhile, the Schedule
	// that it returns ends the command before it runs again. The zero Schedule
	// lets it continue. It must not block.
	Continued func() Schedule
}

// Exit is how a command ended.
type Exit struct {
	// Code is the command's exit code, or 128 plus the number of the signal
	// that ended it.
	Code int

	// Signal is the name of the signal that ended it, or "".
	Signal string

	// Err is the reason why it is unknown how the command ended. Code then
	// means nothing.
	Err error
}

// StartError says that a command could not be started.
type StartError struct {
	Name string
	Code int // 127: there is no such command; 126: it exists and cannot be run
	Err  error
}

func (e *StartError) Error() string {
	if e.Code == codeNotFound {
		return fmt.Sprintf("%s: command not found", e.Name)
	}
	return fmt.Sprintf("%s: cannot be run: %v", e.Name, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

const (
	codeNoRun    = 126
	codeNotFound = 127
)

// Proc is a started command.
type Proc struct {
	spec      Spec
	family    *family
	schedules chan Schedule
	stops     chan stop
	reaped    chan struct{} // closed when the command itself has been waited for, after exit is set
	exit      Exit
	done      chan struct{} // closed when the command ended and, if a Schedule ended it, its group too
}

// Start starts the command. The error is a *StartError.
//
// The goroutine that forks stays on its thread until the command ended. Linux
// sends the parent-death signal when the *thread* that forked ends, and the Go
// runtime may end a thread at any time (golang.org/issue/27505).
func Start(spec Spec) (*Proc, error) {
	path, err := Find(spec.Args)
	if err != nil {
		return nil, err
	}
	if spec.Clock == nil {
		spec.Clock = machine{}
	}
	p := &Proc{
		spec:      spec,
		schedules: make(chan Schedule),
		stops:     make(chan stop),
		reaped:    make(chan struct{}),
		done:      make(chan struct{}),
	}
	started := make(chan error)
	go p.parent(path, started)
	if err := <-started; err != nil {
		return nil, err
	}
	go p.loop()
	return p, nil
}

// parent forks and reaps on one thread.
func (p *Proc) parent(path string, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := &exec.Cmd{
		Path: path, Args: p.spec.Args, Env: p.spec.Env,
		Stdin: p.spec.Stdin, Stdout: p.spec.Stdout, Stderr: p.spec.Stderr,
		// A grandchild may keep a pipe open for ever. Files are not affected.
		WaitDelay: time.Second,
	}
	f := newFamily(p.spec.ReapOrphans)
	f.prepare(cmd)
	if err := cmd.Start(); err != nil {
		f.notStarted()
		started <- cannotStart(p.spec.Args[0], path, err)
		return
	}
	f.started(cmd.Process)
	p.family = f
	started <- nil
	p.exit = f.reap(cmd, p.stops)
	close(p.reaped)
}

// Done is closed when the command has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Wait waits for the command to end. After Terminate it also waits for the rest
// of its process group, at most until that is killed.
func (p *Proc) Wait() Exit {
	<-p.done
	return p.exit
}

// Terminate ends the command's process group by a schedule. A later call can
// only make the end earlier.
func (p *Proc) Terminate(s Schedule) {
	select {
	case p.schedules <- s:
	case <-p.done:
	}
}

// loop is the only goroutine that acts on the running command. So a signal
// cannot overtake the verdict on a command about to be continued, nor reach a
// group while it gets the terminal.
func (p *Proc) loop() {
	defer close(p.done)
	defer p.family.close()
	var v verdict
	reaped := p.reaped
	for {
		select {
		case s := <-p.spec.Signals:
			p.got(s, &v)
		case s := <-p.stops:
			p.family.stopped(s)
		case s := <-p.schedules:
			v.pass(s, p)
		case <-v.term:
			v.sendTerm(p.family)
		case <-v.kill:
			v.sendKill(p.family)
		case <-v.look:
			v.look = time.After(lookEvery)
		case <-reaped:
			reaped = nil
			v.look = time.After(0)
		}
		// If a Schedule ended the command, what the command started must end
		// with it, since the lock ends soon. If the command ended by itself,
		// what it left behind is left alone. After SIGKILL only zombies can
		// remain; a container without a proper init may keep some for ever.
		if reaped == nil && (!v.passed() || v.killed || !p.family.alive()) {
			return
		}
	}
}

// lookEvery is the time between two checks whether a group whose leader has
// ended is empty. No event reports that.
const lookEvery = 20 * time.Millisecond

// got handles a signal that this process received.
func (p *Proc) got(s os.Signal, v *verdict) {
	if !isContinue(s) {
		p.family.signal(s)
		return
	}
	if p.spec.Continued != nil {
		if s := p.spec.Continued(); s != (Schedule{}) {
			v.pass(s, p)
		}
	}
	p.family.resume()
}

// verdict is the Schedule of a command, and how far it was carried out.
type verdict struct {
	schedule   Schedule
	termed     bool
	killed     bool
	term, kill <-chan time.Time
	look       <-chan time.Time // fires when it is time to check whether the group is empty
}

func (v *verdict) passed() bool { return v.schedule != (Schedule{}) }

// pass takes a Schedule and does at once what is due. If SIGKILL is due, it
// sends no SIGTERM, which would let a stopped command run on for a moment.
func (v *verdict) pass(s Schedule, p *Proc) {
	v.schedule = v.schedule.Sooner(s)
	now := p.spec.Clock.Now()
	wait := v.schedule.Kill.Sub(now)
	if wait <= 0 {
		v.sendKill(p.family)
		return
	}
	v.kill = p.spec.Clock.After(wait)
	switch wait := v.schedule.Term.Sub(now); {
	case v.termed:
	case wait > 0:
		v.term = p.spec.Clock.After(wait)
	default:
		v.sendTerm(p.family)
	}
}

func (v *verdict) sendTerm(f *family) {
	v.term, v.termed = nil, true
	f.term()
}

func (v *verdict) sendKill(f *family) {
	v.kill, v.killed = nil, true
	f.kill()
}

// Find looks up a command as a shell does. The error is a *StartError.
func Find(args []string) (path string, err error) {
	if len(args) == 0 || args[0] == "" {
		return "", &StartError{Code: codeNotFound, Err: exec.ErrNotFound}
	}
	name := args[0]
	path, err = exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, nil // a user with "." in PATH wants it
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		if !inPath(name) {
			return "", &StartError{Name: name, Code: codeNotFound, Err: exec.ErrNotFound}
		}
		err = fs.ErrPermission
	}
	return "", &StartError{Name: name, Code: codeNoRun, Err: cause(err)}
}

// inPath reports whether PATH has a file of that name. If LookPath did not find
// it, it cannot be run.
func inPath(name string) bool {
	if strings.ContainsRune(name, filepath.Separator) {
		return false
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

// cannotStart turns an error of fork or exec into a StartError. The file was
// found just before, so "no such file" concerns the interpreter that its first
// line names.
func cannotStart(name, path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Stat(path); gone != nil {
			return &StartError{Name: name, Code: codeNotFound, Err: err}
		}
		return &StartError{Name: name, Code: codeNoRun,
			Err: errors.New("the interpreter of its #! line does not exist")}
	}
	return &StartError{Name: name, Code: codeNoRun, Err: cause(err)}
}

// cause removes the operation and the path that os and exec put in front of an
// error.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	var e *exec.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

type machine struct{}

func (machine) Now() time.Time                         { return time.Now() }
func (machine) After(d time.Duration) <-chan time.Time { return time.After(d) }
