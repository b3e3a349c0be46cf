// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// takes are the commands by which old clients of a dialect take a lock.
func takes(d dialect.Dialect) []string {
	if d.Acquire == dialect.AcquireSetnx {
		return []string{"SETNX", "GETSET"}
	}
	return []string{"SET"}
}

// aclLine is the ACL command that removes a user's right to take locks. DEL
// stays, so that a client that holds a lock can still release it.
func aclLine(user string) string { return "ACL SETUSER " + user + " -@write -@scripting +del" }

// rights is what the server says of a user that old clients log in as.
type rights struct {
	user    string
	trouble string    // why the user may still take a lock, or why that is unknown; empty: it may not
	refused int64     // refused attempts of the user, as far as the server's log goes back
	last    time.Time // time of the last refused attempt
}

// readRights asks the server what these users may do with the keys. A command
// refused by ACL never appears in MONITOR and moves no count, so the server's
// own word is the evidence.
func readRights(ctx context.Context, mux *wire.Mux, d dialect.Dialect, now time.Time, keys, users []string,
) []rights {
	if len(users) == 0 {
		return nil
	}
	writers, err := readWriters(mux.Do(ctx, "COMMAND"))
	var out []rights
	for _, user := range users {
		r := rights{user: user}
		if r.trouble = fmt.Sprint(err); err == nil {
			r.trouble = mayWrite(ctx, mux, user, writers, keys)
		}
		r.logged(ctx, mux, d, now)
		out = append(out, r)
	}
	return out
}

// keysAsked are the keys about which the server is asked what a user may do: a
// made-up one that begins with the namespace and its separator, and some that a
// watcher saw. A user who may send a command for other keys is not refused the
// command, whichever key is asked about.
func (f *facts) keysAsked() []string {
	name := f.namespace
	if last, _ := utf8.DecodeLastRuneInString(name); unicode.IsLetter(last) || unicode.IsDigit(last) {
		name += ":"
	}
	var keys []string
	if made, err := f.dialect.EncodeKey(name + "gsl-rights"); err == nil {
		keys = append(keys, made)
	}
	for _, k := range f.sighting.Keys[:min(len(f.sighting.Keys), mostNames)] {
		keys = append(keys, k.Key)
	}
	return keys
}

// collections are the categories of commands that write values other than
// strings. removers write no value, and old clients may need them to release.
var (
	collections = []string{"@hash", "@list", "@set", "@sortedset", "@stream", "@geo"}
	removers    = []string{"del", "unlink", "expire", "pexpire", "expireat", "pexpireat", "persist"}
)

var errNoDryrun = errors.New(
	"the server knows no ACL DRYRUN (Redis 7 and Valkey do): watch for --idle instead")

// writer is a command that could leave a value on a lock's key.
type writer struct {
	name string
	args int // number of its arguments, at least
}

// readWriters reads them from the server's table of commands: those that write
// and have keys, and those that run scripts.
func readWriters(table any, err error) ([]writer, error) {
	rows, err := redis.Values(table, err)
	if err != nil {
		return nil, fmt.Errorf("COMMAND: %w", err)
	}
	var writers []writer
	for _, raw := range rows {
		row, err := redis.Values(raw, nil)
		if err != nil || len(row) < 7 {
			return nil, errNoDryrun
		}
		name, _ := redis.String(row[0], nil)
		arity, _ := redis.Int(row[1], nil)
		flags, _ := redis.Strings(row[2], nil)
		first, _ := redis.Int(row[3], nil)
		of, _ := redis.Strings(row[6], nil)
		keyed := first > 0 || slices.Contains(flags, "movablekeys")
		writes := slices.Contains(flags, "write") ||
			slices.Contains(of, "@scripting") && !slices.Contains(flags, "readonly")
		other := slices.ContainsFunc(of, func(c string) bool { return slices.Contains(collections, c) })
		if keyed && writes && !other && !slices.Contains(removers, name) {
			writers = append(writers, writer{name, max(arity, -arity) - 1})
		}
	}
	slices.SortFunc(writers, func(a, b writer) int { // SET first
		return cmp.Or(cmp.Compare(len(a.name), len(b.name)), strings.Compare(a.name, b.name))
	})
	return writers, nil
}

