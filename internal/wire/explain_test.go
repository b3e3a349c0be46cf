// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// said are error replies recorded from Redis 2.8.19, 6.2.11, 7.0.15 and Valkey
// 9.1.2.
var said = []struct {
	is     func(error) bool
	advice string
	texts  []string
}{
	{IsWrongType, "another type", []string{
		"WRONGTYPE Operation against a key holding the wrong kind of value",
		"ERR Error running script (call to f_307b): @user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value ",
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 307b, on @user_script:1.",
	}},
	{IsUnknownCommand, "lacks this command", []string{
		"ERR unknown command 'NOSUCH'",
		"ERR unknown command `NOSUCH`, with args beginning with: `a`, ",
		"ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.",
		"ERR Unknown subcommand or wrong number of arguments for 'NOSUCH'. Try CLIENT HELP.",
		"ERR Syntax error, try CLIENT (LIST | KILL ip:port | GETNAME | SETNAME connection-name)",
		"ERR Error running script (call to f_d5b7): @user_script:1: @user_script: 1: Unknown Redis command called from Lua script ",
		"ERR Unknown Redis command called from script script: d5b7, on @user_script:1.",
		"ERR Unknown command called from script script: on @user_script:1.",
	}},
	{IsNoScript, "try again", []string{
		"NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT No matching script."}},
	{IsOOM, "maxmemory", []string{
		"OOM command not allowed when used memory > 'maxmemory'.",
		"ERR Error running script (call to f_897a): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.   ",
		"OOM command not allowed when used memory > 'maxmemory'. script: 897a, on @user_script:1.",
	}},
	{holdsNoNumber, "gsl:fence:", []string{
		"ERR Error running script (call to f_5abb): @user_script:26: user_script:26: getsetlock: gsl:fence:a holds no fencing number ",
		"ERR user_script:26: getsetlock: gsl:fence:a holds no fencing number script: 5abb, on @user_script:26.",
	}},
	{IsReadOnly, "primary", []string{
		"READONLY You can't write against a read only slave.",
		"ERR Error running script (call to f_897a): @user_script:1: @user_script: 1: -READONLY You can't write against a read only slave.   ",
		"READONLY You can't write against a read only replica. script: on @user_script:1.",
	}},
	{IsNoPerm, "ACL", []string{
		"NOPERM this user has no permissions to run the 'del' command or its subcommand",
		"NOPERM No permissions to access a channel",
		"ERR Error running script (call to f_b0d6): @user_script:1: @user_script: 1: The user executing the script can't run this command or subcommand",
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 3b0b, on @user_script:1.",
		"ERR ACL failure in script: User u has no permissions to run the 'del' command script: on @user_script:1.",
	}},
	{IsNoAuth, "password", []string{
		"NOAUTH Authentication required.",
		"WRONGPASS invalid username-password pair or user is disabled.",
		"ERR invalid password",
	}},
	{IsLoading, "reading its data", []string{"LOADING Redis is loading the dataset in memory"}},
	{IsBusy, "SCRIPT KILL", []string{
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."}},
	{
		coded("ERR This instance has cluster support disabled"), "no node of a cluster: write redis://",
		[]string{"ERR This instance has cluster support disabled"}},
	{IsCluster, "cluster", []string{
		"MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381",
		"CROSSSLOT Keys in request don't hash to the same slot"}},
}

func TestEveryRefusalIsRecognisedAsItself(t *testing.T) {
	for i, s := range said {
		for _, text := range s.texts {
			for _, err := range []error{redis.Error(text), fmt.Errorf("wrapped: %w", redis.Error(text))} {
				for j, other := range said {
					if got := other.is(err); got != (i == j) {
						t.Errorf("row %d takes %q of row %d: %v", j, text, i, got)
					}
				}
				if got := Explain(err); !strings.Contains(got, s.advice) {
					t.Errorf("advice on %q is %q", text, got)
				}
			}
		}
	}
}

func TestTextOfOtherErrorsIsNoRefusal(t *testing.T) {
	for _, err := range []error{
		nil,
		context.Canceled,
		redis.Error("ERR value is not an integer: READONLY "),
		fmt.Errorf("READONLY said a proxy"),
	} {
		for _, s := range said {
			if s.is(err) {
				t.Errorf("%v is taken for %q", err, s.texts[0])
			}
		}
	}
}

func TestEveryEndOfACallIsExplained(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{context.Canceled, ""},
		{&NotSentError{ErrClosed}, "closed"},
		{&UnknownError{Err: &silentError{}}, "silent"},
		{&UnknownError{Err: &lostError{fmt.Errorf("EOF")}}, "closed the connection"},
		{&NotSentError{&dialError{redis.Error("WRONGPASS no")}}, "password"},
		{redis.Error("ERR max number of clients reached"), "maxclients"},
		{redis.Error("ERR unknown command 'SENTINEL', with args"), "a server and no sentinel"},
		{redis.Error("MISCONF Redis is configured to save RDB snapshots"), "save to disk"},
		{redis.Error("NOREPLICAS Not enough good replicas to write."), "replicas"},
		{redis.Error("DENIED Redis is running in protected mode"), "protected mode"},
		{redis.Error("MASTERDOWN Link with MASTER is down"), "primary"},
		{&NotSentError{&dialError{redis.Error("ERR DB index is out of range")}}, "databases"},
		{redis.Error("ERR invalid DB index"), "databases"},
		{redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments"),
			"gsl:*"},
		{redis.Error("NOPERM No permissions to access a key"), "gsl:*"},
		{redis.Error("NOPERM this user has no permissions to run the 'scan' command"), "named command"},
		{&NotSentError{&dialError{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}},
			"--cacert"},
		{&NotSentError{&dialError{&tls.CertificateVerificationError{Err: x509.HostnameError{}}}},
			"another name"},
		{&NotSentError{&dialError{&net.OpError{Op: "dial", Net: "unix", Err: syscall.ENOENT}}}, "unixsocket"},
		{&NotSentError{&dialError{&net.OpError{Op: "dial", Net: "unix", Err: syscall.EACCES}}},
			"unixsocketperm"},
	} {
		got := Explain(c.err)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("advice on %v is %q, want %q in it", c.err, got, c.want)
		}
	}
}

