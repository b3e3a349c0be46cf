// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"errors"
	"testing"

	"github.com/getsetlock/getsetlock/internal/wire"
)

// Close waits for the goroutines of rounds, and none may begin after that.
func TestNoRoundBeginsAfterClose(t *testing.T) {
	var r rounds
	ask := func(string) (int64, error) { return 1, nil }
	if n, err := r.join(context.Background(), "k", ask); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	r.close()
	if _, err := r.join(context.Background(), "k", ask); !errors.Is(err, wire.ErrClosed) {
		t.Error(err)
	}
}
