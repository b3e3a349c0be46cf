package modern_test

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// TestTimesThatDoNotSuitTheServerNameBothFields: those that do not fit each other are package lock's to
// refuse, through which they come here.
func TestTimesThatDoNotSuitTheServerNameBothFields(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		const ms = time.Millisecond
		for _, c := range []struct {
			cfg  modern.Config
			of   lock.Config
			want []string // none: it fits
		}{
			{of: lock.Config{TTL: 10 * ms}},
			{of: lock.Config{TTL: 9 * ms}, want: []string{"TTL 9ms", "10ms", "RenewEvery is 3ms"}},
			{of: lock.Config{TTL: 9 * ms, RenewEvery: 2 * ms}, want: []string{"TTL 9ms", "RenewEvery is 2ms"}},
			{of: lock.Config{TTL: 60 * ms, RenewEvery: 50 * ms, Margin: 10 * ms}, want: []string{"TTL (60ms)", "RenewEvery (50ms)", "Margin (10ms)"}},
			{cfg: modern.Config{Replicas: 1}, of: lock.Config{TTL: 110 * ms, Margin: 9 * ms}},
			{cfg: modern.Config{Replicas: 1}, of: lock.Config{TTL: 110 * ms, Margin: 10 * ms}, want: []string{"TTL 110ms", "Margin 10ms", "ReplicaWait 100ms"}},
		} {
			client, err := lock.New(open(t, w, c.cfg), c.of)
			if err == nil {
				if err := client.Close(bg); err != nil {
					t.Error(err)
				}
			}
			if fits := len(c.want) == 0; fits != (err == nil) {
				t.Errorf("%+v: error %v", c.of, err)
				continue
			}
			for _, word := range c.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("error %q does not name %s", err, word)
				}
			}
		}
	})
}
