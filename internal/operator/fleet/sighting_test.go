package fleet

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// Polls saw a killed client's stamp for 11 s, which may be no job. A job of 5 s
// whose release was seen refutes a claim of 2 s all the same.
func TestGuessReplacesNoProof(t *testing.T) {
	guess := Fact{Time: 11 * time.Second, Basis: string(census.Inferred)}
	proof := Fact{Time: 5 * time.Second, Basis: string(census.Measured)}
	more := Fact{Time: 7 * time.Second, Basis: string(census.Measured)}
	for _, c := range []struct{ a, b, want Fact }{
		{guess, proof, proof}, {proof, guess, proof}, {proof, more, more}, {more, proof, more},
		{Fact{}, guess, guess}, {guess, Fact{}, guess}, {Fact{}, proof, proof}, {proof, Fact{}, proof},
	} {
		if got := (Facts{Job: c.a}).with(Facts{Job: c.b}).Job; got != c.want {
			t.Errorf("%+v and %+v: %+v", c.a, c.b, got)
		}
	}
}