// A report may fail on a full disk, in a missing folder, or without the right
// to write. That has nothing to do with the server, so there is no advice about
// it.
func TestFileErrorsAreNotExplainedAsSockets(t *testing.T) {
	for _, cause := range []error{syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.ENOSPC,
		syscall.EROFS, syscall.ENOTDIR} {
		for _, err := range []error{
			cause,
			&fs.PathError{Op: "open", Path: "/nonexistent/x.html", Err: cause},
			fmt.Errorf("writing the report: %w", &fs.PathError{Op: "write", Path: "x", Err: cause}),
			&os.SyscallError{Syscall: "fsync", Err: cause},
		} {
			if got := Explain(err); got != "" {
				t.Errorf("advice on %v is %q", err, got)
			}
		}
	}
	blocked := &NotSentError{&dialError{&net.OpError{Op: "dial", Net: "tcp", Err: syscall.EACCES}}}
	if got := Explain(blocked); strings.Contains(got, "socket") {
		t.Errorf("a firewall's refusal is explained as %q", got)
	}
}

// said by package redisconn, which knows what was given
type advised struct{ error }

func (advised) Advised() bool   { return true }
func (a advised) Unwrap() error { return a.error }

func TestErrorWithAdviceGetsNoOther(t *testing.T) {
	err := redis.Error("NOAUTH Authentication required.")
	if Explain(err) == "" || Explain(fmt.Errorf("dialing: %w", advised{err})) != "" {
		t.Errorf("%q, then %q", Explain(err), Explain(advised{err}))
	}
}
