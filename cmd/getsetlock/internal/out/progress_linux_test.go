package out

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/sys/unix"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child/childtest"
)

// drawn returns what a terminal of that many columns gets.
func drawn(t *testing.T, columns int, draw func(e *Env)) string {
	t.Helper()
	master, slave := childtest.Terminal(t)
	defer master.Close()
	defer slave.Close()
	size := &unix.Winsize{Row: 24, Col: uint16(columns)}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
	const end = "<end>"
	go func() {
		draw(&Env{Stdout: slave, Stderr: slave, Getenv: func(string) string { return "" }})
		_, _ = slave.WriteString(end)
	}()
	var all bytes.Buffer
	buffer := make([]byte, 1<<12)
	for !strings.HasSuffix(all.String(), end) {
		n, err := master.Read(buffer)
		all.Write(buffer[:n])
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.TrimSuffix(all.String(), end)
}

// last returns a count with as many digits as the total.
func last(total int64) int64 {
	if total < 0 {
		return 123_456_789
	}
	return total - 1
}

// The longest title and counts of all verbs.
func TestProgressFitsTheTerminal(t *testing.T) {
	defer func(every time.Duration) { drawEvery = every }(drawEvery)
	drawEvery = 0
	rows := regexp.MustCompile("[\r\n]+|\x1b\\[[0-9]*[A-K]")
	for _, columns := range []int{50, 80, 200} {
		for _, total := range []int64{-1, 7, 100, 40_000_000} {
			shown := drawn(t, columns, func(e *Env) {
				p := e.Progress(false, "simulating spreads", total)
				for _, done := range []int64{0, 1, 3, last(total)} {
					p.Set(done)
				}
				p.End()
			})
			widest := 0
			for _, row := range rows.Split(shown, -1) {
				widest = max(widest, text.StringWidthWithoutEscSequences(row))
			}
			if widest > columns || widest < 30 {
				t.Errorf("%d columns, total %d: %d wide: %q", columns, total, widest, shown)
			}
		}
	}
}
