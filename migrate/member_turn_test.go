package migrate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
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

// An Acquire waits out trouble that passes, also where a member's own commands
// meet it.
func TestMembersTroubleSaysWhetherItPasses(t *testing.T) {
	for text, passes := range map[string]bool{
		"BUSY Redis is busy running a script": true, redistest.Loading: true,
		"WRONGTYPE Operation against a key holding the wrong kind of value": false,
	} {
		err := (&Member{}).refused("look for the member in", "gsl:roster:", redis.Error(text))
		var judged interface{ Passing() bool }
		if said := errors.As(err, &judged) && judged.Passing(); said != passes {
			t.Errorf("%v: passes %v", err, said)
		}
	}
}
