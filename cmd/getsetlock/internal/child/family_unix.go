// SPDX-License-Identifier: Apache-2.0

//go:build unix

package child

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Ending returns the signals that ask a program to end. Catch them while it
// waits.
func Ending() []os.Signal { return heeded(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT) }

// Passed returns the signals to catch while a command runs, and to send to
// [Spec.Signals]. It leaves out a SIGHUP or SIGINT that this process was
// started to ignore (by nohup, or by a shell for a background job), since the
// command inherits that. For other signals, a Go program cannot tell that it
// was started to ignore them.
func Passed() []os.Signal {
	return append(Ending(), heeded(unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH, unix.SIGCONT,
		unix.SIGTSTP)...)
}

func heeded(all ...os.Signal) []os.Signal {
	var kept []os.Signal
	for _, s := range all {
		if !signal.Ignored(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// SignalCode returns the exit code that a shell reports for a program ended by
// s.
func SignalCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return signalBase + int(n)
	}
	return 1
}

const signalBase = 128

func isContinue(s os.Signal) bool { return s == unix.SIGCONT }

// stop is the signal that stopped the command.
type stop = unix.Signal

// family is the command's process group, and its part of the terminal.
type family struct {
	pid     int
	proc    *os.Process
	tty     *terminal // nil without a controlling terminal
	orphans bool      // reap orphans too, see Spec.ReapOrphans
}

func newFamily(orphans bool) *family { return &family{tty: openTerminal(), orphans: orphans} }

func (f *family) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if f.tty != nil && f.tty.handOver(cmd) {
		// The child takes the foreground before it becomes the command.
		// Otherwise a command that reads at once would be stopped.
		cmd.SysProcAttr.Foreground = true
		cmd.SysProcAttr.Ctty = f.tty.fd
	}
}

func (f *family) started(p *os.Process) {
	f.pid, f.proc = p.Pid, p
	if f.tty != nil {
		f.tty.started(p.Pid)
	}
}

func (f *family) notStarted() {
	if f.tty != nil {
		f.tty.abandoned()
		_ = unix.Close(f.tty.fd)
	}
}

// reap waits for the command and reports its stops. It calls wait4 itself,
// since os.Process cannot report a stop. cmd.Wait then finds no process and
// only ends the copying of streams.
//
// The same call reaps orphans. With a second waiter, an orphan's status could
// be taken for the command's; a single waiter gets each status once, with its
// process id.
func (f *family) reap(cmd *exec.Cmd, stops chan<- stop) Exit {
	defer func() {
		_ = cmd.Wait()
		_ = f.proc.Release()
	}()
	awaited := f.pid
	if f.orphans {
		awaited = anyChild
	}
	for {
		var ws unix.WaitStatus
		switch pid, err := unix.Wait4(awaited, &ws, unix.WUNTRACED, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			// Another part of this process reaped it.
			return Exit{Err: os.NewSyscallError("wait4", err)}
		case pid != f.pid:
			// An orphan ended or was stopped; its status is ignored.
		case ws.Stopped():
			stops <- ws.StopSignal()
		case ws.Signaled():
			if f.tty != nil {
				f.tty.died = true
			}
			return Exit{Code: signalBase + int(ws.Signal()), Signal: unix.SignalName(ws.Signal())}
		case ws.Exited():
			return Exit{Code: ws.ExitStatus()}
		}
	}
}

// anyChild makes wait4 wait for any child.
const anyChild = -1

// reapRest reaps the orphans that have ended, after the command itself was
// reaped.
func (f *family) reapRest() {
	if !f.orphans {
		return
	}
	for {
		pid, err := unix.Wait4(anyChild, nil, unix.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// signal sends s to the group. While the group has members, its number cannot
// be given to another group. An empty group is met only between reaping and
// close.
func (f *family) signal(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = unix.Kill(-f.pid, n)
	}
}

// term also continues the group: a stopped group could not obey.
func (f *family) term() {
	f.signal(unix.SIGTERM)
	f.signal(unix.SIGCONT)
}

func (f *family) kill() { f.signal(unix.SIGKILL) }

// alive reports whether the group has members, after the command itself was
// reaped. A zombie counts as a member, so alive first reaps the zombies that
// this process adopted.
func (f *family) alive() bool {
	f.reapRest()
	return unix.Kill(-f.pid, 0) == nil
}

// stopped is called when the command was stopped. Without a terminal, a person
// or program stopped it on purpose and will continue it. The same holds for
// SIGSTOP, unless the command has the terminal, which would then be stuck. The
// lock stays held for a command that was stopped on purpose.
func (f *family) stopped(by stop) {
	if f.tty == nil || by == unix.SIGSTOP && f.tty.foreground() != f.pid {
		return
	}
	wantsTerminal := by == unix.SIGTTIN || by == unix.SIGTTOU
	switch {
	case wantsTerminal && f.tty.give():
		f.signal(unix.SIGCONT)
	case !orphaned():
		// ^Z stops the whole job. For the shell that is this process's group,
		// and it takes its terminal back when it sees this process stopped. An
		// outer run also checks whether its command has the terminal; hence the
		// terminal is returned first. The signal is SIGSTOP, since a caught
		// SIGTSTP stops nothing.
		f.tty.takeBack()
		_ = unix.Kill(0, unix.SIGSTOP)
	case wantsTerminal:
		// No shell can bring it into the foreground. The kernel treats its own
		// orphans in this way.
		f.signal(unix.SIGHUP)
		f.signal(unix.SIGCONT)
	default:
		// Without a shell that could continue the job, ^Z has no effect, as for
		// any orphan.
		f.signal(unix.SIGCONT)
	}
}

// resume continues the command after this process was continued. If the command
// was in the foreground before, and the shell gave the foreground to this
// process, the command gets it.
func (f *family) resume() {
	if f.tty != nil && f.tty.wanted {
		f.tty.give()
	}
	f.signal(unix.SIGCONT)
}

func (f *family) close() {
	if f.tty != nil {
		f.tty.close()
	}
}

// Replace turns this process into the command, with the same process id, group
// and terminal. It returns only with an error. As PID 1 it refuses with
// errors.ErrUnsupported: the command would have to reap orphans, and the kernel
// would drop the signals that it does not catch.
func Replace(args, env []string) error {
	if os.Getpid() == 1 {
		return errors.ErrUnsupported
	}
	path, err := Find(args)
	if err != nil {
		return err
	}
	return cannotStart(args[0], path, unix.Exec(path, args, env))
}
