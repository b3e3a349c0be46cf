//go:build unix

package child

import (
	"os"
	"os/exec"
	"os/signal"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the controlling terminal while a command runs. Its foreground belongs to one process
// group: whoever else reads from it is stopped, and ^C and ^Z reach that group only.
type terminal struct {
	fd     int
	group  int // the command's
	modes  *term.State
	wanted bool // the command has or had the foreground
	died   bool // the command was ended by a signal; set before the loop sees its end
}

// openTerminal returns nil where there is no controlling terminal: cron, a service.
func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	modes, _ := term.GetState(fd)
	return &terminal{fd: fd, modes: modes}
}

// handOver says whether the command gets the foreground from the start: when it is ours to give, and
// the command talks to the terminal. In "getsetlock run … | less" it does not, and less, which is in
// our group, must keep it. A command that wants it later is stopped for that (SIGTTIN, SIGTTOU), and
// then gets it.
func (t *terminal) handOver(cmd *exec.Cmd) bool {
	t.wanted = t.ours() && isTerminal(cmd.Stdin) && isTerminal(cmd.Stdout)
	return t.wanted
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && f != nil && term.IsTerminal(int(f.Fd()))
}

// started is called after the fork, not before: what we ignore the command would ignore too.
// From here on we may stand in the background, and on a terminal set to tostop a warning that we
// write there would stop us, who must watch the lock. The Go runtime cannot undo this; it stays
// ignored until the process ends.
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

// give hands the foreground to the command if we have it, or if the command has it already.
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

// takeBack takes the foreground back, unless a shell has taken it meanwhile, and says whether we have
// it now.
func (t *terminal) takeBack() bool {
	if fg := t.foreground(); fg != t.group && fg != unix.Getpgrp() {
		return false
	}
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, unix.Getpgrp()) == nil
}

// close leaves the terminal as it was found. A command that was killed could not do that, and our
// shell, which sees us exit and not die, would not do it either.
func (t *terminal) close() {
	defer unix.Close(t.fd)
	if !t.wanted {
		return
	}
	if t.takeBack() && t.died && t.modes != nil {
		_ = term.Restore(t.fd, t.modes)
	}
}

// abandoned takes the foreground back after a fork whose child took it and then could not become the
// command: it belongs to a group that is gone.
func (t *terminal) abandoned() {
	if t.wanted {
		signal.Ignore(unix.SIGTTOU)
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, unix.Getpgrp())
	}
}

// orphaned reports whether nobody would continue our process group if it stopped: no member of it has
// a parent in another group of the same session, such as a shell with job control. We look at
// ourselves and at our forebears within the group.
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
