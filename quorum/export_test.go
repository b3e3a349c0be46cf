package quorum

import "time"

// Linger makes attempts wait at least so long for the votes past the majority,
// so that all that come count.
func (b *Backend) Linger(d time.Duration) { b.engine.lingers = d }
