package census

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// sights follows the markers of a watch: reads of a key that never exists,
// which MONITOR shows. A round of markers has one nonce, and one read in each
// spelling that old clients may use for keys.
type sights struct {
	spellings []dialect.Encoding
	nonce     string
	first     time.Time // the first of the round's reads that came back
	back      map[dialect.Encoding]bool
}

// sight takes a marker and reports whether the command was one. It applies the
// same scope as for acts: a marker in another database, or of names that are
// not watched, proves nothing.
func (c *Census) sight(o offset.Observed) bool {
	nonce, spelling, ok := scope.Sighted(o.Args[1])
	if !ok || !c.scope.Covers(o.DB, o.Args[1]) {
		return false
	}
	s := &c.sights
	if s.nonce != nonce {
		s.nonce, s.first, s.back = nonce, o.At, map[dialect.Encoding]bool{}
	}
	s.back[spelling] = true
	for _, e := range s.spellings {
		if !s.back[e] {
			return true
		}
	}
	v := c.source(SourceMonitor)
	v.sighted, v.unproved = latest(v.sighted, s.first), ""
	return true
}
