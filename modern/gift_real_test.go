//go:build real

package modern_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/modern"
)

func TestReleaseReservesAKeyThatWasHeldForLong(t *testing.T) {
	for name, watched := range map[string]bool{"for long": true, "shortly": false} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Real(t, redistest.Options{})
			var bs []*modern.Backend
			for range 2 {
				b, err := modern.New(s.Pool(), modern.Config{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { b.Close() })
				bs = append(bs, b)
			}
			holder := try(t, bs[0], "k")
			if watched { // as a Client does after a while
				if _, err := watches.One(bg, bs[0], holder, func() {}); err != nil {
					t.Fatal(err)
				}
			}
			p := stand(t, bs[1], "k")
			bs[0].Unwatch(holder)
			free(t, holder)
			given, err := redis.String(s.Do("GET", "k"), nil)
			if watched != (err == nil) {
				t.Fatalf("after the release the key holds %q, %v", given, err)
			}
			g := got(t, p)
			if watched && given != g.Token()+" reserved" {
				t.Errorf("the first waiter has %q, and the key was %q", g.Token(), given)
			}
			free(t, g)
			redistest.NoKeys(t, s.Pool())
		})
	}
}

func TestReleaseDeletesKeyWhereQueueScriptsAreRefused(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	b, err := modern.New(urlPool(s.User("u", "pw", "~app:*", "&*", "+@all")), modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for range 2 {
		g := try(t, b, "app:k")
		if _, err := watches.One(bg, b, g, func() {}); err != nil {
			t.Fatal(err)
		}
		b.Unwatch(g)
		free(t, g)
	}
	redistest.NoKeys(t, s.Pool())
}
