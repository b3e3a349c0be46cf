// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// The spread includes the server's clock, so old clients' clocks are no further
// off it.
func TestNewClientsAreToldOfTheServersClock(t *testing.T) {
	p := Plan{Protocol: "dual", Dialect: dialect.Jedis(), Clients: 2, Lease: time.Minute,
		Spread: 4 * time.Second}
	terms, err := p.terms()
	if err != nil {
		t.Fatal(err)
	}
	if terms.Spread != p.Spread || terms.Behind != p.Spread || terms.Ahead != p.Spread {
		t.Errorf("%+v", terms)
	}
}
