// SPDX-License-Identifier: Apache-2.0

//go:build real

package quorum_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// A user with the rights that two documents name founds a quorum, waits, draws
// numbers and renews. No server's log shows a refusal.
func TestUserOfTheDocumentsLacksNoRight(t *testing.T) {
	var rules []string
	for _, in := range []struct{ path, line string }{
		{"../docs/guide/modern.md", "(?s)\n```\nACL SETUSER app on >SECRET (.*?)```\n"},
		{"../docs/guide/quorum.md", "5\\. Users need `([^`]*)` and the key `gsl:quorum`"},
	} {
		raw, err := os.ReadFile(in.path)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(in.line).FindStringSubmatch(string(raw))
		if found == nil {
			t.Fatalf("%s names no rights", in.path)
		}
		rules = append(rules, strings.Fields(found[1])...)
	}
	for _, binary := range redistest.Servers(t) {
		if !binary.ACL {
			continue
		}
		t.Run(binary.Name, func(t *testing.T) {
			t.Parallel()
			withRights(t, binary, rules)
		})
	}
}

func withRights(t *testing.T, binary redistest.Binary, rules []string) {
	var servers []*redistest.Server
	var urls, plain []string
	for range 3 {
		s := binary.Start(t, redistest.Options{})
		all := slices.Clone(rules)
		for _, native := range []string{"delex", "delifeq"} {
			if s.Do("COMMAND", "INFO", native).([]any)[0] != nil {
				all = append(all, "+"+native)
			}
		}
		servers, urls = append(servers, s), append(urls, s.User("u", "pw", all...))
		plain = append(plain, s.User("plain", "pw", append(slices.Clone(all), "-hget")...))
	}
	open := func(urls []string) *lock.Client {
		var members []quorum.Member
		for i, url := range urls {
			pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.DialURL(url) }}
			m, err := modern.New(pool, modern.Config{Name: servers[i].Addr(), Fence: true})
			if err != nil {
				t.Fatal(err)
			}
			members = append(members, m)
		}
		b, err := quorum.New(members, quorum.Config{Fences: true})
		if err != nil {
			t.Fatal(err)
		}
		c, err := lock.New(b, lock.Config{TTL: realTTL, Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(bg) })
		return c
	}
	_, err := open(urls).TryAcquire(bg, "app:k")
	if err == nil || !strings.Contains(err.Error(), "votes in 2m0s") {
		t.Errorf("on new servers: %v", err)
	}
	seat(t, servers, realTTL)
	one, other := open(urls), open(urls)
	l, err := one.Acquire(bg, "app:k")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Renew(bg); err != nil {
		t.Error(err)
	}
	got := other.Request(bg, "app:k")
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	r := <-got
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if err := r.Lease.Release(); err != nil {
		t.Error(err)
	}
	for _, s := range servers {
		if refused := s.Do("ACL", "LOG").([]any); len(refused) > 0 {
			t.Errorf("refused: %q", refused)
		}
	}
	_, err = open(plain).Acquire(bg, "app:k")
	if err == nil || !strings.Contains(err.Error(), "its user needs +info") {
		t.Errorf("without the rights of a quorum: %v", err) // after a minute if it waited
	}
}
