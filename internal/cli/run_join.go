package cli

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/getsetlock/getsetlock/internal/child"
)

// What the command finds in its environment. Key and token are those of the innermost run; the list
// has those of every run around it, so that a run of A in a run of B in a run of A does not wait for
// itself.
const (
	envKey   = "GETSETLOCK_KEY"
	envToken = "GETSETLOCK_TOKEN"
	envHeld  = "GETSETLOCK_HELD"
)

// heldLock is an element of the list: a key and its token.
type heldLock [2]string

// around returns the locks of the runs that we are in, the innermost last.
func (e *Env) around() []heldLock {
	var list []heldLock
	// A list that somebody else wrote, or cut off, is as good as none: tokens are compared anyway.
	_ = json.Unmarshal([]byte(e.Getenv(envHeld)), &list)
	if inner := (heldLock{e.Getenv(envKey), e.Getenv(envToken)}); inner[0] != "" && inner[1] != "" && !slices.Contains(list, inner) {
		list = append(list, inner)
	}
	return list
}

// environment is the command's.
func (r *runner) environment(token string) []string {
	env := slices.DeleteFunc(r.env.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == envKey || name == envToken || name == envHeld
	})
	list, err := json.Marshal(append(r.env.around(), heldLock{r.key, token}))
	if err != nil {
		list = nil // strings always can be marshalled
	}
	return append(env, envKey+"="+r.key, envToken+"="+token, envHeld+"="+string(list))
}

// joins reports whether a run around this one holds the key. The server is asked: the variables may
// be those of a run that ended long ago, left with a daemon that it started. Then the lock is taken
// anew; that is safe at any time.
func (r *runner) joins(ctx context.Context) (bool, error) {
	if r.flags.noJoin {
		return false, nil
	}
	asked := false
	for _, outer := range r.env.around() {
		if outer[0] != r.key {
			continue
		}
		asked = true
		ok, err := r.keeper.holds(ctx, r.key, outer[1])
		if err != nil {
			return false, couldNot(err, "comparing %s with %s, to join the run around this one", envToken, r.keeper.where())
		}
		if ok {
			return true, nil
		}
	}
	if asked {
		r.env.say(r.flags.server.quiet, "warning: %s names %q, but the server does not hold it for that token any more; taking the lock anew", envKey, r.key)
	}
	return false, nil
}

// join becomes the command. Nothing is left to do for us: the run around us holds and renews the
// lock, and its signals reach the command, which stays in its process group.
func (r *runner) join() error {
	err := r.env.Replace(r.command, r.env.Environ())
	if !errors.Is(err, errors.ErrUnsupported) {
		return startFailure(err)
	}
	proc, err := child.Start(child.Spec{
		Args: r.command, Env: r.env.Environ(),
		Stdin: r.env.Stdin, Stdout: r.env.Stdout, Stderr: r.env.Stderr, Clock: r.env.Clock,
	})
	if err != nil {
		return startFailure(err)
	}
	if exited := proc.Wait(); exited.Code != 0 {
		return exit(exited.Code)
	}
	return nil
}
