// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// No client holds a key that a release left to old clients. Such an M does not
// stop Doctor from judging the stamp on L, and is not a problem itself.
func TestDoctorJudgesAKeyLeftToOldClients(t *testing.T) {
	w := redistest.New(t)
	value := pastBy(w, "lock:a", time.Hour)
	w.Mini.Set("{lock:a}:gsl", polite.Value("AAECAwQFBgcICQoLDA0ODw"))
	w.Mini.SetTTL("{lock:a}:gsl", 120*time.Millisecond)
	got := examined(t, w, Config{Dialects: jedis(), Behind: time.Second, Lease: time.Minute})
	at := slices.IndexFunc(got, func(c Complaint) bool { return c.Kind == "left" })
	if at < 0 || got[at].Severity != census.SeverityNote ||
		!strings.Contains(got[at].What, "nobody holds the lock; left to old clients for 120 ms") {
		t.Errorf("%+v", got)
	}
	if !slices.ContainsFunc(got, func(c Complaint) bool { return c.Key == "lock:a" && c.Kind == "dead" }) {
		t.Fatalf("%+v", got)
	}
	for m, want := range map[string]bool{
		"AAECAwQFBgcICQoLDA0ODw": false, polite.Value("AAECAwQFBgcICQoLDA0ODw"): true} {
		w.Mini.Set("lock:a", value)
		w.Mini.Set("{lock:a}:gsl", m)
		pool := w.Pool()
		err := Apply(t.Context(), pool, []Fix{{Do: FixDelete, Key: "lock:a", Value: value}},
			func(Fix, FixOutcome) {})
		pool.Close()
		if done := err == nil && !w.Mini.Exists("lock:a"); done != want {
			t.Errorf("M %q: fixed %v, %v", m, done, err)
		}
	}
}
