package census

import (
	"cmp"
	"slices"
)

// Severity ranks findings.
type Severity string

// The severities. An error is proved to break exclusion, or to have broken it; a warning may, or costs
// liveness; a note is worth knowing.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityNote    Severity = "note"
)

// rank puts the worst first.
func (s Severity) rank() int {
	return slices.Index([]Severity{SeverityError, SeverityWarning, SeverityNote}, s)
}

// Finding is one thing that a person should know, in sentences for that person.
type Finding struct {
	Severity Severity
	Kind     string // a word for scripts: "overrun", "step", "mixture" …
	DB       int
	Key      string // bytes of the key or of the prefix that it speaks of; empty: the fleet or the server
	Writer   string // address; empty where it is about none
	What     string // what is so
	Advice   string // what to do about it; empty where there is nothing to do
}

// Compare puts findings into the order in which they are read: the worst first,
// then by key, by writer and by text, so that two runs can be compared.
func (f Finding) Compare(g Finding) int {
	return cmp.Or(cmp.Compare(f.Severity.rank(), g.Severity.rank()), cmp.Compare(f.DB, g.DB), cmp.Compare(f.Key, g.Key),
		cmp.Compare(f.Writer, g.Writer), cmp.Compare(f.What, g.What))
}
