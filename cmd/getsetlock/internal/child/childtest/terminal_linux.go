// SPDX-License-Identifier: Apache-2.0

// Package childtest has what tests of interactive programs share: a terminal
// for each.
package childtest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal opens a new terminal. master is the side that a test reads and types
// on; its reads may have a deadline. slave is the side that programs have. The
// caller closes both. When the last slave is closed, unread output is lost.
func Terminal(t testing.TB) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// Lead makes cmd the leader of a session on a terminal, as a login does.
func Lead(cmd *exec.Cmd, slave *os.File) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
}

// OnTerminal is a program that runs as the leader of a session on a terminal,
// as a login does.
type OnTerminal struct {
	Cmd  *exec.Cmd
	Text string // what it has printed so far

	t             testing.TB
	master, slave *os.File
}

// Prepare makes a terminal of that many columns for a program, which the test
// starts.
func Prepare(t testing.TB, columns int, args ...string) *OnTerminal {
	t.Helper()
	p := &OnTerminal{Cmd: exec.Command(args[0], args[1:]...), t: t}
	p.master, p.slave = Terminal(t)
	t.Cleanup(func() {
		if p.Cmd.Process != nil {
			_ = p.Cmd.Process.Kill()
		}
		p.slave.Close() // closing the last one hangs up, and unread output is lost
		p.master.Close()
	})
	size := &unix.Winsize{Row: 24, Col: uint16(columns)}
	if err := unix.IoctlSetWinsize(int(p.slave.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
	Lead(p.Cmd, p.slave)
	return p
}

// Settings returns those of the terminal: echo, lines, signals.
func (p *OnTerminal) Settings() unix.Termios {
	s, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return *s
}

// Type types on the terminal.
func (p *OnTerminal) Type(keys string) {
	p.t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// Until reads the program's output until enough returns true.
func (p *OnTerminal) Until(enough func(text string) bool) {
	p.t.Helper()
	_ = p.master.SetReadDeadline(time.Now().Add(time.Minute))
	buffer := make([]byte, 1<<12)
	for !enough(p.Text) {
		n, err := p.master.Read(buffer)
		if p.Text += string(buffer[:n]); err != nil {
			p.t.Fatalf("%v after %q", err, p.Text)
		}
	}
}

// End reads on until the program has ended and all its output was read.
func (p *OnTerminal) End() {
	p.t.Helper()
	const mark = "<the program is gone>"
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = p.Cmd.Wait()
		_, _ = p.slave.WriteString(mark)
	}()
	p.Until(func(text string) bool { return strings.HasSuffix(text, mark) })
	<-gone
	p.Text = strings.TrimRight(strings.TrimSuffix(p.Text, mark), "\r\n")
}
