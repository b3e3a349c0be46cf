// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzWordsSurviveTheLine(f *testing.F) {
	for _, s := range []string{"", " ", "()", "(nil)", "a b", "a+b", "%", "a,b", "\n", "\x00", "é١", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := encodeWord(s)
		if strings.ContainsAny(line, " ,\n\r") {
			t.Fatalf("%q becomes %q, which ends the word", s, line)
		}
		if got, err := decodeWord(line); err != nil || got.null || got.text != s {
			t.Fatalf("%q comes back as %+v, %v", s, got, err)
		}
	})
}

func TestCallsTellNilErrorAndNoReplyApart(t *testing.T) {
	for s, want := range map[string]Call{
		"7,setnx,k,12,1,5,6": {
			ClockMillis: 7, Verb: "setnx", Key: "k", Value: "12", Reply: "1", Replied: true, SentMicros: 5,
			RepliedMicros: 6},
		"7,get,k,(nil),(nil),5,6": {
			ClockMillis: 7, Verb: "get", Key: "k", Nil: true, Replied: true, SentMicros: 5, RepliedMicros: 6},
		"7,get,k,(nil),(),5,6": {
			ClockMillis: 7, Verb: "get", Key: "k", Replied: true, SentMicros: 5, RepliedMicros: 6},
		"7,get,k,(nil),%3F,0,0": {ClockMillis: 7, Verb: "get", Key: "k"},
		"7,get,k,(nil),%3F,5,6": {
			ClockMillis: 7, Verb: "get", Key: "k", Reply: "?", Replied: true, SentMicros: 5,
			RepliedMicros: 6},
		"7,del,k,(nil),%21a.B,5,6": {
			ClockMillis: 7, Verb: "del", Key: "k", Exception: "a.B", Replied: true, SentMicros: 5,
			RepliedMicros: 6},
		"7,getset,a+b,%2C,%25,55,66": {
			ClockMillis: 7, Verb: "getset", Key: "a b", Value: ",", Reply: "%", Replied: true, SentMicros: 55,
			RepliedMicros: 66},
	} {
		if got, err := parseCall(s); err != nil || got != want {
			t.Errorf("%s\n%+v, %v\n%+v", s, got, err, want)
		}
	}
}

func TestMissingJarNamesTheCommandThatBuildsIt(t *testing.T) {
	_, err := Start(context.Background(), Options{Jar: filepath.Join(t.TempDir(), "none.jar")})
	if err == nil || !strings.Contains(err.Error(), "make prepare") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestMissingJavaNamesTheCommandThatInstallsIt(t *testing.T) {
	jar := filepath.Join(t.TempDir(), "interop.jar")
	if err := os.WriteFile(jar, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "")
	_, err := Start(context.Background(), Options{Jar: jar})
	if err == nil || !strings.Contains(err.Error(), "make prepare") {
		t.Errorf("%v", err)
	}
}
