// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// Package lock refuses times that do not fit each other; this test reaches them
// through lock.New.
func TestNewNamesBothFieldsThatDoNotFit(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		const ms = time.Millisecond
		for _, c := range []struct {
			cfg  modern.Config
			of   lock.Config
			want []string // empty: the times fit
		}{
			{of: lock.Config{TTL: 10 * ms}},
			{of: lock.Config{TTL: 9 * ms}, want: []string{"TTL 9ms", "10ms", "RenewEvery is 3ms"}},
			{of: lock.Config{TTL: 9 * ms, RenewEvery: 2 * ms},
				want: []string{"TTL 9ms", "RenewEvery is 2ms"}},
			{of: lock.Config{TTL: 60 * ms, RenewEvery: 50 * ms, Margin: 10 * ms},
				want: []string{"TTL (60ms)", "RenewEvery (50ms)", "Margin (10ms)"}},
			{cfg: modern.Config{Replicas: 1}, of: lock.Config{TTL: 110 * ms, Margin: 9 * ms}},
			{cfg: modern.Config{Replicas: 1}, of: lock.Config{TTL: 110 * ms, Margin: 10 * ms},
				want: []string{"TTL 110ms", "Margin 10ms", "ReplicaWait 100ms"}},
		} {
			client, err := lock.New(open(t, w, c.cfg), c.of)
			if err == nil {
				if err := client.Close(bg); err != nil {
					t.Error(err)
				}
			}
			if fits := len(c.want) == 0; fits != (err == nil) {
				t.Errorf("%+v: error %v", c.of, err)
				continue
			}
			for _, word := range c.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("error %q does not name %s", err, word)
				}
			}
		}
	})
}

func TestNewNamesAFieldWithAnImpossibleValue(t *testing.T) {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		return nil, errors.New("this test does not dial")
	}}
	for _, c := range []struct {
		cfg  modern.Config
		want string // empty: the value is allowed
	}{
		{cfg: modern.Config{Namespace: "grün.1"}},
		{cfg: modern.Config{Namespace: "a:b"}},
		{cfg: modern.Config{Namespace: "a b"}},
		{cfg: modern.Config{Namespace: "{a}"}},
		{modern.Config{Namespace: "a\n"}, "Namespace"},
		{modern.Config{Namespace: "\xff"}, "Namespace"},
		{cfg: modern.Config{Note: strings.Repeat("n", 200)}},
		{modern.Config{Note: strings.Repeat("n", 201)}, "Note has 201 bytes"},
		{modern.Config{Note: "a\tb"}, "Note"},
		{modern.Config{Note: "\xff"}, "Note is not UTF-8"},
		{modern.Config{Timeout: -1}, "Timeout is -1ns"},
		{modern.Config{Replicas: -1}, "Replicas is -1"},
		{modern.Config{ReplicaWait: time.Microsecond}, "ReplicaWait is 1µs"},
		{modern.Config{Replicas: 1, ReplicaWait: time.Second, Timeout: time.Second},
			"ReplicaWait (1s) must be less than Config.Timeout (1s)"},
		{modern.Config{Wake: 3}, "Wake is 3"},
	} {
		b, err := modern.New(pool, c.cfg)
		switch {
		case err == nil && c.want != "":
			t.Errorf("namespace %q, note %q: no error, want %q", c.cfg.Namespace, c.cfg.Note, c.want)
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("namespace %q, note %q: %q, want %q", c.cfg.Namespace, c.cfg.Note, err, c.want)
		}
		if b != nil {
			b.Close()
		}
	}
}
