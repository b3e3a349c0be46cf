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
)

// What the command finds in its environment. Key, token and number are those of the innermost run; the
// list has those of every run around it, so that a run of A in a run of B in a run of A does not wait
// for itself.
const (
	envKey   = "GETSETLOCK_KEY"
	envToken = "GETSETLOCK_TOKEN"
	envFence = "GETSETLOCK_FENCE" // not set where the lock has no number
	envHeld  = "GETSETLOCK_HELD"
)

// LockVariables are the variables that tell a command of the lock that it runs under.
var LockVariables = []string{envKey, envToken, envFence, envHeld}

// heldLock is an element of the list: a key, its token, its fencing number if it has one.
type heldLock [3]string

// around returns the locks of the runs that we are in, the innermost last.
func around(e *out.Env) []heldLock {
	var list []heldLock
	// A list that somebody else wrote, or cut off, is as good as none: tokens are compared anyway.
	_ = json.Unmarshal([]byte(e.Getenv(envHeld)), &list)
	if inner := (heldLock{e.Getenv(envKey), e.Getenv(envToken), e.Getenv(envFence)}); !slices.Contains(list, inner) {
		list = append(list, inner)
	}
	// An empty token would be found again in an empty value.
	return slices.DeleteFunc(list, func(h heldLock) bool { return h[0] == "" || h[1] == "" })
}

// environment is the command's under a lease of ours.
func (r *runner) environment(lease held) []string {
	h := heldLock{r.key, lease.Token()}
	if n, ok := lease.Fence(); ok {
		h[2] = strconv.FormatInt(n, 10)
	}
	return r.naming(h, append(around(r.env), h))
}

// naming is our environment with the lock that a command runs under and the server that keeps it.
// Nothing of another lock is left in it: a number of one must not be taken for that of the other.
// Nor is anything left of another server: a run inside compares tokens with the server that
// this run asked, wherever that server's address came from.
func (r *runner) naming(h heldLock, all []heldLock) []string {
	list, err := json.Marshal(all)
	if err != nil {
		list = nil // strings always can be marshalled
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

// joins returns the lock of a run around this one that holds the key, nil if there is none. The server
// is asked: the variables may be those of a run that ended long ago, left with a daemon that it
// started. Then the lock is taken anew; that is safe at any time.
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
		ok, err := r.keeper.holds(ctx, r.key, outer[1])
		if err != nil {
			return nil, out.CouldNot(err, "comparing %s with %s, to join the run around this one", envToken, r.keeper.where())
		}
		if ok {
			return &outer, nil
		}
	}
	if asked {
		r.env.Say(r.flags.server.Quiet, "warning: %s names %q, but the server does not hold it for that token any more; taking the lock anew", envKey, r.key)
	}
	return nil, nil
}

// join becomes the command. Nothing is left to do for us: the run around us holds and renews the
// lock, and its signals reach the command, which stays in its process group. The variables name the
// lock that was joined, also where another run stands between.
//
// Where the process cannot become another one (Windows, PID 1), it passes signals on to the
// command, which then is in a group of its own.
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
