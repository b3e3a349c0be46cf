//go:build real && unix

package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

const lookAtAudit = `
const out = {plots: [], tables: document.querySelectorAll('table').length, cut: [], sideways: document.documentElement.scrollWidth > innerWidth};
for (const svg of document.querySelectorAll('svg')) {
  const frame = svg.getBoundingClientRect();
  out.plots.push({name: svg.getAttribute('aria-label'), width: frame.width, height: frame.height,
    drawn: svg.querySelectorAll('path.line, rect.holds, rect.range').length,
    table: svg.closest('section').querySelectorAll('tbody tr').length});
  for (const text of svg.querySelectorAll('text')) {
    const at = text.getBoundingClientRect();
    if (at.left < frame.left - 1 || at.right > frame.right + 1 || at.top < frame.top - 1 || at.bottom > frame.bottom + 1) out.cut.push(text.textContent);
  }
}
return out;`

func TestTheAuditsPageInABrowserIsWholeAndAsksNobody(t *testing.T) {
	s := newStage(t)
	file := filepath.Join(t.TempDir(), "audit.html")
	if got := s.run("audit", "--demo", "--report", file); got.code != 1 {
		t.Fatalf("code %d: %s", got.code, got.errors)
	}
	b := openBrowser(t)
	b.ask("POST", "/url", map[string]string{"url": "file://" + file}, nil)
	var page struct {
		Plots []struct {
			Name                        string
			Width, Height, Drawn, Table float64
		}
		Tables   int
		Cut      []string
		Sideways bool
	}
	b.run(lookAtAudit, &page)
	names := ""
	for _, p := range page.Plots {
		names += p.Name + "\n"
		if p.Width < 500 || p.Height < 100 || p.Drawn == 0 || p.Table < 4 {
			t.Errorf("plot %+v", p)
		}
	}
	for _, name := range []string{"Offset of each client's clock", "Holds against leases", "Timeline of lock:"} {
		if !strings.Contains(names, name) {
			t.Errorf("no plot %q among\n%s", name, names)
		}
	}
	if page.Tables != len(page.Plots)+3 || len(page.Cut) > 0 || page.Sideways {
		t.Errorf("%d tables, labels cut off: %q, wider than the window: %v", page.Tables, page.Cut, page.Sideways)
	}
	for _, address := range b.requested() {
		if address != "file://"+file && !strings.HasPrefix(address, "data:") && !strings.HasPrefix(address, "chrome://") {
			t.Errorf("asked for %s", address)
		}
	}
	var console []map[string]any
	b.ask("POST", "/se/log", map[string]string{"type": "browser"}, &console)
	if len(console) > 0 {
		t.Errorf("the console says %v", console)
	}
}

// On a real server: bursts of MONITOR, the price of them, and a user without the right to it.
func TestAuditOnARealServerNamesWriterAndCostAndLeavesItAsItWas(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := &stage{t: t, clock: lock.Machine, vars: map[string]string{"GETSETLOCK_REDIS": server.URL()}}
	conn := server.Pool().Get()
	defer conn.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case now := <-tick.C:
				stamp := now.Add(time.Minute + 3*time.Second).UnixMilli() // three seconds ahead
				_, _ = conn.Do("SETNX", "lock:a", stamp)
				_, _ = conn.Do("GET", "lock:a")
				_, _ = conn.Do("DEL", "lock:a")
			}
		}
	}()
	got := s.run("audit", "--match", "lock:*", "--for", "3s", "--monitor", "--lease", "60s", "--dialect", "jedis", "--json")
	close(stop)
	<-stopped
	doc := documentOf[auditDocument](t, got)
	found := false
	for _, w := range doc.Writers {
		if w.Addr == nil || w.Offset.Low == nil || w.Offset.High == nil {
			continue
		}
		low, _ := w.Offset.Low.Float64()
		high, _ := w.Offset.High.Float64()
		found = found || low <= 2999 && high >= 2999
		t.Logf("%s: %v … %v ms", *w.Addr, low, high)
	}
	if !found || got.code != 1 {
		t.Errorf("code %d, %+v", got.code, doc.Writers)
	}
	if doc.Cost == nil || doc.Cost.Bursts == 0 || doc.Cost.PingOn == nil || doc.Cost.Share == nil {
		t.Errorf("%+v", doc.Cost)
	}
	if keys := fmt.Sprint(server.Do("DBSIZE")); keys != "0" && keys != "1" {
		t.Errorf("%s keys", keys)
	}
	s.vars["GETSETLOCK_REDIS"] = server.User("look", "pw", "~*", "+@all", "-monitor", "-client")
	doc = documentOf[auditDocument](t, s.run("audit", "--match", "lock:*", "--for", "1s", "--monitor", "--json"))
	missing := 0
	for _, source := range doc.Sources {
		if source.Missing != nil {
			missing++
			t.Logf("%s: %s", source.Source, *source.Missing)
		}
	}
	if missing < 2 {
		t.Errorf("%+v", doc.Sources)
	}
}