// mayWrite says why a user may still write one of the keys; empty where it may
// not. Only the refusal of a command counts. A refused key says that the user
// may send the command elsewhere, and so that the keys asked about may be the
// wrong ones.
func mayWrite(ctx context.Context, mux *wire.Mux, user string, writers []writer, keys []string) string {
	described, err := redis.Values(mux.Do(ctx, "ACL", "GETUSER", user))
	switch {
	case errors.Is(err, redis.ErrNil):
		return "the server knows no such user"
	case err != nil:
		return fmt.Sprintf("ACL GETUSER %s: %v", user, err)
	}
	words := strings.Fields(fmt.Sprintf("%s", described))
	var cmds []wire.Command
	for _, w := range writers {
		for _, rule := range words {
			if strings.HasPrefix(rule, "+"+w.name+"|") {
				return fmt.Sprintf("its rule %s lets %s through for that argument: %s", rule, w.name,
					aclLine(user))
			}
		}
		for _, key := range keys {
			args := []any{"DRYRUN", user, w.name}
			for range w.args {
				args = append(args, key)
			}
			cmds = append(cmds, wire.Cmd("ACL", args...))
		}
	}
	var allowed []string
	for i, reply := range mux.Batch(ctx, cmds) {
		command, key := strings.ToUpper(writers[i/len(keys)].name), keys[i%len(keys)]
		answer, err := redis.String(reply.Value, reply.Err)
		switch {
		case wire.IsUnknownCommand(err):
			return errNoDryrun.Error()
		case err != nil:
			return fmt.Sprintf("ACL DRYRUN %s %s: %v", user, command, err)
		case answer == "OK":
			allowed = append(allowed, command)
		case !strings.HasSuffix(strings.ToUpper(answer), "NO PERMISSIONS TO RUN THE '"+command+"' COMMAND"):
			return fmt.Sprintf("ACL DRYRUN %s %s %q answers %q, which refuses no command, so the user may send %s elsewhere: %s", user, command, key, answer, command, aclLine(user))
		}
	}
	if allowed = slices.Compact(allowed); len(allowed) > 0 {
		return fmt.Sprintf("it may still send commands that could write a lock's key (%d, as %s): %s",
			len(allowed), strings.Join(allowed[:min(len(allowed), mostNames)], ", "), aclLine(user))
	}
	return ""
}

// logged reads from ACL LOG how many attempts of the user were refused.
func (r *rights) logged(ctx context.Context, mux *wire.Mux, d dialect.Dialect, now time.Time) {
	entries, err := redis.Values(mux.Do(ctx, "ACL", "LOG", 128))
	if err != nil {
		return // no gate needs it
	}
	for _, e := range entries {
		r.entry(e, d, now)
	}
}

// entry reads one entry of ACL LOG: names and values in turn, some of them
// numbers.
func (r *rights) entry(raw any, d dialect.Dialect, now time.Time) {
	fields, err := redis.Values(raw, nil)
	if err != nil {
		return
	}
	entry := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		entry[text(fields[i])] = text(fields[i+1])
	}
	refused := slices.ContainsFunc(takes(d),
		func(command string) bool { return strings.EqualFold(entry["object"], command) })
	if entry["username"] != r.user || !refused {
		return
	}
	n, _ := strconv.ParseInt(entry["count"], 10, 64)
	r.refused += n
	if age, err := time.ParseDuration(entry["age-seconds"] + "s"); err == nil && now.Add(-age).After(r.last) {
		r.last = now.Add(-age)
	}
}

func text(v any) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprint(v)
}

// taken reports that the server refuses every user that old clients log in as,
// and notes or blocks accordingly. Then no window is needed: the server refuses
// a client that returns.
func (b *builder) taken() bool {
	if len(b.rights) == 0 {
		return false
	}
	all := true
	var names []string
	for _, r := range b.rights {
		names = append(names, r.user)
		if r.trouble != "" {
			all = false
			b.block("rights", "user %s: %s", r.user, r.trouble)
			continue
		}
		b.note("rights", "user %s may send no command that could write a lock's key, by ACL DRYRUN", r.user)
		if r.refused > 0 {
			b.noteAt(r.last, "rights", "%d attempts of user %s were refused, by ACL LOG", r.refused, r.user)
		}
	}
	if all {
		b.claim("rights", "old clients log in as %s and as no other user", strings.Join(names, ", "))
	}
	return all
}
