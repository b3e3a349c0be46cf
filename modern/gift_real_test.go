//go:build real

package modern_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/modern"
)

func TestWhoHeldTheKeyForLongGivesItOnInThePlainFormToo(t *testing.T) {
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
				if _, err := bs[0].Guard(bg, holder, func() {}); err != nil {
					t.Fatal(err)
				}
			}
			p := standFor(t, bs[1], "k")
			bs[0].Unguard(holder)
			free(t, holder)
			given, err := redis.String(s.Do("GET", "k"), nil)
			if watched != (err == nil) {
				t.Fatalf("behind the release the key holds %q, %v", given, err)
			}
			g := got(t, p)
			if watched && g.Token() != given {
				t.Errorf("the first in line has %q, and the key was given to %q", g.Token(), given)
			}
			free(t, g)
			redistest.NoKeys(t, s.Pool())
		})
	}
}

func TestWhoMayNotRunTheLinesScriptsDeletesTheKeyThatHeHeldForLong(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	b, err := modern.New(urlPool(s.User("u", "pw", "~app:*", "&*", "+@all")), modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for range 2 {
		g := try(t, b, "app:k")
		if _, err := b.Guard(bg, g, func() {}); err != nil {
			t.Fatal(err)
		}
		b.Unguard(g)
		free(t, g)
	}
	redistest.NoKeys(t, s.Pool())
}
