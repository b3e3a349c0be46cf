//go:build real

package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// TestServersSayWhatAUserMayDo removes a user's right, in each spelling of the
// keys, on servers of all ages. ACL LOG shows the refused attempt.
func TestServersSayWhatAUserMayDo(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := b.Start(t, redistest.Options{})
			pool := s.Pool()
			mux, err := wire.New(pool, wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer mux.Close()
			ask := func(d dialect.Dialect) rights {
				return readRights(t.Context(), mux, "lock", d, time.Now(), []string{"old"})[0]
			}
			d := spring(dialect.JDK)
			if _, err := redis.String(mux.Do(t.Context(), "ACL", "DRYRUN", "default", "PING")); err != nil {
				if got := ask(d); !strings.Contains(got.trouble, "no ACL DRYRUN") {
					t.Errorf("%+v", got)
				}
				return
			}
			url := s.User("old", "pw", "~*", "+@all")
			if got := ask(d); !strings.Contains(got.trouble,
				"may still send SETNX: ACL SETUSER old -setnx -getset") {
				t.Errorf("with its rights: %+v", got)
			}
			s.Do("ACL", "SETUSER", "old", "-setnx")
			if got := ask(d); !strings.Contains(got.trouble, "may still send GETSET") {
				t.Errorf("with half of them: %+v", got)
			}
			s.Do("ACL", "SETUSER", "old", "-getset")
			old, err := redis.DialURL(url)
			if err != nil {
				t.Fatal(err)
			}
			defer old.Close()
			if _, err := old.Do("SETNX", "lock:a", "1"); !wire.IsNoPerm(err) {
				t.Fatalf("SETNX of the old client: %v", err)
			}
			got := ask(d)
			if got.trouble != "" || got.refused != 1 || time.Since(got.last).Abs() > time.Minute {
				t.Errorf("without: %+v", got)
			}
			if got := ask(dialect.SetDel()); !strings.Contains(got.trouble, "may still send SET") {
				t.Errorf("a dialect of SET NX: %+v", got)
			}
		})
	}
}

// spring is a RedisTemplate's dialect with one serializer for keys and values.
func spring(e dialect.Encoding) dialect.Dialect {
	d := dialect.Template()
	d.Name, d.KeyEncoding, d.ValueEncoding = "Spring", e, e
	return d
}
