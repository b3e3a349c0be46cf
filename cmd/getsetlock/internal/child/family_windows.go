// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// DiesWithParent reports whether the command ends when this process is killed.
// The job object with the command and all that it starts is closed then, which
// ends them.
const DiesWithParent = true

// Ending returns the signals that ask a program to end. Catch them while it
// waits.
func Ending() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

// Passed returns the signals to catch while a command runs, and to send to
// [Spec.Signals].
func Passed() []os.Signal { return Ending() }

// SignalCode returns the exit code for a program ended by s, as Unix shells
// report it.
func SignalCode(s os.Signal) int {
	if s == os.Interrupt {
		return 130
	}
	return 143
}

func isContinue(os.Signal) bool { return false }

// stop never happens on Windows.
type stop struct{}

// family is the command and all that it starts, in a job object. Windows starts
// a process before it can be put into a job: what the command starts within
// that instant is outside.
type family struct {
	pid int
	job windows.Handle
}

// newFamily ignores orphans: Windows has no zombies to reap.
func newFamily(bool) *family { return &family{} }

func (f *family) prepare(cmd *exec.Cmd) {
	// Its own group can be sent CTRL_BREAK, Windows' nearest to SIGTERM,
	// without this process getting it.
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

func (f *family) notStarted() {}

func (f *family) started(p *os.Process) {
	f.pid = p.Pid
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return // kill then ends only the process itself
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		err = f.assign(job)
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return
	}
	f.job = job
}

func (f *family) assign(job windows.Handle) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(f.pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	return windows.AssignProcessToJobObject(job, h)
}

func (f *family) reap(cmd *exec.Cmd, _ chan<- stop) Exit {
	err := cmd.Wait()
	if cmd.ProcessState == nil {
		return Exit{Err: err}
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) && cmd.ProcessState.Success() {
		return Exit{Err: err} // the streams could not be copied
	}
	return Exit{Code: cmd.ProcessState.ExitCode()}
}

func (f *family) signal(os.Signal) {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(f.pid))
}

func (f *family) term() { f.signal(nil) }

func (f *family) kill() {
	const code = 137
	if f.job != 0 {
		_ = windows.TerminateJobObject(f.job, code)
		return
	}
	if p, err := os.FindProcess(f.pid); err == nil {
		_ = p.Kill()
	}
}

func (f *family) alive() bool  { return false }
func (f *family) stopped(stop) {}
func (f *family) resume()      {}

// close ends what is left in the job.
func (f *family) close() {
	if f.job != 0 {
		_ = windows.CloseHandle(f.job)
	}
}

// Replace is not possible on Windows.
func Replace([]string, []string) error { return errors.ErrUnsupported }
