// SPDX-License-Identifier: Apache-2.0

//go:build real

package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// TestOnlyARefusedCommandIsARightTaken asks servers of all ages about users
// with different rules. Every answer but the refusal of each command that could
// write a lock's key closes the gate.
func TestOnlyARefusedCommandIsARightTaken(t *testing.T) {
	none := []string{"+@all", "-@write", "-@scripting", "+del"}
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := b.Start(t, redistest.Options{})
			s.Do("SET", "stock:42", "1772452800000")
			asks := func(user string) string {
				t.Helper()
				d, err := open(s.Pool(), Options{Namespace: "stock", Refused: []string{user}})
				if err != nil {
					t.Fatal(err)
				}
				defer d.close()
				f, err := d.gather(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return f.rights[0].trouble
			}
			if !knowsDryrun(s) {
				if got := asks("default"); !strings.Contains(got, "no ACL DRYRUN") {
					t.Error(got)
				}
				return
			}
			for name, c := range map[string]struct {
				rules []string
				says  string // "": the right was taken
			}{
				"none":             {append([]string{"~stock:*"}, none...), ""},
				"none, all keys":   {append([]string{"allkeys"}, none...), ""},
				"nothing at all":   {nil, ""},
				"its pattern":      {[]string{"~stock:*", "+@all"}, "as SET, COPY, DECR"},
				"SET NX":           {[]string{"~stock:*", "+@all", "-setnx", "-getset"}, "as SET, COPY"},
				"scripts":          {[]string{"~*", "+@all", "-@write"}, "as EVAL, FCALL, EVALSHA"},
				"RENAME":           {append(slices.Clone(none), "~*", "+rename"), "as RENAME"},
				"one key":          {append(slices.Clone(none), "~*", "+set|stock:7"), "+set|stock:7"},
				"writing alone":    {[]string{"%W~stock:*", "+setnx", "-getset"}, "as SETNX"},
				"another pattern":  {[]string{"~order:*", "+@all"}, "'stock:gsl-rights' key"},
				"a selector":       {append(slices.Clone(none), "(%RW~stock:* +getset)"), "as GETSET"},
				"another selector": {append(slices.Clone(none), "(~order:* +set)"), "'stock:gsl-rights' key"},
			} {
				s.User("old", "pw", c.rules...)
				if got := asks("old"); c.says == "" && got != "" || !strings.Contains(got, c.says) {
					t.Errorf("%s: %q, not %q", name, got, c.says)
				}
			}
			if got := asks("default"); !strings.Contains(got, "ACL SETUSER default -@write") {
				t.Error(got)
			}
			if got := asks("nobody"); !strings.Contains(got, "no such user") {
				t.Error(got)
			}
		})
	}
}

// TestALockWonUntilTheRightIsTakenIsSeen: the keys are read after the server
// has refused the user, while a verb with --wait looks again and again.
func TestALockWonUntilTheRightIsTakenIsSeen(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	if !knowsDryrun(s) {
		t.Fatal("the server knows no ACL DRYRUN: put Redis 7 on PATH")
	}
	s.User("old", "pw", "~*", "+@all")
	gate := redistest.NewGate()
	pool := s.Wire(redistest.Rule{Command: "ACL", Do: redistest.HoldRequest(gate)}).Pool()
	d, err := open(pool, Options{Namespace: "stock", Refused: []string{"old"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	go func() {
		<-gate.Reached()
		s.Do("SETNX", "stock:42", time.Now().Add(time.Hour).UnixMilli())
		s.User("old", "pw", "-@write", "-@scripting", "+del")
		gate.Open()
	}()
	f, err := d.gather(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.rights[0].trouble != "" || f.survey.Live.count != 1 {
		t.Errorf("%+v, %d live values", f.rights, f.survey.Live.count)
	}
}

// TestRefusedAttemptsAreCounted: ACL LOG shows them, in each spelling of keys.
func TestRefusedAttemptsAreCounted(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := b.Start(t, redistest.Options{})
			if !knowsDryrun(s) {
				return
			}
			mux, err := wire.New(s.Pool(), wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer mux.Close()
			old, err := redis.DialURL(s.User("old", "pw", "~*", "+@all", "-@write", "-@scripting"))
			if err != nil {
				t.Fatal(err)
			}
			defer old.Close()
			if _, err := old.Do("SETNX", "lock:a", "1"); !wire.IsNoPerm(err) {
				t.Fatalf("SETNX of the old client: %v", err)
			}
			f := &facts{namespace: "lock", dialect: spring(dialect.JDK)}
			got := readRights(t.Context(), mux, f.dialect, time.Now(), f.keysAsked(), []string{"old"})[0]
			if got.trouble != "" || got.refused != 1 || time.Since(got.last).Abs() > time.Minute {
				t.Errorf("%+v", got)
			}
		})
	}
}

func knowsDryrun(s *redistest.Server) bool {
	conn := s.Pool().Get()
	defer conn.Close()
	_, err := conn.Do("ACL", "DRYRUN", "default", "PING")
	return err == nil
}

// spring is a RedisTemplate's dialect with one serializer for keys and values.
func spring(e dialect.Encoding) dialect.Dialect {
	d := dialect.Template()
	d.Name, d.KeyEncoding, d.ValueEncoding = "Spring", e, e
	return d
}
