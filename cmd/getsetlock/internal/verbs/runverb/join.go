// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/redisconn"
)

// The variables that the command finds in its environment. Key, token and fence
// are those of the innermost run. The list has the locks of all runs around the
// command, so that a run of A inside a run of B inside a run of A does not wait
// for itself.
const (
	envKey   = "GETSETLOCK_KEY"
	envToken = "GETSETLOCK_TOKEN"
	envFence = "GETSETLOCK_FENCE" // not set where the lock has no fencing number
	envHeld  = "GETSETLOCK_HELD"
)

// LockVariables are the variables that describe to a command the lock under
// which it runs.
var LockVariables = []string{envKey, envToken, envFence, envHeld}

// heldLock is an element of the list: key, token, and fencing number or "".
type heldLock [3]string

// around returns the locks of the runs around this process, the innermost last.
func around(e *out.Env) []heldLock {
	var list []heldLock
	// A list that another program wrote or cut off is ignored. That is safe:
	// each token is compared with the server's.
	_ = json.Unmarshal([]byte(e.Getenv(envHeld)), &list)
	if inner := (heldLock{e.Getenv(envKey), e.Getenv(envToken), e.Getenv(envFence)}); !slices.Contains(list,
		inner) {
		list = append(list, inner)
	}
	// An empty token would equal the empty value of a key.
	return slices.DeleteFunc(list, func(h heldLock) bool { return h[0] == "" || h[1] == "" })
}

// environment returns the command's environment under a lease of this run.
func (r *runner) environment(lease held) []string {
	h := heldLock{r.key, lease.Token()}
	if n, ok := lease.Fence(); ok {
		h[2] = strconv.FormatInt(n, 10)
	}
	return r.naming(h, append(around(r.env), h))
}

// naming returns this process's environment, extended by the lock under which
// the command runs and the server that keeps it. Variables of other locks are
// removed: a program must not take one lock's number for another's. Variables
// of other servers are removed too, since an inner run must compare tokens with
// the server that this run used.
func (r *runner) naming(h heldLock, all []heldLock) []string {
	list, err := json.Marshal(all)
	if err != nil {
		list = nil // strings can always be marshalled
	}
	env := slices.DeleteFunc(r.env.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(LockVariables, name) || slices.Contains(out.ServerVariables, name)
	})
	env = append(env, r.flags.server.Environment(r.env)...)
	env = append(env, envKey+"="+h[0], envToken+"="+h[1])
	if h[2] != "" {
		env = append(env, envFence+"="+h[2])
	}
	return append(env, envHeld+"="+string(list))
}

// joins returns the lock of an outer run that holds the key, and nil if there
// is none. It asks the server, since the variables may come from a run that
// ended long ago and left them to a daemon. In that case run acquires the lock
// anew, which is always safe.
func (r *runner) joins(ctx context.Context) (*heldLock, error) {
	if r.flags.noJoin {
		return nil, nil
	}
	asked := false
	for _, outer := range around(r.env) {
		if outer[0] != r.key {
			continue
		}
		asked = true
		seen, err := r.keeper.look(ctx, r.key)
		if err != nil {
			return nil, out.CouldNot(err, "comparing %s with the lock on %s, to join the outer run", envToken,
				r.keeper.where)
		}
		if seen.token == outer[1] {
			return &outer, nil
		}
	}
	switch {
	case asked && r.elsewhere():
		r.env.Say(r.flags.server.Quiet, "warning: %s is %q, but the outer run named another server than %s, which does not hold that key for its token; acquiring the lock there too", envKey, r.key, r.keeper.where)
	case asked:
		r.env.Say(r.flags.server.Quiet, "warning: %s is %q, but the server no longer holds that key for the token of the outer run; acquiring the lock anew", envKey, r.key)
	}
	return nil, nil
}

// elsewhere reports whether this run names another server than the run around
// it, which left its own in the environment.
func (r *runner) elsewhere() bool {
	used := r.flags.server.Environment(r.env)[0]
	var outer []string
	for _, name := range []string{redisconn.Env, out.EnvTarget} {
		if address := r.env.Getenv(name); address != "" {
			outer = append(outer, name+"="+address)
		}
	}
	return len(outer) > 0 && !slices.Contains(outer, used)
}

// join replaces this process by the command. The outer run holds and renews the
// lock, so nothing is left to do here. Its signals reach the command, which
// stays in the same process group. The variables name the joined lock, even if
// another run lies between.
//
// Where a process cannot replace itself (on Windows, and as PID 1), join starts
// the command in a process group of its own and passes signals on to it.
func (r *runner) join(outer heldLock, signals chan os.Signal) error {
	env := r.naming(outer, around(r.env))
	err := r.env.Replace(r.command, env)
	if !errors.Is(err, errors.ErrUnsupported) {
		return startFailure(err)
	}
	defer r.env.Notify(signals, child.Passed()...)()
	proc, err := child.Start(r.spec(env, signals))
	if err != nil {
		return startFailure(err)
	}
	return ended(proc.Wait())
}
