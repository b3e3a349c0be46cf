// SPDX-License-Identifier: Apache-2.0

package out

import (
	"slices"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/redisconn"
)

// in returns an environment with a store called mem.
func in(vars map[string]string) *Env {
	return &Env{Getenv: func(name string) string { return vars[name] },
		Stores: map[string]backing.Store{"mem": {Name: "Memory", Port: "1"}}}
}

// A password reaches no server that it is not for.
func TestVariablesBelongToTheStoreOfAVariable(t *testing.T) {
	const word = redisconn.EnvPassword
	for _, c := range []struct {
		flags ServerFlags
		vars  map[string]string
		raw   string // empty: Redis
		word  string
		says  string
	}{
		{ServerFlags{}, nil, "", "", ""},
		{ServerFlags{Target: "mem://u@t"}, map[string]string{word: "w"}, "mem://u@t", "w", ""},
		{ServerFlags{}, map[string]string{EnvTarget: "mem://u@e", word: "w"}, "mem://u@e", "w", ""},
		{ServerFlags{Target: "mem://u@e"}, map[string]string{EnvTarget: "mem://u@e", word: "w"}, "mem://u@e",
			"w", ""},
		{ServerFlags{Target: "mem://u@t"}, map[string]string{EnvTarget: "mem://u@e", word: "w"}, "", "",
			"not used: $GETSETLOCK_PASSWORD, set for the server of $GETSETLOCK_TARGET, while --target names another"},
		{ServerFlags{Target: "mem://t"}, map[string]string{EnvTarget: "mem://u@e", word: "w"}, "mem://t", "",
			""},
		{ServerFlags{Target: "mem://t"}, map[string]string{redisconn.Env: "redis://r", word: "w"}, "mem://t",
			"", ""},
		{ServerFlags{Redis: "redis://f"}, map[string]string{EnvTarget: "mem://u@e", word: "w"}, "", "", ""},
		{ServerFlags{Redis: "redis://f", Target: "mem://t"}, nil, "", "", "name two servers"},
		{ServerFlags{}, map[string]string{EnvTarget: "mem://e", redisconn.Env: "redis://r"}, "", "",
			"name two servers"},
		{ServerFlags{Target: "mem://u:p@t"}, map[string]string{word: "w"}, "mem://u:p@t", "", ""},
		{ServerFlags{}, map[string]string{EnvTarget: "gone://e"}, "", "", "$GETSETLOCK_TARGET: "},
	} {
		got, err := c.flags.PickTarget(in(c.vars))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v, %v: %v", c.flags, c.vars, err)
			continue
		}
		if err == nil && (got != nil) != (c.raw != "") ||
			got != nil && (got.Raw != c.raw || got.Options.Password != c.word) {
			t.Errorf("%+v, %v: %+v", c.flags, c.vars, got)
		}
	}
}

func TestStoresVariablesReachNoRedisServer(t *testing.T) {
	vars := map[string]string{EnvTarget: "mem://u@e", redisconn.EnvPassword: "w"}
	f := ServerFlags{}
	if _, o := f.Picked(in(vars)); o.Password != "" {
		t.Error("the default server of Redis gets the store's password")
	}
	f.Redis = "redis://f"
	if _, o := f.Picked(in(vars)); o.Password != "" {
		t.Error("the server of --redis gets the store's password")
	}
}

func TestStartedProgramFindsTheStore(t *testing.T) {
	f := ServerFlags{Target: "mem://u@t:5"}
	want := []string{"GETSETLOCK_TARGET=mem://u@t:5", "GETSETLOCK_PASSWORD=w"}
	if got := f.Environment(in(map[string]string{redisconn.EnvPassword: "w"})); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
