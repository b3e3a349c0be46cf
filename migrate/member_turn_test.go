package migrate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// An attempt that waits for another one's round ends with its own context.
func TestTurnEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		round := make(turn, 1)
		if err := round.take(context.Background()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := round.take(ctx); err == nil {
			t.Error("two rounds at once")
		}
		round.give()
		if err := round.take(ctx); err != nil {
			t.Errorf("a free turn: %v", err)
		}
	})
}
