package modern

import (
	"reflect"
	"testing"
)

// TestAGrantIsKeptSmall is as that of a lease.
func TestAGrantIsKeptSmall(t *testing.T) {
	if of := reflect.TypeFor[grant](); of.Size() > 112 {
		t.Errorf("%v has %d bytes; at most 112", of, of.Size())
	}
}
