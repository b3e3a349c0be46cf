// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

func TestValidateNamesTheFlag(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Plan)
	}{
		{"--protocol ", func(p *Plan) { p.Protocol = "sealed" }},
		{"--clients 0", func(p *Plan) { p.Clients = 0 }},
		{"--clients 1: --protocol legacy takes 2 to 200 programs", func(p *Plan) { p.Clients = 1 }},
		{"--clients 201", func(p *Plan) { p.Clients = 201 }},
		{"--acquisitions 0", func(p *Plan) { p.Acquisitions = 0 }},
		{"--acquisitions 10000001", func(p *Plan) { p.Acquisitions = 10_000_001 }},
		{"--lease -1s", func(p *Plan) { p.Lease = -time.Second }},
		{"--poll 25h", func(p *Plan) { p.Poll = 25 * time.Hour }},
		{"--spread -1s", func(p *Plan) { p.Spread = -time.Second }},
		{"--crashes -1", func(p *Plan) { p.Crashes = -1 }},
		{"--overruns -1", func(p *Plan) { p.Overruns = -1 }},
		{"--preset fail-over: in a rehearsal the server's clock is right",
			func(p *Plan) { p.Preset = "fail-over" }},
		{"--preset \"sundial\": must be one of", func(p *Plan) { p.Preset = "sundial" }},
		{"--preset and --spread", func(p *Plan) { p.Preset, p.Spread = "ntpd", time.Second }},
		{"--overruns 1: --protocol bare has no leases", func(p *Plan) { p.Protocol, p.Overruns = "bare", 1 }},
		{"--orders", func(p *Plan) { p.Orders = nil }},
		{"--lease: ", func(p *Plan) { p.Dialect = dialect.Template(); p.Dialect.Lease = 0 }},
		{"--lease, --spread: ", func(p *Plan) { p.Spread = time.Minute }},
		{"lease rule", func(p *Plan) { p.Spread, p.Lease = 8*time.Second, 10*time.Second }},
	} {
		p := DefaultPlan()
		c.change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want an error with %q", err, c.want)
		}
	}
	if err := DefaultPlan().Validate(); err != nil {
		t.Error(err)
	}
}

func TestFatesAreDrawnAsOftenAsAsked(t *testing.T) {
	p := DefaultPlan()
	p.Crashes, p.Overruns = 4, 3
	count := func(fates map[int]fate) map[fate]int {
		n := map[fate]int{}
		for at, f := range fates {
			if at < 0 || at >= p.Acquisitions {
				t.Errorf("acquisition %d of %d", at, p.Acquisitions)
			}
			n[f]++
		}
		return n
	}
	if n := count(p.fates(0, 2, true)); n[dies] != 3 || n[takesAllDown] != 1 || n[overruns] != 3 {
		t.Errorf("fates of old clients: %v", n)
	}
	if n := count(p.fates(1, 2, false)); n[dies] != 3 || n[takesAllDown] != 1 || n[overruns] != 0 {
		t.Errorf("fates of new clients: %v", n)
	}
	if n := count(p.fates(0, 1, true)); n[dies] != 4 || n[takesAllDown] != 0 {
		t.Errorf("fates of a single group: %v", n)
	}
	p.Acquisitions, p.Crashes = 2, 50
	if n := count(p.fates(0, 1, true)); n[dies] != 1 {
		t.Errorf("more deaths than acquisitions: %v", n)
	}
}

func TestStockIsSmallerThanTheOrders(t *testing.T) {
	p := DefaultPlan()
	ordered := map[string]int{}
	for i := range p.Acquisitions {
		o := p.Orders[i%len(p.Orders)]
		ordered[o.SKU] += o.Quantity
	}
	products, err := p.products("")
	if err != nil || len(products) != len(ordered) {
		t.Fatal(products, err)
	}
	for sku, n := range ordered {
		if stock := products[sku].stock; stock <= 0 || stock >= n {
			t.Errorf("%d of %s there, %d ordered", stock, sku, n)
		}
	}
}

func TestForServerShrinksOnlyDefaults(t *testing.T) {
	p := DefaultPlan()
	p.ForServer(func(string) bool { return false })
	if p.Acquisitions != 1000 || p.Lease != 5*time.Second || p.Latency.Most() != 0 {
		t.Errorf("%+v", p)
	}
	p = DefaultPlan()
	p.ForServer(func(string) bool { return true })
	if p.Acquisitions != DefaultPlan().Acquisitions || p.Lease != 0 || p.Latency.Most() != 0 {
		t.Errorf("%+v", p)
	}
}

// The spread includes the server's clock, so old clients' clocks are no further
// off it.
func TestNewClientsAreToldOfTheServersClock(t *testing.T) {
	p := DefaultPlan()
	p.Protocol, p.Lease, p.Spread = "dual", time.Minute, 4*time.Second
	terms := must(p.terms())
	if terms.Spread != p.Spread || terms.Behind != p.Spread || terms.Ahead != p.Spread {
		t.Errorf("%+v", terms)
	}
}
