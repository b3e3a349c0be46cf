package auditverb

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// pipelined records ten seconds of three Node processes. The first one holds
// both locks. The second one waits for both over one connection, as Node
// libraries do, and its event loop pauses at times between a clock reading and
// the write. The third one waits for one of the locks, and for each reply.
func pipelined(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := offset.NewObservedWriter(f)
	if err != nil {
		t.Fatal(err)
	}
	opening := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	write := func(at time.Duration, kind offset.ObservedKind, addr string, words ...string) {
		o := offset.Observed{At: opening.Add(at), Kind: kind}
		switch o.Addr = addr; kind {
		case offset.ObservedClient:
			o.Name, o.Library = words[0], "ioredis 5.4"
		case offset.ObservedLook:
			o.Addr, o.Key = "", words[0]
		default:
			o.Args = words
		}
		if err := w.Write(o); err != nil {
			t.Fatal(err)
		}
	}
	const holder, waiter, polite = "10.0.0.1:50101", "10.0.0.2:50102", "10.0.0.3:50103"
	for addr, name := range map[string]string{holder: "orders-1", waiter: "orders-2", polite: "orders-3"} {
		write(0, offset.ObservedClient, addr, name)
	}
	stamp := func(at, ahead time.Duration) string {
		return strconv.FormatInt(opening.Add(at+ahead+time.Minute).UnixMilli()+1, 10)
	}
	write(0, offset.ObservedCommand, polite, "PING")
	for _, key := range []string{"lock.stock", "lock.order"} {
		write(0, offset.ObservedLook, "", key)
	}
	write(time.Millisecond, offset.ObservedCommand, holder, "SETNX", "lock.stock",
		stamp(time.Millisecond, -12*time.Millisecond))
	write(3*time.Millisecond, offset.ObservedCommand, holder, "SETNX", "lock.order",
		stamp(3*time.Millisecond, -12*time.Millisecond))
	const turn = 60 * time.Millisecond
	for i := range 160 {
		at := 100*time.Millisecond + time.Duration(i)*turn
		read := at - 400*time.Microsecond
		if i%20 == 19 {
			read -= 300 * time.Millisecond
		}
		for n, words := range [][]string{
			{"SETNX", "lock.stock"}, {"SETNX", "lock.order"}, {"GET", "lock.stock"}, {"GET", "lock.order"}} {
			if n < 2 {
				words = append(words, stamp(read, 41*time.Millisecond))
			}
			write(at+time.Duration(n)*2*time.Microsecond, offset.ObservedCommand, waiter, words...)
		}
		at += 20 * time.Millisecond
		write(at, offset.ObservedCommand, polite, "SETNX", "lock.stock",
			stamp(at-500*time.Microsecond, 7*time.Millisecond))
		write(at+700*time.Microsecond, offset.ObservedCommand, polite, "GET", "lock.stock")
	}
}

// The watch refutes the claim of own connections for the client that pipelines.
// The claim narrows the clock of the client that does not. docs/audit.md shows
// it.
func TestDocumentShowsPipeliningClients(t *testing.T) {
	text, err := os.ReadFile("../../../../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	const command = "audit --replay pipelined.txt --dialect errorception --lease 60s --gap 500ms --own-connections"
	_, shown, ok := strings.Cut(string(text), "<!-- getsetlock "+command+" -->\n")
	s := clitest.NewStage(t)
	t.Chdir(t.TempDir())
	pipelined(t, "pipelined.txt")
	got := s.Run(strings.Fields(command)...)
	if got.Code != 1 || !ok {
		t.Fatalf("code %d, shown %v\n%s%s", got.Code, ok, got.Out, got.Errors)
	}
	for _, line := range strings.Split(strings.TrimRight(got.Out, "\n"), "\n") {
		if want := "    " + line; line != "" && !strings.Contains(shown, want+"\n") {
			t.Errorf("docs/audit.md does not show %q", line)
		}
	}
	for _, w := range clitest.DocumentOf[AuditDocument](t,
		s.Run(append(strings.Fields(command), "--json")...)).Writers {
		own := *w.Addr == "10.0.0.3:50103"
		low, _ := w.Offset.Low.Float64()
		high, _ := w.Offset.High.Float64()
		truth := map[string]float64{"10.0.0.1:50101": -12, "10.0.0.2:50102": 41, "10.0.0.3:50103": 7}[*w.Addr]
		if low > truth || high < truth || w.Steady.OwnConnections != (own || *w.Name == "orders-1") ||
			(*w.Name == "orders-2") != (w.NotOwn != nil) {
			t.Errorf("%+v", w)
		}
	}
}
