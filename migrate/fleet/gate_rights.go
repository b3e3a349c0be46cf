package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// takes are the commands by which old clients of a dialect take a lock.
// Getsetlock clients send neither SETNX nor GETSET, so all users may lose the
// right to those. They do need SET.
func takes(d dialect.Dialect) []string {
	if d.Acquire == dialect.AcquireSetnx {
		return []string{"SETNX", "GETSET"}
	}
	return []string{"SET"}
}

// aclLine is the ACL command that removes a user's right to take locks.
func aclLine(d dialect.Dialect, user string) string {
	line := "ACL SETUSER " + user
	for _, command := range takes(d) {
		line += " -" + strings.ToLower(command)
	}
	return line
}

// rights is what the server says of a user that old clients log in as.
type rights struct {
	user    string
	trouble string    // why the user may still take a lock, or why that is unknown; empty: it may not
	refused int64     // refused attempts of the user, as far as the server's log goes back
	last    time.Time // time of the last refused attempt
}

// readRights asks the server what these users may do. A command refused by ACL
// never appears in MONITOR and moves no count, so the server's own word is the
// evidence.
func readRights(ctx context.Context, mux *wire.Mux, namespace string, d dialect.Dialect, now time.Time,
	users []string) []rights {
	var out []rights
	for _, user := range users {
		r := rights{user: user}
		r.trouble = mayTake(ctx, mux, namespace, d, user)
		r.logged(ctx, mux, d, now)
		out = append(out, r)
	}
	return out
}

// mayTake says why a user may still take a lock of the namespace; empty where
// it may not.
func mayTake(ctx context.Context, mux *wire.Mux, namespace string, d dialect.Dialect, user string) string {
	name, _ := scope.Namespace(namespace, d.KeyEncoding).Sight("rights")
	key, err := d.EncodeKey(name)
	if err != nil {
		return err.Error()
	}
	for _, command := range takes(d) {
		args := []any{"DRYRUN", user, command, key, "1"}
		if command == "SET" {
			args = append(args, "NX")
		}
		answer, err := redis.String(mux.Do(ctx, "ACL", args...))
		switch {
		case wire.IsUnknownCommand(err), err != nil && strings.Contains(err.Error(), "nknown subcommand"):
			return "the server knows no ACL DRYRUN (Redis 7 and Valkey do): watch for --idle instead"
		case err != nil:
			return fmt.Sprintf("ACL DRYRUN %s %s: %v", user, command, err)
		case answer == "OK":
			return fmt.Sprintf("it may still send %s: %s", command, aclLine(d, user))
		}
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
		b.note("rights", "user %s may send none of %s, by ACL DRYRUN", r.user,
			strings.Join(takes(b.dialect), ", "))
		if r.refused > 0 {
			b.noteAt(r.last, "rights", "%d attempts of user %s were refused, by ACL LOG", r.refused, r.user)
		}
	}
	if all {
		b.claim("rights", "old clients log in as %s and as no other user", strings.Join(names, ", "))
	}
	return all
}
