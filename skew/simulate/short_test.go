package simulate

import "time"

// Short words for the tables of these tests.
const (
	ms  = time.Millisecond
	sec = time.Second
)
