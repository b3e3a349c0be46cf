// SPDX-License-Identifier: Apache-2.0

//go:build unix

package child

import (
	"os"
	"os/exec"
	"os/signal"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the controlling terminal while a command runs. Its foreground
// belongs to one process group. Other groups are stopped when they read from
// it, and ^C and ^Z reach only the foreground group.
type terminal struct {
	fd     int
	group  int // the command's process group
	modes  *term.State
	wanted bool // the command has or had the foreground
	died   bool // a signal ended the command; set before the loop sees its end
}

// openTerminal returns nil where there is no controlling terminal, as in cron
// and in a service.
func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	modes, _ := term.GetState(fd)
	return &terminal{fd: fd, modes: modes}
}

// handOver reports whether the command gets the foreground from the start. It
// does if this process has the foreground and the command talks to the
// terminal. In "getsetlock run … | less" it does not: less, which is in this
// process's group, must keep it. A command that wants the foreground later is
// stopped for that (SIGTTIN, SIGTTOU), and then gets it.
func (t *terminal) handOver(cmd *exec.Cmd) bool {
	t.wanted = t.ours() && isTerminal(cmd.Stdin) && isTerminal(cmd.Stdout)
	return t.wanted
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && f != nil && term.IsTerminal(int(f.Fd()))
}

// started is called after the fork: a signal ignored before would be ignored by
// the command too. From now on this process may be in the background. On a
// terminal set to tostop, a warning written there would stop this process,
// which must watch the lock. The Go runtime cannot undo this, so the signal
// stays ignored until the process ends.
func (t *terminal) started(group int) {
	t.group = group
	signal.Ignore(unix.SIGTTOU)
}

func (t *terminal) ours() bool { return t.foreground() == unix.Getpgrp() }

func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// give gives the foreground to the command if this process has it. It reports
// whether the command has it now.
func (t *terminal) give() bool {
	switch t.foreground() {
	case t.group:
		return true
	case unix.Getpgrp():
		t.wanted = true
		return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group) == nil
	}
	return false
}

// takeBack takes the foreground back, unless a shell has taken it meanwhile. It
// reports whether this process has it now.
func (t *terminal) takeBack() bool {
	if fg := t.foreground(); fg != t.group && fg != unix.Getpgrp() {
		return false
	}
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, unix.Getpgrp()) == nil
}

// close leaves the terminal as it was found. A killed command could not restore
// it, nor would the shell, which sees this process exit normally.
func (t *terminal) close() {
	defer unix.Close(t.fd)
	if !t.wanted {
		return
	}
	if t.takeBack() && t.died && t.modes != nil {
		_ = term.Restore(t.fd, t.modes)
	}
}

// abandoned takes the foreground back after a fork whose child took it and then
// could not become the command. It belongs to a group that is gone.
func (t *terminal) abandoned() {
	if t.wanted {
		signal.Ignore(unix.SIGTTOU)
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, unix.Getpgrp())
	}
}

// orphaned reports whether no process would continue this process group if it
// stopped. That is so if no member has a parent in another group of the same
// session, such as a shell with job control. It checks this process and its
// ancestors within the group.
func orphaned() bool {
	group := unix.Getpgrp()
	session, err := unix.Getsid(0)
	if err != nil {
		return true
	}
	for parent := unix.Getppid(); parent > 1; parent = parentOf(parent) {
		if s, err := unix.Getsid(parent); err != nil || s != session {
			return true
		}
		if g, err := unix.Getpgid(parent); err != nil || g != group {
			return err != nil
		}
	}
	return true
}
