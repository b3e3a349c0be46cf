package runverb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// modernKeeper keeps the lock of run as a token.
type modernKeeper struct {
	*clientKeeper
	backend *modern.Backend
}

// openModern returns the keeper for a command line. Nothing is sent.
func openModern(e *out.Env, f *runFlags, command []string) (keeper, error) {
	pool, address, err := f.server.Open(e)
	if err != nil {
		return nil, err
	}
	backend, err := modern.New(pool, modern.Config{
		Fence: true, Namespace: f.namespace, Replicas: f.replicas, Note: noteOf(e, command),
		Timeout: e.Timeout,
	})
	if err != nil {
		return nil, out.WrongUse("%w", out.InFlags(err))
	}
	common, err := newKeeper(e, f, backend, address,
		func(err error) error { return besideStamps(err, e.Clock.Now()) })
	if err != nil {
		return nil, err
	}
	return &modernKeeper{common, backend}, nil
}

func (k *modernKeeper) acquire(ctx context.Context, key string) (held, error) {
	lease, err := k.clientKeeper.acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return &tokenHeld{lease}, nil
}

// tokenHeld is a lease whose value has a note after the token.
type tokenHeld struct{ held }

// Token returns the part of the value that tells this lease from all others.
func (h *tokenHeld) Token() string {
	token, _, _ := strings.Cut(h.held.Token(), " ")
	return token
}

// holds asks the server. It compares the token without the note, which an inner
// run does not know.
func (k *modernKeeper) holds(ctx context.Context, key, token string) (bool, error) {
	info, err := k.backend.Inspect(ctx, key)
	return err == nil && info.Exists && info.Token == token, err
}

// look names the holder by its note, as ls does.
func (k *modernKeeper) look(ctx context.Context, key string) (sight, error) {
	info, err := k.backend.Inspect(ctx, key)
	if err != nil || !info.Exists {
		return sight{free: err == nil}, err
	}
	held := &lock.HeldError{Key: key, Owner: cmp.Or(info.Note, info.Token), Left: info.Left,
		Protocol: info.Looks}
	if info.Looks != "" {
		held.Owner = out.Shortened(info.Value, 40)
	}
	return sight{who: held}, nil
}

func (k *modernKeeper) stored(ctx context.Context, raw string) (bool, error) {
	info, err := k.backend.Inspect(ctx, raw)
	return info.Exists, err
}

func (k *modernKeeper) encoding() dialect.Encoding { return dialect.Plain }

func (k *modernKeeper) warnings(context.Context) []string { return nil }

// longestNote is the longest note that modern.Config.Note allows, in bytes.
const longestNote = 200

// noteOf returns the note that people see next to the token: the host and the
// command's name.
func noteOf(e *out.Env, command []string) string {
	host, err := e.Hostname()
	if err != nil || host == "" {
		host = "unknown-host"
	}
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, host+" "+filepath.Base(command[0]))
	if len(text) > longestNote {
		text = strings.ToValidUTF8(text[:longestNote], "") // drops a rune that was cut in two
	}
	return text
}

// besideStamps rewords the error for a key that holds an old client's
// timestamp, so that it names the flags that help. By the rules of token locks
// such a key is held for ever.
func besideStamps(err error, now time.Time) error {
	var e *lock.HeldError
	if !errors.As(err, &e) {
		return err
	}
	said, flag := *e, "--dialect"
	switch m := dialect.Identify(e.Owner, now, dialect.Hints{Prefer: dialect.Jedis().Name})[0]; {
	case m.Look == dialect.LookStamp && len(m.Dialects) > 1:
		said.Protocol = fmt.Sprintf("an old client's timestamp, %s or compatible", m.Dialects[0])
		flag += " " + out.PlainName(m.Dialects[0])
	case m.Look == dialect.LookStamp:
		said.Protocol = "an old client's timestamp, " + strings.Join(m.Dialects, "")
		flag += " " + strings.Join(m.Dialects, "")
	case strings.HasPrefix(e.Protocol, "a timestamp"):
		said.Protocol = "an old client's timestamp, of no plausible time"
	default:
		return err
	}
	said.Protocol += "; use " + flag + " to share this lock, or getsetlock migrate to move off it"
	return &said
}
