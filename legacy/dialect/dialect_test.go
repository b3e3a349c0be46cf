// SPDX-License-Identifier: Apache-2.0

package dialect_test

import (
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

func TestNamesOfDialectsAreRead(t *testing.T) {
	for _, name := range dialect.Names() {
		if d := dialect.Named(strings.ToUpper(name)); d.Name != name || d.Validate() != nil {
			t.Errorf("%s: %v, %v", name, d, d.Validate())
		}
	}
	if err := dialect.Named("jedi").Validate(); err == nil || !strings.Contains(err.Error(), "near: Jedis") {
		t.Errorf("a name that no dialect has: %v", err)
	}
}
