package census

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// A hold that its own client did not end is no job. The leftover of a killed
// client may be deleted by doctor or by a person, also from the same host, and
// a client that takes a connection from a pool for each command may meet it.
func TestLeftoverThatAnotherClientEndsIsNoJob(t *testing.T) {
	const doctor = "10.0.0.1:59999" // on anna's host
	for name, c := range map[string]struct {
		end func(f *film)
		job time.Duration
	}{
		"own DEL":    {func(f *film) { f.do(5000, anna, "DEL", "stock") }, 5 * time.Second},
		"pool's DEL": {func(f *film) { f.do(5000, doctor, "DEL", "stock") }, 5 * time.Second},
		"own DEL, too late": {func(f *film) {
			takeover(f)
			f.do(13_000, anna, "DEL", "stock")
		}, 13 * time.Second},
		"another host's DEL": {func(f *film) { f.do(5000, bert, "DEL", "stock") }, 0},
		"script":             {func(f *film) { script(f, doctor) }, 0},
		"late pool's DEL": {func(f *film) {
			takeover(f)
			f.do(11_100, bert, "DEL", "stock")
			f.do(13_000, doctor, "DEL", "stock")
		}, 98 * time.Millisecond},
	} {
		f := newFilm(t, Config{Lease: 10 * time.Second, Gap: time.Second})
		f.look(-10, "stock", "")
		f.do(0, anna, "SETNX", "stock", stamp(0))
		c.end(f)
		if h := f.result().Evidence.LongestHold; h.Value != c.job {
			t.Errorf("%s: a job of %v, want %v", name, h.Value, c.job)
		}
	}
}

func takeover(f *film) {
	f.do(11_000, bert, "SETNX", "stock", stamp(11_000-50_000))
	f.do(11_001, bert, "GET", "stock")
	f.do(11_002, bert, "GETSET", "stock", stamp(11_000-50_000))
}

func script(f *film, addr string) {
	f.do(5000, addr, "EVALSHA", "abc", "1", "stock")
	f.add(offset.Observed{At: at(5000), Kind: offset.ObservedCommand, Addr: "lua",
		Args: []string{"DEL", "stock"}})
}
