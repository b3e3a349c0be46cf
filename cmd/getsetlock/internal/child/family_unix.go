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

// Ending are the signals that ask a program to end. They are to be caught while it waits.
func Ending() []os.Signal { return heeded(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT) }

// Passed are the signals to be caught while a command runs, and given to [Spec.Signals].
// A SIGHUP or SIGINT that this process was started to ignore (by nohup, or by a
// shell for a background job) is not among them: the command inherits that. Of
// other signals a Go program cannot tell that it was to ignore them.
func Passed() []os.Signal {
	return append(Ending(), heeded(unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP)...)
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

// SignalCode is the exit code that a shell reports for a program ended by s.
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

// family is the command's process group and what it has of the terminal.
type family struct {
	pid     int
	proc    *os.Process
	tty     *terminal // nil without a controlling terminal
	orphans bool      // orphans are reaped too, see Spec.ReapOrphans
}

func newFamily(orphans bool) *family { return &family{tty: openTerminal(), orphans: orphans} }

func (f *family) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if f.tty != nil && f.tty.handOver(cmd) {
		// The child itself takes the foreground, before it becomes the command, so that a
		// command which reads at once is not stopped for it.
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

// reap waits for the command and reports its stops. It does so by itself, since os.Process cannot
// tell of a stop; cmd.Wait then finds nobody to wait for and only ends the copying of streams.
//
// Orphans are reaped by the same call and not by a second waiter: one waiter alone gets
// each status once, with the process id that it belongs to, so that no orphan's status is
// taken for the command's.
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
			// An orphan, which ended or was stopped: nobody asks how.
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

// anyChild makes wait4 wait for whichever child ends first.
const anyChild = -1

// reapRest reaps the orphans that have ended, after the command itself was reaped.
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

// signal sends s to the group. The group's number cannot have been given to another while it has
// members, and one that is empty is only met in the instant between reaping and close.
func (f *family) signal(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = unix.Kill(-f.pid, n)
	}
}

// term also continues the group: one that stands still could not obey.
func (f *family) term() {
	f.signal(unix.SIGTERM)
	f.signal(unix.SIGCONT)
}

func (f *family) kill() { f.signal(unix.SIGKILL) }

// alive reports whether the group has members, after the command itself was reaped.
// A zombie counts as one, so the zombies that this process adopted are reaped first.
func (f *family) alive() bool {
	f.reapRest()
	return unix.Kill(-f.pid, 0) == nil
}

// stopped is called when the command was stopped. Without a terminal that was somebody's purpose,
// who will also continue it; so was SIGSTOP, unless the command has the terminal, which would
// then answer nobody. We go on holding the lock for a command that was frozen on purpose.
func (f *family) stopped(by stop) {
	if f.tty == nil || by == unix.SIGSTOP && f.tty.foreground() != f.pid {
		return
	}
	wantsTerminal := by == unix.SIGTTIN || by == unix.SIGTTOU
	switch {
	case wantsTerminal && f.tty.give():
		f.signal(unix.SIGCONT)
	case !orphaned():
		// ^Z means the whole job, which for the shell is our group: it has to see us stopped
		// to take its terminal back. So has a run around this one, which looks whether its
		// command has the terminal: hence it is returned first. SIGSTOP, since a SIGTSTP that
		// we catch would stop nobody.
		f.tty.takeBack()
		_ = unix.Kill(0, unix.SIGSTOP)
	case wantsTerminal:
		// Nobody can ever bring it into the foreground. The kernel treats its own orphans so.
		f.signal(unix.SIGHUP)
		f.signal(unix.SIGCONT)
	default:
		// Without a shell to continue the job ^Z means nothing, as for any orphan.
		f.signal(unix.SIGCONT)
	}
}

// resume continues the command after we were continued, in the foreground if it was there before
// and the shell gave it to us.
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

// Replace turns this process into the command: same process id, group and terminal. It returns only
// with an error. PID 1 refuses with errors.ErrUnsupported: the command would have to reap
// orphans, and the kernel would drop the signals that it does not catch.
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
