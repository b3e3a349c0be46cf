// SPDX-License-Identifier: Apache-2.0

package census

import (
	"cmp"
	"slices"
	"time"
)

// Severity ranks findings.
type Severity string

// The severities. An error is proved to break exclusion, or to have broken it.
// A warning may break exclusion, or costs liveness. A note is worth knowing.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityNote    Severity = "note"
)

// rank orders severities, the worst first.
func (s Severity) rank() int {
	return slices.Index([]Severity{SeverityError, SeverityWarning, SeverityNote}, s)
}

// Finding is one thing that a person should know, in sentences for people.
type Finding struct {
	Severity Severity `json:"severity"` // error, warning or note
	Kind     string   `json:"kind"`     // a word for scripts
	DB       int
	// key or prefix that it is about; null: fleet or server
	Key string `json:"key" answer:"bytes,null"`
	// address of the client that it is about; null: none
	Writer string `json:"writer" answer:"null"`
	What   string `json:"what"`   // the fact
	Advice string `json:"advice"` // what to do about it; empty: nothing
	// Off is how far a clock is off at least, if the finding says that;
	// negative: behind.
	Off time.Duration
}

// Compare orders findings for reading: the worst first, then by key, by writer
// and by text, so that the findings of two runs can be compared.
func (f Finding) Compare(g Finding) int {
	return cmp.Or(cmp.Compare(f.Severity.rank(), g.Severity.rank()),
		cmp.Compare(f.DB, g.DB), cmp.Compare(f.Key, g.Key),
		cmp.Compare(f.Writer, g.Writer), cmp.Compare(f.What, g.What))
}
